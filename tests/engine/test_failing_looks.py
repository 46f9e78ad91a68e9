"""A disk that cannot even be looked at: listing a directory or asking for a file fails, and that is an error of ours.

Found by letting system calls fail (tests/kills): such errors came out as plain `OSError`; and one that came while the
control page was opened, kept by whoever was told, kept the page locked, so that trying again waited for ever.
"""

import errno
import fcntl
import io
import os
import shutil
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import StorageError
from diskstream.engine import files, looks, page, recovery
from diskstream.engine.files import Files
from diskstream.engine.state import View
from tests.engine.children import LIMIT_S
from tests.engine.sample import SMALL, build, log_of, rows
from tests.engine.stand_ins import say_nothing_of_errors


class Failing:
    """Stands in for a method of `Path`; fails the n-th time that it is used below a directory."""

    def __init__(self, whole: Callable[..., Any], below: Path, nth: int) -> None:
        self.whole, self.below, self.left = whole, below, nth

    def __get__(self, path: Path, _: type) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if path.is_relative_to(self.below):
                self.left -= 1
                if self.left == 0:
                    raise OSError(errno.EIO, "Input/output error", str(path))
            return self.whole(path, *given, **named)

        return call


def keep_house(path: Path) -> None:
    with diskstream.open(path, **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": "1"})
        stream.info()
        store.seal()
        store.compact()
        store.exists("y")
        store.verify()


class FailingOpen:
    """Stands in for `os.fstat`; fails the n-th time that it is used for a file below a directory."""

    def __init__(self, below: Path, nth: int) -> None:
        self.whole, self.below, self.left = os.fstat, below, nth

    def __call__(self, fd: int) -> os.stat_result:
        if Path(f"/proc/self/fd/{fd}").readlink().is_relative_to(self.below):
            self.left -= 1
            if self.left == 0:
                raise OSError(errno.EIO, "Input/output error")
        return self.whole(fd)


class FailingListing:
    """Stands in for `os.scandir`; fails the n-th time that it is used below a directory."""

    def __init__(self, below: Path, nth: int) -> None:
        self.whole, self.below, self.left = os.scandir, below, nth

    def __call__(self, folder: Path) -> Any:
        if Path(folder).is_relative_to(self.below):
            self.left -= 1
            if self.left == 0:
                raise OSError(errno.EIO, "Input/output error")
        return self.whole(folder)


@pytest.mark.parametrize(("function", "stand_in"), [("fstat", FailingOpen), ("scandir", FailingListing)])
def test_whatever_look_at_an_open_file_or_a_folder_fails_the_error_is_ours(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    stand_in: type[FailingOpen] | type[FailingListing],
) -> None:
    build(tmp_path / "original")
    errors, nth, left = 0, 0, 0
    while left <= 0:
        nth += 1
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
        shutil.copytree(tmp_path / "original", tmp_path / "s")
        failing = stand_in(tmp_path / "s", nth)
        with monkeypatch.context() as patch:
            patch.setattr(os, function, failing)
            try:
                keep_house(tmp_path / "s")
            except StorageError as error:
                assert error.errno == errno.EIO
                errors += 1
        left = failing.left
    assert errors > 5
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert store.verify().ok


def test_whatever_look_at_a_name_fails_the_error_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "original")
    whole, errors, nth = Path.stat, 0, 0
    while True:
        nth += 1
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
        shutil.copytree(tmp_path / "original", tmp_path / "s")
        failing = Failing(whole, tmp_path / "s", nth)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", failing)
            try:
                keep_house(tmp_path / "s")
            except StorageError as error:
                assert error.errno == errno.EIO  # any other error is what this looks for
                errors += 1
        if failing.left > 0:
            break
    assert errors > 5
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert rows(store.stream("x").range())
        assert store.verify().ok


