"""Repair of a whole store: what makes it a store, names of streams, the view, then one stream after another."""

import contextlib
import json
import re
import secrets
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from diskstream._native import FORMAT_VERSION
from diskstream.engine import directory, looks, names, quarantine, replacing, stream_folders, view_check
from diskstream.engine.alone import alone
from diskstream.engine.files import Files, read_small, reading, unless_done
from diskstream.engine.repair import Repair, repair_stream
from diskstream.engine.repair_plan import as_ours, plan_each
from diskstream.engine.verify import Progress
from diskstream.errors import (
    ArgumentError,
    CorruptionError,
    DiskstreamError,
    NoSuchStreamError,
    NotAStoreError,
)
from diskstream.options import Options
from diskstream.plurals import number_of

__all__ = ["Wishes", "must_be_store", "must_be_there", "nested_stores", "repair_store"]

_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MAX_JSON_BYTES = 1 << 16
_LOST_NAME = b"lost-name-"
_HASH_SHOWN, _NAME_SHOWN = 16, 64
_NEW = "a new uuid"


@dataclass(frozen=True)
class Wishes:
    """What a repair is told.

    Attributes:
        streams: only these, by name; all where it is empty.
        uuid: what the store's is, where its own cannot be read.
        known: names that streams may have, for those whose `name` file is lost.
        give_up: take segments off the list that may still be in object storage.
    """

    streams: frozenset[bytes] = frozenset()
    uuid: str = ""
    known: tuple[bytes, ...] = field(default=())
    give_up: bool = False


def nested_stores(path: Path) -> list[Path]:
    """The stores below a directory that the server uses: databases, and what is known of keys.

    One that was being made when its maker was killed, or the disk failed, is none: no stream comes before store.json.

    Raises:
        StorageError: nobody can say.
    """
    below = looks.children(path) if looks.is_folder(path) else []
    found = [path / "keys", *(each for each in below if re.fullmatch(r"db\d+", each.name))]
    return [each for each in found if looks.is_folder(each / "streams") and _is_made(each)]


def _is_made(store: Path) -> bool:
    return looks.is_there(store / "store.json") or bool(looks.names_in(store / "streams"))


def must_be_store(path: Path) -> None:
    """Refuses a directory of which nothing says that it is a store, whole or damaged."""
    if not looks.is_there(path / "store.json") and not looks.is_folder(path / "streams"):
        raise NotAStoreError(
            str(path), "there is neither a store.json nor a directory streams", directory.way_to_one(path)
        )


def must_be_there(path: Path, wanted: frozenset[bytes]) -> None:
    """Refuses names that no stream has, of the store or of those below it: nobody is told that such a one is sound.

    Raises:
        NoSuchStreamError: the first of them.
    """
    if wanted:
        folders = [store / "streams" for store in [path, *nested_stores(path)]]
        known = {name for folder in folders if looks.is_folder(folder) for name in stream_folders.list_streams(folder)}
        for name in sorted(wanted - known):
            raise NoSuchStreamError(name, "diskstream ls lists the streams")


def repair_store(
    path: Path, files: Files, options: Options, wishes: Wishes, progress: Progress, *, dry_run: bool
) -> Iterator[Repair]:
    """Repairs a store, or says what there is to do. One report for the store itself, then one for each stream.

    A stream that cannot be repaired is reported with the reason, and the others are repaired all the same.

    Raises:
        NotAStoreError: nothing here says that this is a store.
        ReadOnlyError: it is a backup: other backups share its files.
        StoreBusyError: somebody has it open.
        ArgumentError: the uuid that was given is none.
        NoSuchStreamError: no stream has one of the names that are wished for.
        StorageError: the disk said no to a look at the store as a whole.
    """
    try:
        yield from _repaired(path, files, options, wishes, progress, dry_run=dry_run)
    except DiskstreamError:
        raise
    except OSError as error:
        raise as_ours(error, path) from error


