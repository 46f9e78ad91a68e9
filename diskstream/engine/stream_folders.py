"""The folders of streams within a store: listed, made, renamed, hidden, and removed."""

import contextlib
import errno
import secrets
import time
import uuid
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from diskstream._native import first_segment
from diskstream.engine import names, replacing
from diskstream.engine.descriptors import listing
from diskstream.engine.directory import gone
from diskstream.engine.directory_lock import DirectoryLock, is_taken
from diskstream.engine.files import Files, wrapped
from diskstream.engine.looks import children, is_folder, is_link, is_there
from diskstream.engine.roll import INITIAL_BYTES
from diskstream.errors import StorageError

__all__ = [
    "LeftError",
    "claimed",
    "create_stream",
    "hide_stream",
    "list_streams",
    "missing_names",
    "note_names",
    "remove_hidden",
    "rename_stream",
    "sweep",
    "unreadable_names",
    "within",
    "write_name",
]

# In the time of one look for a name so many entries of a directory are listed; from so many names on that is worth it.
_LISTED_FOR_A_LOOK, _MANY_NAMES = 16, 16
# To remove one takes a millisecond, more where it is large: nobody waits long for so many.
_FEW_FILES = 64


@contextlib.contextmanager
def within(streams: Path, action: str) -> Iterator[None]:
    """Does something below `streams`.

    Raises:
        StorageError: the disk said no, or the whole store is gone from here.
    """
    try:
        with wrapped(streams, action):
            yield
    except FileNotFoundError as error:
        if is_there(streams):
            raise
        raise gone(streams.parent, action) from error


def list_streams(streams: Path) -> list[bytes]:
    """The names of all streams, in byte order; also of those that are put aside: `replacing.place_of` says where."""
    with within(streams, "list"), listing(streams) as entries:
        folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        found = [names.decode_plain(entry.name) or replacing.name_of(Path(entry.path)) for entry in folders]
    return sorted({name for name in found if name is not None})


def missing_names(streams: Path, wanted: Collection[bytes]) -> set[bytes]:
    """Those of some names that no stream has, nor one that is put aside, by one listing of the directory.

    None of them where they are few, or the streams so many more, that looking for each costs less. What comes or is
    renamed while this lists may be among them all the same.

    Raises:
        StorageError: the directory cannot be listed.
    """
    if len(wanted) < _MANY_NAMES:
        return set()
    most = _LISTED_FOR_A_LOOK * len(wanted)
    with within(streams, "list"), listing(streams) as entries:
        there = {entry.name for entry in islice(entries, most + 1)}
    if len(there) > most:
        return set()
    there = {replacing.original(name) for name in there}
    return {name for name in wanted if names.encode_name(name) not in there}


