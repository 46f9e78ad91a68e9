"""ACL SETUSER: everybody is let in where it says so in so many words, and nowhere else."""

import pytest

from tests.commands.world import Ours, Refused


@pytest.fixture
def guarded(ours: Ours) -> Ours:
    assert ours.run("ACL SETUSER default >secret") == b"OK"
    return ours


@pytest.mark.parametrize(
    "rules", ["resetpass", "<secret", ">other resetpass", "nopass resetpass", "resetpass on +@all", ">", "RESETPASS"]
)
def test_a_password_is_not_taken_away_by_the_way(guarded: Ours, rules: str) -> None:
    """RESETPASS alone leaves a Redis user with no way in; here it let in everybody."""
    refused = guarded.run(f"ACL SETUSER default {rules}")
    assert isinstance(refused, Refused)
    assert refused.count(b"nopass") == 1
    assert isinstance(Ours(guarded.keyspace).run("AUTH wrong"), Refused)
    assert Ours(guarded.keyspace).run("AUTH secret") == b"OK"


def test_a_password_is_replaced(guarded: Ours) -> None:
    assert guarded.run("ACL SETUSER default resetpass >another on") == b"OK"
    assert isinstance(Ours(guarded.keyspace).run("AUTH secret"), Refused)
    assert Ours(guarded.keyspace).run("AUTH another") == b"OK"


@pytest.mark.parametrize("rules", [">secret >another", ">another", "on >another ~*"])
def test_of_two_passwords_none_is_dropped_in_silence(guarded: Ours, rules: str) -> None:
    """A Redis lets in by both, as is done while clients change over; here one was forgotten, and they locked out."""
    refused = guarded.run(f"ACL SETUSER default {rules}")
    assert isinstance(refused, Refused)
    assert (refused.count(b"one password"), refused.count(b"'resetpass' before '>'")) == (1, 1)
    assert isinstance(Ours(guarded.keyspace).run("AUTH another"), Refused)
    assert Ours(guarded.keyspace).run("AUTH secret") == b"OK"


@pytest.mark.parametrize("rules", [">another <secret", "<secret >another"])
def test_who_takes_the_password_back_replaces_it(guarded: Ours, rules: str) -> None:
    """The second step of changing a Redis's password; the answer was that the user may always do everything."""
    assert guarded.run(f"ACL SETUSER default {rules}") == b"OK"
    assert isinstance(Ours(guarded.keyspace).run("AUTH secret"), Refused)
    assert Ours(guarded.keyspace).run("AUTH another") == b"OK"


def test_a_password_that_is_not_there_is_not_taken_back(guarded: Ours) -> None:
    refused = guarded.run("ACL SETUSER default <wrong >another")
    assert isinstance(refused, Refused)
    assert refused.endswith(b"The password you are trying to remove from the user does not exist")
    assert refused.count(b"wrong") == 0
    assert Ours(guarded.keyspace).run("AUTH secret") == b"OK"


@pytest.mark.parametrize(
    "rules", ["resetpass >another >another", ">wrong resetpass >another", ">wrong nopass >another"]
)
def test_one_that_is_named_again_or_taken_back_is_one(guarded: Ours, rules: str) -> None:
    assert guarded.run(f"ACL SETUSER default {rules}") == b"OK"
    assert isinstance(Ours(guarded.keyspace).run("AUTH wrong"), Refused)
    assert Ours(guarded.keyspace).run("AUTH another") == b"OK"


def test_exec_of_a_stranger_is_refused_as_the_end_of_a_transaction(guarded: Ours) -> None:
    """A client tells by EXECABORT that nothing was done, whatever the reason."""
    because = b"EXECABORT Transaction discarded because of: "
    assert Ours(guarded.keyspace, user=None).run("EXEC") == Refused(because + b"NOAUTH Authentication required.")
    assert Ours(guarded.keyspace, user=None).run("MULTI") == Refused(b"NOAUTH Authentication required.")


@pytest.mark.parametrize("rules", ["nopass", "resetpass nopass"])
def test_who_says_so_lets_everybody_in(guarded: Ours, rules: str) -> None:
    assert guarded.run(f"ACL SETUSER default {rules}") == b"OK"
    assert b"nopass" in guarded.run("ACL LIST")[0]
