"""Sealed segments out to object storage.

Nothing local goes before the object was read back whole and a stub is durable in its place. Each segment is done by
itself: whoever is stopped and begins again goes on with the first that has no stub. What the last attempt put may still
be on its way, so it is put anew, under another name, unless a record says that it came whole.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from functools import partial

from diskstream.cold import catalogue
from diskstream.cold.transfer import RUN_AGAIN, Moved, MoveReport, Progress, Reader, described, fetching, ignore
from diskstream.cold_segments import HERE, STUB, ColdStream, Kept, Sound, Stub, names_place, opened
from diskstream.errors import ArgumentError, ChangedError, CorruptionError, NewerFormatError, RemoteError
from diskstream.ids import EntryID, IDLike, parse_id
from diskstream.objects import Place
from diskstream.pace import Pace, check_pace
from diskstream.plurals import number_of
from diskstream.store_files import store_uuid
from diskstream.stream import Stream

__all__ = ["check_place", "move_out"]

_MOST_LEFT = 10  # objects of one segment that nobody relies on: a storage that spoils all is not filled with them


@dataclass(frozen=True)
class _Rule:
    """Which segments go: those that any of these says."""

    older_than_ms: int | None
    keep_bytes: int | None
    keep_entries: int | None
    before: EntryID | None

    def __post_init__(self) -> None:
        for name in ("older_than_ms", "keep_bytes", "keep_entries"):
            value: object = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ArgumentError(f"{name} must be an int of at least 0, not {value!r}")
        if all(given is None for given in (self.older_than_ms, self.keep_bytes, self.keep_entries, self.before)):
            raise ArgumentError("say what goes: older_than_ms, keep_bytes, keep_entries or before")

    def chosen(self, cold: ColdStream, now_ms: int) -> list[Kept]:
        """The segments that go, in order, wherever they are."""
        going: list[Kept] = []
        newer_bytes, newer_entries = cold.active_bytes, cold.active_entries
        for each in reversed(cold.segments()):
            newer_bytes += each.size_bytes
            goes = (
                (self.older_than_ms is not None and each.last.ms < now_ms - self.older_than_ms)
                or (self.keep_bytes is not None and newer_bytes > self.keep_bytes)
                or (self.keep_entries is not None and newer_entries >= self.keep_entries)
                or (self.before is not None and each.last < self.before)
            )
            newer_entries += each.live
            if goes:
                going.append(each)
        return going[::-1]


def move_out(
    stream: Stream,
    place: Place | str,
    *,
    older_than_ms: int | None = None,
    keep_bytes: int | None = None,
    keep_entries: int | None = None,
    before: IDLike | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    bytes_per_s: float | None = None,
) -> MoveReport:
    """Moves sealed segments of a stream to object storage: those that any of the four rules says.

    Only whole segments go, and never the newest sealed one while the active one follows it. What is appended but not
    sealed stays. May be stopped at any moment and called again.

    Args:
        stream: the stream, of a store that may be written to; for a dry run of any.
        place: where to, or its URL.
        older_than_ms: segments whose newest ID is older than so many milliseconds.
        keep_bytes: all but the newest segments that together have so many bytes on disk, the active one included.
        keep_entries: all but the newest segments, as many as are needed to keep so many live entries.
        before: segments whose IDs are all below this one.
        now_ms: what `older_than_ms` counts back from, in milliseconds since 1970; None is the store's clock.
        dry_run: say what would go, and do nothing; the storage is not asked.
        progress: called with bytes just handled; each counts twice, once put and once read back.
        bytes_per_s: the most to put and read back in a second.

    Raises:
        ArgumentError: no rule, a bound that is not above 0, or a place that cannot be.
        NoSuchStreamError: there is no stream.
        ChangedError: somebody else is moving its segments.
        CorruptionError: a segment is damaged: it stays, and so do those after it.
        RemoteError: the storage does not answer, refuses, or has not kept what it was given; or a disk is not mounted.
            What was not moved yet is where it was.
        StorageError: the disk said no.
    """
    check_pace("bytes_per_s", bytes_per_s)
    there = Place(place) if isinstance(place, str) else place
    rule = _Rule(older_than_ms, keep_bytes, keep_entries, None if before is None else parse_id(before))
    _check_apart(stream, there)
    report = MoveReport(stream.name, there.url, dry_run)
    with opened(stream, dry_run=dry_run) as cold:
        if not dry_run:
            _have_folder(stream, there)
            there.check_folder(store_uuid(stream._store.path))
        mover = _Mover(stream, cold, there, Pace(bytes_per_s), progress or ignore)
        for segment in rule.chosen(cold, _now_ms(stream) if now_ms is None else now_ms):
            if segment.where == STUB:
                report.already += 1
            elif segment.where == HERE and segment.stays:
                report.stays = True
            elif segment.where == HERE:
                moved = described(segment) if dry_run else mover.move(segment)
                if moved is not None:
                    report.segments.append(moved)
    return report


def check_place(stream: Stream, place: str) -> None:
    """Whether segments of a stream can be moved to a place, as far as its URL tells; the storage is not asked.

    A place on a disk is made, where nothing says that it was there before: later, in the background, it never is.

    Raises:
        ArgumentError: they cannot.
        NoSuchStreamError: there is no stream.
        RemoteError: the disk refuses.
    """
    there = Place(place)
    _check_apart(stream, there)
    if not stream._store.read_only:
        _have_folder(stream, there)


def _have_folder(stream: Stream, place: Place) -> None:
    """A new place on a disk gets the folder of the store. One that was there is not mounted where it is missing."""
    name = store_uuid(stream._store.path)
    if place.address.scheme != "file":
        return
    with contextlib.suppress(RemoteError):
        place.check_folder(name)
        return
    if not _names(stream, place) and not names_place(stream._store.path, place.url):
        place.make_folder(name)


def _names(stream: Stream, place: Place) -> bool:
    """Whether the rule of a stream names a place, or perhaps does."""
    try:
        rule = stream.retention
        return rule is not None and rule.to is not None and Place(rule.to).url == place.url
    except (ArgumentError, CorruptionError, NewerFormatError):
        return True


def _now_ms(stream: Stream) -> int:
    clock = stream._store.options.clock  # the clock that its IDs are made by
    return time.time_ns() // 1_000_000 if clock is None else clock()


def _check_apart(stream: Stream, place: Place) -> None:
    if place.address.scheme != "file":
        return
    store, root = os.path.realpath(stream._store.path), os.path.realpath(place.address.root)
    if os.path.commonpath([store, root]) == store:
        raise ArgumentError(f"{place.url} is inside the store: what is moved there would not leave it")


def _not_kept(stub: Stub) -> RemoteError:
    return RemoteError(stub.url, f"{stub.path} was put, and is not there; nothing was removed", RUN_AGAIN)


class _Mover:
    """Moves segments of one stream to one place."""

    def __init__(self, stream: Stream, cold: ColdStream, place: Place, pace: Pace, progress: Progress) -> None:
        self._name, self._cold, self._place, self._pace, self._progress = stream.name, cold, place, pace, progress
        self._store = store_uuid(stream._store.path)
        self._listed: dict[str, list[str]] | None = None

    def move(self, segment: Kept) -> Moved | None:
        """Moves one segment. None where it went meanwhile, trimmed or compacted."""
        with self._cold.sound(segment) as sound:
            if sound is None:
                return None
            stub = self._put(segment, sound)
        catalogue.keep(self._place, catalogue.Record(self._store, self._name, stub))
        return described(segment, stub.path) if self._cold.leave(stub) else None

    def _put(self, segment: Kept, sound: Sound) -> Stub:
        """Has the object at the place, read back: one that came whole before, or a new one."""
        which, left = (segment.number, segment.generation), 0
        for path in self._objects(catalogue.stem(which, sound.sha256)):
            stub = self._stub(segment, sound, path)
            if not catalogue.is_kept(self._place, catalogue.Record(self._store, self._name, stub)):
                left += 1
            elif catalogue.is_final(self._place, path) and self._place.size(path) == stub.size_bytes:
                with contextlib.suppress(CorruptionError):
                    self._progress(stub.size_bytes)
                    self._check(stub, segment)
                    return stub
        if left >= _MOST_LEFT:
            where = f"of segment {segment.number}"
            there = number_of(left, f"object {where} is", f"objects {where} are")
            what = f"{there} there, and of none is it known that it came whole"
            hint = "find out what spoils them; diskstream cold sweep removes what no stub names"
            raise ChangedError(self._place.url, what, hint)
        new = partial(catalogue.new_path, self._store, self._cold.uuid, which, sound.sha256)
        stub = self._stub(segment, sound, self._place.put_new(new, Reader(sound, self._pace, self._progress)))
        try:
            self._check(stub, segment)
        except CorruptionError as error:
            what = f"{stub.path} was put, and what was read back is something else; nothing was removed ({error})"
            raise RemoteError(self._place.url, what, RUN_AGAIN) from error
        return stub

    def _objects(self, stem: str) -> list[str]:
        """The objects whose names begin with a stem, as far as the storage lists them; it is asked once."""
        if self._listed is None:
            self._listed = {}
            for each in self._place.objects(catalogue.folder(self._store, self._cold.uuid)):
                name = each.path.rpartition("/")[2].removesuffix(".seg")
                self._listed.setdefault(name.partition("-")[0], []).append(each.path)
        return self._listed.get(stem, [])

    def _check(self, stub: Stub, segment: Kept) -> None:
        self._cold.check(stub, segment, fetching(self._place, self._pace, self._progress, _not_kept))

    def _stub(self, segment: Kept, sound: Sound, path: str) -> Stub:
        return Stub(
            self._cold.uuid,
            segment.number,
            segment.generation,
            segment.entries,
            segment.first,
            segment.last,
            self._place.url,
            path,
            sound.size_bytes,
            sound.sha256,
            time.time_ns() // 1_000_000,
        )
