"""A disk that failed once is not believed again: reads go on, writes are refused everywhere, until the stream is
reopened."""

import contextlib
import errno
import threading
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import DiskFullError, PoisonedError, StorageError, Store
from diskstream._native import Ctl, Log
from diskstream.engine import recovery
from diskstream.engine.files import Files, LogFileLike
from diskstream.engine.page import FLAG_MOVED
from tests.engine.careful import at_each_step, numbers
from tests.engine.children import child, until
from tests.engine.sample import SMALL, as_if_killed, log_of
from tests.engine.stand_ins import Watched, failure
from tests.engine.users import use


class Disk:
    """Fails in all steps of the given kinds for as long as it is ill."""

    def __init__(self, *kinds: str) -> None:
        self.kinds, self.ill = kinds, False
        self.done: list[str] = []

    def __call__(self, kind: str, path: Path) -> None:
        if self.ill and kind in self.kinds:
            raise failure(path, kind, errno.EIO)
        self.done.append(kind)


def opened(path: Path, disk: Disk, **options: Any) -> Store:
    return diskstream.open(path, **{**SMALL, **options}, files=Watched(disk))


def poisoned(store: Store) -> bool:
    return bool(log_of(store).ctl.flags & 1)


@pytest.mark.parametrize("kind", ["flush", "pwrite"])
def test_after_a_failed_write_or_flush_nobody_may_write_until_the_stream_is_reopened(tmp_path: Path, kind: str) -> None:
    disk = Disk(kind)
    with opened(tmp_path / "s", disk, fsync="always") as store, child(use, tmp_path / "s", {}) as other:
        stream = store.stream("x")
        for number in range(5):
            stream.add({"n": number})
        assert other.hear() == "open"
        assert other.ask("numbers") == "0 1 2 3 4"
        disk.ill = True
        with pytest.raises(StorageError) as caught:
            stream.add({"n": 5})
        assert not isinstance(caught.value, DiskFullError)
        disk.ill = False
        for write in (
            lambda: stream.add({"n": 6}),
            lambda: stream.trim(maxlen=1),
            lambda: stream.delete(next(stream.range()).id),
            store.seal,
        ):
            with pytest.raises(PoisonedError, match="open it again"):
                write()
        if kind == "flush":
            with pytest.raises(PoisonedError):
                store.sync()  # the entry is written, and nobody can say where it is
        assert other.ask("try 7") == "PoisonedError"
        assert other.ask("numbers") == "0 1 2 3 4"
        assert numbers(store) == [0, 1, 2, 3, 4]
        assert store.verify().problems == []
        # One of them opens the stream again: it works for both.
        with diskstream.open(tmp_path / "s", **SMALL) as again:
            there = numbers(again)
            assert there in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5])
            again.stream("x").add({"n": 8})
            other.ask("add 9")
            assert numbers(again) == [*there, 8, 9]
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert numbers(store) == [*there, 8, 9]
        assert store.verify().ok


def test_after_a_failed_reservation_of_ids_nobody_may_write_until_the_stream_is_reopened(tmp_path: Path) -> None:
    """What the slot holds by now nobody knows: an ID above it could come again after a power cut."""
    disk, now_ms = Disk("pwrite_sync"), 1_000
    with opened(tmp_path / "s", disk, clock=lambda: now_ms) as store, child(use, tmp_path / "s", {}) as other:
        first = store.stream("x").add({"n": 0})
        assert first is not None
        assert (other.hear(), other.ask("numbers")) == ("open", "0")
        disk.ill, now_ms = True, 1_000_000  # beyond all that was reserved
        with pytest.raises(StorageError):
            store.stream("x").add({"n": 1})
        disk.ill = False
        with pytest.raises(PoisonedError, match="the reservation of IDs failed"):
            store.stream("x").add({"n": 2})
        assert other.ask("try 3") == "PoisonedError"
        assert numbers(store) == [0]
        with diskstream.open(tmp_path / "s", **SMALL) as again:
            last = again.stream("x").add({"n": 4})
            assert last is not None
            assert last > first
            assert numbers(again) == [0, 4]


def test_a_stream_that_was_poisoned_is_written_anew_before_it_is_believed(tmp_path: Path) -> None:
    """After a failed flush the kernel may call pages clean that never reached the disk: flushing again would prove
    nothing."""
    disk = Disk("flush")
    store = opened(tmp_path / "s", disk)
    for number in range(5):
        store.stream("x").add({"n": number})
    disk.ill = True
    with pytest.raises(StorageError):
        store.sync()
    disk.ill = False
    with pytest.raises(StorageError):
        store.close()
    disk.done.clear()
    with opened(tmp_path / "s", disk) as store:
        assert numbers(store) == [0, 1, 2, 3, 4]
        assert "pwrite" in disk.done
        assert "flush" in disk.done[disk.done.index("pwrite") :]


