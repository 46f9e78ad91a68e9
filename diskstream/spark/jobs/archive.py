"""The job `archive`: entries of streams to Parquet, each once.

A run goes on where the last one ended, stream by stream; what it wrote counts all at once, by the next version of the
manifest. It reads from a lease, so no trim can take away what it is about to read. It never trims.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import diskstream
from diskstream.errors import ArchiveError, ArgumentError
from diskstream.ids import MAX_ID, MIN_ID, EntryID, parse_end, parse_start
from diskstream.spark.jobs.archive_plan import (
    ArchivePlan,
    ArchiveSettings,
    ArchiveTask,
    plan_streams,
    shape_of,
    tasks_of,
)
from diskstream.spark.jobs.connect import cores_of
from diskstream.spark.jobs.folders import cut, folder_of
from diskstream.spark.jobs.garbage import Garbage, check_grace, collect, collect_behind, nobodys, running
from diskstream.spark.jobs.leasing import leased
from diskstream.spark.jobs.manifest import FOLDER, ArchivedFile, Manifest, by_stream, latest
from diskstream.spark.jobs.names_among import NamesAmong
from diskstream.spark.jobs.outcome import Guarded
from diskstream.spark.jobs.part_reading import verify_part
from diskstream.spark.jobs.parts import PartWriter, archived, discard
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.run import run_tasks
from diskstream.spark.jobs.settling import settle
from diskstream.spark.kept_stores import STORES
from diskstream.spark.losses import RUN_AGAIN, whole
from diskstream.spark.partitions import Slice
from diskstream.spark.planning import by_name_or_pattern, chosen_streams, open_for_planning
from diskstream.store import Store
from diskstream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["ArchiveSettings", "ArchiveSummary", "ArchiveTask", "StreamArchived", "archive_slices", "run"]

_BATCH_ROWS: Final = 16_384


@dataclass(frozen=True)
class StreamArchived:
    """What became of one stream.

    Attributes:
        stream: its name.
        entries, files, size_bytes: what was added to the archive; in a dry run `entries` counts deleted ones too.
        archived_from, archived_to: everything that was live between these IDs is in the archive: the store may be
            trimmed up to `archived_to` where no note tells of entries before `archived_from`. None where nothing is.
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


def archive_slices(task: ArchiveTask) -> list[ArchivedFile]:
    """Writes the files of a task; none is left where it fails.

    Raises:
        CorruptionError: the store cannot be read.
        StorageError: the disk says no.
        ArchiveError: what was written cannot be read back.
        NotAStoreError, DataLossError: the lease ran out, or a store that can have none has lost what was planned.
    """
    if not Path(task.store).exists():
        STORES.forget()
        raise ArchiveError(f"the lease {task.store} is gone: driver and workers must see the store under the same path")
    place = Place(task.archive)
    made: list[ArchivedFile] = []
    try:
        with STORES.reading(task.store) as store:
            _write(task, store, place, made)
        if task.verify:
            for each in made:
                verify_part(place, each, task.shape)
    except BaseException:
        discard(place, made)
        raise
    return made


def _write(task: ArchiveTask, store: Store, place: Place, made: list[ArchivedFile]) -> None:
    shape = task.shape
    among = NamesAmong()
    writer: PartWriter | None = None
    at: tuple[bytes, str] | None = None
    try:
        for each in task.slices:

            def read(stream: Stream, each: Slice = each) -> "Iterator[pa.RecordBatch]":
                return stream.scan(*each.range, layout=shape.layout, columns=shape.columns, batch_rows=_BATCH_ROWS)

            for batch in whole(store, each.stream, each.range, read, identity=each.identity, advice=RUN_AGAIN):
                for ms, part in cut(archived(batch, among), hourly=shape.hourly):
                    target = each.stream, folder_of(each.stream, ms, hourly=shape.hourly)
                    full = writer is not None and (writer.size_bytes >= task.max_bytes or not writer.takes(part))
                    if writer is not None and (target != at or full):
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


