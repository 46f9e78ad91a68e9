"""Clients that wait: who wakes them, in which order, and what else ends it."""

import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.commands.bells import Bells
from diskstream.commands.stream_group_reading import GroupRead
from diskstream.commands.waiters import Key, Waiter
from diskstream.server.serving import Server
from tests.engine.children import child
from tests.processes.child import hold
from tests.server.client import Client, packed, serving, waits_until_blocked
from tests.server.turns import Turns


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "store") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client.to(server) as opened:
        yield opened


def blocked(server: Server, count: int, *words: str | int) -> Client:
    """A client that waits, as the `count`th."""
    found = Client.to(server)
    found.send(*words)
    with Client.to(server) as other:
        waits_until_blocked(other, server, count)
    return found


def values(reply: Any) -> list[bytes]:
    """The values of the entries of the first stream of a reply."""
    return [entry[1][1] for entry in reply[0][1]]


def test_a_read_is_woken_by_another_client(server: Server, client: Client) -> None:
    for key in ("old", "new"):
        if key == "old":
            client.call("XADD", key, "*", "n", 0)
        with blocked(server, 1, "XREAD", "BLOCK", 0, "STREAMS", key, "$") as reader:
            client.call("XADD", key, "*", "n", 1)
            assert values(reader.reply()) == [b"1"]
            assert reader.call("PING") == b"PONG"


def test_a_read_is_woken_by_another_opening_and_by_another_process(server: Server, client: Client) -> None:
    with diskstream.open(server.settings.dir) as store, child(hold, Path(server.settings.dir), "everysec") as other:
        assert other.hear() == "ready 0"
        for n in range(3):
            with blocked(server, 1, "XREAD", "BLOCK", 0, "STREAMS", "x", "$") as reader:
                store.stream("x").add({"by": f"store {n}"})
                assert values(reader.reply()) == [b"store %d" % n]
        for _ in range(3):
            with blocked(server, 1, "XREAD", "BLOCK", 0, "STREAMS", "x", "$") as reader:
                other.ask()
                assert values(reader.reply()) == [b"child"]


