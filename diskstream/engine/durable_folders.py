"""Folders with durable names, whoever made them."""

import errno
from collections.abc import Callable
from pathlib import Path

from diskstream.engine.looks import is_there, status
from diskstream.errors import ReadOnlyError, StorageError

__all__ = ["make_folders", "sync_above"]


def make_folders(
    folder: Path,
    mkdir: Callable[[Path], None],
    sync: Callable[[Path], None],
    on_made: Callable[[Path], object] = lambda _: None,
) -> None:
    """Makes a folder and those it lies in, as far as they are missing; all their names are durable on return.

    Whoever makes several flushes the name of each before it makes the next. So of those that a killed process, or one
    at work just now, has made only the innermost one can be without: that is flushed too, though it is there.

    Args:
        folder: the innermost one.
        mkdir: makes one; one that is there by now is fine.
        sync: makes the names in one durable.
        on_made: is told of each, before its name is durable.

    Raises:
        StorageError: the disk said no.
    """
    missing = [each for each in (folder, *folder.parents) if not is_there(each)]
    sync_above(missing[-1].parent if missing else folder, sync)
    for each in reversed(missing):
        mkdir(each)
        on_made(each)
        sync(each.parent)


def sync_above(folder: Path, sync: Callable[[Path], None]) -> None:
    """Makes the name of a folder durable that is there already, where this user may: see `make_folders`.

    Raises:
        StorageError: the disk said no.
    """
    if status(folder).st_dev != status(folder.parent).st_dev:
        return  # it is a disk by itself
    try:
        sync(folder.parent)
    except StorageError as error:
        # Who may not list a folder cannot flush it, and would have been told so on making this one in it; and some file
        # systems have nothing to flush (EINVAL).
        if not isinstance(error, ReadOnlyError) and error.errno != errno.EINVAL:
            raise