def _repaired(
    path: Path, files: Files, options: Options, wishes: Wishes, progress: Progress, *, dry_run: bool
) -> Iterator[Repair]:
    must_be_store(path)
    directory.check_filesystem(path)
    must_be_there(path, wishes.streams.difference(wishes.known))
    if not dry_run:
        directory.refuse_backup(path)
    with contextlib.nullcontext() if dry_run else alone(path, files):
        for store in [path, *nested_stores(path)]:
            with contextlib.nullcontext() if dry_run or store == path else alone(store, files):
                yield from _one_store(store, files, options, wishes, progress, dry_run=dry_run)


def _one_store(
    path: Path, files: Files, options: Options, wishes: Wishes, progress: Progress, *, dry_run: bool
) -> Iterator[Repair]:
    itself = Repair(None, path)
    _description(itself, path, files, wishes, dry_run=dry_run)
    streams = path / "streams"
    if not dry_run:
        swept = stream_folders.sweep(streams, files) if looks.is_folder(streams) else 0
        if swept:
            itself.actions.append(f"removed {number_of(swept, 'directory')} of an interrupted creation or removal")
    found = _named(itself, streams, files, wishes, dry_run=dry_run)
    if view_check.check(path / "view") == "damaged":
        itself.actions.append("removed the view, which is damaged: it is made anew from the logs, nothing is lost")
        if not dry_run:
            _remove_view(path / "view", files)
    if itself.actions or itself.losses or itself.notes:
        yield itself
    found = [(name, folder) for name, folder in found if not wishes.streams or name in wishes.streams]
    if dry_run:
        yield from plan_each(found, streams, options, give_up=wishes.give_up, progress=progress)
        return
    for name, folder in found:
        try:
            yield repair_stream(name, folder, files, options, give_up=wishes.give_up, progress=progress)
        except (DiskstreamError, OSError) as error:
            yield Repair(name, folder, failed=str(as_ours(error, folder)))


def _remove_view(view: Path, files: Files) -> None:
    for path in view_check.to_be_removed(view):
        remove = files.rmdir if looks.is_folder(path) and not looks.is_link(path) else files.unlink
        remove(path)


# --- store.json -------------------------------------------------------------------------------------------------------


def _description(itself: Repair, path: Path, files: Files, wishes: Wishes, *, dry_run: bool) -> None:
    """Makes store.json anew where it is missing or damaged."""
    looks.refuse_links(path, directory.FOLDERS)
    description, streams = path / "store.json", path / "streams"
    if not looks.is_folder(streams):
        itself.actions.append("made the directory streams, which was missing: all streams are lost")
        if not dry_run:
            files.mkdir(streams)
            files.sync_dir(path)
    try:
        if looks.is_link(description):
            why = "is a symbolic link"
        elif looks.is_there(description):
            directory.describe(path)
            return
        else:
            why = "is missing"
    except NotAStoreError:
        if dry_run and not looks.is_folder(streams):
            return
        why = "is damaged"
    identity, where = _identity(path, description, wishes)
    itself.actions.append(f"store.json {why}: made anew with {where}")
    if where == _NEW:
        again = "repair" if dry_run else "remove the new store.json, and repair"
        itself.notes.append(
            "backups, an archive or a job that know the old one refuse this store. Where you know the old one "
            f"(`diskstream backup ls --json` and a manifest of an archive have it as 'store'), {again} with --uuid"
        )
    if dry_run:
        return
    if looks.is_there(description) and not looks.is_link(description):
        itself.kept.append(quarantine.keep(description, path / "quarantine", files))
    temporary = path / f"store.json.{secrets.token_hex(8)}.tmp"
    content = {
        "format_version": FORMAT_VERSION,
        "uuid": identity,
        "features": {"compatible": [], "incompatible": []},
    }
    with unless_done(files, temporary):
        with files.create(temporary) as new:
            new.write(json.dumps(content, indent=2).encode() + b"\n")
            new.sync()
        files.rename(temporary, description)
    files.sync_dir(path)


