"""One bad block in the active log's snapshot takes no stream's state, also where no sealed segment holds a copy."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID
from diskstream.engine import seal, spare
from diskstream.engine.log import StreamLog
from tests.engine.sample import SMALL, log_of
from tests.engine.stand_ins import Watched

SNAPSHOT = 4096  # where the first frame of a log is


def a_queue_whose_entries_are_gone(path: Path, after_roll: Callable[[diskstream.Stream], object]) -> None:
    """Two consumed entries, a group with one pending, a roll; then the file of the old segment goes."""
    with diskstream.open(path, **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": "1"}, "1-1")
        stream.add({"n": "2"}, "2-1")
        group = stream.group("g", start="0")
        assert len(group.consumer("alice").read(count=2)) == 2
        group.ack("1-1")
        stream.delete("1-1", "2-1")
        log = log_of(store)
        log.roll()
        after_roll(stream)
        seal.reap(log)


def files_of_stream(path: Path) -> set[str]:
    return {each.name for each in (path / "streams" / "x").iterdir() if each.name != "ctl"}


def spoil(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x40]))


def ids_before_the_fault(stream: diskstream.Stream) -> list[EntryID]:
    found: list[EntryID] = []
    with pytest.raises(diskstream.CorruptionError):  # an end that cannot be trusted is not passed over in silence
        found.extend(entry.id for entry in stream.range())
    return found


@pytest.mark.parametrize("offset", [SNAPSHOT + 2, SNAPSHOT + 70, 20], ids=["frame header", "payload", "log header"])
def test_the_state_of_an_empty_queue_outlives_a_bad_block(tmp_path: Path, offset: int) -> None:
    a_queue_whose_entries_are_gone(tmp_path / "s", lambda stream: stream.add({"n": "3"}, "3-1"))
    assert files_of_stream(tmp_path / "s") == {"00000002.log", "00000002.state"}
    spoil(tmp_path / "s/streams/x/00000002.log", offset)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        assert log_of(store).native.counters()[1:] == (EntryID(3, 1), 3, EntryID(2, 1))
        assert ids_before_the_fault(stream) == [EntryID(3, 1)]
        with pytest.raises(diskstream.CorruptionError):  # nobody knows what groups did behind the fault
            stream.group("g", create=False).pending_range()
        with pytest.raises(diskstream.DiskstreamError):  # what cannot be trusted is not appended to
            stream.add({"n": "4"})
    assert [(done.stream, done.failed) for done in diskstream.repair(tmp_path / "s")] == [(b"x", "")]
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        pending = store.stream("x").group("g", create=False).pending_range()
        assert [each.id for each in pending] == [EntryID(2, 1)]


def test_after_a_compaction_the_copy_stands_by_itself(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        for place in range(1, 4):
            stream.add({"n": str(place)}, f"{place}-1")
            log_of(store).roll()
            stream.seal()
        assert stream.compact() is not None
        assert "00000004.state" in files_of_stream(tmp_path / "s")
    spoil(tmp_path / "s/streams/x/00000004.log", SNAPSHOT + 70)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert [found.ms for found in ids_before_the_fault(store.stream("x"))] == [1, 2, 3]


def test_the_copy_is_durable_under_its_name_before_the_file_goes_that_made_it_unnecessary(tmp_path: Path) -> None:
    steps: list[tuple[str, str]] = []
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": "1"})
        stream.trim(maxlen=0)
        log = log_of(store)
        log.roll()
        log.files = Watched(lambda kind, path: steps.append((kind, path.name)))
        seal.reap(log)
    copy, folder, old = "00000002.state", ("sync_dir", "x"), ("unlink", "00000001.log")
    made = [("create", f"{copy}.tmp"), ("write", f"{copy}.tmp"), ("sync", f"{copy}.tmp"), ("rename", copy), folder]
    begun = steps.index(made[0])
    assert steps[begun : begun + len(made)] == made
    assert steps.index(old) > begun + len(made) - 1


def test_no_copy_is_made_where_a_sealed_segment_has_it(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": "1"})
        log_of(store).roll()
        stream.seal()
        seal.reap(log_of(store))
    assert files_of_stream(tmp_path / "s") == {"00000001.seg", "00000002.log"}


def test_copies_do_not_pile_up(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        for _ in range(5):
            stream.add({"n": "1"})
            stream.trim(maxlen=0)
            log_of(store).roll()
            seal.reap(log_of(store))
    assert files_of_stream(tmp_path / "s") == {"00000006.log", "00000006.state"}


def test_a_copy_that_is_there_stays_at_each_look_at_what_may_go(tmp_path: Path) -> None:
    a_queue_whose_entries_are_gone(tmp_path / "s", lambda stream: None)
    folder = tmp_path / "s/streams/x"
    made = (folder / "00000002.state").stat()
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        log = log_of(store)
        assert spare.keep(folder, log.files, 2, (), ["00000002.log", "00000002.state"])
    assert (folder / "00000002.state").stat().st_ino == made.st_ino


def test_a_copy_that_was_lost_is_made_again_by_who_opens_the_stream(tmp_path: Path) -> None:
    a_queue_whose_entries_are_gone(tmp_path / "s", lambda stream: None)
    copy = tmp_path / "s/streams/x/00000002.state"
    before = copy.read_bytes()
    copy.unlink()
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert len(store.stream("x")) == 0
    assert copy.read_bytes() == before


def test_a_damaged_copy_is_reported_and_never_used(tmp_path: Path) -> None:
    a_queue_whose_entries_are_gone(tmp_path / "s", lambda stream: None)
    spoil(tmp_path / "s/streams/x/00000002.state", 70)
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        (problem,) = store.verify().problems
        assert problem.path.name == "00000002.state"
        assert len(store.stream("x")) == 0
    spoil(tmp_path / "s/streams/x/00000002.log", SNAPSHOT + 70)
    with diskstream.open(tmp_path / "s", **SMALL) as store, pytest.raises(diskstream.CorruptionError):
        len(store.stream("x"))


def test_a_copy_that_goes_while_it_is_verified_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log was rolled by another process just then, and the copy removed between a look at its name and the read."""
    a_queue_whose_entries_are_gone(tmp_path / "s", lambda stream: None)
    read = spare.read

    def read_late(directory: Path, number: int) -> bytes:
        (directory / "00000002.state").unlink(missing_ok=True)
        return read(directory, number)

    monkeypatch.setattr(spare, "read", read_late)
    assert diskstream.verify(tmp_path / "s").problems == []


