"""Removing objects that no stream needs any more: in two steps, so that nothing goes on one look.

A trim, a delete or a compaction touches no storage: what it drops leaves an object that nobody needs. The first sweep
that sees one says so in the catalogue, with the time; a later one removes it, when that was said long enough ago.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from dataclasses import dataclass, field

from diskstream.cold import catalogue
from diskstream.cold_reads import store_uuid
from diskstream.cold_segments import MISSING, ColdStream, needed_paths, opened
from diskstream.errors import ArgumentError, NoSuchStreamError
from diskstream.objects import Object, Place
from diskstream.store import Store

__all__ = ["SweepReport", "Unneeded", "sweep"]

_OBJECT = re.compile(r"(?P<number>\d{8,})(?:\.g(?P<generation>\d+))?\.[0-9a-f]{16}(-\d+)?\.seg")


@dataclass(frozen=True)
class Unneeded:
    """An object that no stream needs.

    Attributes:
        path: below the place.
        stream: the uuid of the stream that it was of.
        size_bytes: its size.
        since_ms: when that was first seen, in milliseconds since 1970; None where it is seen now.
    """

    path: str
    stream: str
    size_bytes: int
    since_ms: int | None


@dataclass
class SweepReport:
    """What a sweep saw and did.

    Attributes:
        place: its URL.
        dry_run: whether nothing was done.
        needed: objects that a stub, or a missing segment, needs.
        foreign: files that are no objects of ours: they are left alone.
        noted: what is seen for the first time to be nobody's; it stays for now.
        waiting: what is nobody's, but not for long enough.
        removed: what was removed, or would be.
    """

    place: str
    dry_run: bool
    needed: int = 0
    foreign: int = 0
    noted: list[Unneeded] = field(default_factory=list)
    waiting: list[Unneeded] = field(default_factory=list)
    removed: list[Unneeded] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """Bytes of what was removed."""
        return sum(each.size_bytes for each in self.removed)


def sweep(store: Store, place: Place | str, *, older_than_ms: int, dry_run: bool = False) -> SweepReport:
    """Removes the objects of a store that none of its streams and leases has needed for so long.

    Backups are not known here: `older_than_ms` is at least as long as they are kept. With 0 objects go at once.

    Args:
        store: the store; it may not be open for reading only.
        place: where to look, or its URL.
        older_than_ms: since when it must be known that nobody needs an object.
        dry_run: say what would be done, and do nothing.

    Raises:
        ArgumentError: a time below 0, or a place that cannot be.
        ChangedError: somebody is moving segments of a stream.
        CorruptionError: a stub or a stream cannot be read, so nobody knows what it needs: nothing was removed.
        RemoteError: the storage does not answer, or refuses.
    """
    given: object = older_than_ms
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ArgumentError(f"older_than_ms must be an int of at least 0, not {older_than_ms!r}")
    there = Place(place) if isinstance(place, str) else place
    report = SweepReport(there.url, dry_run)
    with contextlib.ExitStack() as held:
        missing = _missing(store, held)
        needed = needed_paths(store.path)
        _Sweeper(there, store_uuid(store.path), report, older_than_ms).look(needed, missing)
        for each in report.removed if not dry_run else ():
            _remove(there, each)
    return report


def _missing(store: Store, held: contextlib.ExitStack) -> set[tuple[str, int, int]]:
    """Segments that are listed and have neither file nor stub; nobody moves any until `held` is let go."""
    missing = set()
    for stream in store:
        try:
            cold: ColdStream = held.enter_context(opened(stream))
        except NoSuchStreamError:
            continue  # removed meanwhile
        owner = str(uuid.UUID(bytes=cold.uuid))
        missing |= {(owner, each.number, each.generation) for each in cold.segments() if each.where == MISSING}
    return missing


class _Sweeper:
    def __init__(self, place: Place, store: str, report: SweepReport, older_than_ms: int) -> None:
        self._place, self._store, self._report, self._older_than_ms = place, store, report, older_than_ms
        self._now_ms = now_ms()

    def look(self, needed: set[str], missing: set[tuple[str, int, int]]) -> None:
        """Sorts all objects of the store into those that are needed, and the others by how long."""
        for stream in self._place.folders(self._store):
            if not _is_uuid(stream):
                continue  # the catalogue, and what is not ours
            noted = catalogue.noted(self._place, self._store, stream)
            for each in self._place.objects(f"{self._store}/{stream}"):
                match = _OBJECT.fullmatch(each.path.rpartition("/")[2])
                if match is None or each.path.count("/") != 2:  # noqa: PLR2004  # store, stream, name
                    self._report.foreign += 1
                    continue
                segment = stream, int(match["number"]), int(match["generation"] or 0)
                since = None
                if catalogue.released_path(each.path) in noted:
                    since = catalogue.released_ms(self._place, each.path)
                self._sort(each, stream, since, is_needed=each.path in needed or segment in missing)

    def _sort(self, found: Object, stream: str, since: int | None, *, is_needed: bool) -> None:
        report = self._report
        if is_needed:
            report.needed += 1
            if since is not None and not report.dry_run:
                self._place.remove(catalogue.released_path(found.path))  # it came back, as with a restored stream
            return
        unneeded = Unneeded(found.path, stream, found.size_bytes, since)
        if self._older_than_ms == 0 or (since is not None and since <= self._now_ms - self._older_than_ms):
            report.removed.append(unneeded)
        elif since is not None:
            report.waiting.append(unneeded)
        else:
            report.noted.append(unneeded)
            if not report.dry_run:
                catalogue.release(self._place, found.path, self._now_ms)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _is_uuid(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def _remove(place: Place, unneeded: Unneeded) -> None:
    """The object goes first: a record without one is passed over, an object without one is found again."""
    place.remove(unneeded.path)
    released = catalogue.released_path(unneeded.path)
    place.remove(released.removesuffix(".released.json") + ".json")
    place.remove(released)
