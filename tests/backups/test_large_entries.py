"""Entries so large that few of them fill a frame: what is copied is cut by bytes, and not by number alone."""

from pathlib import Path

import diskstream
from diskstream import EntryID
from diskstream.backups import Wanted, find_backup, make_backup, restore
from diskstream.copying import copy_stream

ENTRIES, BYTES = 90, 1 << 20


def test_a_stream_of_large_entries_is_copied_and_restored_to_a_moment(tmp_path: Path) -> None:
    """A stream of 4,096 entries with more than 64 MiB could not be restored to a moment, nor be copied."""
    with diskstream.open(tmp_path / "store", fsync="os", segment_bytes=16 << 20) as store:
        stream = store.stream("x")
        ids = [EntryID(number, 1) for number in range(ENTRIES)]
        for entry_id in ids:
            stream.add({"pad": b"%02d" % entry_id.ms * (BYTES // 2)}, id=entry_id)
        stream.delete(ids[3])
        store.seal()
        store.compact("x")
        copy_stream(stream, store.stream("copy"))
        assert len(store.stream("copy")) == ENTRIES - 1
    make_backup(tmp_path / "store", tmp_path / "backups")
    wanted = Wanted((b"x",), until=ids[80])
    done = restore(find_backup(tmp_path / "backups"), tmp_path / "restored", wanted)
    assert done.streams.popitem()[1].way == "copied"
    with diskstream.open(tmp_path / "restored", read_only=True) as store:
        found = [entry.id for entry in store.stream("x").range()]
    assert found == [each for each in ids[:81] if each != ids[3]]
