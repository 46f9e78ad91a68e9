"""The counters of a stream after a repair that lost entries: they agree with one another."""

from pathlib import Path

import diskstream
from diskstream.copying import copy_stream
from diskstream.engine.layouts import ENTRIES, FRAME_HEADER
from tests.repair.test_cases import flip, folder, frames, repair


def test_what_was_deleted_of_what_is_lost_is_not_behind_the_last_id(tmp_path: Path) -> None:
    """Such a stream could not be copied, dumped or given a last ID: XSETID refuses a last ID below the deleted one."""
    with diskstream.open(tmp_path, seal="manual") as store:
        stream = store.stream("s")
        for part in (1, 2):
            stream.add_many([{"n": "1"}] * 3, ids=[f"{part}-{number}" for number in range(3)])
        stream.delete("2-2")
    (log,) = folder(tmp_path).glob("*.log")
    flip(log, [frame for frame in frames(log) if frame.kind == ENTRIES][1].offset + FRAME_HEADER.size + 3)
    (loss,) = repair(tmp_path).losses
    assert loss.entries == 3
    with diskstream.open(tmp_path, create=False, seal="manual") as store:
        stream = store.stream("s")
        info = stream.info()
        assert (str(info.last_generated_id), str(info.max_deleted_entry_id), info.entries_added) == ("1-2", "1-2", 3)
        copy_stream(stream, store.stream("t"))
        assert list(store.stream("t").range()) == list(stream.range())
        stream.add({"n": "again"}, "2-0")
        assert store.verify().ok
