"""Making a backup of a live store: one moment of each stream, and no second copy of what an earlier backup has."""

import contextlib
import errno
import fnmatch
import os
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from diskstream import leases
from diskstream import store as stores
from diskstream.arguments import check_path, path_of
from diskstream.backups.made import Made, Settings
from diskstream.backups.manifest import (
    Header,
    Kept,
    KeptStream,
    Manifest,
    bounded,
    counted,
    read_manifest,
    write_manifest,
)
from diskstream.backups.parts import copy_jobs, is_of_jobs, stores_in
from diskstream.backups.repository import BackupError, Repository
from diskstream.backups.sharing import Donors, Journal, Looks, release_pins
from diskstream.cold_segments import STUB, segments_of
from diskstream.errors import DiskFullError, DiskstreamError, NotAStoreError, StorageError
from diskstream.pace import Pace, check_pace
from diskstream.store_files import (
    Files,
    Moment,
    copy_file,
    digest_file,
    directory_of,
    holds_segments,
    is_sealed,
    name_of,
    nameless,
    names_at_once,
    pin,
    uuid_of,
    verify_files,
)
from diskstream.stream import Stream
from diskstream.system_calls import all_below, children, is_file, is_there, means_are_short, named, wrapped
from diskstream.work_files import work_faults

__all__ = ["make_backup"]

# A lease of a backup that was killed goes after this time, or with the next backup.
# A backup changes nothing in the store: no seals, and nothing goes by a rule of retention in its own process.
_QUIET: Final[dict[str, Any]] = {"seal": "manual", "fsync": "os", "retention_interval_ms": 0}
_TTL_S: Final = 3600.0
_TOUCH_S: Final = 60.0
# So often the streams are listed, while some vanish from under the hands of whoever lists them.
_LOOKS: Final = 5
_READ_ONLY: Final = 0o440
_LOWEST: Final = 19
_WILD: Final = re.compile(rb"[*?\[]")
# Two segments of the usual size.
_LEFT_BYTES: Final = 128 << 20


def make_backup(store: Path, target: Path, settings: Settings | None = None, *, version: str = "") -> Made:
    """Makes a backup of a store that others may have open, and write to.

    Args:
        store: its directory.
        target: the directory of its backups, made where it is missing.
        settings: see `Settings`.
        version: of diskstream, for the manifest.

    Raises:
        ArgumentError: the target is a URL, or no UTF-8, or a bound is not above 0.
        BackupError: the target is not for this store, or in use; no stream matches.
        NotAStoreError: there is no store.
        ReadOnlyError: the store cannot be written to: a backup must hold its files while it copies them.
        StorageError: the disk said no. The next backup takes over what this one has copied.
    """
    check_path(target, "the path of a backup")
    path_of(target)  # what is in it is opened as a store, to be read back: not to find that out when all is copied
    settings = settings or Settings()
    check_pace("bytes_per_s", settings.bytes_per_s)
    with stores.open(store, create=False, **_QUIET):  # is a store, and ours to use
        pass
    with wrapped(target, "use"):
        return _make(store, target, settings, version)


def _make(store: Path, target: Path, settings: Settings, version: str) -> Made:
    files = Files()
    repository = Repository.make(target, store, files)
    with repository.alone():
        repository.sweep()
        unfinished = repository.unfinished()
        for folder in unfinished:
            release_pins(folder, store)
        made = _Making(store, repository, settings, files, unfinished).run(version)
        for folder in unfinished:
            repository.remove(folder, files)
        return made if settings.patterns else replace(made, job_faults=tuple(work_faults(store)))


@dataclass
class _Found:
    """A stream in the making."""

    part: str
    place: str
    uuid: str
    moment: Moment | None
    files: list[str] = field(default_factory=list)
    new: set[str] = field(default_factory=set)  # files that were not checked yet
    faults: list[str] = field(default_factory=list)