def _identity(path: Path, description: Path, wishes: Wishes) -> tuple[str, str]:
    """The uuid of a store whose description cannot be read, and where it is from."""
    if wishes.uuid:
        try:
            return str(uuid.UUID(wishes.uuid)), "the uuid that was given"
        except ValueError:
            raise ArgumentError(f"not a uuid: {wishes.uuid!r}") from None
    for lease in looks.named(path / "leases", ""):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            known = json.loads(read_small(lease / "store.json", _MAX_JSON_BYTES))["uuid"]
            return str(uuid.UUID(known)), f"the uuid of the lease {lease.name}"
    with contextlib.suppress(OSError):
        with reading(description) as file:
            readable = set(_UUID.findall(file.read(_MAX_JSON_BYTES)))
        if len(readable) == 1:
            return readable.pop().decode(), "the uuid that can still be read in it"
    return str(uuid.uuid4()), _NEW


# --- names of streams -------------------------------------------------------------------------------------------------


def _named(itself: Repair, streams: Path, files: Files, wishes: Wishes, *, dry_run: bool) -> list[tuple[bytes, Path]]:
    """All streams with their directories; gives a name to those whose own is lost."""
    if not looks.is_folder(streams):
        return []
    found = []
    for folder in sorted(streams.iterdir()):
        if folder.name.startswith(".") or not looks.is_folder(folder) or looks.is_link(folder):
            continue
        # What a disk does not give once it may give the next time, and a name that is taken away does not come back.
        name = names.decode_directory(folder) or names.decode_directory(folder)
        if name is None:
            if not any(names.parse_file(path.name) for path in folder.iterdir()):
                itself.notes.append(f"{folder} is no stream: left as it is")
                continue
            name = _name_again(itself, folder, files, wishes, dry_run=dry_run)
        renamed = streams / names.encode_name(name)
        found.append((name, renamed if looks.is_folder(renamed) else folder))
    if dry_run:  # what was put aside by who died has its name again by the time that a repair comes here
        places = [(name, replacing.place_of(streams, name)) for name in stream_folders.list_streams(streams)]
        found = [*((name, place) for name, place in places if replacing.is_aside(place)), *found]
    return found


def _free_name(streams: Path, wanted: bytes) -> bytes:
    """A name that begins like this one, which no stream has, and which fits whole into the name of a directory."""
    end = b""
    while True:
        name = wanted + end
        while names.is_long(names.encode_name(name)):  # most bytes are spelled in three characters
            wanted = wanted[:-1]
            name = wanted + end
        if not (streams / names.encode_name(name)).exists():
            return name
        end += b"x"


def _name_again(itself: Repair, folder: Path, files: Files, wishes: Wishes, *, dry_run: bool) -> bytes:
    """A stream whose name cannot be read gets one."""
    if names.is_long(folder.name):
        for candidate in wishes.known:
            if names.encode_name(candidate) == folder.name:
                itself.actions.append(f"wrote the name file of {folder.name} again, with a name that was given")
                if not dry_run:
                    stream_folders.write_name(folder, [candidate], files)
                return candidate
    digest = folder.name.rpartition("~")[2][:_HASH_SHOWN]
    known = digest if names.is_long(folder.name) else folder.name
    wanted = _LOST_NAME + known.encode("utf-8", "surrogateescape")[:_NAME_SHOWN]
    name = _free_name(folder.parent, wanted)
    target = folder.parent / names.encode_name(name)
    shown = name.decode("utf-8", "backslashreplace")
    itself.actions.append(f"the name of the stream in {folder.name} is lost: it is there as {shown} now")
    itself.notes.append("where you know the name of a stream that lost it, rename it, or repair with --name first")
    if not dry_run:
        try:
            files.rename(folder, target)
        except FileNotFoundError as error:
            raise CorruptionError(str(folder), "stream directory", 0, "a directory", "no such file") from error
        files.sync_dir(folder.parent)
    return name
