"""Where a restored store comes to be: in a hidden directory beside its place, which it takes when it is whole."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

from diskstream.backups.repository import BackupError
from diskstream.errors import StorageError
from diskstream.store_files import Files, check_filesystem
from diskstream.system_calls import followed, is_folder, is_link, is_there, lock_now, make_folders, wrapped

__all__ = ["hidden", "lock", "must_be_empty", "put_in_place"]

_MAX_NAME_BYTES = 255  # of Linux's file systems


def must_be_empty(target: Path) -> None:
    """Refuses a target that is not free."""
    if is_link(target):  # no directory takes the place of one
        raise BackupError(target, "it is a symbolic link", f"name the directory that it leads to: {followed(target)}")
    if is_there(target) and (not is_folder(target) or any(target.iterdir())):
        raise BackupError(target, "there is something already", "name a directory that is empty or missing")


def _hidden_name(name: str) -> str:
    """The same each time, so that what was killed is found; and a name, however long that of the target is."""
    short = f".{name}.restoring"
    if len(os.fsencode(short)) <= _MAX_NAME_BYTES:
        return short
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()}.restoring"


@contextlib.contextmanager
def hidden(target: Path) -> Iterator[Path]:
    """An empty hidden directory beside the target; what a killed restore has left in it goes.

    Raises:
        BackupError: the target is not free, or somebody else is restoring to it.
    """
    must_be_empty(target)
    with _parents(target), _locked(target) as fresh:
        try:
            yield fresh
        except BaseException:
            rmtree(fresh, ignore_errors=True)
            raise


@contextlib.contextmanager
def _parents(target: Path) -> Iterator[None]:
    """Makes the folders above the target; behind a failure those go again that it made, if nothing else is in them."""
    files = Files()
    made: list[Path] = []
    try:
        make_folders(target.parent, files.mkdir, files.sync_dir, made.append)
        yield
    except BaseException:
        with contextlib.suppress(StorageError):
            for folder in reversed(made):
                files.rmdir(folder)
        raise


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[Path]:
    """The hidden directory, for one restore at a time."""
    check_filesystem(target.parent)
    fresh = target.parent / _hidden_name(target.name)
    Files().mkdir(fresh)
    with wrapped(fresh, "open"):
        fd = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        lock(fd, target)
        # What is in it goes, and what comes into it is believed. Who owns the folder above owns what root makes there.
        if os.fstat(fd).st_uid not in (os.geteuid(), 0, *_whose(target.parent)):
            raise BackupError(fresh, "it is somebody else's", "remove it, or restore to another directory")
        for path in fresh.iterdir():
            with wrapped(path, "remove"):
                rmtree(path) if is_folder(path) else path.unlink()
        yield fresh
    finally:
        os.close(fd)


def _whose(folder: Path) -> tuple[int, ...]:
    with wrapped(folder, "look at"):
        return (folder.stat().st_uid,) if os.geteuid() == 0 else ()


def lock(fd: int, target: Path) -> None:
    """Keeps other restores from the target for as long as its descriptor is open.

    Raises:
        BackupError: somebody else has it.
        StorageError: it cannot be locked.
    """
    if not lock_now(fd, target):
        raise BackupError(target, "somebody else is restoring to it", "run this again when that has ended")


def put_in_place(fresh: Path, target: Path) -> None:
    """Gives what is whole its place.

    Raises:
        BackupError: there is something by now, or no directory can take that place.
        StorageError: the disk said no.
    """
    files = Files()
    try:
        files.rename(fresh, target)
    except (FileExistsError, StorageError) as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise BackupError(
                target, "there is something by now", "name a directory that is empty or missing"
            ) from error
        if error.errno in (errno.EBUSY, errno.EXDEV):
            raise BackupError(
                target, "it is where a file system is mounted", "name a directory below it, which need not be there"
            ) from error
        raise
    try:
        files.sync_dir(target.parent)
    except StorageError:
        with contextlib.suppress(StorageError):  # who is told that it failed finds nothing there
            files.rename(target, fresh)
        raise