@pytest.mark.parametrize("look", [looks.is_there, looks.is_file, looks.is_folder, looks.is_link])
def test_what_a_disk_says_nothing_of_is_not_taken_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Path], bool]
) -> None:
    """From Python 3.14 on it was: those of `Path` say so whatever kept them from looking."""
    assert not look(tmp_path / "missing")
    (tmp_path / "file").touch()
    assert not look(tmp_path / "file" / "below")
    (tmp_path / "round").symlink_to("round")
    assert look(tmp_path / "round") == (look is looks.is_link)
    say_nothing_of_errors(monkeypatch)
    monkeypatch.setattr(Path, "stat", Failing(Path.stat, tmp_path, 1))
    with pytest.raises(StorageError, match=r"could not look at .*Input/output error"):
        look(tmp_path / "file")


def test_a_roll_whose_end_nobody_can_see_leaves_the_log_to_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.14 on it was taken for one that had not happened: what was added next went to the log before, of
    which the next opening does not know."""

    class Renamed(Files):
        fails = False

        def rename(self, source: Path, target: Path) -> None:
            super().rename(source, target)
            if self.fails and source.name.endswith(".log.tmp"):
                raise StorageError(str(source), "rename", errno.EIO, "Input/output error")

    disk, added = Renamed(), []
    with diskstream.open(tmp_path / "s", files=disk, **SMALL) as store:
        stream = store.stream("x")
        added.append(stream.add({"n": "1"}))
        with monkeypatch.context() as patch:
            say_nothing_of_errors(patch)
            whole = Path.stat

            def failing(path: Path, **named: Any) -> os.stat_result:
                if path.name == "00000002.log":
                    raise OSError(errno.EIO, "Input/output error", str(path))
                return whole(path, **named)

            patch.setattr(Path, "stat", failing)
            disk.fails = True
            with pytest.raises(StorageError):
                log_of(store).roll()
            disk.fails = False
        added.append(stream.add({"n": "2"}))
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert [entry.id for entry in store.stream("x")] == added
        assert store.verify().ok


def test_a_file_whose_owner_could_not_be_read_is_left_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = build(tmp_path / "s")["x"].live
    folder, whole = tmp_path / "s" / "streams" / "x", files.reading
    strange = folder / "00000001.g99.seg"
    shutil.copy(next(folder.glob("*.seg")), strange)

    def failing(path: Path) -> Any:
        if path.suffix == ".seg":
            raise OSError(errno.EIO, "Input/output error", str(path))
        return whole(path)

    with diskstream.open(tmp_path / "s", **SMALL) as store:
        with monkeypatch.context() as patch:
            patch.setattr(recovery, "reading", failing)
            len(store.stream("x"))
        found = [finding for report in store.recoveries for finding in report.findings]
        assert [(finding.kind, finding.path) for finding in found] == [("unknown", strange)]
        assert strange.exists()
        assert rows(store.stream("x").range()) == there
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert rows(store.stream("x").range()) == there
        assert not strange.exists()
        assert [path.name[: len(strange.name)] for path in (folder / "quarantine").iterdir()] == [strange.name]


def test_an_opening_reads_no_segment_that_is_as_the_log_lists_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        for number in range(300):
            store.stream("x").add({"n": number})
        store.seal()
    whole, read = files.reading, list[Path]()

    def reading(path: Path) -> Any:
        read.append(path)
        return whole(path)

    monkeypatch.setattr(recovery, "reading", reading)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        segments = store.stream("x").info().segments
    assert segments > 5
    assert len([path for path in read if path.suffix == ".seg"]) == 1, "one says whose stream it is"


def test_a_page_that_could_not_be_opened_is_not_locked_by_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "s")

    def failing(path: Path) -> None:
        raise StorageError(str(path), "look at", errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(page, "status", failing)
        with pytest.raises(StorageError) as kept:
            diskstream.open(tmp_path / "s", **SMALL)
    opened = threading.Thread(target=lambda: diskstream.open(tmp_path / "s", **SMALL).close(), daemon=True)
    opened.start()
    opened.join(LIMIT_S)
    assert not opened.is_alive(), "it waits for a lock that nobody holds"
    assert kept.value.errno == errno.EIO


def test_a_view_that_could_not_be_opened_is_not_kept_open_by_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: View) -> int:
        raise StorageError(str(tmp_path), "look at", errno.EIO, "Input/output error")

    view = View(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(View, "_data_inode", failing)
        with pytest.raises(StorageError) as kept:
            view.read(lambda _: None)
    assert view.read(lambda _: "read") == "read"
    assert kept.value.errno == errno.EIO
    view.close()


def test_a_directory_that_cannot_be_asked_for_its_status_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a plain `OSError`, and the next opening is as if nothing had been."""
    build(tmp_path / "s")
    place = tmp_path / "s" / "streams" / "x"
    whole = os.fstat

    def failing(fd: int) -> os.stat_result:
        if Path(f"/proc/self/fd/{fd}").readlink() == place:
            raise OSError(errno.EIO, "Input/output error")
        return whole(fd)

    with diskstream.open(tmp_path / "s", **SMALL) as store:
        with monkeypatch.context() as patch:
            patch.setattr("diskstream.engine.whereabouts.os.fstat", failing)
            with pytest.raises(StorageError, match="streams/x"):
                store.stream("x").add({"n": "1"})
        assert store.stream("x").add({"n": "1"}) == store.stream("x").last_id()


