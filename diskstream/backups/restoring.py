"""Making stores, or streams of a store, out of a backup: all of it there, read back, or nothing."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diskstream import store as stores
from diskstream.arguments import path_of
from diskstream.backups.expiring import follow
from diskstream.backups.manifest import Kept, KeptStream, Manifest, read_manifest
from diskstream.backups.other_keys import OtherKeys
from diskstream.backups.parts import is_of_jobs, stores_in
from diskstream.backups.placing import hidden, lock, must_be_empty, put_in_place
from diskstream.backups.repository import Backup, BackupError, holds_backups
from diskstream.backups.rewinding import RECORDS, Rewound, copy_until, rewind_files, rewind_records
from diskstream.backups.taking_names import take_names
from diskstream.backups.unchanged import WAY_OUT, must_be_unchanged
from diskstream.copying import UNFINISHED, add_entries, check_whole, is_unfinished
from diskstream.errors import (
    ArgumentError,
    CorruptionError,
    DiskstreamError,
    NewerFormatError,
    NoSuchStreamError,
    StreamExistsError,
)
from diskstream.ids import MAX_ID, EntryID
from diskstream.retention_rule import RetentionRule
from diskstream.store_files import Files, copy_file, digest_file, directory_of, name_stream, uuid_of
from diskstream.stream import Stream
from diskstream.system_calls import all_below, followed, is_folder, is_there, wrapped

__all__ = ["Planned", "Restored", "Wanted", "plan", "restore"]

_UNFINISHED = UNFINISHED + b"restore-"


@dataclass(frozen=True)
class Wanted:
    """What is to be restored.

    Attributes:
        streams: their names; all, and all else that the backup has, where there are none.
        name: another name, for one stream; None is its own.
        until: the last ID that is to be there; None is as it is in the backup.
        damaged: take streams that are damaged, as far as they are there: since the backup was made, or before. With
            `until`, and into a store, those alone that can be read.
        on_total: called with how many bytes there are, once.
        on_bytes: called with bytes just copied or read back.
    """

    streams: tuple[bytes, ...] = ()
    name: bytes | None = None
    until: EntryID | None = None
    damaged: bool = False
    on_total: Callable[[int], None] | None = None
    on_bytes: Callable[[int], None] | None = None

    def named(self, own: bytes) -> bytes:
        """What a stream is called where it is restored."""
        return own if self.name is None else self.name

    def __post_init__(self) -> None:
        """Checks them.

        Raises:
            ArgumentError: another name for none, or for several; one that is empty.
        """
        if self.name == b"":  # of a variable that was not set, say: it is not the stream's own name that was meant
            raise ArgumentError("another name must not be empty: leave it out for the stream's own")
        if self.name is not None and len(self.streams) != 1:
            raise ArgumentError("another name can be given to one stream, so name one")


@dataclass
class Restored:
    """What was restored.

    Attributes:
        path: the store.
        streams: for each stream's directory below it, or its name, how: see `Rewound`.
        names: what those of them are called that are the store's own: other databases of a server have names of theirs.
        files, size_bytes: what was copied as it is.
        entries: how many there are in what was restored.
        rules: by name, the rules of retention that came along: whoever opens the store for writing goes by them.
        faults: by name, what is wrong with streams that were taken though damaged; a new store is to be repaired then.
        cold_segments, cold_bytes: what is in object storage, where the store that was backed up has the same objects.
        job_faults: by its path below the store, what is wrong with a file of jobs; no stream depends on it.
    """

    path: Path
    streams: dict[str, Rewound] = field(default_factory=dict)
    names: dict[str, bytes] = field(default_factory=dict)
    files: int = 0
    size_bytes: int = 0
    entries: int = 0
    rules: dict[bytes, RetentionRule] = field(default_factory=dict)
    faults: dict[bytes, list[str]] = field(default_factory=dict)
    cold_segments: int = 0
    cold_bytes: int = 0
    job_faults: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """What `restore` would do.

    Attributes:
        streams: the names that they would have.
        entries: how many there would be; with `Wanted.until`, at the most.
        files, size_bytes: what would be read of the backup.
        into_store: whether there is a store at the target, which would get them.
    """

    streams: list[bytes]
    entries: int
    files: int
    size_bytes: int
    into_store: bool


def plan(backup: Backup, target: Path, wanted: Wanted | None = None) -> Planned:
    """What `restore` would do with the same arguments; nothing is made, and nothing of the backup's files is read.

    Raises:
        ArgumentError, BackupError, NoSuchStreamError, StreamExistsError, StorageError: as `restore`.
    """
    path_of(target)
    chosen = wanted or Wanted()
    with wrapped(target, "look at"), backup.used():
        manifest, into_store = _looked_up(backup, target, chosen)
        streams = _chosen(backup, manifest, chosen)
        names = [chosen.named(stream.raw_name) for stream in streams]
        if into_store:
            _must_be_free_in(target, names)
        else:
            must_be_empty(target)
        places = {stream.path for stream in streams}
        files = [kept for kept in manifest.files.values() if _is_wanted(kept.path, places, chosen)]
        size_bytes = sum(kept.size_bytes for kept in files)
        return Planned(names, sum(stream.entries for stream in streams), len(files), size_bytes, into_store)


def restore(backup: Backup, target: Path, wanted: Wanted | None = None) -> Restored:
    """Makes a store at `target`, which must be missing or empty; or streams of the store there, whose names are free.

    Raises:
        ArgumentError: the target is a URL, or no UTF-8.
        BackupError: the backup is damaged; the target is not free, or in use; a server's key there has that name.
        NoSuchStreamError: the backup has no such stream.
        StreamExistsError: the store has one of that name.
        StorageError: the disk said no. Nothing is at the target then, or none of the streams in the store.
    """
    path_of(target)  # it is opened as one when all is copied: not to find out then that it cannot be
    chosen = wanted or Wanted()
    with wrapped(target, "use"), backup.used():
        manifest, into_store = _looked_up(backup, target, chosen)
        streams = _chosen(backup, manifest, chosen)
        if into_store:
            _must_be_free_in(target, [chosen.named(stream.raw_name) for stream in streams])  # before much is read
            faults = _changed(backup, streams, chosen)
            restored = _into_store(backup, target, streams, chosen)
            restored.faults = faults
            return restored
        with hidden(target) as fresh:
            restored = _Making(backup, manifest, fresh, chosen).run(streams)
            put_in_place(fresh, target)
        restored.path = target
        return restored


def _changed(backup: Backup, streams: Sequence[KeptStream], wanted: Wanted) -> dict[bytes, list[str]]:
    """What of streams is not as it was when the backup was made, by the names that they are to have.

    Raises:
        BackupError: something is, and damaged streams are not wanted.
    """
    if not wanted.damaged:
        own = [stream.raw_name for stream in streams]
        must_be_unchanged(backup, own, on_total=wanted.on_total, on_bytes=wanted.on_bytes)
        return {}
    found = {}
    for stream in streams:
        try:
            must_be_unchanged(backup, [stream.raw_name], on_bytes=wanted.on_bytes)
        except BackupError as error:
            found[wanted.named(stream.raw_name)] = [f"{error}; what could be read of it was taken"]
    return found


def _looked_up(backup: Backup, target: Path, wanted: Wanted) -> tuple[Manifest, bool]:
    """What the backup has, and whether there is a store at the target."""
    if followed(target).is_relative_to(followed(backup.path)):
        raise BackupError(target, "it is within the backup", "name a directory elsewhere")
    into_store = is_there(target / "store.json")
    _must_be_apart(target, into_store=into_store)
    if into_store and not wanted.streams:
        raise BackupError(
            target, "there is a store already", "name another directory, or the streams that it is to get"
        )
    return read_manifest(backup.path), into_store


def _must_be_apart(target: Path, *, into_store: bool) -> None:
    """Refuses what is within a store, which takes it for its own, or among backups, of which some `prune` is the end.

    A store within a store may get streams: the databases of a server are such.
    """
    for folder in followed(target).parents:
        if holds_backups(folder):
            raise BackupError(target, f"it is within the directory of backups {folder}", "name a directory elsewhere")
        if not into_store and is_there(folder / "store.json"):
            raise BackupError(target, f"it is within the store {folder}", "name a directory elsewhere")


def _chosen(backup: Backup, manifest: Manifest, wanted: Wanted) -> list[KeptStream]:
    """The streams that are wanted; of those of a server's further databases none, unless everything is."""
    if wanted.streams:
        known = {stream.raw_name: stream for stream in manifest.streams if stream.path.startswith("streams/")}
        for name in wanted.streams:
            if name not in known:
                raise NoSuchStreamError(name, f"diskstream ls --dir {backup.path} lists those of the backup")
        found = [known[name] for name in dict.fromkeys(wanted.streams)]
    else:
        found = [stream for stream in manifest.streams if not is_unfinished(stream.raw_name)]
    if not wanted.damaged:
        for stream in found:
            if stream.faults:
                raise BackupError(
                    backup.path / stream.path,
                    f"it was damaged when the backup was made ({stream.faults[0]})",
                    "--damaged takes what is there; an older backup may be sound",
                )
    return found


