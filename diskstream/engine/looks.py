"""Looking at names on a disk, which may fail as reading and writing may: then it is a `StorageError`, too.

What is not there is an answer, not a failure: `FileNotFoundError` passes. `Path.glob` and `os.walk` are not for this: a
folder that cannot be listed is an empty one to them (to `Path.glob` from Python 3.13 on). Nor are `Path.exists` and the
like, which say from Python 3.14 on that nothing is there whatever kept them from looking.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from diskstream.engine.descriptors import listing
from diskstream.engine.files import wrapped
from diskstream.errors import StorageError

__all__ = [
    "all_below",
    "children",
    "followed",
    "is_file",
    "is_folder",
    "is_link",
    "is_there",
    "named",
    "names_in",
    "refuse_link",
    "refuse_links",
    "status",
]

# What says that there is nothing of a name: a folder on the way to it is none, say, or a link leads round in a circle.
_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP})
_A_LINK = "it is a symbolic link, and a store reaches nothing through one: put the folder there, or mount it there"


def names_in(folder: Path) -> list[str]:
    """The names of what is in a folder, in order. Of the thousands of files that a stream may have, paths cost more.

    Raises:
        FileNotFoundError: it is gone.
        StorageError: it cannot be listed.
    """
    with wrapped(folder, "list"), listing(folder) as entries:
        return sorted(entry.name for entry in entries)


def children(folder: Path) -> list[Path]:
    """What is in a folder, in order.

    Raises:
        FileNotFoundError: it is gone.
        StorageError: it cannot be listed.
    """
    return [folder / name for name in names_in(folder)]


def named(folder: Path, suffix: str) -> list[Path]:
    """What is in a folder and has names that end so, in order; nothing where there is no such folder.

    Raises:
        StorageError: it cannot be listed.
    """
    try:
        return [folder / name for name in names_in(folder) if name.endswith(suffix)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def all_below(folder: Path) -> Iterator[Path]:
    """What is in a folder and in those in it, each folder before what is in it; nothing through symbolic links.

    Raises:
        StorageError: one of them cannot be listed.
    """
    for path in named(folder, ""):
        yield path
        if not is_link(path) and is_folder(path):
            yield from all_below(path)


def _kind(path: Path, *, follows: bool = True) -> int:
    """The mode of what has a name; 0 where nothing has it."""
    with wrapped(path, "look at"):
        try:
            return path.stat(follow_symlinks=follows).st_mode
        except ValueError:  # no file can have such a name
            return 0
        except OSError as error:
            if error.errno not in _NOTHING:
                raise
            return 0


def is_there(path: Path) -> bool:
    """Whether there is anything of that name.

    Raises:
        StorageError: nobody can say.
    """
    return _kind(path) != 0


def is_file(path: Path) -> bool:
    """Whether there is a regular file of that name.

    Raises:
        StorageError: nobody can say.
    """
    return stat.S_ISREG(_kind(path))


def is_folder(path: Path) -> bool:
    """Whether there is a folder of that name.

    Raises:
        StorageError: nobody can say.
    """
    return stat.S_ISDIR(_kind(path))


def is_link(path: Path) -> bool:
    """Whether there is a symbolic link of that name.

    Raises:
        StorageError: nobody can say.
    """
    return stat.S_ISLNK(_kind(path, follows=False))


def followed(path: Path) -> Path:
    """The path without links in it. One that leads round in a circle stays, where `Path.resolve` raises an error."""
    return Path(os.path.realpath(path))


def refuse_link(path: Path) -> None:
    """Makes sure that what is written below a folder of a store is written there.

    Raises:
        StorageError: it is a symbolic link.
    """
    if is_link(path):
        raise StorageError(str(path), "use", errno.ELOOP, _A_LINK)


def refuse_links(folder: Path, named: re.Pattern[str]) -> None:
    """The same for what is in a folder and is `named` so, at the price of listing it.

    Raises:
        StorageError: there is a symbolic link in it.
    """
    with wrapped(folder, "list"), listing(folder) as entries:
        links = sorted(entry.name for entry in entries if entry.is_symlink() and named.fullmatch(entry.name))
    if links:
        raise StorageError(str(folder / links[0]), "use", errno.ELOOP, _A_LINK)


def status(path: Path) -> os.stat_result:
    """What the file system says of a file.

    Raises:
        FileNotFoundError: it is gone.
        StorageError: nobody can say.
    """
    with wrapped(path, "look at"):
        return path.stat()
