"""What a store holds on to does not grow with what was done: descriptors, mappings, threads, memory."""

import gc
import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from tests.engine.children import child
from tests.engine.sample import SMALL, log_of
from tests.engine.users import read_segments_short, read_short, run_short

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc to count what is held")


def held(below: Path) -> dict[str, int]:
    """Descriptors, and mappings of files below a directory."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "mappings": sum(str(below) in line for line in maps),
        "threads": threading.active_count(),
    }


def open_and_use(path: Path) -> None:
    with diskstream.open(path, **{**SMALL, "fsync": "interval=1000"}) as store:
        store.stream("x").add({"n": "1"})
        list(store.stream("x").range())


def open_read_only(path: Path) -> None:
    with diskstream.open(path, read_only=True) as store:
        list(store.stream("x").range())
        store.verify()


def open_what_is_none(path: Path) -> None:
    with pytest.raises(diskstream.NotAStoreError):
        diskstream.open(path / "none", create=False)


def leave_open(path: Path) -> None:
    """A store that is dropped without a word."""
    diskstream.open(path, **SMALL).stream("x").add({"n": "1"})


def make_and_delete(path: Path) -> None:
    with diskstream.open(path, **SMALL) as store:
        store.stream("y").add({"n": "1"})
        store.rename("y", "z")
        store.delete("z")


def keep_entries(path: Path) -> None:
    with diskstream.open(path, **SMALL) as store:
        next(store.stream("x").range())


@pytest.mark.parametrize(
    "use",
    [open_and_use, open_read_only, open_what_is_none, make_and_delete, keep_entries],
    ids=lambda use: use.__name__,
)
def test_opening_and_closing_leaves_nothing_behind(tmp_path: Path, use: Callable[[Path], None]) -> None:
    open_and_use(tmp_path / "s")
    use(tmp_path / "s")
    before = held(tmp_path)
    for _ in range(20):
        use(tmp_path / "s")
    assert held(tmp_path) == before


@pytest.mark.parametrize("seal", ["background", "manual"])
def test_rolling_many_times_holds_no_more_than_rolling_a_few(tmp_path: Path, seal: str) -> None:
    rolls = 150
    with diskstream.open(tmp_path / "s", **{**SMALL, "seal": seal}) as store:
        stream = store.stream("x")
        before = held(tmp_path)
        for number in range(rolls):
            stream.add({"n": number})
            log_of(store).roll()
            if seal == "background" and number % 20 == 19:
                stream.seal()
            if number == 20:
                before = held(tmp_path)
        assert [int(entry["n"]) for entry in stream.range()] == list(range(rolls))
        after = held(tmp_path)
        assert after["descriptors"] <= before["descriptors"] + 300
        assert after["mappings"] <= before["mappings"] + 300
        assert after["threads"] == before["threads"]
    del stream
    assert held(tmp_path)["mappings"] <= 1, "more than the page of the store object itself"


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
    options = {
        **SMALL,
        "segment_bytes": 256 << 10,
        "node_max_entries": 512,
        "seal": "background",
        "cache_bytes": 1 << 20,
    }
    with diskstream.open(tmp_path / "s", **options) as store:
        stream = store.stream("x")

        def turn() -> int:
            for _ in range(20):
                stream.add_many([{"n": "x" * 1000}] * 100)
            stream.trim(maxlen=500)
            assert sum(1 for _ in stream.range()) == 500
            stream.seal()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        warm = max(turn() for _ in range(4))
        peak = max(turn() for _ in range(12))
        assert peak - warm < 16 << 10, f"{peak - warm} KiB more after 24 MB more"
        size = sum(path.stat().st_size for path in (tmp_path / "s").rglob("*") if path.is_file())
        assert size < 4 << 20, f"{size} bytes on disk for 500 entries"


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
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "1"})
    before = held(tmp_path)
    for _ in range(5):
        with pytest.warns(ResourceWarning, match="unclosed"):
            assert len(diskstream.open(tmp_path / "s", read_only=True).stream("x")) == 1
    assert held(tmp_path) == before


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
