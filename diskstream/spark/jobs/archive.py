"""The job `archive`: entries of streams to Parquet, each once.

A run goes on where the last one ended, stream by stream; what it wrote counts all at once, by the next version of the
manifest. It reads from a lease, so no trim can take away what it is about to read. It never trims.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import diskstream
from diskstream import leases
from diskstream.errors import ArchiveError, ArgumentError
from diskstream.ids import MIN_ID, EntryID, parse_end, parse_start
from diskstream.spark.jobs.folders import cut, folder_of
from diskstream.spark.jobs.garbage import Garbage, check_grace, collect, running
from diskstream.spark.jobs.manifest import ArchivedFile, Manifest, Reach, Shape, latest
from diskstream.spark.jobs.outcome import Guarded
from diskstream.spark.jobs.parts import CORRUPT, PartWriter, archived, discard, verify_part
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.run import run_tasks
from diskstream.spark.jobs.settling import settle
from diskstream.spark.names import as_text
from diskstream.spark.options import ReadOptions
from diskstream.spark.partitions import Slice, pack
from diskstream.spark.planning import chosen_streams, open_for_planning, slices_of
from diskstream.spark.tasks import store_for_reading
from diskstream.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ArchiveSettings", "ArchiveSummary", "ArchiveTask", "StreamArchived", "archive_slices", "leased", "run"]

_LAYOUTS: Final = ("fields", "typed")
_TAKEN: Final = frozenset({"id_ms", "id_seq", "ts", "stream", "date", "hour", CORRUPT})
# A task costs 50 to 70 ms, as much as some 100,000 entries.
_LEAST_ENTRIES: Final = 250_000
_BATCH_ROWS: Final = 16_384


@dataclass(frozen=True)
class ArchiveSettings:
    """What to archive, and how.

    Attributes:
        store: the store's directory.
        archive: the archive's, made where it is missing.
        streams: names; all that `pattern` matches where there are none.
        pattern: a glob pattern.
        start, end: the first and the last ID, as `Stream.range` takes them. A time in ms since 1970 is an ID.
        layout: ``fields`` or ``typed``; of an archive that is there: its own.
        columns: for ``typed``: fields and their types, as `Stream.scan` takes them. Other fields are not archived.
        hourly: partitions of an hour, not of a day.
        verify: read each file back before it counts.
        dry_run: only say what would be done.
        max_entries, max_bytes: of one task, and so of one file, at most, but for a piece that cannot be cut.
        grace_s: what killed jobs and older versions left is removed when it is so many seconds old.
        lease_ttl_s: seconds until the lease of a killed run may be removed.
        quiet: show no progress, even on a terminal.
    """

    store: str
    archive: str
    streams: tuple[bytes, ...] = ()
    pattern: str = ""
    start: str = "-"
    end: str = "+"
    layout: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    hourly: bool | None = None
    verify: bool = True
    dry_run: bool = False
    max_entries: int = 2_000_000
    max_bytes: int = 512 << 20
    grace_s: float = 3600.0
    lease_ttl_s: float = 3600.0
    quiet: bool = False


@dataclass(frozen=True)
class StreamArchived:
    """What became of one stream.

    Attributes:
        stream: its name.
        entries, files, size_bytes: what was added to the archive; in a dry run `entries` counts deleted ones too.
        archived_from, archived_to: everything that was live between these IDs is in the archive: the store may be
            trimmed up to `archived_to`. None where nothing is.
        note: what an operator should know.
    """

    stream: bytes
    entries: int
    files: int
    size_bytes: int
    archived_from: EntryID | None
    archived_to: EntryID | None
    note: str = ""


@dataclass(frozen=True)
class ArchiveSummary:
    """What a run did.

    Attributes:
        version: the archive's version after it.
        streams: one by one.
        entries, files, size_bytes: of all of them.
        seconds: how long it took.
        verified: whether each file was read back.
        dry_run: whether nothing was done.
        garbage: what was left by killed jobs and older versions.
    """

    version: int
    streams: tuple[StreamArchived, ...]
    entries: int
    files: int
    size_bytes: int
    seconds: float
    verified: bool
    dry_run: bool
    garbage: Garbage


@dataclass(frozen=True)
class ArchiveTask:
    """What one task archives: slices of the lease `store`, in order, of about `max_bytes` a file at most."""

    store: str
    archive: str
    slices: tuple[Slice, ...]
    shape: Shape
    job: str
    verify: bool
    max_bytes: int


@dataclass(frozen=True)
class _Plan:
    base: Manifest
    shape: Shape
    identity: str
    slices: tuple[Slice, ...]
    reaches: Mapping[bytes, Reach]
    notes: Mapping[bytes, str] = field(default_factory=dict)


def archive_slices(task: ArchiveTask) -> list[ArchivedFile]:
    """Writes the files of a task; none is left where it fails.

    Raises:
        CorruptionError: the store cannot be read.
        StorageError: the disk says no.
        ArchiveError: what was written cannot be read back.
    """
    if not Path(task.store).exists():
        store_for_reading.cache_clear()
        raise ArchiveError(f"the lease {task.store} is gone: driver and workers must see the store under the same path")
    leases.touch(Path(task.store))
    place = Place(task.archive)
    store = store_for_reading(task.store)
    made: list[ArchivedFile] = []
    try:
        _write(task, store, place, made)
        if task.verify:
            for each in made:
                verify_part(place, each)
    except BaseException:
        discard(place, made)
        raise
    return made


def _write(task: ArchiveTask, store: Store, place: Place, made: list[ArchivedFile]) -> None:
    shape = task.shape
    writer: PartWriter | None = None
    at: tuple[bytes, str] | None = None
    try:
        for each in task.slices:
            first, last = each.range
            scanned = store.stream(each.stream).scan(
                first, last, layout=shape.layout, columns=shape.columns, batch_rows=_BATCH_ROWS
            )
            for batch in scanned:
                for ms, part in cut(archived(batch), hourly=shape.hourly):
                    target = each.stream, folder_of(each.stream, ms, hourly=shape.hourly)
                    if writer is not None and (target != at or writer.size_bytes >= task.max_bytes):
                        made.append(writer.close("store"))
                        writer = None
                    if writer is None:
                        writer, at = PartWriter(place, target[1], each.stream, shape, task.job), target
                    writer.write(part)
        if writer is not None:
            made.append(writer.close("store"))
            writer = None
    finally:
        if writer is not None:
            writer.abandon()


@contextmanager
def leased(store: Store, names: Sequence[bytes], ttl_s: float) -> Iterator[Path]:
    """One moment of some streams, until the end of the block; of a store that is read-only, the store itself."""
    if store.read_only:
        yield store.path
        return
    lease = store.lease(names, ttl_s=ttl_s)
    try:
        # What is archived must not be lost by the store: after a power cut it would give the same IDs to others.
        store.sync()
        yield lease
    finally:
        leases.release(lease)


def run(spark: "SparkSession", settings: ArchiveSettings) -> ArchiveSummary:
    """Archives what is there and was not archived yet.

    Raises:
        ArgumentError: settings that contradict each other, or the archive.
        NoSuchStreamError, NotAStoreError: what was named is not there.
        ArchiveChangedError: another job has committed to the archive meanwhile; of this run nothing is left.
        ArchiveError: the archive is damaged, or is of another store.
        StorageError: the disk said no, here or in a task; of this run nothing is left.
    """
    began = time.monotonic()
    check_grace(settings.grace_s)
    place = Place(settings.archive)
    base = latest(place)
    shape = _shape(settings, base)
    with open_for_planning(settings.store) as store:
        chosen = ReadOptions(streams=settings.streams, stream_pattern=settings.pattern)
        names = chosen_streams(store, chosen)
        if settings.dry_run:
            plan = _plan(settings, base, shape, store, names)
            entries = {name: sum(s.entries for s in plan.slices if s.stream == name) for name in names}
            garbage = collect(place, settings.grace_s, dry_run=True)
            return _summary(
                settings, plan, names, planned=entries, files=[], version=base.version, garbage=garbage, began=began
            )
        with running(place) as marker, leased(store, names, settings.lease_ttl_s) as lease:
            with diskstream.open(lease, read_only=True) as moment:
                plan = _plan(settings, base, shape, moment, names)
            tasks = _tasks(settings, plan, str(lease), marker.job, spark.sparkContext.defaultParallelism)
            outcomes = run_tasks(spark, "archiving", tasks, Guarded(archive_slices), quiet=settings.quiet)

            def following(files: list[ArchivedFile]) -> Manifest:
                return base.next(
                    "archive",
                    (*base.files, *files),
                    store=plan.identity,
                    shape=shape,
                    streams={**base.streams, **plan.reaches},
                )

            made, files = settle(place, marker, outcomes, following) if plan.reaches else (base, [])
    garbage = collect(place, settings.grace_s)
    return _summary(settings, plan, names, planned={}, files=files, version=made.version, garbage=garbage, began=began)


def _shape(settings: ArchiveSettings, base: Manifest) -> Shape:
    """The archive's, which the settings may repeat; of a new archive, what they say.

    Raises:
        ArgumentError: they say something else, or nothing that can be done.
    """
    layout = settings.layout or base.shape.layout
    given = Shape(
        layout,
        settings.columns or (base.shape.columns if layout == base.shape.layout else ()),
        base.shape.hourly if settings.hourly is None else settings.hourly,
    )
    if given.layout not in _LAYOUTS:
        raise ArgumentError(f"an archive has layout {' or '.join(_LAYOUTS)}, not {given.layout!r}")
    if (given.layout == "typed") != bool(given.columns):
        raise ArgumentError("layout 'typed' needs columns (fields and their types), and no other layout takes any")
    names = [name for name, _ in given.columns]
    clashing = sorted((set(names) & _TAKEN) | {name for name in names if names.count(name) > 1})
    if clashing:
        raise ArgumentError(f"an archive cannot have a field as column {clashing[0]!r}: it has one of that name")
    if base.version and given != base.shape:
        raise ArgumentError(
            f"the archive {settings.archive} has {_words(base.shape)}, not {_words(given)}: leave that out, or "
            "archive to another folder"
        )
    return given


def _words(shape: Shape) -> str:
    columns = "".join(f" {name}:{kind}" for name, kind in shape.columns)
    return f"layout {shape.layout}{columns}, partitions by {'hour' if shape.hourly else 'day'}"


def _plan(settings: ArchiveSettings, base: Manifest, shape: Shape, store: Store, names: Sequence[bytes]) -> _Plan:
    # The identity of a store is part of its format, and a lease has a copy.
    identity = str(json.loads((store.path / "store.json").read_text())["uuid"])
    if base.store and base.store != identity:
        raise ArchiveError(
            f"the archive {settings.archive} is of another store than {settings.store}: use another folder"
        )
    low, high = parse_start(settings.start), parse_end(settings.end)
    reaches, notes = dict[bytes, Reach](), dict[bytes, str]()
    slices: list[Slice] = []
    for name in names:
        stream, before = store.stream(name), base.streams.get(name)
        last = stream.last_id()
        if before is not None:
            _check(name, before, low, last)
            if before.last >= min(high, last):
                continue
            low_here = before.last.next() or before.last
        else:
            low_here = low
        until = min(high, last)
        if last == MIN_ID or low_here > until:
            continue
        trimmed = stream.trimmed_to()
        if before is not None and trimmed is not None and trimmed > before.last:
            notes[name] = f"entries from {low_here} to {trimmed} were trimmed before they were archived"
        reaches[name] = Reach(before.first if before else low_here, until)
        limits = settings.max_entries, settings.max_bytes
        slices.extend(slices_of(stream, low_here, until, (min(limits[0], _LEAST_ENTRIES), limits[1])))
    return _Plan(base, shape, identity, tuple(slices), reaches, notes)


def _check(name: bytes, before: Reach, low: EntryID, last: EntryID) -> None:
    if last < before.last:
        raise ArchiveError(
            f"stream {as_text(name)} is archived up to {before.last}, and the store's ends at {last}: it was deleted "
            "and made anew; archive it to another folder"
        )
    if low > (before.last.next() or before.last):
        raise ArgumentError(
            f"stream {as_text(name)} is archived up to {before.last}: a start at {low} would leave a gap; leave it "
            "out, or archive to another folder"
        )


def _tasks(settings: ArchiveSettings, plan: _Plan, lease: str, job: str, workers: int) -> list[ArchiveTask]:
    """Two tasks for each core, if they are large enough: the last one to end is then not waited for long."""
    total = sum(each.entries for each in plan.slices)
    entries = max(_LEAST_ENTRIES, min(settings.max_entries, -(-total // (2 * workers))))
    packed = pack(plan.slices, settings.max_bytes, min(entries, settings.max_entries))
    return [
        ArchiveTask(lease, settings.archive, run, plan.shape, job, settings.verify, settings.max_bytes)
        for run in packed
    ]


def _summary(
    settings: ArchiveSettings,
    plan: _Plan,
    names: Sequence[bytes],
    *,
    planned: Mapping[bytes, int],
    files: list[ArchivedFile],
    version: int,
    garbage: Garbage,
    began: float,
) -> ArchiveSummary:
    streams = []
    for name in names:
        own = [each for each in files if each.stream == name]
        reach = plan.base.streams.get(name) if settings.dry_run else plan.reaches.get(name, plan.base.streams.get(name))
        one = StreamArchived(
            name,
            planned.get(name, 0) or sum(each.rows for each in own),
            len(own),
            sum(each.size_bytes for each in own),
            reach.first if reach else None,
            reach.last if reach else None,
            plan.notes.get(name, ""),
        )
        streams.append(one)
    return ArchiveSummary(
        version,
        tuple(streams),
        sum(each.entries for each in streams),
        len(files),
        sum(each.size_bytes for each in files),
        time.monotonic() - began,
        settings.verify and not settings.dry_run,
        settings.dry_run,
        garbage,
    )
