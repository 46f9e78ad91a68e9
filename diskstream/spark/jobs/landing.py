"""Files that are there whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from diskstream.errors import ArgumentError
from diskstream.system_calls import is_folder, is_there, make_folders, wrapped

__all__ = ["check_landing", "flush_folder", "landing", "make_landing"]


def check_landing(*targets: Path | None) -> None:
    """Looks, before a job reads anything, whether files can land where they are to.

    Raises:
        ArgumentError: there is no such folder, or a folder has the name.
    """
    for target in targets:
        if target is not None and not target.parent.is_dir():
            raise ArgumentError(f"there is no directory {target.parent} to write {target.name} into: make it first")
        if target is not None and target.is_dir():
            raise ArgumentError(f"{target} is a directory: name a file in it")


def make_landing(folder: Path) -> None:
    """Makes a folder for files to land in, and those it lies in, as far as they are missing; their names are durable.

    Raises:
        ArgumentError: there is something else of that name.
        StorageError: the disk said no.
    """
    if is_there(folder) and not is_folder(folder):
        raise ArgumentError(f"{folder} is no directory: name one, or what is to be made")

    def make(each: Path) -> None:
        with wrapped(each, "make"):
            each.mkdir(exist_ok=True)

    def flush(each: Path) -> None:
        with wrapped(each, "flush"):
            flush_folder(each)

    make_folders(folder, make, flush)


@contextmanager
def landing(target: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which gets the name `target` when it is complete and flushed; after an error it is gone.

    Raises:
        StorageError: the disk said no.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    with wrapped(target, "write"):
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            flush_folder(target.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def flush_folder(folder: Path) -> None:
    """Makes new names in a folder durable.

    Raises:
        OSError: as the file system says.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
