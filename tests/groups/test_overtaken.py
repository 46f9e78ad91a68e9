"""A view that somebody wrote, and died before the log said so: what the overlay knew is known to the view alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, Group
from tests.engine.sample import log_of

# What each does with two entries, of which the view knows one and the overlay the other: how many it took.
TAKE: dict[str, Callable[[Group, list[EntryID]], int]] = {
    "acknowledge": lambda group, ids: group.ack(*ids),
    "claim": lambda group, ids: len(group.consumer("other").claim(*ids)),
    "claim their IDs": lambda group, ids: len(group.consumer("other").claim_ids(*ids)),
    "give back": lambda group, ids: group.nack(*ids),
    "acknowledge and delete": lambda group, ids: group.ack_delete(*ids).count(1),
}


@pytest.mark.parametrize("how", TAKE)
def test_nothing_pending_is_passed_over(how: str, tmp_path: Path) -> None:
    with diskstream.open(tmp_path, pending_rows=4) as mine, diskstream.open(tmp_path, pending_rows=4) as theirs:
        group = mine.stream("x").group("g", start="0")
        ids = mine.stream("x").add_many([{"n": number} for number in range(30)])
        consumer = group.consumer("c")
        consumer.read(count=20)  # more than overlays hold: they are merged into the view
        consumer.read(count=1)
        log = log_of(mine, b"x")
        number = log.native.group_number(b"g")
        assert number is not None
        unknown = log.native.unknown(number, [ids[0], ids[20]])
        assert (len(unknown), unknown.key(0)) == (1, bytes(8) + ids[0].ms.to_bytes(8) + ids[0].seq.to_bytes(8))
        theirs.stream("x").info()
        other = log_of(theirs, b"x")
        with other.locked():
            other.prepare()
            other.pending.checkpoint(announce=False)  # and dies before it has told the others
        assert TAKE[how](group, [ids[0], ids[20]]) == 2
        left = {row.id: row.consumer for row in group.pending_range(count=100)}
        assert len(left) == (21 if "claim" in how or "back" in how else 19)
        assert {left.get(ids[0]), left.get(ids[20])} <= {None, b"other", b""}


def test_an_entry_is_taken_from_every_group(tmp_path: Path) -> None:
    with diskstream.open(tmp_path, pending_rows=4) as mine, diskstream.open(tmp_path, pending_rows=4) as theirs:
        stream = mine.stream("x")
        known, viewed = stream.group("g", start="0"), stream.group("h", start="0")
        ids = stream.add_many([{"n": number} for number in range(30)])
        viewed.consumer("c").read(count=20)
        known.consumer("c").read(count=1)
        theirs.stream("x").info()
        other = log_of(theirs, b"x")
        with other.locked():
            other.prepare()
            other.pending.checkpoint(announce=False)
        assert stream.delete_entries(ids[0], ids[1], ref="DELREF") == [1, 1]
        for group, left in ((known, 0), (viewed, 18)):
            rows = group.pending_range(count=100)
            assert len(rows) == group.pending().total == group.info().pending == left
            assert sum(consumer.pending for consumer in group.consumers()) == left