class _Making:
    """One backup, from its hidden directory to its name."""

    def __init__(
        self, store: Path, repository: Repository, settings: Settings, files: Files, unfinished: list[Path]
    ) -> None:
        self._store, self._repository, self._settings, self._files = store, repository, settings, files
        self._began, self._made_ms = time.monotonic(), time.time_ns() // 1_000_000
        self._fresh = repository.begin(files)
        self._one_disk = self._fresh.stat().st_dev == store.stat().st_dev
        self._journal = Journal(self._fresh)
        self._leases: dict[str, Path] = {}
        self._touched = time.monotonic()
        self._pace = Pace(settings.bytes_per_s)
        how = Looks(self._made_ms, self._paced, link=settings.link)
        self._donors = None if settings.full else Donors(repository, unfinished, how)
        self._kept: dict[str, Kept] = {}
        self._found: dict[str, _Found] = {}
        self._shared = self._linked = 0
        self._cold = [0, 0]

    def _handled(self, size_bytes: int) -> None:
        if self._settings.on_bytes is not None:
            self._settings.on_bytes(size_bytes)
        if time.monotonic() - self._touched > _TOUCH_S:
            self._touched = time.monotonic()
            for lease in self._leases.values():
                leases.touch(lease)

    def _paced(self, size_bytes: int) -> None:
        self._handled(size_bytes)
        self._pace.passed(size_bytes, self._wait)

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)
        self._handled(0)  # the leases are kept alive meanwhile

    def run(self, version: str) -> Made:
        try:
            if not self._settings.patterns:
                copy_jobs(self._store, self._fresh, self._files)
                self._keep_jobs()
            self._pin()
            if self._settings.low_priority:
                with contextlib.suppress(OSError):
                    os.nice(_LOWEST)
            self._copy_parts()
        finally:
            self._journal.close()
            self._let_go()
        streams = self._checked()
        return self._finish(version, streams)

    # --- one moment of each stream ------------------------------------------------------------------------------------

    def _pin(self) -> None:
        """Holds a moment of each stream, also of one that MOVE takes from one database to another meanwhile.

        Databases are looked at one after another: it may come to one that was, and be gone from one that was not yet.
        """
        for _ in range(_LOOKS):
            before = self._listed()
            held: dict[str, set[bytes]] = {}
            for part in before:
                with self._opened(part) as opened:
                    held[part] = self._pin_part(part, opened)
            gone = {name for part, names in before.items() for name in names - held[part]}
            if not gone or not any(gone & (names - held.get(part, set())) for part, names in self._listed().items()):
                break
            self._let_go()
            self._leases, self._found = {}, {}
        else:
            what = "streams are moved from one database to another all the time"
            raise BackupError(self._store, what, "run this again when fewer are")
        if not self._leases:
            self._journal.remove()
            self._repository.remove(self._fresh, self._files)
            raise BackupError(self._store, "no stream matches", "diskstream ls lists the streams")
        if self._settings.on_total is not None:
            streams = [each for lease in self._leases.values() for each in named(lease / "streams", "")]
            self._settings.on_total(sum(path.stat().st_size for each in streams for path in named(each, "")))

    def _opened(self, part: str) -> stores.Store:
        """A store within; of one that is none nothing can be held, and it is not passed over either.

        Raises:
            BackupError: its store.json is missing or damaged, or its directory of streams is missing.
        """
        path = self._store / part
        try:
            return stores.open(path, create=False, **_QUIET)
        except NotAStoreError as error:
            what = str(error).removeprefix(f"{path} ")
            raise BackupError(path, what, f"diskstream repair --dir {self._store} mends that") from error

    def _listed(self) -> dict[str, set[bytes]]:
        """Of each store within the streams that are to be kept, by name."""
        found = {}
        for part in stores_in(self._store):
            if part != "keys" or not self._settings.patterns:
                with self._opened(part) as opened:
                    found[part] = set(self._wanted(opened.streams()))
        return found

    def _wanted(self, names: Iterable[bytes]) -> list[bytes]:
        everything = not self._settings.patterns
        return [name for name in names if everything or self._matches(name)]

    def _let_go(self) -> None:
        for lease in self._leases.values():
            leases.release(lease)

    def _pin_part(self, part: str, store: stores.Store) -> set[bytes]:
        """Holds a moment of each stream of one of the stores. Returns the names that can be read."""
        everything = not self._settings.patterns
        unreadable = self._nameless(store)
        damaged: dict[str, str] = {}
        moments: dict[str, Moment] = {}
        for _ in range(_LOOKS):
            wanted = self._wanted(store.streams())
            if not wanted and not everything and not unreadable:
                return set()
            identities = {each: _identity(store, each) for each in wanted}
            name = f"backup-{secrets.token_hex(8)}"
            self._journal.pinned(part, name)

            lease, moments = pin(
                store, wanted, name=name, ttl_s=_TTL_S, unreadable=unreadable, on_damage=damaged.__setitem__
            )
            earlier, self._leases[part] = self._leases.get(part), lease
            if earlier is not None:
                leases.release(earlier)
            held = {each for each in wanted if is_there(lease / "streams" / directory_of(each))}
            # One that is not there was deleted; or it was renamed to a name that was not on the list: look again.
            if len(held) == len(wanted) or (
                held and _are_gone(store, {identities[each] for each in wanted if each not in held})
            ):
                break
        else:
            raise BackupError(store.path, "streams come and go all the time", "run this again when fewer do")
        for place in children(self._leases[part] / "streams"):
            moment = moments.get(place.name)
            found = _Found(part, _below(part, f"streams/{place.name}"), uuid_of(place), moment)
            found.files = [path.name for path in children(place)]
            if moment is None:
                found.faults.append(damaged[place.name])
            self._found[found.place] = found
        return held

    def _nameless(self, store: stores.Store) -> list[Path]:
        """What may be a stream that is to be kept, and whose name cannot be read: else nobody would miss it."""
        found = nameless(store.path)
        patterns = self._settings.patterns
        if not patterns or not found:
            return found
        spelled = {directory_of(each) for each in patterns if not _WILD.search(each)}
        may_match = len(spelled) < len(set(patterns))
        return [each for each in found if (may_match or each.name in spelled) and holds_segments(each)]

    def _matches(self, name: bytes) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._settings.patterns)

    # --- its files ----------------------------------------------------------------------------------------------------

    def _keep_jobs(self) -> None:
        for path in sorted(all_below(self._fresh)):
            relative = path.relative_to(self._fresh).as_posix()
            if is_file(path) and is_of_jobs(relative):
                copied = digest_file(path, lambda _: None)
                self._kept[relative] = Kept(relative, copied.size_bytes, copied.sha256)

    def _copy_parts(self) -> None:
        try:
            for part, lease in self._leases.items():
                self._files.mkdir(self._fresh / part)
                self._files.mkdir(self._fresh / part / "streams")
                self._copy(lease / "store.json", _below(part, "store.json"))
            for found in self._found.values():
                self._files.mkdir(self._fresh / found.place)
                place = self._leases[found.part] / "streams" / found.place.rpartition("/")[2]
                for name in found.files:
                    self._keep(place / name, found)
        except FileNotFoundError as error:
            what, hint = "it is gone: somebody removed the lease", "run this again: it goes on where it stopped"
            raise BackupError(Path(error.filename or self._store), what, hint) from error

    def _keep(self, source: Path, found: _Found) -> None:
        """Takes a file into the backup: as a second name of one that is there already, or as a copy."""
        path = f"{found.place}/{source.name}"
        moment = found.moment if found.moment is not None and found.moment.name == source.name else None
        donor = None
        if self._donors is not None and source.suffix != "":
            donor = self._donors.find(source, found.uuid, moment)
        if donor is not None and self._link(donor.path, self._fresh / path):
            kept = donor.kept
            self._kept[path] = Kept(path, kept.size_bytes, kept.sha256)
            self._shared += kept.size_bytes
            if not donor.is_read:
                self._handled(kept.size_bytes)
            if not donor.is_checked:
                found.new.add(source.name)
            return
        found.new.add(source.name)
        try:
            if self._settings.link and is_sealed(source.name) and self._link(source, self._fresh / path):
                copied = digest_file(source, self._paced)
                self._linked += copied.size_bytes
                self._kept[path] = Kept(path, copied.size_bytes, copied.sha256)
            else:
                self._copy(source, path, found.uuid, moment)
        except StorageError as error:
            if error.filename != str(source) or means_are_short(error):
                raise
            self._files.unlink(self._fresh / path)
            found.faults.append(f"{source.name}: {error.strerror}")

    def _copy(self, source: Path, path: str, uuid: str = "", moment: Moment | None = None) -> None:
        target = self._fresh / path
        self._check_room(source, moment)
        copied = copy_file(source, target, self._files, self._paced, moment)
        with contextlib.suppress(OSError):  # some file systems keep no permissions
            target.chmod(_READ_ONLY)
        self._kept[path] = Kept(path, copied.size_bytes, copied.sha256)
        if uuid:
            self._journal.copied(path, uuid, copied)

    def _check_room(self, source: Path, moment: Moment | None) -> None:
        """Stops before those who write to the store, where it is on the same disk, find it full.

        Raises:
            DiskFullError: too little would be left.
        """
        if not self._one_disk:
            return
        found = os.statvfs(self._fresh)
        size = source.stat().st_size if moment is None else moment.size_bytes
        if found.f_bavail * found.f_frsize - size < _LEFT_BYTES:
            what = f"less than {_LEFT_BYTES >> 20} MiB would be left for the store, which is on the same disk"
            raise DiskFullError(str(self._fresh), "copy to", errno.ENOSPC, what)

    def _link(self, source: Path, target: Path) -> bool:
        """Gives a file a second name; False where it has as many as it can have, or is on another file system."""
        try:
            self._files.link(source, target)
        except StorageError as error:
            if error.errno in (errno.EMLINK, errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EROFS):
                return False
            raise
        except FileNotFoundError:
            return False
        return True

    # --- until it counts ----------------------------------------------------------------------------------------------

    def _checked(self) -> list[KeptStream]:
        """Reads back what is new, and says what each stream is, as one who opens the backup sees it."""
        streams = []
        for part in self._leases:
            places = {place: found for place, found in self._found.items() if found.part == part}
            with stores.open(self._fresh / part, read_only=True, create=False) as opened:
                names = {place: name_of(self._fresh / place) or b"" for place in places}
                report = verify_files(opened, {names[place]: found.new for place, found in places.items()})
                for problem in report.problems:
                    for place, found in places.items():
                        if names[place] == problem.stream:
                            found.faults.append(f"{problem.path.name} at {problem.offset}: {problem.what}")
                streams += [_described(opened, names[place], found) for place, found in places.items()]
                for stream in opened:
                    entries, size_bytes = _cold_of(stream)
                    self._cold[0] += entries
                    self._cold[1] += size_bytes
        return streams

    def _finish(self, version: str, streams: list[KeptStream]) -> Made:
        header = Header(
            number=self._repository.next_number(),
            made_ms=self._made_ms,
            store=self._repository.store,
            place=os.fsencode(self._store.resolve()).decode("utf-8", "surrogateescape"),
            version=version,
            patterns=tuple(pattern.decode("utf-8", "surrogateescape") for pattern in self._settings.patterns),
            new_bytes=sum(kept.size_bytes for kept in self._kept.values()) - self._shared,
        )
        header = counted(header, streams, list(self._kept.values()))
        for folder in sorted({path.parent for path in all_below(self._fresh)}, reverse=True):
            self._files.sync_dir(folder)
        self._journal.remove()
        write_manifest(self._fresh, Manifest(header, streams, self._kept), self._files)
        _must_be_readable(self._fresh)
        path = self._repository.finish(self._fresh, header, self._files)
        seconds = time.monotonic() - self._began
        made = Made(path, header, self._shared, self._linked, streams, seconds, self._cold[0], self._cold[1])
        return replace(made, rotted=() if self._donors is None else tuple(self._donors.rotted))


