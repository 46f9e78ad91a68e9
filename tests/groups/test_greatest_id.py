"""The greatest possible ID may be pending, too: nothing is behind it."""

from pathlib import Path

import diskstream
from diskstream import EntryID

GREATEST = EntryID(2**64 - 1, 2**64 - 1)


def test_a_list_that_ends_with_the_greatest_id_ends(tmp_path: Path) -> None:
    """As the last row of a page of 4,096 it made the list begin again, and a claim of all wrote a frame that nobody
    could read."""
    ids = [*(EntryID(ms, 1) for ms in range(1, 4096)), GREATEST]
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")
        stream.add_many([{"a": "1"}] * len(ids), ids=ids)
        group = stream.group("g", start="0")
        assert len(group.consumer("c").read(count=5000)) == len(ids)
        assert [row.id for row in group.pending_range(count=10_000)] == ids
        assert [entry.id for entry in group.consumer("d").autoclaim(0, count=10_000).entries] == ids
    with diskstream.open(tmp_path / "s") as store:
        group = store.stream("x").group("g", create=False)
        assert [(row.id, row.consumer) for row in group.pending_range(count=10_000)] == [(each, b"d") for each in ids]
        assert store.verify().ok


def test_nothing_is_pending_once_all_was_trimmed_with_its_references(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")
        stream.add_many([{"a": "1"}] * 2, ids=[EntryID(1, 1), GREATEST])
        group = stream.group("g", start="0")
        assert len(group.consumer("c").read()) == 2
        assert stream.trim(maxlen=0, ref="DELREF") == 2
        assert group.pending_range() == []
        assert group.pending().total == 0
