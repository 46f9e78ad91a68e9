"""What a store holds on to does not grow with what was done: descriptors, mappings, threads, memory."""

import json
import os
from pathlib import Path

import pytest

import diskstream
from tests.engine.children import child
from tests.engine.holding import USES, add_and_trim, drop_read_only, open_often, roll_often
from tests.engine.sample import SMALL, log_of
from tests.engine.users import read_segments_short, read_short, run_short

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc to count what is held")


@pytest.mark.parametrize("use", [use for use in USES if use != "keep_one_open"])
def test_opening_and_closing_leaves_nothing_behind(tmp_path: Path, use: str) -> None:
    with child(open_often, tmp_path / "s", use) as user:
        before, after = json.loads(user.hear())
        assert after == before


def test_what_is_left_open_is_seen(tmp_path: Path) -> None:
    """Else the test above could not fail."""
    with child(open_often, tmp_path / "s", "keep_one_open") as user:
        before, after = json.loads(user.hear())
        assert after["descriptors"] >= before["descriptors"] + 20


@pytest.mark.parametrize("seal", ["background", "manual"])
def test_rolling_many_times_holds_no_more_than_rolling_a_few(tmp_path: Path, seal: str) -> None:
    rolls = 150
    with child(roll_often, tmp_path / "s", seal, rolls) as user:
        before, after, closed = json.loads(user.hear())
        assert user.hear().split() == [str(number) for number in range(rolls)]
    assert after["descriptors"] <= before["descriptors"] + 300
    assert after["mappings"] <= before["mappings"] + 300
    assert after["threads"] == before["threads"]
    assert closed["mappings"] <= 1, "more than the page of the store object itself"


def test_segments_that_went_are_forgotten(tmp_path: Path) -> None:
    """A queue's segments come and go for years: what a stream remembered of each, it remembered for ever."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        for number in range(60):
            stream.add({"n": number})
            stream.seal()
            list(stream.range())
            stream.compact()
            stream.trim(maxlen=0)
        assert len(log_of(store).segments._packed) < 25


def test_appends_and_reads_take_no_memory_that_is_not_given_back(tmp_path: Path) -> None:
    """Each turn adds 2 MB and trims as much; what is kept in memory is what a cache may hold."""
    with child(add_and_trim, tmp_path / "s", 16) as user:
        assert (entries := json.loads(user.hear())) == [500] * 16
        peaks = json.loads(user.hear())
    warm, peak = peaks[3], peaks[-1]
    assert peak - warm < 16 << 10, f"{peak - warm} KiB more after 24 MB more"
    size = sum(path.stat().st_size for path in (tmp_path / "s").rglob("*") if path.is_file())
    assert size < 4 << 20, f"{size} bytes on disk for {entries[-1]} entries"


def test_more_streams_than_descriptors_are_opened_in_turn(tmp_path: Path) -> None:
    """Those that came when all descriptors were taken were refused for good, though others could be let go of."""
    with child(run_short, tmp_path / "s", 150) as user:
        assert int(user.hear()) == 150
        assert user.hear() == "sound"
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert len(store.streams()) == 150
        assert sum(len(store.stream(name)) for name in store.streams()) == 150
        assert store.verify().ok


def test_so_are_those_of_a_store_that_is_only_read(tmp_path: Path) -> None:
    """It ended with an OSError from the page that each has in memory."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        for number in range(150):
            store.stream(f"stream {number}").add({"n": "1"})
    with child(read_short, tmp_path / "s") as user:
        assert int(user.hear()) == 150


@pytest.mark.parametrize(("read_only", "threads"), [(True, 1), (True, 3), (False, 1), (False, 3)])
def test_segments_are_closed_where_others_are_to_be_opened(tmp_path: Path, read_only: bool, threads: int) -> None:
    """Reading failed, and sound segments were told as damaged, though others were kept open only to be found again."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        for number in range(60):
            for part in range(3):
                store.stream(f"stream {number}").add({"n": part})
                store.seal(f"stream {number}")
    with child(read_segments_short, tmp_path / "s", read_only, threads) as user:
        assert [int(each) for each in user.hear().split()] == [180] * threads + [3]
        assert user.hear() == "sound"
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert sum(len(stream) for stream in store) == 180
        assert store.recoveries == []


def test_a_store_that_is_only_read_and_dropped_leaves_no_descriptor(tmp_path: Path) -> None:
    """The page in memory of each stream stayed, and no collection closed it."""
    with child(drop_read_only, tmp_path / "s") as user:
        before, after = json.loads(user.hear())
        assert after == before
        assert user.hear() == "5", "each of them is warned of"


def test_a_page_in_memory_needs_no_file_system_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each system has it."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "1"})
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert len(store.stream("x")) == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


def test_a_stream_that_makes_room_while_it_is_read_is_durable(tmp_path: Path) -> None:
    # Who reads it keeps it open, and nobody else will see to its flushes.
    with diskstream.open(tmp_path / "s", **{**SMALL, "fsync": "interval=600000"}, max_open_streams=1) as store:
        stream = store.stream("x")
        stream.add_many([{"n": str(number)} for number in range(2000)])
        log = log_of(store)
        entries = iter(stream.range())
        assert next(entries)["n"] == b"0"
        assert log.ctl.durable < log.ctl.written
        store.stream("y").add({"n": "1"})
        assert log.ctl.durable == log.ctl.written
        assert sum(1 for _ in entries) == 1999