def repaired_pending(path: Path) -> list[EntryID]:
    """What is pending in the group after a repair that lost nothing."""
    assert [(done.losses, done.failed) for done in diskstream.repair(path)] == [([], "")]
    with diskstream.open(path, **SMALL) as store:
        return [each.id for each in store.stream("x").group("g", create=False).pending_range()]


def trimmed_behind_a_bad_block(store: diskstream.Store) -> StreamLog:
    """Rolls, spoils the snapshot of the new log, and trims all that went before it."""
    log = log_of(store)
    log.roll()
    spoil(store.path / "streams/x/00000002.log", SNAPSHOT + 70)
    store.stream("x").trim(maxlen=0)
    seal.reap(log)
    return log


def test_a_bad_block_is_not_copied_and_what_it_can_be_made_anew_from_stays(tmp_path: Path) -> None:
    """It came while the stream was open, after its snapshot was read."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": "1"}, "1-1")
        stream.group("g", start="0").consumer("alice").read()
        trimmed_behind_a_bad_block(store)
        assert files_of_stream(tmp_path / "s") == {"00000001.log", "00000002.log"}
    assert repaired_pending(tmp_path / "s") == [EntryID(1, 1)]


def test_what_is_left_for_a_bad_block_goes_with_the_next_roll(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": "1"})
        log = trimmed_behind_a_bad_block(store)
        stream.add({"n": "2"})
        log.roll()
        seal.reap(log)
        assert files_of_stream(tmp_path / "s") == {"00000002.log", "00000003.log"}


def test_a_bad_block_is_not_read_again_at_each_look_at_what_may_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one each second; and it flushed the directory."""
    read: list[Path] = []
    whole = spare.sound_frame

    def noted(log: Path) -> bytes:
        read.append(log)
        return whole(log)

    monkeypatch.setattr(spare, "sound_frame", noted)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": "1"})
        log = trimmed_behind_a_bad_block(store)
        assert len(read) == 1
        seal.reap(log)
        assert len(read) == 1
        assert "00000001.log" in files_of_stream(tmp_path / "s")


