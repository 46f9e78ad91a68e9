"""What LMDB maps of a view: its file, with as much address space as there is, and the slots of those who read it."""

import errno
import os
from pathlib import Path

import lmdb

from diskstream.engine.files import open_regular, wrapped
from diskstream.errors import DiskFullError, ReadOnlyError, StorageError, storage_error

__all__ = [
    "FIRST_MAP_BYTES",
    "MAX_MAP_BYTES",
    "MAX_READERS",
    "UNWRITABLE",
    "as_ours",
    "make_room_for_slots",
    "open_environment",
]

# Address space, not memory or disk: the file grows with what is in it. Rarely more is needed.
FIRST_MAP_BYTES = 64 << 30
MAX_MAP_BYTES = 1 << 44
# With so much a process can begin that may have little address space (RLIMIT_AS, ``ulimit -v``).
_LEAST_MAP_BYTES = 1 << 20
# Processes and threads that read the view at the same time: each needs a slot of 64 bytes.
MAX_READERS = 2048
# LMDB's file of them: what is before the first, and their size.
_BEFORE_SLOTS_BYTES, _SLOT_BYTES = 128, 64
_NO_SPACE = "the view is mapped, and this process finds no address space for more of it"
UNWRITABLE = (
    "groups with much pending need the view there, which is mounted for reading only or somebody else's: mend that, or "
    "close the store and remove the directory view, which is made anew"
)


def open_environment(path: Path, size_bytes: int) -> lmdb.Environment:
    """Opens the environment whose file has so many bytes, with as much address space as the process may have.

    Raises:
        OSError: there are too many open files.
        lmdb.Error: anything else.
    """
    map_bytes = max(FIRST_MAP_BYTES, 2 * size_bytes)
    least_bytes = max(_LEAST_MAP_BYTES, size_bytes)
    while True:
        try:
            return lmdb.open(
                str(path),
                map_size=map_bytes,
                max_readers=MAX_READERS,
                sync=False,
                metasync=False,
                readahead=False,
                mode=0o600,
                lib_version=0,  # the format of LMDB 0.9, whatever the environment says
            )
        except lmdb.MemoryError:
            if map_bytes <= least_bytes:
                raise
            map_bytes = max(map_bytes // 4, least_bytes)
        except lmdb.Error as error:
            code = getattr(error, "code", None)
            if code in (errno.EMFILE, errno.ENFILE):
                raise OSError(code, os.strerror(code), str(path)) from error  # as others say it
            raise


def make_room_for_slots(view: Path) -> None:
    """Gives the slots blocks, before LMDB maps them. It would leave them a hole: storing into one of a full disk ends
    in SIGBUS.

    Raises:
        DiskFullError: there is no room.
    """
    path = view / "lock.mdb"
    with wrapped(path, "make room for"):
        fd = open_regular(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(fd, 0, _BEFORE_SLOTS_BYTES + MAX_READERS * _SLOT_BYTES)
        finally:
            os.close(fd)
        os.close(open_regular(view / "data.mdb", os.O_RDWR | os.O_CREAT, 0o600))  # LMDB would make it root's


def as_ours(path: Path, error: lmdb.Error) -> StorageError:
    """What LMDB says of the view, as an error of ours."""
    if isinstance(error, lmdb.ReadonlyError):
        return ReadOnlyError(str(path), why=UNWRITABLE)
    if any(word in str(error).lower() for word in ("no space", "quota")):  # it may have no code
        return DiskFullError(str(path), "write the view in", 28, str(error))
    if isinstance(error, lmdb.MemoryError):
        return storage_error(str(path), "map the view in", errno.ENOMEM, _NO_SPACE)
    return StorageError(str(path), "use the view in", 5, str(error))
