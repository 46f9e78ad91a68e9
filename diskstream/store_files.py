"""The files of a store, for those above who keep and restore whole stores: kept for a while, copied, checked, cut."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from shutil import rmtree
from typing import Final

from diskstream.engine import lease, names, replacing, verify
from diskstream.engine.backup import (
    Copied,
    Cut,
    copy_file,
    cut_log,
    digest_file,
    find_cut,
    is_same,
    name_stream,
    uuid_of,
)
from diskstream.engine.directory import check_filesystem, check_makeable, refuse_backup, store_uuid
from diskstream.engine.files import Files, unless_done
from diskstream.engine.lease import Moment
from diskstream.engine.log import StreamMoved
from diskstream.engine.looks import is_there, names_in
from diskstream.engine.stream_folders import unreadable_names
from diskstream.engine.verify import Problem, VerifyReport
from diskstream.errors import CorruptionError, FormatError, PoisonedError, ReadOnlyError, StorageError
from diskstream.store import Store

__all__ = [
    "Copied",
    "Cut",
    "Files",
    "Moment",
    "Problem",
    "check_filesystem",
    "check_target",
    "copy_file",
    "cut_log",
    "digest_file",
    "directory_of",
    "find_cut",
    "holds_segments",
    "is_of_stream",
    "is_same",
    "is_sealed",
    "name_of",
    "name_stream",
    "nameless",
    "names_at_once",
    "pin",
    "store_uuid",
    "unless_done",
    "uuid_of",
    "verify_files",
]

directory_of: Final = names.encode_name
name_of: Final = names.decode_directory


def check_target(store: Path, name: bytes) -> None:
    """Refuses a store that a stream could not be added to, or be made at; only looks.

    Raises:
        LimitError: the stream's name is too long.
        NetworkFilesystemError, NotAStoreError: no store can be made there.
        ReadOnlyError: it is a backup.
        StorageError: it is below a file.
    """
    names.as_name(name)
    if is_there(store / "store.json"):
        refuse_backup(store)
    else:
        check_makeable(store)


def is_of_stream(name: str) -> bool:
    """Whether a file of this name may belong to what a stream is; its control page does not."""
    numbered = names.parse_file(name) or names.audit_number(name) or names.state_number(name)
    return name == "name" or numbered is not None


def is_sealed(name: str) -> bool:
    """Whether a file of this name, in a stream's directory, never changes."""
    parsed = names.parse_file(name)
    return names.audit_number(name) is not None or (parsed is not None and parsed[0] == "seg")


def nameless(store: Path) -> list[Path]:
    """Directories below a store's streams whose names cannot be read: they are on no list of streams.

    Raises:
        StorageError: the disk said no.
    """
    return unreadable_names(store / "streams")


def holds_segments(folder: Path) -> bool:
    """Whether a directory has files of a stream, as far as it can be listed."""
    try:
        return any(names.parse_file(name) is not None for name in names_in(folder))
    except FileNotFoundError:
        return False  # it was on its way out
    except StorageError:
        return True


def names_at_once(store: Store) -> list[bytes]:
    """The names of all streams at one moment: none is missed that is renamed while they are listed.

    Raises:
        ReadOnlyError: the store was opened read-only.
        StorageError: the disk said no.
    """
    with store._mutex, store._lock_names():  # in the order in which the store takes the two
        return store.streams(unfinished=True)


def pin(
    store: Store,
    streams: Iterable[bytes],
    *,
    name: str,
    ttl_s: float,
    unreadable: Iterable[Path],
    on_damage: Callable[[str, str], None],
) -> tuple[Path, dict[str, Moment]]:
    """Makes a lease, as `Store.lease`, but that takes no room: active logs are links too.

    How far they count is returned, by the names of the streams' directories. Damaged streams are as they are:
    `on_damage` is told the directory and the fault. Those of `unreadable`, whose names cannot be read, are there, too.

    Its directory is `leases/<name>`, or, where this is killed, `leases/.new-<name>`: `leases.release` removes either.

    Raises:
        ReadOnlyError: the store was opened read-only.
        StorageError: no room, or a file system without hard links.
    """
    if store.read_only:
        raise ReadOnlyError(str(store.path))
    lease.sweep(store.path, time.time())
    files = Files()
    moments: dict[str, Moment] = {}

    def link(target: Path) -> None:
        for each in streams:
            place = target / names.encode_name(each)
            try:
                moment = store.stream(each)._lease(target, files, copies=False)
                if moment is not None:
                    moments[place.name] = moment
            except (CorruptionError, FormatError, PoisonedError) as error:
                on_damage(place.name, str(error))
                rmtree(place, ignore_errors=True)
                _pin_damaged(store, place, files)
        for path in unreadable:
            on_damage(path.name, "its name cannot be read")
            _pin_damaged(store, target / path.name, files)

    return lease.make(store.path, link, ttl_s, files, name), moments


def _pin_damaged(store: Store, place: Path, files: Files) -> None:
    files.mkdir(place)
    try:
        lease.link_damaged(store.path / "streams" / place.name, place, files)
    except FileNotFoundError:
        rmtree(place, ignore_errors=True)  # who asked for it sees that it is not there


def verify_files(store: Store, only: Mapping[bytes, Collection[str]]) -> VerifyReport:
    """Reads each active segment of a store, and of sealed files those that are named for their streams.

    Args:
        store: open for reading only.
        only: for each stream, names of files.
    """
    report = VerifyReport()
    for name in store.streams(unfinished=True):  # as backups of earlier versions have
        try:
            log = store._log(name, create=False)
            if log is not None:
                verify.verify_log(name, log, report, verify.ignore, only=only.get(name, ()))
        except StreamMoved:
            continue
        except (CorruptionError, FormatError) as error:
            verify.verify_directory(name, replacing.place_of(store.path / "streams", name), report, error)
    return report
