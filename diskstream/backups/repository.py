"""The directory of a store's backups: whose it is, who works in it, what is in it."""

import contextlib
import fcntl
import json
import os
import re
import secrets
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Final, Self

from diskstream.backups.manifest import NAME as MANIFEST
from diskstream.backups.manifest import Header, read_header, read_manifest
from diskstream.errors import DiskstreamError, NewerFormatError, NotAStoreError, StorageError
from diskstream.store_files import Files, store_uuid
from diskstream.system_calls import (
    followed,
    is_folder,
    is_there,
    lock_now,
    make_folders,
    open_regular,
    read_small,
    wrapped,
)

__all__ = [
    "Backup",
    "BackupError",
    "BackupRemovedError",
    "Repository",
    "find_backup",
    "holds_backups",
    "is_backup",
    "owner_of",
]

FORMAT: Final = 1
_DESCRIPTION: Final = "backups.json"
_MAX_DESCRIPTION_BYTES: Final = 1 << 20
_LOCK: Final = "lock"
_NAME: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
_UNFINISHED, _GONE = ".new-", ".gone-"
_NO_DESCRIPTION: Final = (
    "each backup in it can be verified and restored by its own directory; make new ones in another directory"
)
# So many backups are named where none is of what is asked.
_TOLD: Final = 3
# What the file system itself may have put into an empty one.
_OF_THE_SYSTEM: Final = frozenset({"lost+found"})


class BackupError(DiskstreamError):
    """A directory of backups, or a backup, is not what it should be, or is in use.

    Attributes:
        hint: what to do, or None.
    """

    def __init__(self, where: Path, what: str, hint: str | None = None) -> None:
        super().__init__(f"{where}: {what}")
        self.where, self.hint = where, hint


class BackupRemovedError(BackupError):
    """Somebody removes a backup just now, or has removed it."""


