"""Files that are there whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["flush_folder", "landing"]


@contextmanager
def landing(target: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which gets the name `target` when it is complete and flushed; after an error it is gone.

    Raises:
        OSError: as the file system says.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
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
