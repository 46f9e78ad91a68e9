"""A disk, or a system, that says no while segments are moved or swept."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diskstream import CorruptionError, StorageError, Stream
from diskstream.cold import bring_back, move_out, sweep
from diskstream.cold_segments import needed_paths
from diskstream.engine import cold, cold_moving, files, names
from diskstream.engine.files import open_regular
from diskstream.engine.looks import children
from diskstream.store_files import directory_of
from tests.cold.world import ENTRIES, filled, opened, rows, where
from tests.engine.sample import log_of
from tests.engine.stand_ins import unlisted


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    with opened(tmp_path / "store") as store:
        yield filled(store)


def test_stubs_that_may_not_be_listed_are_not_taken_for_none(stream: Stream, tmp_path: Path) -> None:
    """A folder that this user may not read was passed over, and the objects of its stubs counted as nobody's."""
    move_out(stream, f"file://{tmp_path}/place", older_than_ms=0)
    needed = needed_paths(tmp_path / "store")
    folder = tmp_path / "store" / "streams" / "x"
    with unlisted(folder, errno.EACCES), pytest.raises(StorageError, match="streams/x"):
        needed_paths(tmp_path / "store")
    assert sweep(stream._store, f"file://{tmp_path}/place", older_than_ms=0).removed == []
    assert needed_paths(tmp_path / "store") == needed


def test_a_stream_that_goes_while_stubs_are_listed_hides_those_of_no_other(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list ended there: what the stubs of all streams behind it stand for counted as nobody's."""
    move_out(stream, f"file://{tmp_path}/place", older_than_ms=0)
    streams = tmp_path / "store" / "streams"
    needed = needed_paths(tmp_path / "store")
    (streams / "going").mkdir()

    def gone(folder: Path) -> list[Path]:
        if folder == streams / "going":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        return children(folder)

    monkeypatch.setattr(cold_moving, "children", gone)
    monkeypatch.setattr(cold_moving, "listing", lambda folder: contextlib.nullcontext(_going_first(folder)))
    assert needed_paths(tmp_path / "store") == needed


def _going_first(folder: Path) -> list[os.DirEntry[str]]:
    """A disk lists in an order of its own."""
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name != "going")


@pytest.mark.parametrize("folder", ["streams", "streams/x"])
def test_stubs_that_cannot_be_looked_for_are_not_taken_for_none(stream: Stream, tmp_path: Path, folder: str) -> None:
    """From Python 3.13 on they were: a repair then gave up what a missing stub stood for, as if nothing were cold."""
    move_out(stream, f"file://{tmp_path}/place", older_than_ms=0)
    streams, native = tmp_path / "store" / "streams", log_of(stream._store).native
    with unlisted(tmp_path / "store" / folder), pytest.raises(StorageError, match=f"could not list .*{folder}"):
        cold.is_used(streams, native)
    assert cold.is_used(streams, native)


def test_what_came_back_and_cannot_be_read_is_told_of(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a plain `OSError`."""
    move_out(stream, f"file://{tmp_path}/place", older_than_ms=0)
    before, whole = where(stream), open_regular

    def failing(path: Path, *given: Any) -> int:
        if path.suffix == ".tmp":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return whole(path, *given)

    with monkeypatch.context() as patch:
        patch.setattr(cold_moving, "open_regular", failing)
        with pytest.raises(StorageError, match=r"could not read .*\.tmp"):
            bring_back(stream)
    assert where(stream) == before
    assert not list((tmp_path / "store").rglob("*.tmp"))
    bring_back(stream)
    assert len(rows(stream)) == ENTRIES


def test_a_directory_that_cannot_be_locked_is_told_of(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a plain `OSError`, without the name of a file."""

    def failing(_fd: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    log = stream._log(create=False)
    assert log is not None
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", failing)
        with pytest.raises(StorageError, match=r"could not lock .*streams/x"), cold_moving.alone(log):
            pass
    move_out(stream, f"file://{tmp_path}/place", older_than_ms=0)


def test_a_stream_whose_name_cannot_be_read_keeps_what_it_may_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was on no list: what its log lists, and has neither file nor stub, was taken for nobody's, and removed."""
    name, place, whole = "a long name " * 20, f"file://{tmp_path}/place", files.reading
    with opened(tmp_path / "store") as store:
        stream = filled(store, name)
        moved = move_out(stream, place, older_than_ms=0).segments
        folder = store.path / "streams" / directory_of(name.encode())
        for stub in folder.glob("*.cold"):
            stub.unlink()  # `cold adopt` makes them anew

    def failing(path: Path) -> Any:
        if path == folder / "name":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return whole(path)

    with opened(tmp_path / "store") as store:
        with monkeypatch.context() as patch:
            patch.setattr(names, "reading", failing)
            with pytest.raises(CorruptionError, match="a stream whose name cannot be read"):
                sweep(store, place, older_than_ms=0)
        assert len(list((tmp_path / "place").rglob("*.seg"))) == len(moved)
        assert sweep(store, place, older_than_ms=0).needed == len(moved)