def _is_wanted(path: str, places: Container[str], wanted: Wanted) -> bool:
    """Whether a file of the backup is, where these are the directories of the streams that are."""
    place, _, name = path.rpartition("/")
    if path == "store.json" or place in places:
        return True
    if wanted.streams:
        return False
    # What jobs have completed they have not, at an earlier moment: they commit it again.
    return name == "store.json" or (is_of_jobs(path) and wanted.until is None)


# --- a new store ------------------------------------------------------------------------------------------------------


class _Making:
    """A new store in a hidden directory."""

    def __init__(self, backup: Backup, manifest: Manifest, fresh: Path, wanted: Wanted) -> None:
        self._backup, self._manifest, self._fresh, self._wanted = backup, manifest, fresh, wanted
        self._files = Files()
        self._restored = Restored(fresh)
        self._copied: list[tuple[Path, str]] = []
        self._names: dict[str, bytes] = {}  # of streams, by their places in the backup

    def run(self, streams: Sequence[KeptStream]) -> Restored:
        """Copies, goes back in time where that is wanted, reads back, and makes it durable."""
        moved = {stream.path: self._place(stream) for stream in streams}
        self._names = {stream.path: self._wanted.named(stream.raw_name) for stream in streams}
        self._restored.faults = {self._names[each.path]: list(each.faults) for each in streams if each.faults}
        listed = [kept for kept in self._manifest.files.values() if _is_wanted(kept.path, moved, self._wanted)]
        if self._wanted.on_total is not None:
            self._wanted.on_total(2 * sum(kept.size_bytes for kept in listed))
        for kept in listed:
            self._copy(kept, moved)
        for part in stores_in(self._fresh):
            self._folder(self._fresh / part / "streams")  # also of a store that has none
        filled = {kept.path.rpartition("/")[0] for kept in listed}
        for stream in streams:
            if stream.path not in filled:
                self._folder(self._fresh / moved[stream.path])
        if self._wanted.name is not None:
            name_stream(self._fresh / moved[streams[0].path], self._wanted.name, self._files)
        self._read_back()
        if self._wanted.until is not None:
            self._rewind(streams, moved, self._wanted.until)
        else:
            self._restored.streams = {place: Rewound("whole") for place in moved.values()}
        self._restored.names = {moved[path]: name for path, name in self._names.items() if path.startswith("streams/")}
        self._check({moved[path] for path, name in self._names.items() if name in self._restored.faults})
        for folder in sorted({path.parent for path in all_below(self._fresh)}, reverse=True):
            self._files.sync_dir(folder)
        return self._restored

    def _place(self, stream: KeptStream) -> str:
        if self._wanted.name is None:
            return stream.path
        return f"streams/{directory_of(self._wanted.name)}"

    def _copy(self, kept: Kept, moved: dict[str, str]) -> None:
        place, _, name = kept.path.rpartition("/")
        if place in moved and name == "name" and self._wanted.name is not None:
            return
        target = self._fresh / (f"{moved[place]}/{name}" if place in moved else kept.path)
        self._folder(target.parent)
        source = self._backup.path / kept.path
        try:
            copied = copy_file(source, target, self._files, self._handled)
        except FileNotFoundError:
            self._is_damaged(source, place, "it is missing")
            return
        if (copied.size_bytes, copied.sha256) != (kept.size_bytes, kept.sha256):
            self._is_damaged(source, place, f"its SHA-256 is {copied.sha256}, and was {kept.sha256}")
            if place.startswith("staging/"):  # half of what a task was given is not appended
                self._files.unlink(target)
                return
        self._copied.append((target, copied.sha256))
        self._restored.files += 1
        self._restored.size_bytes += copied.size_bytes

    def _is_damaged(self, source: Path, place: str, what: str) -> None:
        """Notes what has become of a file since the backup was made, where it is taken all the same.

        Raises:
            BackupError: it is not: nobody said so, or nothing can be read without it, or not at an earlier moment.
        """
        takes = self._wanted.damaged and self._wanted.until is None
        if takes and is_of_jobs(place):
            self._restored.job_faults[f"{place}/{source.name}"] = what
            return
        if (place not in self._names and not is_of_jobs(place)) or source.name == "name":
            raise BackupError(source, what, WAY_OUT)
        if not takes:
            raise BackupError(source, what, f"{WAY_OUT}; {_TAKEN}")
        self._restored.faults.setdefault(self._names[place], []).append(f"{source.name}: {what}")

    def _folder(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not is_there(each)]
        for each in reversed(missing):
            self._files.mkdir(each)

    def _handled(self, size_bytes: int) -> None:
        if self._wanted.on_bytes is not None:
            self._wanted.on_bytes(size_bytes)

    def _read_back(self) -> None:
        for path, sha256 in self._copied:
            if digest_file(path, self._handled).sha256 != sha256:
                raise BackupError(path, "what was read back is not what was written", "the disk is not to be trusted")

    def _rewind(self, streams: Sequence[KeptStream], moved: dict[str, str], until: EntryID) -> None:
        for stream in streams:
            name = self._wanted.named(stream.raw_name)
            place = moved[stream.path]
            if place == RECORDS:
                source, target = self._backup.path / RECORDS, self._fresh / RECORDS
                self._restored.streams[RECORDS] = rewind_records(source, target, until, self._files)
                continue
            # Both are opened by name: in the backup it is its own.
            self._restored.streams[place] = rewind_files(
                self._backup.path / stream.path,
                self._fresh / place,
                (stream.raw_name, name),
                until,
                self._files,
            )
        for stream in streams:
            how = self._restored.streams[moved[stream.path]]
            if how.way == "copied" or how.rest is not None:
                self._copy_entries(stream, how, until)
        if RECORDS in self._restored.streams:
            self._follow_copies(streams)

    def _follow_copies(self, streams: Sequence[KeptStream]) -> None:
        """Streams that were copied expire when they did, though they have UUIDs of their own."""
        copies = {
            stream.uuid.encode(): uuid_of(self._fresh / stream.path).encode()
            for stream in streams
            if stream.uuid and self._restored.streams[stream.path].way == "copied"
        }
        if not copies:
            return
        with _open_quiet(self._fresh / "keys", seal="manual") as store:
            follow(store.stream("keys"), copies)
            store.sync()

    def _copy_entries(self, stream: KeptStream, how: Rewound, until: EntryID) -> None:
        part = stream.path.rpartition("streams/")[0]
        with (
            stores.open(self._backup.path / part, read_only=True, create=False) as earlier,
            _open_quiet(self._fresh / part, seal="manual") as store,
        ):
            target = store.stream(self._wanted.named(stream.raw_name))
            if how.rest is None:
                copy_until(earlier.stream(stream.raw_name), target, until, lambda _: None)
            else:
                add_entries(target, iter(how.entries))
            store.sync()

    def _check(self, damaged: set[str]) -> None:
        """Opens what was made, and reads all of it."""
        for part in stores_in(self._fresh):
            with stores.open(self._fresh / part, read_only=True, create=False) as store:
                report = store.verify()
                self._restored.cold_segments += report.cold_segments
                self._restored.cold_bytes += report.cold_bytes
                self._restored.entries += sum(_length(stream) for stream in store)
                for stream in store:
                    _note_rule(stream.name, stream, self._restored)
                for problem in report.problems:
                    place = problem.path if is_folder(problem.path) else problem.path.parent
                    inside = problem.path.relative_to(self._fresh).as_posix()
                    # What is damaged of jobs was so in the store: the streams are whole, and must not be out of reach.
                    if is_of_jobs(inside):
                        self._restored.job_faults.setdefault(inside, f"{problem.what}: {problem.meaning}")
                    elif place.relative_to(self._fresh).as_posix() not in damaged:
                        raise BackupError(problem.path, problem.what, WAY_OUT)


