"""Several elements of a list, or of a set, that go by one command: one change, whatever their number."""

import pytest

from diskstream import DiskFullError
from diskstream.commands.key_records import KeyRecords
from tests.commands.world import Ours, Refused


def fills_up_behind_one_change(patch: pytest.MonkeyPatch) -> None:
    """A disk that has room for one more change of keys."""
    write, done = KeyRecords.write, list[object]()

    def once(records: KeyRecords, *rows: object) -> None:
        if done:
            raise DiskFullError("somewhere", "write", 28, "No space left on device")
        done.append(rows)
        write(records, *rows)  # type: ignore[arg-type]  # as they came

    patch.setattr(KeyRecords, "write", once)


@pytest.mark.parametrize(
    ("command", "taken", "left"),
    [("LPOP l 3", [b"a", b"b", b"c"], [b"d"]), ("RPOP l 3", [b"d", b"c", b"b"], [b"a"])],
)
def test_elements_that_are_popped_together_go_together(
    ours: Ours, monkeypatch: pytest.MonkeyPatch, command: str, taken: list[bytes], left: list[bytes]
) -> None:
    """Each was a change of its own: where a later one was refused, those before it were gone, and told to nobody."""
    ours.run("RPUSH l a b c d")
    with monkeypatch.context() as patched:
        fills_up_behind_one_change(patched)
        assert ours.run(command) == taken
    assert ours.run("LRANGE l 0 -1") == left


def test_all_elements_of_a_list_are_popped_in_one_change(ours: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four thousand took half a minute, in which a server answered nobody."""
    words = [b"%d" % n for n in range(20_000)]
    assert ours.raw(b"RPUSH", b"l", *words) == len(words)
    with monkeypatch.context() as patched:
        fills_up_behind_one_change(patched)
        assert ours.run("RPOP l 30000") == words[::-1]
    assert ours.run("EXISTS l") == 0
    assert ours.run("LPOP l 1") is None


def test_a_count_of_none_takes_none(ours: Ours) -> None:
    ours.run("RPUSH l a")
    assert ours.run("LPOP l 0") == []
    assert ours.run("LLEN l") == 1
    assert isinstance(ours.run("LPOP l -1"), Refused)


class Compared(bytes):
    """A word that counts what it is compared with."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return bytes(self) == other

    __hash__ = bytes.__hash__


def test_members_are_removed_in_a_time_that_grows_with_their_number(ours: Ours) -> None:
    """Each member was looked for among all words: sixty thousand of as many held a server up for most of a minute."""
    words = [b"%d" % n for n in range(1000)]
    ours.raw(b"SADD", b"k", *words, b"more")
    assert ours.raw(b"SREM", b"k", *map(Compared, words)) == len(words)
    assert ours.run("SMEMBERS k") == [b"more"]
    assert Compared.times <= 2 * len(words)
