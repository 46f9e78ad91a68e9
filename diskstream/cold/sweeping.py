"""Removing objects that no stream needs any more: in two steps, so that nothing goes on one look.

A trim, a delete or a compaction touches no storage: what it drops leaves an object that nobody needs. The first sweep
that sees one says so in the catalogue, with the time; a later one removes it, when that was said long enough ago, by
the clock here and by the storage's.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from diskstream.cold import catalogue
from diskstream.cold_segments import MISSING, BeingMovedError, needed_paths, opened, uuid_of
from diskstream.errors import ArgumentError, CorruptionError, NoSuchStreamError, RemoteError
from diskstream.objects import Object, Place
from diskstream.store import Store
from diskstream.store_files import holds_segments, nameless, store_uuid
from diskstream.stream import Stream

__all__ = ["SweepReport", "Unneeded", "sweep"]

_CLOCKS_APART_MS = 300_000
_OBJECT = re.compile(r"\d{8,}(?:\.g\d+)?\.[0-9a-f]{16}(-\d+|-[0-9a-f]{16})?\.seg")


@dataclass(frozen=True)
class Unneeded:
    """An object that no stream needs.

    Attributes:
        path: below the place. The name of a hidden file, `.*.tmp`, is of one that a killed put left on a disk.
        stream: the uuid of the stream that it was of.
        size_bytes: its size.
        since_ms: when that was first seen, in milliseconds since 1970; None where it is seen now. Of what a killed put
            left: when it was last written to.
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
        needed: objects that a stub needs, or that are of a stream of which a segment is missing.
        foreign: files that are no objects of ours: they are left alone.
        noted: what is seen for the first time to be nobody's; it stays for now.
        waiting: what is nobody's, but not for long enough.
        removed: what was removed, or would be.
        skipped: streams of which somebody else is moving segments: nothing of theirs was looked at.
    """

    place: str
    dry_run: bool
    needed: int = 0
    foreign: int = 0
    noted: list[Unneeded] = field(default_factory=list)
    waiting: list[Unneeded] = field(default_factory=list)
    removed: list[Unneeded] = field(default_factory=list)
    skipped: list[bytes] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """Bytes of what was removed."""
        return sum(each.size_bytes for each in self.removed)


def sweep(
    store: Store,
    place: Place | str,
    *,
    older_than_ms: int,
    dry_run: bool = False,
    progress: Callable[[int], None] | None = None,
) -> SweepReport:
    """Removes the objects of a store that none of its streams and leases has needed for so long.

    Backups are not known here: `older_than_ms` is at least as long as they are kept. With 0 objects go at once.

    Args:
        store: the store; it may not be open for reading only.
        place: where to look, or its URL.
        older_than_ms: since when it must be known that nobody needs an object.
        dry_run: say what would be done, and do nothing.
        progress: called with the bytes of what was just removed, or would be.

    Raises:
        ArgumentError: a time below 0, or a place that cannot be.
        CorruptionError: a stub or a stream cannot be read, so nobody knows what it needs: nothing goes then.
        RemoteError: the storage does not answer, or refuses.
    """
    given: object = older_than_ms
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ArgumentError(f"older_than_ms must be an int of at least 0, not {older_than_ms!r}")
    there = Place(place) if isinstance(place, str) else place
    there.check_folder(store_uuid(store.path))
    report = SweepReport(there.url, dry_run)
    _Sweeper(store, there, report, older_than_ms, progress).sweep()
    return report


class _Sweeper:
    def __init__(
        self,
        store: Store,
        place: Place,
        report: SweepReport,
        older_than_ms: int,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._progress = progress
        self._store, self._place, self._report, self._older_than_ms = store, place, report, older_than_ms
        self._uuid, self._now_ms = store_uuid(store.path), now_ms()
        self._clock_is_checked = False

    def sweep(self) -> None:
        """Goes through the streams that the place knows, one after the other; nobody moves one that is looked at.

        One that somebody else moves is left for the next sweep: its objects may be there before their stubs are.
        """
        owners = [each for each in self._place.folders(self._uuid) if _is_uuid(each)]
        # Only now: who has a folder there is a stream by now, or none any more, and then nobody moves what is in it.
        known = self._streams()
        needed = needed_paths(self._store.path)
        for owner in owners:
            if owner not in known:
                self._one(owner, needed, is_whole=True)
                continue
            try:
                with contextlib.suppress(NoSuchStreamError):
                    self._of_stream(owner, known[owner], needed)
            except BeingMovedError:
                self._report.skipped.append(known[owner].name)

    def _of_stream(self, owner: str, stream: Stream, needed: set[str]) -> None:
        with opened(stream, dry_run=self._report.dry_run) as cold:
            if str(uuid.UUID(bytes=cold.uuid)) != owner:
                return  # another stream took the name meanwhile
            segments = cold.segments()
            stubs = {each.stub.path for each in segments if each.stub is not None}
            # What is missing may have been compacted before it was moved, where the log is of an earlier moment.
            is_whole = all(each.where != MISSING for each in segments)
            self._one(owner, needed | stubs, is_whole=is_whole)

    def _streams(self) -> dict[str, Stream]:
        """All streams by their uuids, at one moment: none is overlooked that is renamed while names are listed.

        Who makes, renames or removes a stream waits for that. So they are opened before, a millisecond each; at that
        moment it is only looked whether they are the same.

        Raises:
            CorruptionError: the name of one cannot be read, which is on no list then: nobody knows what it needs.
        """
        store = self._store
        opened_before = {uuid_of(stream) for stream in store}

        def identity(stream: Stream) -> bytes | None:
            found = store._identity_unopened(stream.name)
            return found if found is not None and found in opened_before else uuid_of(stream)

        with contextlib.ExitStack() as stack:
            if not store.read_only:
                stack.enter_context(store._mutex)  # in the order in which the store takes the two
                stack.enter_context(store._lock_names())
            for folder in nameless(store.path):
                if holds_segments(folder):
                    what = "a stream whose name cannot be read"
                    raise CorruptionError(str(folder / "name"), "name of a stream", 0, "its name", what)
            identities = [(identity(stream), stream) for stream in store]
        return {str(uuid.UUID(bytes=identity)): stream for identity, stream in identities if identity is not None}

    def _check_clock(self) -> None:
        """Nothing goes by its age while nobody knows what time it is."""
        if self._clock_is_checked or self._report.dry_run or self._place.address.scheme == "file":
            return
        there_ms = catalogue.clock_ms(self._place, self._uuid, self._now_ms)
        if there_ms and abs(there_ms - now_ms()) > _CLOCKS_APART_MS:
            what = (
                f"nothing goes by its age: the clock there is at {there_ms} ms since 1970, the one here at {now_ms()}"
            )
            raise RemoteError(self._place.url, what, "set the clock of this machine")
        self._clock_is_checked = True

    def _one(self, owner: str, needed: set[str], *, is_whole: bool) -> None:
        noted = catalogue.noted(self._place, self._uuid, owner)
        going: list[Unneeded] = []
        for each in self._place.objects(f"{self._uuid}/{owner}"):
            match = _OBJECT.fullmatch(each.path.rpartition("/")[2])
            if match is None or each.path.count("/") != 2:  # noqa: PLR2004  # store, stream, name
                self._report.foreign += 1
                continue
            since = None
            if catalogue.released_path(each.path) in noted:
                since = catalogue.released_ms(self._place, each.path)
                if since is not None:  # a clock that was behind when it was noted does not make it older
                    since = max(since, noted[catalogue.released_path(each.path)])
            if each.path in needed or not is_whole:
                self._keep(each, since)
            elif self._older_than_ms == 0 or (since is not None and since <= self._now_ms - self._older_than_ms):
                going.append(Unneeded(each.path, owner, each.size_bytes, since))
            else:
                self._wait(Unneeded(each.path, owner, each.size_bytes, since))
        self._halves(owner)
        # A lease may have been made since the first look. Now no stub of this stream comes or goes but by a trim.
        if going and self._older_than_ms:
            self._check_clock()
        still = needed_paths(self._store.path) if going else set()
        for unneeded in going:
            if unneeded.path in still:
                self._report.needed += 1
            else:
                self._go(unneeded, self._remove)

    def _halves(self, owner: str) -> None:
        """What killed puts left on a disk. Nobody writes there now but another store with this uuid, as a copy is."""
        for folder in (f"{self._uuid}/{owner}", f"{self._uuid}/catalogue/{owner}"):
            for each in self._place.halves(folder):
                half = Unneeded(each.path, owner, each.size_bytes, each.changed_ms)
                if self._older_than_ms == 0 or each.changed_ms <= self._now_ms - self._older_than_ms:
                    self._go(half, lambda half: self._place.remove_half(half.path))
                else:
                    self._report.waiting.append(half)

    def _go(self, unneeded: Unneeded, remove: Callable[[Unneeded], None]) -> None:
        self._report.removed.append(unneeded)
        if not self._report.dry_run:
            remove(unneeded)
        if self._progress is not None:
            self._progress(unneeded.size_bytes)

    def _keep(self, found: Object, since: int | None) -> None:
        self._report.needed += 1
        if since is not None and not self._report.dry_run:
            self._place.remove(catalogue.released_path(found.path))  # it came back, as with a restored stream

    def _wait(self, unneeded: Unneeded) -> None:
        if unneeded.since_ms is not None:
            self._report.waiting.append(unneeded)
            return
        self._report.noted.append(unneeded)
        if not self._report.dry_run:
            catalogue.release(self._place, unneeded.path, self._now_ms)

    def _remove(self, unneeded: Unneeded) -> None:
        """The object goes first: a record without one is passed over, an object without one is found again.

        That it goes is said before: a removal that nobody waited for may come later, and no mover relies on it then.
        """
        if unneeded.since_ms is None:
            catalogue.release(self._place, unneeded.path, self._now_ms)
        self._place.remove(unneeded.path)
        self._place.remove(catalogue.record_path(unneeded.path))
        self._place.remove(catalogue.released_path(unneeded.path))


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _is_uuid(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
