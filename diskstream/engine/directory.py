"""A store's directory: making it, and checking that it is one that can be used."""

import contextlib
import errno
import json
import os
import re
import secrets
import uuid
from pathlib import Path
from typing import Any

from diskstream._native import FORMAT_VERSION
from diskstream.engine.durable_folders import make_folders
from diskstream.engine.files import Files, read_small, reading, unless_done, wrapped
from diskstream.engine.looks import children, followed, is_folder, is_link, is_there, named, refuse_links, status
from diskstream.errors import (
    NetworkFilesystemError,
    NewerFormatError,
    NotAStoreError,
    ReadOnlyError,
    StorageError,
    storage_error,
)

__all__ = [
    "FOLDERS",
    "REPAIR",
    "check_filesystem",
    "check_makeable",
    "check_there",
    "describe",
    "gone",
    "open_store",
    "refuse_backup",
    "store_uuid",
    "sweep_descriptions",
    "way_to_one",
]

_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "ocfs2", "gfs2"),
        *("beegfs", "ncpfs", "coda", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.ceph"),
        *("fuse.gcsfuse", "fuse.goofys", "fuse.mount-s3"),
    }
)
# The last is what a file system itself may have put into an empty one: a store may have a disk to itself.
_OURS = frozenset({"store.json", "streams", "view", "ctl", "lost+found"})
_DESCRIBING = re.compile(r"store\.json\.[0-9a-f]{16}\.tmp")
_MAX_STORE_JSON_BYTES = 1 << 16
# What a backup says of itself, and the stores that a server keeps within its own.
_BACKUP = "backup.jsonl"
_LEASE = "lease.json"
_BACKUPS = "backups.json"
_BACKUP_NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")  # docs/format/backup.md
REPAIR = "diskstream repair makes it anew; --dry-run says what else it would do"
_MOST_BELOW = 100  # of a directory that is no store, looked at for one: the message waits for it
_WITHIN = re.compile(r"keys|db\d+")
# The folders that a store may have: docs/format/directory.md. What else lies there is nobody's affair.
FOLDERS = re.compile(
    r"archives|cold-cache|commits|keys|leases|quarantine|replays|staging|streams|view|db\d+",
)