def _open_quiet(path: Path, seal: str) -> stores.Store:
    """A store in which nothing goes by a rule of retention while this restores what it would remove."""
    return stores.open(path, create=False, fsync="os", seal=seal, retention_interval_ms=0)


def _note_rule(name: bytes, stream: Stream, restored: Restored) -> None:
    with contextlib.suppress(CorruptionError, NewerFormatError):
        if (rule := stream.retention) is not None:
            restored.rules[name] = rule


def _length(stream: Stream) -> int:
    """Entries that can be read: of one that was damaged when the backup was made, those before the damage."""
    try:
        vitals = stream.vitals()
    except CorruptionError:  # it cannot be opened
        return 0
    return 0 if vitals is None else vitals.length


_TAKEN = "--damaged takes what is there, without --until"


# --- streams of a store -----------------------------------------------------------------------------------------------


def _must_be_free(store: stores.Store, others: OtherKeys, names: Sequence[bytes]) -> None:
    for name in names:
        if store.exists(name):
            raise StreamExistsError(name)
    others.refuse(names)


def _must_be_free_in(target: Path, names: Sequence[bytes]) -> None:
    with stores.open(target, read_only=True, create=False) as store:
        _must_be_free(store, OtherKeys(target), names)


def _into_store(backup: Backup, target: Path, streams: Sequence[KeptStream], wanted: Wanted) -> Restored:
    """Copies streams into a store, under hidden names until all of them are whole and durable."""
    restored = Restored(target)
    with wrapped(target, "open"):
        fd = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock(fd, target)
        with (
            stores.open(backup.path, read_only=True, create=False) as earlier,
            _open_quiet(target, seal="background") as store,
        ):
            for left in [name for name in store.streams(unfinished=True) if name.startswith(_UNFINISHED)]:
                store.delete(left)  # of a restore that was killed: this one has the lock
            names = {stream.raw_name: wanted.named(stream.raw_name) for stream in streams}
            others = OtherKeys(target)
            _must_be_free(store, others, list(names.values()))
            unfinished = {name: _UNFINISHED + hashlib.sha256(name).hexdigest()[:16].encode() for name in names.values()}
            try:
                for own, name in names.items():
                    source = earlier.stream(own)
                    if not wanted.damaged:
                        check_whole(source, MAX_ID if wanted.until is None else wanted.until)
                    copy_until(source, store.stream(unfinished[name]), wanted.until, lambda _: None)
                store.sync()
                # Looked at before they have their names: what fails from then on comes too late to be an answer.
                for name, left in unfinished.items():
                    restored.entries += len(store.stream(left))
                    _note_rule(name, store.stream(left), restored)
                    restored.streams[name.decode("utf-8", "surrogateescape")] = Rewound("copied")
                    restored.names[name.decode("utf-8", "surrogateescape")] = name
                with others.held():
                    _must_be_free(store, others, list(unfinished))
                    take_names(store, unfinished)
            except DiskstreamError:
                for left in unfinished.values():
                    with contextlib.suppress(DiskstreamError):  # else the next restore does it
                        store.delete(left)
                raise
    finally:
        os.close(fd)
    return restored
