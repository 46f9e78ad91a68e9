"""A full disk: an error of its own kind, nothing acknowledged lost, and it works again once there is room."""

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import DiskFullError, StorageError, Store
from tests.engine.careful import at_each_step, numbers
from tests.engine.children import child, until
from tests.engine.mounts import fill, mounted, small_disk
from tests.engine.sample import SMALL, build, rows
from tests.engine.users import add_until_refused

POLICIES = pytest.mark.parametrize("fsync", ["always", "everysec", "os"])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    with small_disk(tmp_path / "disk") as made:
        yield made


def add_until_full(store: Store, start: int = 0) -> int:
    """Adds entries until one is refused. Returns the number of that one."""
    stream = store.stream("x")
    for number in range(start, start + 20_000):
        try:
            stream.add({"n": number, "pad": "." * 200})
        except DiskFullError as error:
            assert error.errno == errno.ENOSPC
            assert "free some space" in str(error)
            return number
    raise AssertionError("the disk is never full")


# --- a real one -------------------------------------------------------------------------------------------------------


@POLICIES
def test_a_stream_that_fills_the_disk_keeps_what_it_took_and_goes_on_when_there_is_room(disk: Path, fsync: str) -> None:
    reserve = disk / "reserve"
    reserve.write_bytes(bytes(200 << 10))
    with diskstream.open(disk / "s", **{**SMALL, "fsync": fsync, "segment_bytes": 1 << 20}) as store:
        stopped = add_until_full(store)
        assert numbers(store) == list(range(stopped))
        for _ in range(3):
            with pytest.raises(DiskFullError):  # not because more was asked for than the entry needs
                store.stream("x").add({"n": stopped, "pad": "." * 200})
        assert numbers(store) == list(range(stopped))
        reserve.unlink()
        for number in range(stopped, stopped + 50):
            store.stream("x").add({"n": number, "pad": "." * 200})
        assert numbers(store) == list(range(stopped + 50))
        assert store.verify().ok
    with diskstream.open(disk / "s", **SMALL) as store:
        assert store.recoveries == []
        assert numbers(store) == list(range(stopped + 50))


@POLICIES
def test_small_segments_fill_the_disk_as_well(disk: Path, fsync: str) -> None:
    """Then a roll is what finds no room."""
    with diskstream.open(disk / "s", **{**SMALL, "fsync": fsync}) as store:
        filler = fill(disk)
        stopped = add_until_full(store)
        assert numbers(store) == list(range(stopped))
        filler.unlink()
        store.stream("x").add({"n": stopped})
        assert add_until_full(store, stopped + 1) > stopped + 100
        assert store.verify().ok
        before = numbers(store)
    with diskstream.open(disk / "s", **SMALL) as store:
        assert numbers(store) == before


@POLICIES
def test_a_stream_whose_first_entry_finds_no_room_is_not_there(disk: Path, fsync: str) -> None:
    """It was, and empty: for whoever looks what streams there are, and whoever adds only where there is one."""
    with diskstream.open(disk / "s", **{**SMALL, "fsync": fsync}) as store, diskstream.open(disk / "s") as other:
        store.stream("there").create_group("g", mkstream=True)
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - (60 << 10))  # enough to make a stream
        for add in (
            lambda: store.stream("x").add({"pad": "." * (100 << 10)}),
            lambda: store.stream("x").add_many([{"pad": "." * (100 << 10)}]),
            lambda: store.stream("there").add({"pad": "." * (100 << 10)}),
        ):
            with pytest.raises(DiskFullError):
                add()
        assert store.streams() == other.streams() == [b"there"]  # that one was used
        assert store.stream("x").add({"n": 0}, nomkstream=True) is None
        filler.unlink()
        store.stream("x").add({"n": 0})
        other.stream("x").add({"n": 1})
        assert numbers(store) == [0, 1]
    assert not [each for each in (disk / "s" / "streams").iterdir() if each.name.startswith(".")]


