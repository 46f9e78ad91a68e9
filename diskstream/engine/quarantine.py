"""The quarantine of a stream: what a repair touches is there, durably, before it is touched."""

import contextlib
from pathlib import Path

from diskstream.engine.files import Files, unless_done
from diskstream.engine.frames import read_all
from diskstream.engine.looks import is_link, is_there, refuse_link, status
from diskstream.errors import StorageError

__all__ = ["bring", "keep", "move", "room"]

_COPY_BYTES = 1 << 20


def _target(path: Path, place: Path) -> Path:
    """A name that says which file it was, and is the same when this is done again.

    What bears it already may be another file: inodes were others before a store was copied, and a copy that is kept
    here holds none. That one stays, too.
    """
    target = place / f"{path.name}-{status(path).st_ino:x}"
    while is_there(target) and not _is_same(path, target) and not _is_copy(path, target):
        target = target.with_name(target.name + "x")
    return target


def _is_copy(path: Path, other: Path) -> bool:
    """Whether a file has the bytes of another one."""
    if is_link(path) or is_link(other) or not (path.is_file() and other.is_file()):
        return False
    return path.stat().st_size == other.stat().st_size and read_all(path) == read_all(other)


def _is_same(path: Path, other: Path) -> bool:
    """Whether two names are of one file.

    Raises:
        FileNotFoundError: the first is of none.
    """
    found = status(path)
    if is_link(other) or not is_there(other):  # a link there is no name of the file: it would lead nowhere
        return False
    kept = status(other)
    return (found.st_dev, found.st_ino) == (kept.st_dev, kept.st_ino)


def room(place: Path, files: Files) -> None:
    """Makes the quarantine, durably; of one that is there, who made it may have been killed before it was durable.

    Raises:
        StorageError: it is a symbolic link, or the disk said no.
    """
    refuse_link(place)
    files.mkdir(place)
    files.sync_dir(place.parent)


def keep(path: Path, place: Path, files: Files) -> Path:
    """Gives a file a second name in the quarantine, or a copy where there are no second names. Returns it.

    The bytes are those of the file, wherever it goes: what takes its place has bytes of its own.

    Raises:
        StorageError: the disk said no; nothing was changed.
    """
    room(place, files)
    target = _target(path, place)
    if not is_there(target):
        try:
            files.link(path, target)
        except FileExistsError:
            pass
        except StorageError:
            _copy(path, target, files)
    files.sync_dir(place)
    return target


def bring(path: Path, target: Path, files: Files) -> None:
    """Puts a copy of a file where it belongs, durably, and leaves the file: a link would let two names be written to.

    Raises:
        StorageError: the disk said no; there is nothing at `target`.
    """
    _copy(path, target, files)
    files.sync_dir(target.parent)


def _copy(path: Path, target: Path, files: Files) -> None:
    data, _ = read_all(path)
    temporary = target.with_name(target.name + ".tmp")
    files.unlink(temporary)
    with unless_done(files, temporary):
        with files.create(temporary) as new:
            for at in range(0, len(data), _COPY_BYTES):
                new.write(data[at : at + _COPY_BYTES])
            new.sync()
        files.rename(temporary, target)


def move(path: Path, place: Path, files: Files) -> Path:
    """Moves a file or directory into the quarantine. Returns its new place."""
    room(place, files)
    target = _target(path, place)
    with contextlib.suppress(FileNotFoundError):
        if _is_same(path, target):  # kept before: renaming one name of a file to another one of its names does nothing
            files.sync_dir(place)
            files.unlink(path)
        else:
            files.rename(path, target)
    files.sync_dir(place)
    files.sync_dir(path.parent)
    return target
