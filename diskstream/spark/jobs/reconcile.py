"""The job `reconcile`: an archive against its store, by count and digest of each stream and day.

Compared is what both can have: from the store's first live entry (what was trimmed before it is the archive's alone) to
where the archive ends. Each file of the archive is read and held against its own digest too, also one before that
range, of which there is no other copy, unless a start leaves it out. Where a day differs, its rows are compared one by
one, and what is missing, extra or different is told by segment of the store.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import diskstream
from diskstream.errors import ArchiveError, CorruptionError, RemoteError
from diskstream.ids import MAX_ID, EntryID, parse_end, parse_start
from diskstream.options import streams_within_descriptors
from diskstream.spark.jobs.comparing import DayTask, Differing, Side, SideTask, compare_rows, sum_side
from diskstream.spark.jobs.digest import Digest
from diskstream.spark.jobs.folders import DAY_MS
from diskstream.spark.jobs.leasing import leased
from diskstream.spark.jobs.manifest import Manifest, Reach, by_stream, there
from diskstream.spark.jobs.outcome import Guarded, done
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.run import run_tasks
from diskstream.spark.options import ReadOptions
from diskstream.spark.partitions import Slice, pack
from diskstream.spark.planning import by_name_or_pattern, chosen_streams, is_chosen, open_for_planning, slices_of
from diskstream.store import Store
from diskstream.store_files import store_uuid
from diskstream.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Finding", "ReconcileSettings", "ReconcileSummary", "StreamCompared", "run"]

_TASK_ENTRIES: Final = 1_000_000
_TASK_BYTES: Final = 256 << 20
_Sums = dict[tuple[bytes, int], Digest]


@dataclass(frozen=True)
class ReconcileSettings:
    """What to compare.

    Attributes:
        store: the store's directory.
        archive: the archive's.
        streams: names; all that `pattern` matches where there are none.
        pattern: a glob pattern.
        start, end: the first and the last ID, as `Stream.range` takes them.
        other_store: compare though the archive is of another store, as one that was replayed from it.
        dry_run: only say what would be compared.
        lease_ttl_s: seconds until the lease of a killed run may be removed.
        quiet: show no progress, even on a terminal.
    """

    store: str
    archive: str
    streams: tuple[bytes, ...] = ()
    pattern: str = ""
    start: str = "-"
    end: str = "+"
    other_store: bool = False
    dry_run: bool = False
    lease_ttl_s: float = 3600.0
    quiet: bool = False

    def chosen(self) -> ReadOptions:
        """Which streams these are.

        Raises:
            ArgumentError: both names and a pattern.
        """
        return by_name_or_pattern(self.streams, self.pattern)


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        stream: its name.
        date: the day (UTC) as YYYY-MM-DD, or days since 1970 past the year 9999; empty of a file.
        kind: ``missing`` from the archive, ``extra`` in it (or deleted from the store since), ``different``, or
            ``damaged``.
        segment: of the store, where it is known.
        entries: how many.
        first, last: IDs from where to where.
        note: more about it.
    """

    stream: bytes
    date: str
    kind: str
    segment: int | None
    entries: int
    first: EntryID
    last: EntryID
    note: str = ""


@dataclass(frozen=True)
class StreamCompared:
    """What was compared of a stream.

    Attributes:
        stream: its name.
        first, last: the range, both included; None where there is nothing that both have.
        stored, archived: entries of either side within it; in a dry run about, deleted ones count.
        days: how many days.
        archive_only: rows of files before the range, about: what the store has trimmed since.
        note: why nothing was compared.
    """

    stream: bytes
    first: EntryID | None
    last: EntryID | None
    stored: int
    archived: int
    days: int
    archive_only: int
    note: str = ""


