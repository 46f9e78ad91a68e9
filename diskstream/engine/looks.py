"""Looking at names on a disk, which may fail as reading and writing may: then it is a `StorageError`, too.

What is not there is an answer, not a failure: `FileNotFoundError` passes.
"""

import os
from pathlib import Path

from diskstream.engine.files import wrapped

__all__ = ["children", "is_folder", "is_link", "is_there", "status"]


def children(folder: Path) -> list[Path]:
    """What is in a folder, in order.

    Raises:
        FileNotFoundError: it is gone.
        StorageError: it cannot be listed.
    """
    with wrapped(folder, "list"):
        return sorted(folder.iterdir())


def is_there(path: Path) -> bool:
    """Whether there is anything of that name.

    Raises:
        StorageError: nobody can say.
    """
    with wrapped(path, "look at"):
        return path.exists()


def is_folder(path: Path) -> bool:
    """Whether there is a folder of that name.

    Raises:
        StorageError: nobody can say.
    """
    with wrapped(path, "look at"):
        return path.is_dir()


def is_link(path: Path) -> bool:
    """Whether there is a symbolic link of that name.

    Raises:
        StorageError: nobody can say.
    """
    with wrapped(path, "look at"):
        return path.is_symlink()


def status(path: Path) -> os.stat_result:
    """What the file system says of a file.

    Raises:
        FileNotFoundError: it is gone.
        StorageError: nobody can say.
    """
    with wrapped(path, "look at"):
        return path.stat()