def test_a_page_that_cannot_be_locked_for_oneself_alone_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a plain `OSError`, without the name of a file: of a `close`, and of the use of another stream."""
    whole = fcntl.fcntl

    def failing(fd: int, command: int, lock: bytes) -> object:
        if struct.unpack_from("h", lock)[0] == fcntl.F_WRLCK:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        return whole(fd, command, lock)

    store = diskstream.open(tmp_path / "s", **SMALL)
    store.stream("x").add({"n": "1"})
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "fcntl", failing)
        with pytest.raises(StorageError, match=r"could not lock .*ctl"):
            store.close()
    with diskstream.open(tmp_path / "s", **SMALL) as again:
        assert len(again.stream("x")) == 1
        assert again.verify().ok


class Unclosed(io.FileIO):
    """A file of which the system says only as it is closed that something was not written."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            raise OSError(errno.EIO, "Input/output error")


def test_a_file_that_cannot_be_closed_counts_as_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system of FUSE may tell of it then. It was a plain `OSError`."""
    monkeypatch.setattr("diskstream.engine.files.io.FileIO", Unclosed)
    with (
        pytest.raises(StorageError, match=r"could not close .*/a: Input/output error"),
        Files().create(tmp_path / "a") as new,
    ):
        new.write(b"1")
        new.sync()


@pytest.mark.parametrize("call", ["flock", "close"])
def test_a_page_that_cannot_be_unlocked_or_closed_goes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The error was a plain `OSError`, and what was to be closed behind the page stayed open."""
    failed: list[str] = []
    module = fcntl if call == "flock" else os
    whole = getattr(module, call)

    def failing(fd: int, *operation: int) -> None:
        name = str(Path(f"/proc/self/fd/{fd}").readlink())
        if name.endswith("/x/ctl") and operation in ((), (fcntl.LOCK_UN,)):
            failed.append(name)
            if call == "close":
                whole(fd)
            raise OSError(errno.EIO, "Input/output error")
        whole(fd, *operation)

    store = diskstream.open(tmp_path / "s", **SMALL)
    store.stream("x").add({"n": 1})
    log = log_of(store)
    with monkeypatch.context() as patched:
        patched.setattr(module, call, failing)
        store.close()
    assert failed
    assert log.has_let_go
    with diskstream.open(tmp_path / "s", **SMALL) as again:
        assert len(again.stream("x")) == 1
        assert again.recoveries == []