def unreadable_names(streams: Path) -> list[Path]:
    """Directories that ought to be streams, but whose names cannot be read."""
    with within(streams, "list"), listing(streams) as entries:
        folders = [Path(entry.path) for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    return sorted(folder for folder in folders if names.decode_directory(folder) is None)


def create_stream(streams: Path, name: bytes, files: Files) -> bool:
    """Makes an empty stream, durable; the caller holds the store's lock. Returns False of one that exists: it stays.

    Everything is made in a hidden directory that is renamed when it is durable, so a stream exists whole or not at all.
    """
    target = streams / names.encode_name(name)
    if is_there(target):
        return False
    fresh = streams / f".new-{secrets.token_hex(8)}"
    try:
        with within(streams, "create"):
            files.mkdir(fresh)
        header, frame = first_segment(uuid.uuid4().bytes, secrets.randbits(32), time.time_ns() // 1_000_000)
        with files.create(names.log_path(fresh, 1)) as log:
            log.write(header + frame + bytes(INITIAL_BYTES - len(header) - len(frame)))
            log.sync()
        if names.is_long(target.name):
            write_name(fresh, [name], files)
        files.sync_dir(fresh)
        files.rename(fresh, target)
    except BaseException:
        with contextlib.suppress(OSError):  # on a full disk it is made in vain again and again
            _remove_tree(fresh, files)
        raise
    files.sync_dir(streams)
    return True


def write_name(directory: Path, candidates: list[bytes], files: Files) -> None:
    """Holds what a directory's name is too short for. The one whose encoding is that name counts."""
    temporary = directory / "name.tmp"
    files.unlink(temporary)
    with files.create(temporary) as new:
        new.write(b"".join(candidate.hex().encode() + b"\n" for candidate in candidates))
        new.sync()
    files.rename(temporary, directory / "name")
    files.sync_dir(directory)


def note_names(streams: Path, old: bytes, new: bytes, files: Files) -> None:
    """What comes before a renaming and changes nothing: the stream's directory knows both names, if it must."""
    source, target = streams / names.encode_name(old), streams / names.encode_name(new)
    if names.is_long(source.name) or names.is_long(target.name):
        with within(streams, "rename"):
            write_name(source, [old, new], files)


def rename_stream(streams: Path, old: bytes, new: bytes, files: Files) -> Path:
    """Gives a stream another, free name, in one step, behind `note_names`; the caller holds the store's lock.

    Returns its new place.
    """
    source, target = streams / names.encode_name(old), streams / names.encode_name(new)
    with within(streams, "rename"):
        files.rename(source, target)
        files.sync_dir(streams)
    return target


def hide_stream(streams: Path, name: bytes, files: Files, *, flush: bool = True) -> Path:
    """Takes a stream's name away; the caller holds the store's lock. Returns where its files are.

    Without `flush` the caller flushes the directory, before anything of the files goes.
    """
    hidden = streams / f".deleted-{secrets.token_hex(8)}"
    with within(streams, "delete"):
        files.rename(streams / names.encode_name(name), hidden)
        if flush:
            files.sync_dir(streams)
    return hidden


class LeftError(StorageError):
    """Files that belong to no stream any more could not be removed; whoever sweeps next tries again."""


def remove_hidden(hidden: Path, files: Files) -> None:
    """Removes the files of a stream that was hidden."""
    _remove_tree(hidden, files)


def claimed(hidden: Path) -> DirectoryLock | None:
    """What keeps others from removing a stream that was hidden, where it has so many files that this takes long."""
    if is_link(hidden) or len(children(hidden)) <= _FEW_FILES:
        return None
    claim = DirectoryLock(hidden)
    claim.take()
    return claim


def _remove_tree(directory: Path, files: Files) -> None:
    if is_link(directory):  # the link goes, and nothing of what it points to
        files.unlink(directory)
        return
    for path in children(directory):
        if is_folder(path) and not is_link(path):
            _remove_tree(path, files)
        else:
            files.unlink(path)
    files.rmdir(directory)


def sweep(streams: Path, files: Files) -> int:
    """Ends what was interrupted: a renaming, a creation, a removal; the caller holds the store's lock.

    Returns how many directories were removed.

    Raises:
        StorageError: the disk said no.
        LeftError: it did not let go of some files, or somebody is removing them; all else is done.
    """
    replacing.settle_all(streams, files)
    with within(streams, "list"), listing(streams) as entries:
        left = [Path(entry.path) for entry in entries if entry.name.startswith((".new-", ".deleted-"))]
    left = [path for path in left if is_folder(path) or is_link(path)]  # a file of such a name is nothing of ours
    kept: list[StorageError] = []
    for directory in left:
        if not is_link(directory) and is_taken(directory):
            kept.append(StorageError(str(directory), "remove", errno.EBUSY, "somebody else is removing it"))
            continue
        try:
            _remove_tree(directory, files)
        except StorageError as error:
            kept.append(error)
    if kept:
        raise LeftError(str(kept[0].filename), kept[0].action, kept[0].errno or 5, kept[0].strerror or "")
    return len(left)