@dataclass(frozen=True)
class ReconcileSummary:
    """What a run found.

    Attributes:
        version: of the archive.
        streams: one by one.
        findings: all that is not as it should be.
        seconds: how long it took.
        dry_run: whether nothing was compared.
    """

    version: int
    streams: tuple[StreamCompared, ...]
    findings: tuple[Finding, ...]
    seconds: float
    dry_run: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is nothing."""
        return not self.findings


def run(spark: "SparkSession | None", settings: ReconcileSettings) -> ReconcileSummary:
    """Compares.

    Args:
        spark: the session; without one it is a dry run.
        settings: what to do.

    Raises:
        ArgumentError: both names of streams and a pattern.
        ArchiveError: there is no archive, its manifest is damaged, or it is of another store.
        NotAStoreError, NoSuchStreamError: what was named is not there.
        CorruptionError, StorageError: the store cannot be read.
        DiskstreamError: it took longer than the grace time, and the archive was compacted meanwhile; or the store is
            read-only, so that there is no lease, and has lost what was to be compared.
    """
    began, chosen = time.monotonic(), settings.chosen()
    place = Place(settings.archive)
    settings = replace(settings, archive=place.root)  # as seen from here: tasks run elsewhere
    base = there(place)
    with open_for_planning(settings.store) as store:
        if base.store != store_uuid(store.path) and not settings.other_store:
            raise ArchiveError(
                f"the archive {place.root} is of another store than {settings.store}; with one that was made from the "
                "archive, --other-store compares it all the same"
            )
        names = chosen_streams(store, chosen)
        if spark is None or settings.dry_run:
            return _planned(settings, base, store, names, began)
        with leased(store, names, settings.lease_ttl_s) as lease:
            with diskstream.open(lease, read_only=True, max_open_streams=streams_within_descriptors()) as moment:
                ranges, notes = _ranges(settings, base, moment, names)
                tasks = _tasks(settings, base, moment, ranges, names)
            sizes = [each.size_bytes for each in tasks]
            sides = done(run_tasks(spark, "summing up", tasks, Guarded(sum_side), quiet=settings.quiet, sizes=sizes))
            sums, findings = _sums(tasks, sides)
            differing = _differing(settings, base, str(lease), ranges, sums)
            told = done(run_tasks(spark, "comparing", differing, Guarded(compare_rows), quiet=settings.quiet))
    for task, rows in zip(differing, told, strict=True):
        findings += [_finding(task, each) for each in rows]
    compared = _all_compared(settings, base, names, (ranges, notes), sums)
    return ReconcileSummary(base.version, compared, tuple(findings), time.monotonic() - began)


def _planned(
    settings: ReconcileSettings, base: Manifest, store: Store, names: list[bytes], began: float
) -> ReconcileSummary:
    """What would be compared: what indexes and the manifest say of it."""
    ranges, notes = _ranges(settings, base, store, names)
    sums: tuple[_Sums, _Sums] = {}, {}
    for task in _tasks(settings, base, store, ranges, names):
        pieces = [(each.stream, each.first[0], each.entries) for each in task.slices]
        pieces += [(task.file.stream, task.file.first.ms, task.file.rows)] if task.file and task.within else []
        for stream, ms, rows in pieces:
            into, key = sums[1 if task.file else 0], (stream, ms // DAY_MS)
            into[key] = into.get(key, Digest()) + Digest(rows)
    compared = _all_compared(settings, base, names, (ranges, notes), sums)
    return ReconcileSummary(base.version, compared, (), time.monotonic() - began, dry_run=True)


def _all_compared(
    settings: ReconcileSettings,
    base: Manifest,
    names: list[bytes],
    planned: tuple[Mapping[bytes, Reach], Mapping[bytes, str]],
    sums: tuple[_Sums, _Sums],
) -> tuple[StreamCompared, ...]:
    ranges, notes = planned
    files = by_stream(base.files)
    days: dict[bytes, set[int]] = {}
    rows: tuple[Counter[bytes], Counter[bytes]] = Counter(), Counter()
    for side, into in zip(sums, rows, strict=True):
        for (stream, day), digest in side.items():
            into[stream] += digest.rows
            days.setdefault(stream, set()).add(day)

    def compared(name: bytes, reach: Reach | None, note: str) -> StreamCompared:
        first, last = (reach.first, reach.last) if reach else (None, None)
        before = sum(each.rows for each in files.get(name, []) if reach is None or each.last < reach.first)
        return StreamCompared(name, first, last, rows[0][name], rows[1][name], len(days.get(name, ())), before, note)

    lost = _lost(settings, base, names)
    return (
        *(compared(name, ranges.get(name), notes.get(name, "")) for name in names),
        *(compared(name, None, "the store has no such stream") for name in lost),
    )


def _ranges(
    settings: ReconcileSettings, base: Manifest, store: Store, names: Iterable[bytes]
) -> tuple[dict[bytes, Reach], dict[bytes, str]]:
    """The range of each stream that both sides have; and why there is none."""
    ranges, notes = {}, {}
    for name in names:
        reach = base.streams.get(name)
        if reach is None:
            notes[name] = "not archived"
            continue
        stream = store.stream(name)
        low = max(reach.first, parse_start(settings.start))
        first = _first_live(stream, low)
        if first is None:
            notes[name] = "the store has no entries of it any more"
            continue
        low = max(low, first)
        high = min(reach.last, parse_end(settings.end))
        if low > high:
            notes[name] = "no range that both have"
        else:
            ranges[name] = Reach(low, high)
    return ranges, notes


def _first_live(stream: Stream, low: EntryID) -> EntryID | None:
    """The ID of the first entry; of one before `low`, in a segment that cannot be read and need not be, one that it may
    have: a segment is there as long as it has live entries.

    Raises:
        CorruptionError, RemoteError: a segment that is to be compared cannot be read.
    """
    try:
        entry = next(iter(stream.range("-", "+", count=1)), None)
    except (CorruptionError, RemoteError):
        piece = next(iter(stream.splits(damaged=True)), None)
        if piece is None or piece.last >= low:
            raise
        return piece.first
    return None if entry is None else entry.id


def _tasks(
    settings: ReconcileSettings, base: Manifest, store: Store, ranges: Mapping[bytes, Reach], names: list[bytes]
) -> list[SideTask]:
    slices: list[Slice] = []
    for name, reach in ranges.items():
        slices.extend(slices_of(store.stream(name), reach.first, reach.last, (_TASK_ENTRIES, _TASK_BYTES)))
    lease = str(store.path)
    tasks = [SideTask(lease, settings.archive, base.shape, run) for run in pack(slices, _TASK_BYTES, _TASK_ENTRIES)]
    low, high, chosen = parse_start(settings.start), parse_end(settings.end), {*names, *_lost(settings, base, names)}
    for file in base.files:
        if file.stream not in chosen or file.last < low or file.first > high:
            continue
        both, within = ranges.get(file.stream), None
        if both is not None and file.last >= both.first and file.first <= both.last:
            within = (both.first.ms, both.first.seq), (both.last.ms, both.last.seq)
        # What the store has trimmed is nowhere else: the file is read all the same.
        tasks.append(SideTask(lease, settings.archive, base.shape, file=file, within=within))
    return tasks


def _lost(settings: ReconcileSettings, base: Manifest, names: list[bytes]) -> list[bytes]:
    """Streams that the archive alone has, of those that are compared: of their files there is no other copy. A stream
    that is named must be in the store."""
    gone = {each.stream for each in base.files} - set(names)
    return sorted(name for name in gone if is_chosen(name, settings.chosen()))


def _sums(tasks: list[SideTask], sides: list[Side]) -> tuple[tuple[_Sums, _Sums], list[Finding]]:
    stored: _Sums = {}
    archived: _Sums = {}
    findings = []
    for task, side in zip(tasks, sides, strict=True):
        into = stored if task.file is None else archived
        for key, digest in side.days.items():
            into[key] = into.get(key, Digest()) + digest
        if side.damage and task.file is not None:
            file = task.file
            findings.append(Finding(file.stream, "", "damaged", None, file.rows, file.first, file.last, side.damage))
    return (stored, archived), findings


def _differing(
    settings: ReconcileSettings,
    base: Manifest,
    lease: str,
    ranges: Mapping[bytes, Reach],
    sums: tuple[_Sums, _Sums],
) -> list[DayTask]:
    """A task for each day that differs."""
    tasks, (stored, archived) = [], sums
    of_stream = by_stream(base.files)
    for key in sorted(stored.keys() | archived.keys()):
        if stored.get(key, Digest()) == archived.get(key, Digest()):
            continue
        stream, day = key
        reach = ranges[stream]
        first = max(reach.first, EntryID(day * DAY_MS, 0))
        last = min(reach.last, EntryID(min((day + 1) * DAY_MS - 1, MAX_ID.ms), MAX_ID.seq))
        files = tuple(each for each in of_stream.get(stream, []) if each.last >= first and each.first <= last)
        low, high = (first.ms, first.seq), (last.ms, last.seq)
        tasks.append(DayTask(lease, settings.archive, base.shape, stream, low, high, files))
    return tasks


def _finding(task: DayTask, each: Differing) -> Finding:
    day = task.first[0] // DAY_MS
    try:
        date = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date().isoformat()
    except OverflowError:
        date = str(day)
    return Finding(task.stream, date, each.kind, each.segment, each.entries, each.first, each.last)