def _identity(store: stores.Store, name: bytes) -> str:
    """The UUID of a stream; empty where it cannot be told, as of one that goes just now."""
    try:
        return uuid_of(store.path / "streams" / directory_of(name))
    except (FileNotFoundError, StorageError):
        return ""


def _are_gone(store: stores.Store, identities: set[str]) -> bool:
    """Whether streams are certainly not there by whatever name."""
    now = {_identity(store, name) for name in names_at_once(store)}
    return "" not in now | identities and now.isdisjoint(identities)


def _must_be_readable(fresh: Path) -> None:
    """Reads the manifest back: whoever counts on a backup learns now that it cannot be restored, and not then.

    Raises:
        BackupError: it cannot be read.
    """
    try:
        read_manifest(fresh)
    except DiskstreamError as error:
        what, hint = (
            f"its manifest cannot be read back ({error})",
            "it is no backup yet: check the disk, run this again",
        )
        raise BackupError(fresh, what, hint) from error


def _below(part: str, path: str) -> str:
    return f"{part}/{path}" if part else path


def _cold_of(stream: Stream) -> tuple[int, int]:
    """Entries and bytes that are in object storage alone; none where the stream cannot be read, which is told apart."""
    try:
        cold = [each for each in segments_of(stream) if each.where == STUB]
    except DiskstreamError as error:
        if means_are_short(error):
            raise
        return 0, 0
    return sum(each.live for each in cold), sum(each.size_bytes for each in cold)


def _described(store: stores.Store, name: bytes, found: _Found) -> KeptStream:
    kept = KeptStream(found.place, name.decode("utf-8", "surrogateescape"), found.uuid)
    try:
        info = store.stream(name).summary()
    except DiskstreamError as error:
        if means_are_short(error):
            raise  # says nothing of the stream: a backup that calls it damaged would refuse to be restored
        return replace(kept, faults=bounded([*found.faults, str(error)]))
    return replace(
        kept,
        entries=info.length,
        entries_added=info.entries_added,
        first_id=str(info.recorded_first_entry_id),
        last_id=str(info.last_generated_id),
        groups=info.groups,
        faults=bounded(found.faults),
    )