def test_a_group_that_waits_is_woken_by_another_process(server: Server, client: Client) -> None:
    with child(hold, Path(server.settings.dir), "everysec") as other:
        assert other.hear() == "ready 0"
        other.ask()
        client.call("XGROUP", "CREATE", "x", "g", "$")
        with blocked(server, 1, "XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "x", ">") as reader:
            other.ask()
            assert values(reader.reply()) == [b"child"]


def test_who_would_claim_is_woken_where_another_process_gives_an_entry_back(server: Server, client: Client) -> None:
    """At once, and not when it would have looked again for what has become idle, which is an hour from now."""
    client.call("XADD", "s", "1-0", "n", 1)
    client.call("XGROUP", "CREATE", "s", "g", "0")
    client.call("XREADGROUP", "GROUP", "g", "bob", "STREAMS", "s", ">")
    hour_ms = 3_600_000
    words = ("XREADGROUP", "GROUP", "g", "alice", "CLAIM", hour_ms, "BLOCK", 0, "STREAMS", "s", ">")
    with diskstream.open(server.settings.dir) as other, blocked(server, 1, *words) as reader:
        assert other.stream("s").group("g").nack("1-0") == 1
        assert values(reader.reply()) == [b"1"]


def test_many_readers_all_get_an_entry(server: Server, client: Client) -> None:
    readers = [blocked(server, n + 1, "XREAD", "BLOCK", 0, "STREAMS", "s", "$") for n in range(8)]
    client.call("XADD", "s", "*", "n", 7)
    for reader in readers:
        assert values(reader.reply()) == [b"7"]
        reader.close()


def test_consumers_are_served_in_the_order_in_which_they_began_to_wait(server: Server, client: Client) -> None:
    """Also where the entries come together: each goes to who has waited longest."""
    client.call("XADD", "s", "1-1", "n", 0)
    client.call("XGROUP", "CREATE", "s", "g", "$")
    read = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
    readers = [blocked(server, n + 1, *read) for n in range(4)]
    client.sock.sendall(b"".join(packed("XADD", "s", "*", "n", n) for n in range(3)))
    for n, reader in enumerate(readers[:3]):
        assert values(reader.reply()) == [str(n).encode()]
    assert [isinstance(client.reply(), bytes) for _ in range(3)] == [True] * 3
    waits_until_blocked(client, server, 1)
    client.call("XADD", "s", "*", "n", 3)
    assert values(readers[3].reply()) == [b"3"]
    for reader in readers:
        reader.close()


def test_one_entry_makes_one_consumer_look_and_not_all_of_them(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    read = ("BLOCK", 0, "STREAMS", "s", ">")
    readers = [blocked(server, n + 1, "XREADGROUP", "GROUP", "g", f"c{n}", *read) for n in range(30)]
    looks: list[Waiter[Any]] = []

    def counted(waiter: Waiter[Any], changed: Any = None) -> Any:
        looks.append(waiter)
        return real(waiter, changed)

    real = Waiter.look
    monkeypatch.setattr(Waiter, "look", counted)
    for n in range(3):
        client.call("XADD", "s", f"{n + 1}-0", "n", n)
        assert values(readers[n].reply()) == [str(n).encode()]
        client.call("PING")  # and a turn in which what was written is not looked at once more
        assert len(looks) == n + 1
    assert client.call("XACK", "s", "g", "1-0") == 1  # what can end no wait makes nobody look
    client.call("PING")
    assert len(looks) == 3
    for reader in readers:
        reader.close()


@pytest.mark.parametrize("by", ["a transaction", "another opening"])
def test_as_many_consumers_as_there_are_entries_are_served(server: Server, client: Client, by: str) -> None:
    client.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    read = ("COUNT", 1, "BLOCK", 0, "STREAMS", "s", ">")
    readers = [blocked(server, n + 1, "XREADGROUP", "GROUP", "g", f"c{n}", *read) for n in range(3)]
    if by == "a transaction":
        for words in (["MULTI"], ["XADD", "s", "*", "n", 0], ["XADD", "s", "*", "n", 1], ["EXEC"]):
            client.call(*words)
    else:
        with diskstream.open(server.settings.dir) as other:
            other.stream("s").add_many([{"n": 0}, {"n": 1}])
    assert [values(reader.reply()) for reader in readers[:2]] == [[b"0"], [b"1"]]
    client.call("XADD", "s", "*", "n", 2)
    assert values(readers[2].reply()) == [b"2"]
    for reader in readers:
        reader.close()


def test_all_consumers_hear_that_their_group_went_right_behind_an_entry(server: Server, client: Client) -> None:
    client.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    read = ("COUNT", 1, "BLOCK", 0, "STREAMS", "s", ">")
    readers = [blocked(server, n + 1, "XREADGROUP", "GROUP", "g", f"c{n}", *read) for n in range(3)]
    client.sock.sendall(packed("XADD", "s", "*", "n", 0) + packed("XGROUP", "DESTROY", "s", "g"))
    assert values(readers[0].reply()) == [b"0"]
    for reader in readers[1:]:
        assert "NOGROUP" in str(reader.reply())
    for reader in readers:
        reader.close()


def test_one_entry_is_enough_for_whoever_waits_for_several_streams(server: Server, client: Client) -> None:
    with blocked(server, 1, "XREAD", "BLOCK", 0, "STREAMS", "a", "b", "$", "$") as reader:
        client.call("XADD", "b", "*", "n", 1)
        reply = reader.reply()
        assert [part[0] for part in reply] == [b"b"]
        client.call("XADD", "a", "*", "n", 2)
        assert reader.call("PING") == b"PONG"
    assert server.loop.runner.waiters.count == 0


def test_a_wait_ends_at_its_time(server: Server, client: Client) -> None:
    begun = time.monotonic()
    assert client.call("XREAD", "BLOCK", 30, "STREAMS", "s", "$") is None
    assert time.monotonic() - begun >= 0.03
    assert client.call("PING") == b"PONG"


def test_commands_behind_one_that_waits_run_once_it_has_ended(server: Server, client: Client) -> None:
    with Client.to(server) as reader:
        wait = packed("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        reader.sock.sendall(packed("ECHO", "a") + wait + packed("ECHO", "b"))
        assert reader.reply() == b"a"
        waits_until_blocked(client, server, 1)
        reader.send("ECHO", "c")
        client.call("XADD", "s", "*", "n", 1)
        assert values(reader.reply()) == [b"1"]
        assert reader.reply() == b"b"
        assert reader.reply() == b"c"
        assert reader.call("ECHO", "d") == b"d"


def test_a_wait_ends_where_the_group_goes(server: Server, client: Client) -> None:
    for how in (("XGROUP", "DESTROY", "s", "g"), ("DEL", "s")):
        client.call("XADD", "s", "*", "n", 1)
        client.call("XGROUP", "CREATE", "s", "g", "$")
        with blocked(server, 1, "XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">") as reader:
            client.call(*how)
            assert str(reader.reply()).startswith("NOGROUP ")


@pytest.mark.parametrize("policy", ["always", "everysec"])
@pytest.mark.parametrize("most_open", [64, 1])
def test_a_wait_ends_where_another_opening_takes_the_group_back_or_destroys_it(
    tmp_path: Path, policy: str, most_open: int
) -> None:
    """One that was taken back was noticed at the next entry only; there need not come any."""
    read = packed("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", "t", ">", ">")
    with (
        diskstream.open(tmp_path / "s", fsync=policy) as store,
        Turns(tmp_path / "s", appendfsync=policy, max_open_streams=most_open) as turns,
    ):
        store.stream("t").create_group("g", mkstream=True)
        store.stream("s").add({"f": "v"}, "1-1")
        group = store.stream("s").group("g", start="$")
        for change, told in ((lambda: group.set_id("0"), b"1-1"), (group.destroy, b"-NOGROUP No such key 's'")):
            for _ in range(3):
                turns.turn([read] if turns.server.loop.runner.waiters.count == 0 else [])
            assert told not in turns.heard[0]
            change()
            turns.turn()
            assert told in turns.heard[0]


def test_a_wait_ends_where_the_databases_are_swapped(server: Server, client: Client) -> None:
    """Also of a consumer that found nothing behind the last delivered ID, and stands in the queue of the other."""
    client.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    with blocked(server, 1, "XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">") as reader:
        client.call("XADD", "s", "MAXLEN", 0, "9-0", "n", 1)
        client.call("SWAPDB", 0, 1)
        assert str(reader.reply()).startswith("NOGROUP ")


def test_a_consumer_that_is_removed_while_it_waits_is_not_made_again(server: Server, client: Client) -> None:
    client.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    with blocked(server, 1, "XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">") as reader:
        assert client.call("XGROUP", "DELCONSUMER", "s", "g", "c") == 0
        assert client.call("XGROUP", "CREATECONSUMER", "s", "g", "d") == 1
        names = [consumer[1] for consumer in client.call("XINFO", "CONSUMERS", "s", "g")]
        assert names == [b"d"]
        client.call("XADD", "s", "*", "n", 1)  # nor does it miss an entry
        assert values(reader.reply()) == [b"1"]


def test_client_unblock(server: Server, client: Client) -> None:
    with Client.to(server) as reader:
        number = reader.call("CLIENT", "ID")
        assert client.call("CLIENT", "UNBLOCK", number) == 0
        for how, reply in (("TIMEOUT", "None"), ("ERROR", "UNBLOCKED client unblocked via CLIENT UNBLOCK")):
            reader.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
            waits_until_blocked(client, server, 1)
            assert client.call("CLIENT", "UNBLOCK", number, how) == 1
            assert str(reader.reply()) == reply


def test_who_hangs_up_waits_no_longer(server: Server, client: Client) -> None:
    blocked(server, 1, "XREAD", "BLOCK", 0, "STREAMS", "s", "$").close()
    waits_until_blocked(client, server, 0)
    with blocked(server, 1, "XREAD", "BLOCK", 0, "STREAMS", "s", "$") as reader:
        reader.send("PING")  # from then on it is not read from
        waits_until_blocked(client, server, 1)
    waits_until_blocked(client, server, 0)


def test_client_pause_holds_writes_back(server: Server, client: Client) -> None:
    with Client.to(server) as writer:
        assert client.call("CLIENT", "PAUSE", 60_000, "WRITE") == b"OK"
        writer.sock.sendall(packed("XLEN", "s") + packed("XADD", "s", "*", "n", 1) + packed("XLEN", "s"))
        assert writer.reply() == 0
        assert client.call("XLEN", "s") == 0
        assert client.call("CLIENT", "UNPAUSE") == b"OK"
        assert isinstance(writer.reply(), bytes)
        assert writer.reply() == 1
        assert client.call("CLIENT", "PAUSE", 20) == b"OK"
        assert client.call("XLEN", "s") == 1  # once it is over


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_who_waits_for_more_streams_than_may_be_open_rings_for_nobody(
    tmp_path: Path, logs_opened: list[Path], policy: str
) -> None:
    """Each look of an XREADGROUP was noted in the logs, whose closing rang for the next look."""
    names = [b"of many %d" % number for number in range(20)]
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        for name in names:
            store.stream(name).create_group("g", mkstream=True)
    read = packed("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", *names, *[">"] * len(names))
    with Turns(tmp_path / "s", clients=2, appendfsync=policy, max_open_streams=4) as turns:
        turns.turn([read])
        turns.turn()
        logs_opened.clear()
        for _ in range(3):
            turns.turn()
        turns.second()
        assert logs_opened == []
        turns.turn([b"", packed("XADD", names[7], "1-1", "f", "v")])
        turns.turn()
        assert b"1-1" in turns.heard[0]


def test_an_entry_for_who_waits_for_many_streams_opens_its_own_alone(tmp_path: Path, logs_opened: list[Path]) -> None:
    """Each entry had an XREADGROUP look at all its streams: with more than may be open each was opened three times."""
    names = [b"of many %d" % number for number in range(20)]
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        for name in names:
            store.stream(name).create_group("g", mkstream=True)
    read = packed("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", *names, *[">"] * len(names))
    with Turns(tmp_path / "s", clients=3, appendfsync="no", max_open_streams=4) as turns:
        turns.turn([read, read])
        turns.turn()
        logs_opened.clear()
        turns.turn([b"", b"", packed("XADD", names[7], "1-1", "f", "v")])
        turns.turn()
        assert len(logs_opened) == 1
        assert b"1-1" in turns.heard[0]
        assert turns.heard[1] == b""
        both = packed("XADD", names[7], "2-1", "f", "v") + packed("XGROUP", "DESTROY", names[3], "g")
        turns.turn([read, b"", packed("MULTI") + both + packed("EXEC")])
        turns.turn()
        assert turns.heard[1].startswith(b"-NOGROUP No such key 'of many 3'")


@pytest.mark.parametrize(("command", "after", "times"), [("XREADGROUP GROUP g c", ">", 3), ("XREAD", "$", 2)])
def test_a_wait_for_more_streams_than_may_be_open_opens_each_a_few_times(
    tmp_path: Path, logs_opened: list[Path], command: str, after: str, times: int
) -> None:
    """Each was opened five times and more: for its group, a look, what that left, its bell, and for another look."""
    names = [b"of many %d" % number for number in range(20)]
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        for name in names:
            store.stream(name).create_group("g", mkstream=True)
    read = packed(*command.split(), "BLOCK", 0, "STREAMS", *names, *[after] * len(names))
    with Turns(tmp_path / "s", clients=2, appendfsync="no", max_open_streams=4) as turns:
        logs_opened.clear()
        turns.turn([read])
        turns.turn()
        assert len(logs_opened) <= times * len(names)
        turns.turn([b"", packed("XADD", names[1], "1-1", "f", "v")])
        turns.turn()
        assert b"1-1" in turns.heard[0]


def test_what_comes_to_one_of_many_streams_while_they_are_listened_to_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [b"of many %d" % number for number in range(20)]
    comes = [names[1], names[9], names[17]]  # one that was looked at, one that is being, and one that will be
    add = Bells.add
    with (
        diskstream.open(tmp_path / "s", fsync="os") as other,
        Turns(tmp_path / "s", appendfsync="no", max_open_streams=4) as turns,
    ):
        for name in names:
            other.stream(name).create_group("g", mkstream=True)

        def add_and_append(bells: Bells, key: Key, *, is_list: bool = False) -> bool:
            while key[1] == names[9] and comes:
                other.stream(comes.pop()).add({"f": "v"}, "1-1")
            return add(bells, key, is_list=is_list)

        monkeypatch.setattr(Bells, "add", add_and_append)
        read = packed("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", *names, *[">"] * len(names))
        for _ in range(3):
            turns.turn([read])
            turns.turn()
        assert bytes(turns.heard[0]).count(b"1-1") == 3


def test_what_is_behind_the_ends_of_streams_is_not_looked_for_where_these_were_just_found(
    tmp_path: Path, logs_opened: list[Path]
) -> None:
    """XREAD with $ looked for entries behind each end that it had just found, and opened each stream once more."""
    names = [b"of many %d" % number for number in range(12)]
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        for name in names:
            store.stream(name).add({"f": "v"}, "1-1")
    with Turns(tmp_path / "s", clients=2, appendfsync="no", max_open_streams=4) as turns:
        logs_opened.clear()
        turns.turn([packed("XREAD", "STREAMS", *names, *"$" * len(names))])
        assert len(logs_opened) == len(names)
        turns.turn([packed("XREAD", "STREAMS", *names, *"$" * (len(names) - 1), "1-0")])
        turns.turn([packed("XREAD", "BLOCK", 0, "STREAMS", *names, *"$" * len(names))])
        assert bytes(turns.heard[0]).count(b"1-1") == 1
        turns.turn([b"", packed("XADD", names[5], "2-1", "f", "v")])
        turns.turn()
        assert b"2-1" in turns.heard[0]


def test_one_entry_makes_one_look_of_many_who_would_claim_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All consumers that wait with CLAIM looked for each entry: a few hundred of them held up the server."""
    looks: list[bytes] = []
    look = GroupRead.look

    def counted(reading: GroupRead, changed: Collection[bytes] | None = None) -> Any:
        looks.append(reading.asked.consumer)
        return look(reading, changed)

    waiting = [
        packed("XREADGROUP", "GROUP", "g", f"c{number}", "COUNT", 1, "BLOCK", 0, "CLAIM", 60_000, "STREAMS", "s", ">")
        for number in range(5)
    ]
    with Turns(tmp_path / "s", clients=6, appendfsync="no") as turns:
        turns.turn([b"", b"", b"", b"", b"", packed("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")])
        turns.turn(waiting)
        monkeypatch.setattr(GroupRead, "look", counted)
        turns.turn([b"", b"", b"", b"", b"", packed("XADD", "s", "1-1", "f", "v")])
        assert b"1-1" in turns.heard[0]
        assert looks == [b"c0", b"c1"]  # the second of them finds nothing, and none is asked behind it
        given_back = packed("XADD", "s", "2-1", "f", "v") + packed("XNACK", "s", "g", "FAIL", "IDS", 1, "1-1")
        turns.turn([b"", b"", b"", b"", b"", packed("MULTI") + given_back + packed("EXEC")])
        heard = [bytes(each) for each in turns.heard[1:5]]
        assert [b"1-1" in each for each in heard] == [True, False, False, False]
        assert [b"2-1" in each for each in heard] == [False, True, False, False]