@dataclass(frozen=True)
class Backup:
    """A backup that is complete.

    Attributes:
        path: its directory, which is a store to be opened for reading only.
        header: what its manifest says of it as a whole; None where that cannot be read.
        fault: why not.
        others: where it was chosen among several, the newest one of each other directory that the store has had, or a
            copy of it: see `find_backup`.
    """

    path: Path
    header: Header | None
    fault: str = ""
    others: tuple[Self, ...] = ()

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def patterns(self) -> tuple[str, ...]:
        """Of streams, where it is of some only; none where that cannot be read."""
        return () if self.header is None else self.header.patterns

    @property
    def place(self) -> str:
        """The directory of the store that it is of, as text; empty where it is not noted, or cannot be read."""
        return "" if self.header is None else _shown((self.header.place,))

    @contextlib.contextmanager
    def used(self, *, alone: bool = False) -> Iterator[None]:
        """Keeps it from being removed meanwhile; `alone`: from being used, too.

        Raises:
            BackupRemovedError: somebody removes it, or has removed it.
            BackupError: somebody uses it.
        """
        try:
            with wrapped(self.path, "open"):
                fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise self._removed() from error
        try:
            if not lock_now(fd, self.path, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
                hint = "run this again when that has ended"
                if alone:
                    raise BackupError(self.path, "it is being read", hint)
                raise BackupRemovedError(self.path, "it is being removed", hint)
            if not self._is_there(fd):
                raise self._removed()
            yield
        finally:
            os.close(fd)

    def _removed(self) -> BackupRemovedError:
        return BackupRemovedError(self.path, "it was just removed", "diskstream backup ls lists those that are there")

    def _is_there(self, fd: int) -> bool:
        try:
            with wrapped(self.path, "look at"):
                return os.path.samestat(os.fstat(fd), self.path.stat())
        except FileNotFoundError:
            return False


def number_of(path: Path) -> int:
    """The number of a backup, from its name."""
    return int(path.name.rpartition("-")[2], 16)


def owner_of(path: Path) -> str:
    """What identifies the store in a directory.

    Raises:
        BackupError: there is none to be read.
    """
    try:
        return store_uuid(path)
    except (NotAStoreError, OSError) as error:
        raise BackupError(path, f"it is no store: its store.json cannot be read ({error})") from error


class Repository:
    """A directory of backups of one store."""

    def __init__(self, path: Path, store: str) -> None:
        self.path, self.store = path, store

    @classmethod
    def open(cls, path: Path) -> Self:
        """The directory of backups at `path`.

        Raises:
            BackupError: there is none.
            NewerFormatError: a later version made it.
        """
        description = path / _DESCRIPTION
        try:
            found = json.loads(read_small(description, _MAX_DESCRIPTION_BYTES))
            version, store = int(found["format"]), str(uuid.UUID(found["store"]))
        except FileNotFoundError:
            what = "it holds no backups" if is_folder(path) else "there is no such directory"
            hint = "diskstream backup create makes one there"
            if is_folder(path) and any(_NAME.fullmatch(each.name) for each in path.iterdir()):
                what, hint = f"its {_DESCRIPTION} is missing", _NO_DESCRIPTION
            if is_there(path / "store.json"):
                what = "it is a store, and holds no backups"
                hint = f"diskstream backup create DEST --dir {path} makes one of it; a Redis gets its streams by --dir"
            raise BackupError(path, what, hint) from None
        except OSError as error:
            raise BackupError(path, f"its {_DESCRIPTION} cannot be read: {error.strerror or error}") from error
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise BackupError(path, f"its {_DESCRIPTION} cannot be read ({error})", _NO_DESCRIPTION) from error
        if version > FORMAT:
            raise NewerFormatError(str(description), "the directory of backups", FORMAT, version)
        return cls(path, store)

    @classmethod
    def make(cls, path: Path, store: Path, files: Files) -> Self:
        """The same, made where the directory is missing or empty.

        Raises:
            BackupError: it is within the store, a backup or a directory of backups; it holds something else, or what is
                of another store.
            StorageError: the disk said no.
        """
        owner = owner_of(store)
        _check_apart(path, store)
        if not is_there(path / _DESCRIPTION):
            _check_free(path, files)
            with cls(path, owner).alone():
                if not is_there(path / _DESCRIPTION):
                    _describe(path, owner, files)
        made = cls.open(path)
        if made.store != owner:
            raise BackupError(
                path,
                f"it holds the backups of another store ({made.store}, and this is {owner})",
                "name another directory: each store has one of its own",
            )
        return made

    # --- who works in it ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lock of whoever adds or removes backups; it goes with its holder.

        Raises:
            BackupError: somebody has it.
        """
        place = self.path / _LOCK
        with wrapped(place, "open"):
            fd = open_regular(place, os.O_RDWR | os.O_CREAT)
        try:
            if not lock_now(fd, place):
                raise BackupError(
                    self.path, "another backup is being made or removed here", "run this again when that has ended"
                )
            yield
        finally:
            os.close(fd)

    # --- what is in it ------------------------------------------------------------------------------------------------

    def backups(self, *, whole: bool = False) -> list[Backup]:
        """All complete backups, the oldest first, by their numbers: a clock may have gone back between two.

        With `whole`, each manifest is read to its end, so that its header is what was written there for certain.
        """
        found = []
        for path in sorted(self._named(), key=number_of):
            try:
                found.append(Backup(path, read_manifest(path).header if whole else read_header(path)))
            except DiskstreamError as error:
                if is_there(path):  # else somebody removed it since it was listed
                    found.append(Backup(path, None, str(error)))
        return found

    def next_number(self) -> int:
        """The number of the next backup."""
        return max(map(number_of, self._named()), default=0) + 1

    def _named(self) -> list[Path]:
        with wrapped(self.path, "list"):
            return [path for path in self.path.iterdir() if _NAME.fullmatch(path.name)]

    def unfinished(self) -> list[Path]:
        """What killed backups have left."""
        return sorted(path for path in self.path.iterdir() if path.name.startswith(_UNFINISHED))

    def begin(self, files: Files) -> Path:
        """A hidden directory for a new backup."""
        fresh = self.path / f"{_UNFINISHED}{secrets.token_hex(8)}"
        files.mkdir(fresh)
        files.sync_dir(self.path)
        return fresh

    def finish(self, fresh: Path, header: Header, files: Files) -> Path:
        """Gives a backup, of which all is durable, its name: from now on it is one.

        Raises:
            StorageError: the disk said no. It has no name then: a power cut might take it back, when older ones were
                removed since it was there.
        """
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(header.made_ms // 1000))
        target = self.path / f"{stamp}-{header.number:08x}"
        files.rename(fresh, target)
        try:
            files.sync_dir(self.path)
        except StorageError:
            with contextlib.suppress(StorageError):  # what hindered this may hinder that
                files.rename(target, fresh)
            raise
        return target

    def remove(self, path: Path, files: Files) -> None:
        """Removes a backup, or what is left of one. Killed in between, `sweep` goes on."""
        hidden = self.path / f"{_GONE}{secrets.token_hex(8)}"
        files.rename(path, hidden)
        files.sync_dir(self.path)
        _remove(hidden)

    def sweep(self) -> None:
        """Removes what a killed removal has left."""
        for path in self.path.iterdir():
            if path.name.startswith(_GONE):
                _remove(path)


def _remove(path: Path) -> None:
    with wrapped(path, "remove"):
        rmtree(path)


def _check_free(path: Path, files: Files) -> None:
    """Makes the directory where it is missing.

    Raises:
        BackupError: it holds something else.
    """
    make_folders(path, files.mkdir, files.sync_dir)
    if not is_folder(path):
        raise BackupError(path, "it is a file", "name a directory")
    ours = (_LOCK, f"{_DESCRIPTION}.tmp")
    with wrapped(path, "list"):
        foreign = [
            entry.name for entry in path.iterdir() if entry.name not in _OF_THE_SYSTEM and entry.name not in ours
        ]
    if any(_NAME.fullmatch(name) for name in foreign):
        raise BackupError(path, f"its {_DESCRIPTION} is missing", _NO_DESCRIPTION)
    if foreign:
        raise BackupError(path, f"it holds something else ({min(foreign)})", "name an empty or a new directory")


def _describe(path: Path, owner: str, files: Files) -> None:
    temporary = path / f"{_DESCRIPTION}.tmp"
    files.unlink(temporary)  # of a process that was killed here
    with files.create(temporary) as new:
        new.write(json.dumps({"format": FORMAT, "store": owner}).encode() + b"\n")
        new.sync()
    files.rename(temporary, path / _DESCRIPTION)
    files.sync_dir(path)


def _check_apart(path: Path, store: Path) -> None:
    """Refuses a directory within the store, whatever it is called, and one within other backups.

    What lies in a backup is no file of its manifest, so that it fails `verify` from then on; and a `prune` of the
    directory around it is the end of what is in it.
    """
    ours = store.stat()
    resolved = followed(path)
    for folder in (resolved, *resolved.parents):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = folder.stat()
            if (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino):
                raise BackupError(path, f"it is within the store {store}", "name a directory elsewhere")
        if is_backup(folder):
            raise BackupError(path, f"it is within the backup {folder}", "name a directory elsewhere")
        if folder != resolved and holds_backups(folder):
            raise BackupError(
                path, f"it is within the directory of backups {folder}", "name that one, or a directory elsewhere"
            )


def holds_backups(path: Path) -> bool:
    """Whether a directory is one of backups, of whatever store.

    Raises:
        StorageError: nobody can say.
    """
    return is_there(path / _DESCRIPTION)


def is_backup(path: Path) -> bool:
    """Whether a directory is a backup, of whatever store.

    Raises:
        StorageError: nobody can say.
    """
    return is_there(path / MANIFEST)


def find_backup(path: Path, streams: Sequence[bytes] = ()) -> Backup:
    """The backup at `path`: its own directory, or that of several, of which the newest counts that is of what is asked.

    Args:
        path: the directory.
        streams: what is asked, by name; the whole store where there are none. A backup of some streams only stands for
            neither the store nor others; one that is named by its own directory is taken whatever it is of.

    Raises:
        BackupError: there is none; nobody can say whether a newer one is of what is asked: none stands for it; or a
            store and a copy of it are backed up there by turns, and nobody can say whose is meant.
        StorageError: the disk said no.
    """
    resolved = path.absolute()
    if not is_folder(resolved):
        raise BackupError(path, "there is no such backup", "diskstream backup ls lists those that are there")
    if _NAME.fullmatch(resolved.name) or is_backup(resolved):
        return Backup(resolved, read_header(resolved))
    found = Repository.open(path).backups()
    if not found:
        raise BackupError(path, "there is no backup in it yet", "diskstream backup create makes one")
    for backup in reversed(found):
        if backup.header is None:
            hint = "try again; where it stays so, name the backup that you want by its directory: backup ls lists them"
            raise BackupError(backup.path, f"nobody can say what it is of, and none is newer: {backup.fault}", hint)
        if backup.header.covers(streams):
            asked_for = [each for each in found if each.header is not None and each.header.covers(streams)]
            return replace(backup, others=_others(path, asked_for))
    asked = ", ".join(stream.decode("utf-8", "backslashreplace") for stream in streams) or "the whole store"
    there = ", ".join(f"{backup.name} ({_shown(backup.patterns)})" for backup in found[: -_TOLD - 1 : -1])
    raise BackupError(
        path, f"none of the backups in it is of {asked}", f"name one of them by its directory; the newest are {there}"
    )


def _others(path: Path, found: Sequence[Backup]) -> tuple[Backup, ...]:
    """Of backups, the oldest first, the newest one of each directory that is not the newest one's.

    A store that went on elsewhere, having been moved or restored, has its backups there behind those of where it was.
    Of two that both go on some come between those of the other.

    Raises:
        BackupError: so it is with that of the newest.
    """
    newest = found[-1]
    others: dict[str, Backup] = {}
    for backup in reversed(found if newest.place else []):
        if backup.place not in ("", newest.place):
            others.setdefault(backup.place, backup)
        elif backup.place and others:
            there = ", ".join(f"{each.name} of {each.place}" for each in (newest, *others.values()))
            hint = f"name one by its directory; the newest are {there}. Each store is best given a directory of its own"
            what = f"backups of {newest.place} and of {next(iter(others))} come by turns here, as of a store and a copy"
            raise BackupError(path, f"{what}: nobody can say whose is meant", hint)
    return tuple(others.values())


def _shown(patterns: tuple[str, ...]) -> str:
    return ", ".join(patterns).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