def losing(monkeypatch: pytest.MonkeyPatch, lost: bytes) -> None:
    """The kernel gives up the page of a value after all was read, before it is written anew: as if never written."""
    real = recovery._rewrite

    def rewrite(file: LogFileLike, native: Log) -> None:
        held = file.native.read(0, file.size_bytes)
        file.pwrite(held.index(lost), bytes(len(lost)))
        real(file, native)

    monkeypatch.setattr(recovery, "_rewrite", rewrite)


def left_poisoned(path: Path) -> Store:
    """A store whose last entry was added before a flush that failed, on a disk that is well again."""
    disk = Disk("flush")
    store = opened(path, disk)
    store.stream("x").add({"n": 0})
    store.sync()
    store.stream("x").add({"n": "4711"})
    disk.ill = True
    with pytest.raises(StorageError):
        store.sync()
    disk.ill = False
    return store


def test_what_is_given_up_while_a_poisoned_stream_is_written_anew_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in the state, and not in the file: an entry that no read could give, and the next append behind a hole."""
    with pytest.raises(StorageError):
        left_poisoned(tmp_path / "s").close()
    with monkeypatch.context() as patched:
        losing(patched, b"4711")
        with diskstream.open(tmp_path / "s", **SMALL) as store:
            assert numbers(store) == [0]
            store.stream("x").add({"n": 2})
            assert numbers(store) == [0, 2]
            assert store.verify().ok
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert numbers(store) == [0, 2]


def test_who_joins_a_poisoned_stream_does_not_cure_it_where_something_is_given_up_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have seen what is gone: nobody may write behind it before all have opened the stream anew."""
    store = left_poisoned(tmp_path / "s")
    with monkeypatch.context() as patched:
        losing(patched, b"4711")
        with diskstream.open(tmp_path / "s", **SMALL) as other, pytest.raises(StorageError, match="close the stream"):
            other.stream("x").add({"n": 2})
    assert poisoned(store)
    with pytest.raises(StorageError):
        store.close()
    with diskstream.open(tmp_path / "s", **SMALL) as again:
        assert numbers(again) == [0]
        again.stream("x").add({"n": 2})
        assert again.verify().ok


def test_a_flush_that_fails_in_a_recovery_is_not_believed_the_next_time(tmp_path: Path) -> None:
    """A killed process leaves what it wrote in the page cache alone. Who opened the stream next met a failing disk and
    gave up; the opening after that flushed again, which succeeded and had written nothing, and called it durable."""
    disk = Disk("flush")
    store = opened(tmp_path / "s", disk)
    store.stream("x").add({"n": 0})
    as_if_killed(store)
    disk.ill = True
    with opened(tmp_path / "s", disk) as again, pytest.raises(StorageError):
        numbers(again)
    disk.ill = False
    disk.done.clear()
    with opened(tmp_path / "s", disk) as again:
        assert numbers(again) == [0]
        assert "pwrite" in disk.done
        assert "flush" in disk.done[disk.done.index("pwrite") :]


def test_a_flush_that_fails_behind_a_death_under_the_lock_poisons_the_stream(tmp_path: Path) -> None:
    """What the dead one left is made durable by who takes the lock next: where that failed, it was tried again, and the
    second flush, which proves nothing, was believed."""
    disk = Disk("flush")
    store = opened(tmp_path / "s", disk)
    stream = store.stream("x")
    stream.add({"n": 0})
    log = log_of(store)
    dies = threading.Thread(target=contextlib.ExitStack().enter_context, args=(log.locked(),))
    dies.start()
    dies.join()
    disk.ill = True
    with pytest.raises(StorageError):
        stream.add({"n": 1})
    disk.ill = False
    with pytest.raises(PoisonedError):
        stream.add({"n": 2})
    with pytest.raises(PoisonedError):
        store.sync()
    assert numbers(store) == [0]
    with pytest.raises(StorageError):
        store.close()
    disk.done.clear()
    with opened(tmp_path / "s", disk) as again:
        again.stream("x").add({"n": 3})
        assert numbers(again) == [0, 3]
        assert "flush" in disk.done[disk.done.index("pwrite") :]


