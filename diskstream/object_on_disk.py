"""An object on a disk: whole under its name and durable, or not there.

::

    .NAME.<16 hex digits>.tmp    written, flushed ---> NAME, which was free ---> its folder flushed
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from pathlib import Path
from typing import Protocol

from diskstream.system_calls import give, give_folder

__all__ = ["HALF", "Source", "make_folders", "put_file"]

# What a put writes to before it has its name; no path of an object looks like it.
HALF = re.compile(r"\.[A-Za-z0-9_-][A-Za-z0-9._-]*\.[0-9a-f]{16}\.tmp")
# What is put on a disk is as hidden from others as the store that it comes from.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_FILE_MODE, _DIRECTORY_MODE = 0o640, 0o750
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
_AT_ONCE = 1 << 20


class Source(Protocol):
    """What is put: a file, or what reads as one."""

    def seek(self, offset: int, /) -> object:
        """Goes to a place in it."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""


def put_file(target: Path, source: Source, *, below: Path) -> None:
    """Writes a file from where `source` stands to its end; the folders that it lacks are made, but only `below` one.

    Raises:
        FileExistsError: there is such a file already, or what is no folder where one must be.
        FileNotFoundError: its folder went meanwhile.
        OSError: the disk refuses. What was half written is removed in each case.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        make_folders(target.parent, below)
        with os.fdopen(os.open(temporary, _NEW, _FILE_MODE), "wb") as sink:
            give(sink.fileno(), temporary)
            while data := source.read(_AT_ONCE):
                sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        _name(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(target.parent)


def _name(temporary: Path, target: Path) -> None:
    """Gives a file its name, which must be free; also where there are no hard links."""
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if target.exists():
            raise FileExistsError(target) from None
        temporary.rename(target)


def make_folders(folder: Path, below: Path | None = None) -> None:
    """Makes a folder, and those it lies in, as far as they are `below` one; their names are durable on return.

    Also of those that are there: who made them may have been killed before he flushed that, or be about to.
    """
    folders = [each for each in (folder, *folder.parents) if below is None or each.is_relative_to(below)]
    there = next((at for at, each in enumerate(folders) if each.exists()), len(folders))
    for each in reversed(folders[:there]):
        each.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        give_folder(each)
        _sync(each.parent)
    # Of a place itself, where it was there, others may have made what it lies in, which may be no file system's even.
    around, passed = (folders[there : there + 1], OSError) if below is None else (folders[there:], PermissionError)
    for each in around:
        with contextlib.suppress(passed):
            _sync(each.parent)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