def run(spark: "SparkSession | None", settings: ArchiveSettings) -> ArchiveSummary:
    """Archives what is there and was not archived yet.

    Args:
        spark: the session; without one it is a dry run.
        settings: what to do.

    Raises:
        InvalidIDError: a bound that is none.
        ArgumentError: settings that contradict each other, or the archive.
        NoSuchStreamError, NotAStoreError: what was named is not there.
        ArchiveChangedError: another job has committed to the archive meanwhile; of this run nothing is left.
        ArchiveError: the archive is damaged, has lost its manifest, or is of another store.
        StorageError: the disk said no, here or in a task; of this run nothing is left.
    """
    began = time.monotonic()
    check_grace(settings.grace_s)
    for parse, bound in ((parse_start, settings.start), (parse_end, settings.end)):
        parse(bound)  # before anything is made
    chosen = by_name_or_pattern(settings.streams, settings.pattern)
    place = Place(settings.archive)
    settings = replace(settings, archive=place.root)  # as seen from here: tasks run elsewhere
    base = latest(place)
    _check_apart(Path(place.root), new=not base.version)
    shape = shape_of(settings, base)
    with open_for_planning(settings.store) as store:
        names = chosen_streams(store, chosen)
        _check_manifest_is_not_lost(place, base, store)
        if spark is None or settings.dry_run:
            settings = replace(settings, dry_run=True)
            plan = plan_streams(settings, base, shape, store, names)
            entries: Counter[bytes] = Counter()
            for each in plan.slices:
                entries[each.stream] += each.entries
            garbage = collect(place, settings.grace_s, dry_run=True)
            return _summary(
                settings, plan, names, planned=entries, files=[], version=base.version, garbage=garbage, began=began
            )
        with running(place) as marker, leased(store, names, settings.lease_ttl_s) as lease:
            with diskstream.open(lease, read_only=True) as moment:
                plan = plan_streams(settings, base, shape, moment, names)
            cores = cores_of(spark) if plan.slices else 1  # only a session that runs knows it
            tasks = tasks_of(settings, plan, str(lease), marker.job, cores)
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
    garbage = collect_behind(place, settings.grace_s)
    return _summary(settings, plan, names, planned={}, files=files, version=made.version, garbage=garbage, began=began)


def _check_apart(root: Path, *, new: bool) -> None:
    """An archive among a store's files would be taken for a stream, or swept away as an old lease.

    Raises:
        ArgumentError: the folder is a store or, of a new archive, in one.
    """
    if (root / "store.json").exists():
        raise ArgumentError(f"{root} is a store, or a backup of one: an archive has a folder of its own")
    around = next((each for each in root.resolve().parents if new and (each / "store.json").exists()), None)
    if around is not None:
        raise ArgumentError(f"{root} is in {around}, a store or a backup of one: an archive has a folder of its own")


def _check_manifest_is_not_lost(place: Place, base: Manifest, store: Store) -> None:
    """What looks like a new archive may be one whose folder `_manifest` was left behind, as by a copy that takes names
    with an underscore for hidden; what looks like the latest version, one that was restored where a later one is lost.
    Files of its rows would go as garbage, those of entries that were trimmed too.

    Raises:
        ArchiveError: there are files of entries that the store has no more.
    """
    found = nobodys(place, base)
    names = {folder_of(name, 0, hourly=False).partition("/")[0]: name for name in store.streams()} if found else {}
    for path, first in found:
        name = names.get(path.partition("/")[0])
        trimmed = MAX_ID if name is None else store.stream(name).trimmed_to(first.prev() or MIN_ID)
        if trimmed is None or trimmed < first:
            continue
        if latest(place).version != base.version:
            return  # another job has committed meanwhile, which is told where this one would
        older = f"its manifest, of version {base.version}, does not name them"
        last = f"; where no later version is lost, a run that failed has left {path}: move it elsewhere"
        raise ArchiveError(
            f"{place.root} has files of an archive, but {older if base.version else 'no manifest that names them'}, "
            f"and the store has not all of their entries any more ({path}): restore the folder {FOLDER} from a copy, "
            f"the newest there is, or archive to another folder{last if base.version else ''}"
        )


def _summary(
    settings: ArchiveSettings,
    plan: ArchivePlan,
    names: Sequence[bytes],
    *,
    planned: Mapping[bytes, int],
    files: list[ArchivedFile],
    version: int,
    garbage: Garbage,
    began: float,
) -> ArchiveSummary:
    streams, of_stream = [], by_stream(files)
    for name in names:
        own = of_stream.get(name, [])
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
