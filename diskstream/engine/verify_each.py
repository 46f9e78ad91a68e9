"""Reading one stream of a store after another, and by its new name what is renamed before it is read, or meanwhile."""

import contextlib
import copy
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from diskstream.engine import replacing, stream_folders
from diskstream.engine.verify import COUNTED, VerifyReport, unless_removed, verify_directory
from diskstream.errors import StorageError

__all__ = ["each_stream"]

_FOLLOWED = 10  # times

# Device and inode of a stream's directory, which a rename leaves as they are.
_Identity = tuple[int, int]
_Places = dict[bytes, tuple[Path, _Identity | None]]


def each_stream(
    streams: Path,
    report: VerifyReport,
    read: Callable[[bytes, Path], None],
    *,
    is_wanted: Callable[[bytes], bool] = lambda _: True,
    place_of: Callable[[bytes], Path] | None = None,
) -> None:
    """Reads the streams that are there now; one that goes meanwhile is no fault, and one that is renamed is followed.

    Args:
        streams: the directory that they are in.
        report: what is found goes here.
        read: reads a stream by its name and its directory. It raises FileNotFoundError where that is not there.
        is_wanted: whether to read the stream of that name; a new name is not asked about.
        place_of: where a stream is.
    """
    left = {name: place for name, place in _listed(streams, place_of).items() if is_wanted(name)}
    for _ in range(_FOLLOWED):
        gone: dict[_Identity, dict[str, int]] = {}
        for name, (folder, identity) in left.items():
            before = copy.copy(report)
            if not _is_read(name, folder, report, read) and identity is not None:
                gone[identity] = {each: getattr(report, each) - getattr(before, each) for each in COUNTED}
        if not gone:
            return
        left = {name: place for name, place in _listed(streams, place_of).items() if place[1] in gone}
        for each, count in [each for _, of in left.values() if of is not None for each in gone.pop(of).items()]:
            setattr(report, each, getattr(report, each) - count)  # it is counted where it is read
    for folder, _ in left.values():
        report.streams += 1
        report.notes.append(f"{folder}: renamed again and again, so it was not read")


def _listed(streams: Path, place_of: Callable[[bytes], Path] | None) -> _Places:
    found: _Places = {}
    for name in stream_folders.list_streams(streams):
        folder = replacing.place_of(streams, name) if place_of is None else place_of(name)
        identity = None
        with contextlib.suppress(OSError):
            status = folder.stat()
            identity = status.st_dev, status.st_ino
        found[name] = folder, identity
    return found


def _is_read(name: bytes, folder: Path, report: VerifyReport, read: Callable[[bytes, Path], None]) -> bool:
    """Whether the stream was still there in the end; what was found of another does not count."""
    try:
        return unless_removed(folder, report, partial(read, name, folder))
    except FileNotFoundError as error:
        verify_directory(name, folder, report, StorageError(os.fspath(folder), "read", 2, str(error)))
        return True
