"""What was fetched back is kept in a bounded folder that nobody has to trust."""

import errno
import gc
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Stream
from diskstream.cold import move_out
from diskstream.cold_reads import cold_cache
from diskstream.engine.files import Files, NewFile
from diskstream.errors import ArgumentError, CorruptionError, RemoteError, StorageError
from diskstream.objects import Place
from diskstream.options import Options
from diskstream.store_files import store_uuid
from tests.cold.readers import read_in_a_fork_beside_a_request
from tests.cold.s3_server import Asked, Door, Fault
from tests.cold.world import SMALL, filled, opened, rows, spoilt, where
from tests.engine.children import child, until
from tests.engine.interruption import open_below


def fetches(door: Door) -> int:
    return sum(asked.method == "GET" and asked.is_segment for asked in door.asked)


def test_a_segment_is_fetched_once_by_all_openings_and_threads(stream: Stream, door: Door, tmp_path: Path) -> None:
    move_out(stream, door.url(tmp_path.name), before="30")
    begun = fetches(door)
    with opened(tmp_path / "store") as store:
        threads = [threading.Thread(target=rows, args=(store.stream("x"), "1", "5")) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert fetches(door) == begun + 1
    with opened(tmp_path / "store") as store:
        assert len(rows(store.stream("x"), "1", "5")) == 5
    assert fetches(door) == begun + 1


def test_what_the_disk_does_not_give_back_is_fetched_again(
    stream: Stream, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the read with an `OSError`, and left the descriptor open."""
    before, really, spoilt_now = rows(stream), os.pread, list[int]()
    move_out(stream, folder_place, older_than_ms=0)
    path = stream._store.path
    assert rows(stream) == before
    stream._store.close()

    def pread(fd: int, size: int, at: int) -> bytes:
        if Path(f"/proc/self/fd/{fd}").readlink().parent == path / "cold-cache" and not spoilt_now:
            spoilt_now.append(fd)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return really(fd, size, at)

    monkeypatch.setattr(os, "pread", pread)
    with opened(path) as store:
        assert rows(store.stream("x")) == before
    assert len(spoilt_now) == 1
    assert open_below(path / "cold-cache") == []


@pytest.mark.parametrize("limit", [0, 2500, 1 << 30])
def test_the_cache_stays_within_its_limit_and_all_is_read(tmp_path: Path, folder_place: str, limit: int) -> None:
    with opened(tmp_path / "store", cold_cache_bytes=limit) as store:
        stream = filled(store)
        before = rows(stream)
        report = move_out(stream, folder_place, older_than_ms=0)
        assert report.size_bytes > 5000
        kept: list[int] = []
        for _ in range(2):
            assert rows(stream) == before
            kept = [path.stat().st_size for path in (tmp_path / "store" / "cold-cache").iterdir()]
            assert sum(kept) <= limit
        assert (len(kept) == len(report.segments)) == (limit > report.size_bytes)
        # What was removed takes no room until the store is closed: it is not kept open either.
        assert sum(store._cache._fetched.values()) <= max(limit, *(each.size_bytes for each in report.segments))


def test_a_segment_larger_than_the_cache_is_fetched_once_by_reads_that_follow_one_another(
    stream: Stream, door: Door, tmp_path: Path
) -> None:
    move_out(stream, door.url(tmp_path.name), before="30")
    begun = fetches(door)
    with opened(tmp_path / "store", cold_cache_bytes=0) as store:
        for entry_id in ("1-0", "5-0", "9-0"):
            assert len(rows(store.stream("x"), entry_id, entry_id)) == 1
    assert fetches(door) == begun + 1


def test_what_is_damaged_or_planted_in_the_cache_is_fetched_again(stream: Stream, folder_place: str) -> None:
    before = rows(stream)
    move_out(stream, folder_place, older_than_ms=0)
    path = stream._store.path
    assert rows(stream) == before
    stream._store.close()
    kept = sorted((path / "cold-cache").iterdir())
    kept[0].write_bytes(spoilt(kept[0].read_bytes()))
    kept[1].write_bytes(b"")
    kept[2].write_bytes(kept[3].read_bytes())
    kept[4].unlink()
    kept[4].symlink_to("/etc/passwd")
    (path / "cold-cache" / "left.tmp").write_bytes(b"of a process that was killed")
    with opened(path) as store:
        assert rows(store.stream("x")) == before
        assert store.verify(cold=True).ok


def test_a_read_only_store_keeps_its_cache_elsewhere(
    stream: Stream, folder_place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(stream)
    move_out(stream, folder_place, older_than_ms=0)
    stream._store.close()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with diskstream.open(tmp_path / "store", read_only=True, **SMALL) as store:
        assert rows(store.stream("x")) == before
        (folder,) = temporary.iterdir()
        assert folder.stat().st_mode & 0o077 == 0
    assert list((tmp_path / "store" / "cold-cache").iterdir()) == []
    # One that others may write to is not used.
    folder.mkdir()
    folder.chmod(0o777)
    with diskstream.open(tmp_path / "store", read_only=True, **SMALL) as store:
        assert rows(store.stream("x")) == before
        (own,) = set(temporary.iterdir()) - {folder}
        assert list(own.iterdir())
    # No later opening finds its name, so it goes with the opening.
    assert list(temporary.iterdir()) == [folder]


def test_a_limit_out_of_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cold_cache_bytes"):
        opened(tmp_path / "store", cold_cache_bytes=-1)


# --- nobody's append waits for a storage ------------------------------------------------------------------------------


def holding(door: Door, held: threading.Event) -> None:
    """Reads of objects are not answered until the door is released."""

    def fault(asked: Asked) -> Fault | None:
        if not asked.is_segment:
            return None
        held.set()
        return Fault(hangs=True)

    door.fault = fault


WANTED: dict[str, Callable[[Any], object]] = {
    "trim": lambda stream: stream.trim(minid="10"),
    "trim to a length by reference": lambda stream: stream.trim(maxlen=190, ref="DELREF"),
    "trim to a length within another segment": lambda stream: stream.trim(maxlen=170, ref="DELREF"),
    "trim to a length of whole segments": lambda stream: stream.trim(maxlen=188, ref="DELREF"),
    "trim below an ID by reference": lambda stream: stream.trim(minid="10", ref="DELREF", approximate=True),
    "add and trim": lambda stream: stream.add({"n": "y"}, "901-0", minid="10"),
    "add and trim to a length by reference": lambda stream: stream.add({"n": "y"}, "901-0", maxlen=171, ref="DELREF"),
    "delete": lambda stream: stream.delete("10-0"),
    "range": lambda stream: list(stream.range("10", "11")),
    "read as a group": lambda stream: stream.group("g", create=False).consumer("c").read(count=5),
    "delete by reference": lambda stream: stream.delete_entries("10-0", ref="DELREF"),
    "claim": lambda stream: stream.group("g", create=False).consumer("c").claim("9-0", min_idle_ms=0),
    "history": lambda stream: stream.group("g", create=False).consumer("b").read("0"),
}


@pytest.mark.parametrize("what", WANTED)
def test_appends_go_on_while_what_is_cold_is_waited_for(
    stream: Stream, door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    group = stream.group("g", start="5")
    assert len(group.consumer("b").read(count=10)) == 10
    monkeypatch.setattr("diskstream.object_address._SILENCE_S", 30.0)
    move_out(stream, door.url(tmp_path.name), before="60")
    held = threading.Event()
    holding(door, held)
    failures: list[Exception] = []

    def want() -> None:
        try:
            WANTED[what](stream)
        except RemoteError as error:
            failures.append(error)

    thread = threading.Thread(target=want)
    thread.start()
    try:
        until(held.is_set)
        # The append lock is free: this would wait for ever, as the storage does not answer.
        assert str(stream.add({"n": "x"}, "900-0", maxlen=1000)) == "900-0"
        assert stream.group("g", create=False).ack("6-0") == 1
        assert stream._store.seal() == 1
    finally:
        door.released.set()
        thread.join()
    assert len(failures) == 1


def test_groups_are_given_what_is_cold(stream: Stream, folder_place: str) -> None:
    group = stream.group("g", start="0")
    assert [entry.id.ms for entry in group.consumer("b").read(count=10)] == [*range(1, 11)]
    move_out(stream, folder_place, older_than_ms=0)
    assert [entry.id.ms for entry in group.consumer("b").read(count=60)] == [*range(11, 71)]
    assert [entry.id.ms for entry in group.consumer("b").read("0", count=3)] == [1, 2, 3]
    assert [entry.id.ms for entry in group.consumer("c").claim("5-0")] == [5]
    assert [entry.id.ms for entry in group.consumer("c").autoclaim(0, count=100).entries] == [*range(1, 71)]
    assert len(group.consumer("b").read()) == 130
    assert group.info().lag == 0
    assert stream.trim(minid="35", ref="DELREF") == 34
    assert group.pending().total == 200 - 34
    assert stream.info_full(3).entries[0].id.ms == 35


def test_nothing_below_the_first_entry_is_pending_though_the_trim_ends_within_what_is_cold(
    stream: Stream, folder_place: str, tmp_path: Path
) -> None:
    # Found by the power part: the first entry was taken to be the first that had ever been in the segment.
    group = stream.group("g", start="0")
    assert len(group.consumer("b").read(count=50)) == 50
    move_out(stream, folder_place, older_than_ms=0)
    with opened(tmp_path / "store") as other:
        there = other.stream("x")
        assert there.trim(maxlen=190, ref="DELREF") == 10
        assert there.group("g", create=False).pending().first == EntryID(11, 0)
        assert str(there.add({"n": "1"}, "900-0", maxlen=180, ref="DELREF")) == "900-0"
        assert there.group("g", create=False).pending().total == 29


# Where groups begin, and how many entries there were up to there, where they say so: before the first entry that is
# left, which is 10-0, and behind it.
STARTS = {"a": ("0", None), "b": ("1-0", None), "c": ("4-0", 4), "d": ("9-0", 9), "e": ("12-0", 12), "f": ("60-0", 60)}


def test_what_was_trimmed_of_a_segment_that_is_away_is_no_groups_lag(
    stream: Stream, folder_place: str, tmp_path: Path
) -> None:
    for name, (start, read) in STARTS.items():
        stream.group(name, start=start, entries_read=read)
    assert len(stream.group("a").consumer("b").read(count=5)) == 5
    assert stream.trim(minid="10-0") == 9
    assert [group.lag for group in stream.groups()] == [191, 191, 191, 191, 188, 140]
    move_out(stream, folder_place, older_than_ms=0)
    with opened(tmp_path / "store") as other:
        there = other.stream("x")
        assert [group.lag for group in there.groups()] == [191, 191, 191, 191, 188, 140]
        assert there.group("a", create=False).info().lag == 191
        assert len(there.group("a").consumer("b").read(count=5)) == 5
        assert there.group("a").info().lag == 186


def test_a_fork_waits_for_an_answer_of_the_storage_and_its_child_reads_what_is_away(
    s3_port: int, tmp_path: Path
) -> None:
    """The child could make no client of its own, ever: each of its reads hung until it was given up, after 100 s."""
    with child(read_in_a_fork_beside_a_request, tmp_path / "store", s3_port) as process:
        assert (process.hear(), process.hear()) == ("60", "0")


# --- what goes wrong on the way ---------------------------------------------------------------------------------------


class FullOnce(Files):
    """A disk without room for one file of the cache, until something was removed."""

    def __init__(self) -> None:
        self.full = False

    def create(self, path: Path) -> NewFile:
        if self.full and path.parent.name == "cold-cache":
            raise diskstream.DiskFullError(str(path), "create", 28, "No space left on device")
        return super().create(path)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.full = self.full and path.suffix != ".seg"


def test_a_full_disk_empties_the_cache_before_a_read_fails(stream: Stream, folder_place: str) -> None:
    before = rows(stream)
    move_out(stream, folder_place, older_than_ms=0)
    files = FullOnce()
    with opened(stream._store.path, files=files) as store:
        again = store.stream("x")
        assert rows(again, "1", "5")
        files.full = True
        assert rows(again, "150", "155") == before[149:155]
        files.full = True
        again.add({"n": "x"})
        shutil.rmtree(stream._store.path / "cold-cache")
        with pytest.raises(diskstream.DiskFullError):
            rows(again, "100", "105")
        assert rows(again, "150", "155") == before[149:155]


def test_what_is_damaged_on_its_way_is_fetched_again(stream: Stream, door: Door, tmp_path: Path) -> None:
    before = rows(stream)
    move_out(stream, door.url(tmp_path.name), before="30")
    damaged = []

    def once(asked: Asked) -> Fault | None:
        if asked.method != "GET" or asked.path in damaged:
            return None
        damaged.append(asked.path)
        return Fault(after=lambda answer: replace(answer, body=bytes([answer.body[0] ^ 1]) + answer.body[1:]))

    door.fault = once
    assert rows(stream) == before
    assert damaged


def test_a_damaged_log_moves_nothing(stream: Stream, folder_place: str) -> None:
    for number in range(300, 320):
        stream.add({"n": "x" * 50}, f"{number}-0")
    stream._store.close()
    log = max((stream._store.path / "streams" / "x").glob("*.log"))
    data = bytearray(log.read_bytes())
    at = data.index(b"x" * 50, 5000)
    data[at] ^= 1
    log.write_bytes(data)
    with opened(stream._store.path) as store:
        with pytest.raises(CorruptionError):
            move_out(store.stream("x"), folder_place, older_than_ms=0)
        assert "cold" not in where(store.stream("x"))


def test_a_folder_without_hard_links_is_a_place_too(
    stream: Stream, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    before = rows(stream)
    monkeypatch.setattr("diskstream.object_on_disk.os.link", link)
    move_out(stream, folder_place, older_than_ms=0)
    assert rows(stream) == before


def test_a_folder_that_is_full_or_not_to_be_written_is_said(stream: Stream, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(RemoteError, match=r"could not (make|write|look)"):
        move_out(stream, f"file://{tmp_path}/a file", older_than_ms=0)
    assert set(where(stream)) == {"here"}
    if Path("/dev/full").exists():
        with pytest.raises(RemoteError):
            move_out(stream, "file:///dev/full/x", older_than_ms=0)


def test_a_stub_whose_folder_is_a_pipe_or_a_device_hangs_nobody(stream: Stream, folder_place: str) -> None:
    report = move_out(stream, folder_place, older_than_ms=0)
    victim = Path(folder_place.removeprefix("file://")) / report.segments[1].path
    victim.unlink()
    os.mkfifo(victim)
    with pytest.raises(RemoteError, match="is no file"):
        rows(stream, "15", "20")


def test_a_read_as_a_group_of_more_than_the_cache_holds_comes_to_its_end(tmp_path: Path, folder_place: str) -> None:
    with opened(tmp_path / "store", cold_cache_bytes=0) as store:
        stream = filled(store)
        group = stream.group("g", start="0")
        move_out(stream, folder_place, older_than_ms=0)
        assert len(group.consumer("c").read(count=150)) == 150
        assert [entry.id.ms for entry in group.consumer("c").read("0", count=150)] == [*range(1, 151)]
        assert len(group.consumer("d").claim(*(f"{number}-0" for number in range(1, 150, 7)))) == 22


def test_pieces_of_a_lease_are_read_apart_and_planned_without_the_storage(
    stream: Stream, folder_place: str, tmp_path: Path
) -> None:
    before = rows(stream)
    move_out(stream, folder_place, older_than_ms=0)
    (tmp_path / "place").rename(tmp_path / "away")
    lease = stream._store.lease(["x"])
    with diskstream.open(lease, read_only=True) as store:
        leased = store.stream("x")
        pieces = leased.splits(max_entries=30)
        assert len(pieces) >= where(stream).count("cold")
        (tmp_path / "away").rename(tmp_path / "place")
        batches = [batch for piece in pieces for batch in leased.scan(piece.first, piece.last, layout="ids")]
        assert sum(batch.num_rows for batch in batches) == len(before)
        assert leased.count_from("50") == len(before) - 49
        assert str(leased.id_further("1", 100)) == "100-0"


@pytest.mark.parametrize("read_only", [False, True])
def test_a_cache_that_is_removed_while_it_is_fetched_into_is_made_anew(
    stream: Stream, folder_place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    """Any of it may be removed at any moment; a read failed with the name of a file of which nobody had heard."""
    before, fetch, left = rows(stream), Place.fetch, [0]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def remove() -> None:
        for folder in (tmp_path / "store" / "cold-cache", *tmp_path.glob("diskstream-cold-*")):
            shutil.rmtree(folder, ignore_errors=True)

    def removing(place: Place, path: str, sink: Callable[[bytes], object], size_bytes: int) -> None:
        fetch(place, path, sink, size_bytes)
        if left[0]:
            left[0] -= 1
            remove()

    monkeypatch.setattr(Place, "fetch", removing)
    left[0] = 1
    assert move_out(stream, folder_place, older_than_ms=0).segments
    for times in (1, 2):
        remove()
        with opened(tmp_path / "store", read_only=read_only) as store:
            left[0] = times
            if times == 1:
                assert rows(store.stream("x")) == before
            else:
                with pytest.raises(StorageError, match="somebody removes what is being fetched"):
                    rows(store.stream("x"))


@pytest.mark.parametrize("why", ["the store does not say which it is", "somebody else has the folder of that name"])
def test_a_cache_that_no_later_opening_finds_goes_with_its_own(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Each check of a damaged store left its downloads in the folder for temporary files, for good."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    store = tmp_path / "store"
    kept: list[Path] = []
    if "say" in why:
        (store / "store.json").rename(tmp_path / "away.json")
    else:
        kept = [tmp_path / "temporary" / f"diskstream-cold-{os.getuid()}-{store_uuid(store)}"]
        kept[0].touch()
    cache = cold_cache(store, Options(), Files(), read_only=True)
    folder = cache.folder()
    (folder / "fetched.seg").write_bytes(b"much")
    child = os.fork()
    if not child:
        cache = None  # type: ignore[assignment]  # dropped, as a child that ends does
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert (folder / "fetched.seg").exists()  # a process that was forked off takes nothing away
    del cache
    gc.collect()
    assert list((tmp_path / "temporary").iterdir()) == kept