def test_a_stream_that_another_process_uses_stays_where_a_first_entry_finds_no_room(disk: Path) -> None:
    with diskstream.open(disk / "s") as store, diskstream.open(disk / "s") as other:
        log = store._log(b"x", create=True)  # as an add makes it
        assert log is not None
        other.stream("x").add({"n": 0})
        fill(disk)
        with pytest.raises(DiskFullError):
            store.stream("x").add({"pad": "." * (100 << 10)})
        assert numbers(store) == numbers(other) == [0]


def test_a_trim_makes_room_on_a_full_disk(disk: Path) -> None:
    """Where the store is what fills it, this is the way out: it must not need more room than there is."""
    oldest = disk / "s" / "streams" / "x" / "00000001.log"
    with diskstream.open(disk / "s", **SMALL) as store:
        stopped = add_until_full(store)
        stream = store.stream("x")
        assert stream.trim(maxlen=10) == stopped - 10
        until(lambda: not oldest.exists())
        stream.add({"n": stopped, "pad": "." * 200})
        assert numbers(store) == list(range(stopped - 10, stopped + 1))


def test_sealing_and_compacting_on_a_full_disk_leave_all_as_it_was(disk: Path) -> None:
    sample = build(disk / "s")["x"]
    with diskstream.open(disk / "s", **SMALL) as store:
        stream = store.stream("x")
        assert len(stream) == len(sample.live)  # opened: what an earlier process left behind is gone
        filler = fill(disk)
        for work in (store.seal, store.compact):
            with pytest.raises(DiskFullError):
                work()
            assert rows(stream.range()) == sample.live
        assert store.verify().ok
        filler.unlink()
        assert store.seal() == 2
        store.compact()
        assert rows(stream.range()) == sample.live
        assert store.verify().ok


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
def test_a_store_on_a_full_disk_can_be_opened_and_read(disk: Path, read_only: bool) -> None:
    sample = build(disk / "s")["x"]
    fill(disk)
    with diskstream.open(disk / "s", read_only=read_only, **SMALL) as store:
        assert rows(store.stream("x").range()) == sample.live
        assert store.verify().ok


def test_neither_a_store_nor_a_stream_is_half_made_on_a_full_disk(disk: Path) -> None:
    with diskstream.open(disk / "s", **SMALL) as store:
        store.stream("x").add({"n": 0})
        filler = fill(disk)
        with pytest.raises(DiskFullError):
            diskstream.open(disk / "t")
        with pytest.raises(DiskFullError):
            store.stream("y").add({"n": 0})
        assert store.streams() == [b"x"]
        filler.unlink()
        store.stream("y").add({"n": 0})
        assert store.streams() == [b"x", b"y"]
        with diskstream.open(disk / "t") as other:
            other.stream("x").add({"n": 0})


def test_a_sparse_copy_on_a_full_disk_is_an_error_too(disk: Path) -> None:
    """Backup programs leave out zeros: a store into such a hole must not be the first to find that there is no room."""
    with diskstream.open(disk / "s", **SMALL) as store:
        for number in range(3):
            store.stream("x").add({"n": number, "pad": ""})
    log = disk / "s" / "streams" / "x" / "00000001.log"
    data = log.read_bytes()
    log.unlink()
    with log.open("wb") as file:
        file.write(data.rstrip(b"\0"))
        file.truncate(len(data))
    filler = fill(disk)
    with child(add_until_refused, disk / "s") as user:
        assert user.hear() == "DiskFullError"
        assert user.wait() == 0
    filler.unlink()
    with diskstream.open(disk / "s", **SMALL) as store:
        assert numbers(store)[:3] == [0, 1, 2]
        store.stream("x").add({"n": 99})


# --- at every step ----------------------------------------------------------------------------------------------------