def test_a_flush_that_fails_in_the_background_is_told_to_who_adds_and_to_who_closes(tmp_path: Path) -> None:
    disk = Disk("flush")
    store = opened(tmp_path / "s", disk, fsync="interval=1")
    store.stream("x").add({"n": 0})
    store.sync()
    disk.ill = True
    store.stream("x").add({"n": 1})
    until(lambda: poisoned(store))
    disk.ill = False
    with pytest.raises(PoisonedError):
        store.stream("x").add({"n": 2})
    with pytest.raises(StorageError):
        store.close()
    assert store.closed


def test_closing_does_not_pass_over_entries_that_never_reached_the_disk(tmp_path: Path) -> None:
    """Who only adds and closes must hear of it then, or never."""
    disk = Disk("flush")
    with pytest.raises(StorageError), opened(tmp_path / "s", disk, fsync="interval=1") as store:
        store.stream("x").add({"n": 0})
        store.sync()
        disk.ill = True
        store.stream("x").add({"n": 1})
        until(lambda: poisoned(store))
        disk.ill = False


def test_a_failing_stream_does_not_take_others_with_it(tmp_path: Path) -> None:
    class One(Disk):
        def __call__(self, kind: str, path: Path) -> None:
            if path.parent.name == "x":
                super().__call__(kind, path)

    disk = One("flush", "pwrite")
    store = opened(tmp_path / "s", disk, fsync="always")
    for name in ("x", "y"):
        store.stream(name).add({"n": 0})
    disk.ill = True
    with pytest.raises(StorageError):
        store.stream("x").add({"n": 1})
    store.stream("y").add({"n": 1})
    with pytest.raises(StorageError):
        store.close()
    with diskstream.open(tmp_path / "s", **SMALL) as again:
        assert [entry["n"] for entry in again.stream("y").range()] == [b"0", b"1"]


def test_a_stream_that_makes_room_for_another_does_not_hide_that_its_flush_failed(tmp_path: Path) -> None:
    """It was closed all the same, and opened again with the next use; `sync` and `close` passed over it in silence."""

    class One(Disk):
        def __call__(self, kind: str, path: Path) -> None:
            if path.parent.name == "x":
                super().__call__(kind, path)

    disk = One("flush")
    store = opened(tmp_path / "s", disk, max_open_streams=1)
    store.stream("x").add({"n": 0})
    disk.ill = True
    for name in ("y", "z", "y"):
        store.stream(name).add({"n": 0})
    disk.ill = False
    with pytest.raises(PoisonedError):
        store.sync()
    with pytest.raises(PoisonedError):
        store.stream("x").add({"n": 1})
    assert numbers(store) == [0]
    store.stream("z").add({"n": 1})
    with pytest.raises(StorageError):
        store.close()
    with diskstream.open(tmp_path / "s", **SMALL) as again:
        again.stream("x").add({"n": 2})
        assert numbers(again) == [0, 2]
        assert [len(again.stream(name)) for name in "yz"] == [2, 2]


EVERY_STEP = frozenset(
    {
        "create",
        "write",
        "sync",
        "link",
        "rename",
        "mkdir",
        "extend",
        "pwrite",
        "pwrite_sync",
        "flush",
        "sync_dir",
        "store",
    }
)


@pytest.mark.parametrize("fsync", ["always", "os"])
def test_wherever_the_disk_fails_once_nothing_acknowledged_is_lost_and_work_goes_on(fsync: str) -> None:
    kinds = set()
    for work in at_each_step(errno.EIO, EVERY_STEP, fsync):
        assert work.step.failed is not None
        kinds.add(work.step.failed[0])
        assert work.errors or work.background, f"{work.label}: nobody was told"
    assert kinds >= EVERY_STEP - {"store" if fsync == "always" else "pwrite"}


def test_who_joins_a_poisoned_stream_that_was_just_rolled_cures_the_new_segment(tmp_path: Path) -> None:
    """The joiner had opened the old segment, waited for the lock, and published its end as the stream's."""
    told: list[int] = []

    class Meanwhile(Files):
        def open_log(self, path: Path, *, writable: bool) -> LogFileLike:
            file = super().open_log(path, writable=writable)
            if not told:
                told.append(0)
                store.seal()
                store.stream("x").add({"n": 1})
                log_of(store).ctl.poison("planted")
            return file

    with pytest.raises(PoisonedError), diskstream.open(tmp_path / "s", fsync="interval=600000") as store:
        store.stream("x").add({"n": 0})
        with diskstream.open(tmp_path / "s", files=Meanwhile()) as other:
            assert numbers(other) == [0, 1]
            other.stream("x").add({"n": 2})
            assert numbers(store) == [0, 1, 2]
            log_of(store).ctl.poison("planted, so that the last word is told as well")
    with diskstream.open(tmp_path / "s") as store:
        assert numbers(store) == [0, 1, 2]
        assert store.verify().ok


