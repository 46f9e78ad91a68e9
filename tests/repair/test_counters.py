"""The counters of a stream after a repair that lost entries: they agree with one another."""

from pathlib import Path

import pytest

import diskstream
from diskstream._native import LOG_HEADER_BYTES
from diskstream.copying import copy_stream
from diskstream.engine.layouts import ENTRIES, FRAME_HEADER
from tests.repair.test_cases import flip, folder, frames, repair

FAR_MS = 1 << 45  # a clock that was ahead, and is so no more when the log is made anew


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


@pytest.mark.parametrize("is_cleared", [False, True], ids=["first frames", "all frames"])
def test_no_id_is_chosen_again_that_was_lost_behind_a_clean_close(tmp_path: Path, is_cleared: bool) -> None:
    """Closing takes the reservation back to just below the last ID; several may have been chosen in its millisecond."""
    with diskstream.open(tmp_path, seal="manual", clock=lambda: FAR_MS) as store:
        stream = store.stream("s")
        chosen = [stream.add({"n": "1"}) for _ in range(3)]
        stream.delete(*chosen)
    (log,) = folder(tmp_path).glob("*.log")
    with log.open("r+b") as file:
        file.seek(LOG_HEADER_BYTES)
        file.write(bytes(log.stat().st_size - LOG_HEADER_BYTES if is_cleared else 512))
    assert repair(tmp_path).losses
    with diskstream.open(tmp_path, create=False, seal="manual") as store:
        assert store.stream("s").add({"n": "2"}) > chosen[-1]