def check_filesystem(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Refuses network file systems, on which neither locks nor shared mappings can be trusted.

    Raises:
        NetworkFilesystemError: `path` is on one.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    device = status(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        fields = line.split(" ")
        with contextlib.suppress(ValueError, IndexError):
            kind = fields[fields.index("-") + 1]
            if fields[2] == wanted and kind in _NETWORK:
                raise NetworkFilesystemError(str(path), kind)


def open_store(path: Path, files: Files, *, create: bool, read_only: bool) -> dict[str, Any]:
    """Reads ``store.json``, making the store first where there is none.

    Raises:
        NotAStoreError: there is none, and it is not to be made here.
        NewerFormatError: a later version made it.
    """
    description = path / "store.json"
    with wrapped(path, "open"):
        exists = is_there(description)
    if not exists:
        _make_store(path, files, create=create and not read_only)
    check_filesystem(path)
    if not read_only:
        refuse_backup(path)
    return describe(path)


def describe(path: Path) -> dict[str, Any]:
    """Reads and checks ``store.json`` of a directory that has one.

    Raises:
        NotAStoreError: it is damaged, or there are no streams.
        NewerFormatError: a later version wrote it.
        StorageError: a folder of the store is a symbolic link: what is removed and written there would be elsewhere.
    """
    refuse_links(path, FOLDERS)
    description = path / "store.json"
    with wrapped(description, "read"), reading(description) as file:
        data = file.read(_MAX_STORE_JSON_BYTES)
    if not is_folder(path / "streams"):
        raise NotAStoreError(str(path), "its directory streams is missing", REPAIR)
    try:
        found = json.loads(data)
        version = int(found["format_version"])
        if version > FORMAT_VERSION:
            raise NewerFormatError(str(description), "the store", FORMAT_VERSION, version)
        uuid.UUID(found["uuid"])
        incompatible = [str(feature) for feature in found["features"]["incompatible"]]
        if version < 1:
            raise ValueError(f"format version {version}")  # noqa: TRY301  # one way out of a damaged file
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise NotAStoreError(str(path), f"its store.json is damaged ({error})", REPAIR) from error
    if incompatible:
        features = ", ".join(incompatible)
        words = f"its incompatible features name {features}"
        raise NewerFormatError(str(description), "the store", FORMAT_VERSION, features, words)
    described: dict[str, Any] = found
    return described


def store_uuid(store: Path) -> str:
    """What identifies a store, in its leases and backups too.

    Raises:
        NotAStoreError: its description is missing or damaged.
        StorageError: it cannot be read.
    """
    path = store / "store.json"
    try:
        with wrapped(path, "read"):
            described = json.loads(read_small(path, _MAX_STORE_JSON_BYTES))
        return str(uuid.UUID(described["uuid"]))
    except StorageError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotAStoreError(str(store), f"its store.json is damaged ({error})") from error


def refuse_backup(path: Path) -> None:
    """Refuses to write to a backup, or a lease: its files are other backups', or those of the store that is leased.

    See docs/format/backup.md.

    Raises:
        ReadOnlyError: it is one, or a store within a backup.
    """
    if is_there(path / _LEASE):
        what = "it is a lease, to be opened read-only"
        raise _refused(path, f"{what}; a copy of its directory without {_LEASE} is a store")
    folders = (path, path.parent) if _WITHIN.fullmatch(path.name) else (path,)
    for folder in folders:
        if is_there(folder / _BACKUP):
            way = "`diskstream restore` makes a store out of it"
        elif _is_among_backups(followed(folder) if is_link(folder) else folder):  # it shares its files all the same
            way = f"where its {_BACKUP} is lost, a copy of its directory elsewhere is a store"
        else:
            continue
        raise _refused(path, f"it is a backup, which never changes; {way}")


def _refused(path: Path, why: str) -> ReadOnlyError:
    error = ReadOnlyError(str(path))
    error.strerror = why
    return error


def _is_among_backups(folder: Path) -> bool:
    return _BACKUP_NAME.fullmatch(folder.name) is not None and is_there(folder.parent / _BACKUPS)


def way_to_one(path: Path) -> str:
    """Where the store may be that was meant, which is not here."""
    with contextlib.suppress(OSError):
        above = next((folder for folder in path.parents if is_there(folder / "store.json")), None)
        if above is not None:
            return f"{above} is a store, and this lies in it"
        if _has_streams(path):
            return REPAIR
        if is_there(path / _BACKUPS):
            return f"it holds backups: diskstream backup ls {path}"
        below = children(path)[:_MOST_BELOW] if is_folder(path) else []
        within = next((each for each in below if is_there(each / "store.json")), None)
        if within is not None:
            return f"{within} is one"
    return "--dir, or DISKSTREAM_DIR, names the directory that has the store.json; the first entry added makes a store"


def check_makeable(path: Path) -> None:
    """Refuses a place where no store can be made; makes nothing.

    Raises:
        NetworkFilesystemError: it would be on one.
        NotAStoreError: it is a file, a link to nothing, or holds something else, or a store that has lost what says so.
        StorageError: it is below a file.
    """
    nearest = next(folder for folder in (path, *path.parents) if is_there(folder) or is_link(folder))
    if not is_there(nearest):
        raise NotAStoreError(str(nearest), "it is a link to nothing, or no directory can be made there")
    if not is_folder(nearest):
        if nearest == path:
            raise NotAStoreError(str(path), "it is a file")
        raise storage_error(str(path), "create", errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    check_filesystem(nearest)
    if nearest == path:
        foreign = [each.name for each in children(path) if each.name not in _OURS and not each.name.endswith(".tmp")]
        # Whatever a store has is made after it: whoever makes this one meanwhile has it by now.
        if (foreign or _has_streams(path)) and not is_there(path / "store.json"):
            if foreign:
                raise NotAStoreError(str(path), f"it holds something else ({min(foreign)}); choose an empty directory")
            raise NotAStoreError(str(path), "it has streams, and its store.json is missing", REPAIR)


def _has_streams(path: Path) -> bool:
    streams = path / "streams"
    return is_folder(streams) and any(not each.name.startswith(".") for each in children(streams))


def _make_store(path: Path, files: Files, *, create: bool) -> None:
    if not create:
        why = "there is no store.json in it" if is_there(path) else "there is no such directory"
        raise NotAStoreError(str(path), why, way_to_one(path))
    check_makeable(path)
    try:
        make_folders(path, files.mkdir, files.sync_dir)
    except (FileExistsError, FileNotFoundError) as error:
        where = str(error.filename or path)
        raise NotAStoreError(where, "it is a link to nothing, or no directory can be made there") from None
    files.mkdir(path / "streams")
    files.sync_dir(path)  # before store.json says that there is a store
    temporary = path / f"store.json.{secrets.token_hex(8)}.tmp"
    description = {
        "format_version": FORMAT_VERSION,
        "uuid": str(uuid.uuid4()),
        "features": {"compatible": [], "incompatible": []},
    }
    with unless_done(files, temporary):
        with files.create(temporary) as new:
            new.write(json.dumps(description, indent=2).encode() + b"\n")
            new.sync()
        # Two processes may be making the same store: the link succeeds for one of them, and both use what it made.
        # Who opens that removes what the other one has begun.
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            files.link(temporary, path / "store.json")
    with contextlib.suppress(FileNotFoundError):
        files.unlink(temporary)
    files.sync_dir(path)


def sweep_descriptions(path: Path, files: Files) -> None:
    """Removes what makers of a store left that were killed; the store is there.

    Raises:
        StorageError: the disk said no.
    """
    for left in named(path, ".tmp"):
        if _DESCRIBING.fullmatch(left.name) and (is_link(left) or not is_folder(left)):
            with wrapped(left, "remove"), contextlib.suppress(FileNotFoundError):
                files.unlink(left)


def check_there(store: Path) -> None:
    """Where a stream is not there: makes sure that the store is, since nothing can be said of its streams else.

    Raises:
        StorageError: it was removed or moved.
    """
    if not is_folder(store / "streams"):
        raise gone(store, "look into")


def gone(store: Path, action: str) -> StorageError:
    """What is raised where another directory than the one that was opened is of a store's name, or none."""
    why = "the store is not there any more: it was removed or moved while it was open; open it where it is now"
    return StorageError(str(store), action, errno.ENOENT, why)
