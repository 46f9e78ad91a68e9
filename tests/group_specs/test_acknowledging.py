"""What several ask to acknowledge at once: each is told of its own, by whichever way it was done."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Group
from diskstream.acknowledging import Acknowledged, acknowledge

COUNT = 9


@pytest.fixture(params=["os", "always"])
def group(tmp_path: Path, request: Any) -> Any:
    """A group whose first entries are pending in the view, and the last one in memory."""
    with diskstream.open(tmp_path / "s", fsync=request.param, pending_rows=4) as store:
        stream = store.stream("s")
        stream.add_many([{"n": n} for n in range(COUNT)], ids=[(n, 0) for n in range(1, COUNT + 1)])
        found = stream.group("g", start="0")
        for count in (COUNT - 1, 1):
            found.consumer("a").read(count=count)
        yield found


def asked(*each: int, of: bytes | None = None) -> Acknowledged:
    return [EntryID(ms, 0) for ms in each], of


def test_each_is_told_how_many_of_its_own_were_pending(group: Group) -> None:
    found = acknowledge(group, [asked(COUNT), asked(1, 2, 2), asked(2), asked(COUNT, 3), asked(), asked(77)])
    assert found == [1, 2, 0, 1, 0, 0]
    assert [each.id.ms for each in group.pending_range()] == [4, 5, 6, 7, 8]


def test_who_names_a_consumer_ends_only_what_that_one_has(group: Group) -> None:
    group.consumer("b").claim("1-0", f"{COUNT}-0")
    found = acknowledge(group, [asked(COUNT, of=b"a"), asked(1, 2, of=b"a"), asked(1, of=b"b"), asked(3, of=b"none")])
    assert found == [0, 1, 1, 0]


def test_without_a_group_or_a_stream_nothing_was_pending(group: Group) -> None:
    group.destroy()
    assert acknowledge(group, [asked(1), asked(2)]) == [0, 0]
    group.stream._store.delete(group.stream.name)
    assert acknowledge(group, [asked(1), asked(2)]) == [0, 0]