ROOM = frozenset(
    {"create", "write", "sync", "link", "rename", "mkdir", "extend", "pwrite", "pwrite_sync", "flush", "sync_dir"}
)
# After one of these has failed, the disk's word is not taken again before the stream was reopened.
POISONING = frozenset({"flush", "pwrite", "pwrite_sync", "sync_dir"})


@pytest.mark.parametrize("fsync", ["always", "os"])
def test_wherever_there_is_no_room_nothing_is_lost_and_work_goes_on(fsync: str) -> None:
    kinds = set()
    for work in at_each_step(errno.ENOSPC, ROOM, fsync):
        assert work.step.failed is not None
        kind, _ = work.step.failed
        kinds.add(kind)
        told = (DiskFullError, diskstream.PoisonedError) if kind in POISONING else DiskFullError
        # Zeros ahead are a convenience: where there is no room for them, there may be for the entry alone.
        errors = [*work.background, *work.errors]
        assert errors or kind == "extend", f"{work.label}: nobody was told"
        assert all(isinstance(error, told) for error in errors[:1]), f"{work.label}: {errors}"
        poisoned = [error for error in work.errors if isinstance(error, diskstream.PoisonedError)]
        assert not poisoned or kind in POISONING, f"{work.label}: {work.errors}"
    assert kinds >= {"create", "write", "sync", "rename", "extend", "sync_dir", "flush"}


# --- a limit of files' number -----------------------------------------------------------------------------------------


def test_a_disk_without_room_for_one_more_file_is_told_as_that(tmp_path: Path) -> None:
    """`No space left: free some space` sends to a disk that has space: what is short are inodes, of which each stream
    takes three."""
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=20m,nr_inodes=20,mode=755", "tmpfs") as disk:
        with diskstream.open(disk / "store", fsync="os") as store, pytest.raises(DiskFullError) as caught:
            for number in range(20):
                store.stream(f"stream {number}").add({"n": number})
        assert "df -i" in str(caught.value.hint)
        with diskstream.open(disk / "store", fsync="os") as store:
            first, *others = store.streams()
            store.delete(first)
            store.stream("one more").add({"n": 1})
            assert [len(store.stream(name)) for name in (b"one more", *others)] == [1] * (1 + len(others))
        assert diskstream.verify(disk / "store").problems == []


# --- a limit of files' sizes ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_file_larger_than(size_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@POLICIES
def test_where_a_log_may_grow_no_further_the_stream_goes_on_in_another_file(tmp_path: Path, fsync: str) -> None:
    """As by `ulimit -f`. It took nothing more for good, though there was room on the disk."""
    pad, count = "." * 10_000, 100
    with diskstream.open(tmp_path / "store", fsync=fsync, seal="manual") as store:
        stream = store.stream("x")
        stream.add({"n": "first"})
        with no_file_larger_than(300 << 10):
            added = [stream.add({"n": number, "pad": pad}) for number in range(count)]
            assert len(stream.create_group("g", "0").consumer("c").read(count=count + 1)) == count + 1
            with pytest.raises(StorageError, match="File too large") as caught:
                stream.add({"pad": pad * 40})
            assert "ulimit -f" in str(caught.value.hint)
        added.append(stream.add({"n": "last"}))
    assert diskstream.verify(tmp_path / "store").problems == []
    with diskstream.open(tmp_path / "store") as store:
        assert [entry.id for entry in store.stream("x").range()][1:] == added


def test_a_write_that_fails_is_told_by_the_file_that_it_was_to(tmp_path: Path) -> None:
    """It was told by the segment that was the active one as the stream was opened: sealed, and gone, by now."""
    store = diskstream.open(tmp_path / "store", **{**SMALL, "fsync": "always"})
    stream = store.stream("x")
    stream.add({"n": 1})
    stream.seal()
    stream.add({"n": 2})
    with no_file_larger_than(4096), pytest.raises(StorageError, match=r"could not write .*/x/00000002\.log: File too"):
        stream.add({"n": 3})
    with pytest.raises(diskstream.PoisonedError):
        store.close()
