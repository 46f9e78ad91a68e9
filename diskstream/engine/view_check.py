"""Whether the view of a store can be read, and where its rows stand: without LMDB, which a damaged one brings down."""

import fcntl
import os
import stat
import zlib
from pathlib import Path

from diskstream.engine.descriptors import means_are_short, opened
from diskstream.engine.looks import is_there
from diskstream.engine.view_pages import PagesDamaged, read_rows
from diskstream.errors import ReadOnlyError

__all__ = ["ViewState", "check", "is_obstructed", "is_row", "place_of", "to_be_removed", "unsound"]

ViewState = str  # "sound", "damaged", "in use", "not readable" or "missing"

_UUID_BYTES, _PLACE_BYTES, _KEY_BYTES = 16, 28, 45


def check(view: Path) -> ViewState:
    """What there is to say of the view in a directory, which is not changed.

    Nobody else may begin to write to it meanwhile, so it is locked; one that somebody has open is left alone. It is its
    owner's alone, where a group may read the logs: of what this user may not look at nothing is said.
    """
    if is_obstructed(view):
        return "damaged"
    try:
        return _read(view) if is_there(view / "data.mdb") else "missing"
    except (ReadOnlyError, PermissionError):
        return "not readable"


def _read(view: Path) -> ViewState:
    try:
        fd = opened(view / "users", os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        if means_are_short(error) or isinstance(error, PermissionError):
            raise
        fd = -1  # nobody has it open: all who do hold a lock on that file
    try:
        if fd >= 0:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "in use"
        return "sound" if all(is_row(key, value) for key, value in read_rows(view / "data.mdb")) else "damaged"
    except (PagesDamaged, OSError) as error:
        if means_are_short(error) or isinstance(error, PermissionError):
            raise
        return "damaged"
    finally:
        if fd >= 0:
            os.close(fd)


def is_obstructed(view: Path) -> bool:
    """Whether something that is no file stands in the place of one."""
    return any(map(_is_no_file, _files(view)))


def _files(view: Path) -> list[Path]:
    return [view / name for name in ("data.mdb", "lock.mdb", "users", "epoch")]


def _is_no_file(path: Path) -> bool:
    """Whether there is a directory, a symbolic link or the like, which is none of ours."""
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def to_be_removed(view: Path) -> list[Path]:
    """What of a damaged view must go, so that it is made anew."""
    return [path for path in _files(view) if path.name.endswith(".mdb") or _is_no_file(path)]


def is_row(key: bytes, value: bytes) -> bool:
    """Whether this is a place of a view or a chunk of rows, as its checksum says."""
    if len(key) == _UUID_BYTES:
        return len(value) == _PLACE_BYTES
    return len(key) == _KEY_BYTES and value[:4] == zlib.crc32(value[4:], zlib.crc32(key)).to_bytes(4, "little")


def place_of(view: Path, uuid: bytes) -> bytes | None:
    """What the view has of where a stream's rows stand; None where it has none, or somebody is writing it.

    Raises:
        PagesDamaged: the view cannot be read.
        OSError: nor can its file.
    """
    return next((value for key, value in read_rows(view / "data.mdb") if key == uuid), None)


def unsound(view: Path) -> bool:
    """Whether the files of a view that nobody has open must go: LMDB would fail on them, or a row is another one.

    Each row is looked at: where the key of one has changed, nobody who looks for it would come upon its checksum.
    """
    data = view / "data.mdb"
    if not os.path.lexists(data):
        return False
    try:
        return not all(is_row(key, value) for key, value in read_rows(data))
    except (PagesDamaged, OSError) as error:
        if means_are_short(error):
            raise
        return True