def test_a_page_whose_maker_was_killed_before_it_was_ready_is_as_poisoned_as_it_was(tmp_path: Path) -> None:
    disk = Disk()
    with opened(tmp_path / "s", disk) as store:
        store.stream("x").add({"n": 0})
        page = log_of(store).directory / "ctl"
        log_of(store).ctl.poison("planted")
        made = page.read_bytes()
        log_of(store).abandon()
    page.write_bytes(bytes(8) + made[8:16] + bytes(len(made) - 16))  # killed as it made the page anew
    disk.done.clear()
    with opened(tmp_path / "s", disk) as store:
        assert numbers(store) == [0]
        assert "pwrite" in disk.done


def test_a_poisoned_stream_whose_remover_was_killed_before_it_went_is_as_poisoned_as_it_was(tmp_path: Path) -> None:
    """Another page takes the place of the one that says it moved, as long as somebody has that open."""
    store, disk = left_poisoned(tmp_path / "s"), Disk()
    with diskstream.open(tmp_path / "s", **SMALL, read_only=True) as reader, opened(tmp_path / "s", disk) as late:
        page = log_of(store).page
        page.ctl.raise_flags(FLAG_MOVED)
        assert numbers(reader) == numbers(late) == [0, 4711]
        assert "pwrite" in disk.done
        page.close()
    as_if_killed(store)


@pytest.mark.parametrize("kind", ["open_ctl", "rename"])
def test_a_poisoned_stream_that_was_to_be_removed_stays_so_where_another_page_finds_no_room(
    tmp_path: Path, kind: str
) -> None:
    """The page that said so was removed first, and the next opening believed a flush that had written nothing."""

    class Full(Watched):
        def open_ctl(self, path: Path) -> tuple[int, Ctl]:
            self.step("open_ctl", path)
            return super().open_ctl(path)

    def no_room(step: str, path: Path) -> None:
        if step == kind and path.parent.name == "x" and log_of(store).page.ctl.flags & FLAG_MOVED:
            looked.append(path)
            if kind == "rename" or len(looked) == 2:  # the first look is at the page that is there
                raise failure(path, step, errno.ENOSPC)

    store, disk, looked = left_poisoned(tmp_path / "s"), Disk(), list[Path]()
    log_of(store).page.ctl.raise_flags(FLAG_MOVED)
    with diskstream.open(tmp_path / "s", **SMALL, files=Full(no_room)) as late, pytest.raises(DiskFullError):
        numbers(late)
    assert looked
    with opened(tmp_path / "s", disk) as again:
        assert numbers(again) == [0, 4711]
        assert "pwrite" in disk.done
        assert again.verify().ok
        assert not list((tmp_path / "s" / "streams" / "x").glob("*.tmp"))
    as_if_killed(store)


class Named(Disk):
    """The same, of the names of sealed files and their logs alone, which it writes down."""

    def __call__(self, kind: str, path: Path) -> None:
        if kind == "sync_dir" or path.suffix == ".seg":
            super().__call__(kind, path)
        elif kind == "unlink" and path.suffix == ".log":
            self.done.append("the log goes")


@pytest.mark.parametrize("kinds", [("sync_dir",), ("sync_dir", "unlink")], ids=["flush", "flush and removal"])
@pytest.mark.parametrize("reopened", [False, True], ids=["sealed again", "opened again"])
def test_a_sealed_file_whose_name_failed_to_become_durable_is_named_anew(
    tmp_path: Path, kinds: tuple[str, ...], reopened: bool
) -> None:
    """The name was there, and whoever came next flushed the directory once more, which proves nothing after a
    failure."""
    disk = Named(*kinds)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(opened(tmp_path / "s", disk, seal="manual"))
        for number in range(5):
            store.stream("x").add({"n": number})
        log_of(store).roll()
        disk.ill = True
        with pytest.raises(StorageError):
            store.seal()
        disk.ill = False
        assert numbers(store) == [0, 1, 2, 3, 4]
        disk.done.clear()
        if reopened:
            store.close()
            store = stack.enter_context(opened(tmp_path / "s", disk, seal="manual"))
            assert numbers(store) == [0, 1, 2, 3, 4]
        store.seal()
        before = disk.done[: disk.done.index("the log goes")]
        assert "sync_dir" in before[before.index("rename") :]
        assert numbers(store) == [0, 1, 2, 3, 4]
    with diskstream.open(tmp_path / "s") as store:
        assert numbers(store) == [0, 1, 2, 3, 4]
        assert store.verify().ok