@pytest.mark.parametrize("is_sealed", [False, True])
def test_what_a_bad_block_can_be_made_anew_from_is_not_sealed_or_compacted_away(
    tmp_path: Path, is_sealed: bool
) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": "1"}, "1-1")
        stream.add({"n": "2"}, "2-1")
        stream.group("g", start="0").consumer("alice").read()
        log = log_of(store)
        log.roll()
        if is_sealed:
            seal.seal_rolled(log)
        stream.delete("1-1")
        before = files_of_stream(tmp_path / "s") | {"00000001.audit"}
        spoil(tmp_path / "s/streams/x/00000002.log", SNAPSHOT + 70)
        with pytest.raises(diskstream.CorruptionError, match=r"00000002\.log.*snapshot frame"):
            stream.compact()
        assert files_of_stream(tmp_path / "s") == before
    assert repaired_pending(tmp_path / "s") == [EntryID(1, 1), EntryID(2, 1)]


def test_a_bad_block_of_a_log_that_was_left_behind_is_not_copied(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        for place in (1, 2):
            stream.add({"n": str(place)}, f"{place}-1")
            log_of(store).roll()
        spoil(tmp_path / "s/streams/x/00000002.log", SNAPSHOT + 70)
        assert seal.seal_rolled(log_of(store)) == 2
    assert diskstream.verify(tmp_path / "s").problems == []


def test_a_copy_of_another_log_is_not_used(tmp_path: Path) -> None:
    for name in ("s", "other"):
        a_queue_whose_entries_are_gone(tmp_path / name, lambda stream: None)
    ours, theirs = (tmp_path / name / "streams/x/00000002.state" for name in ("s", "other"))
    ours.write_bytes(theirs.read_bytes())
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert [problem.path for problem in store.verify().problems] == [ours]
    spoil(tmp_path / "s/streams/x/00000002.log", SNAPSHOT + 70)
    with diskstream.open(tmp_path / "s", **SMALL) as store, pytest.raises(diskstream.CorruptionError):
        len(store.stream("x"))


def most_taken(work: Callable[[], object]) -> int:
    """Bytes of memory that Python held at once meanwhile."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_more_memory_is_taken_for_a_copy_than_it_has(tmp_path: Path) -> None:
    """It was 3 GiB, as much as one may have: where memory is limited a sound store could not be verified."""
    a_queue_whose_entries_are_gone(tmp_path / "s", lambda stream: None)
    frame = spare.snapshot_frame(tmp_path / "s/streams/x/00000002.log")
    assert most_taken(lambda: spare.read(tmp_path / "s/streams/x", 2)) < 1 << 20
    assert spare.read(tmp_path / "s/streams/x", 2) == frame


def test_a_bad_length_is_not_believed(tmp_path: Path) -> None:
    a_queue_whose_entries_are_gone(tmp_path / "s", lambda stream: None)
    log = tmp_path / "s/streams/x/00000002.log"
    spoil(log, SNAPSHOT + 7)
    assert most_taken(lambda: spare.snapshot_frame(log)) < 1 << 20
    with pytest.raises(diskstream.CorruptionError):
        spare.sound_frame(log)
