"""The job `compact`: small files of a partition into files of a target size.

The new version of the manifest names the new files in place of the old ones. Readers of the version before go on: its
files stay until it was replaced for longer than the grace time.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from diskstream.errors import ArchiveError, ArgumentError
from diskstream.spark.jobs.digest import Digest, digest_of
from diskstream.spark.jobs.garbage import Garbage, check_grace, collect, collect_behind, running
from diskstream.spark.jobs.manifest import ArchivedFile, Manifest, Shape, there
from diskstream.spark.jobs.outcome import Guarded
from diskstream.spark.jobs.part_reading import read_part, verify_part
from diskstream.spark.jobs.parts import PartWriter, discard
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.run import run_tasks
from diskstream.spark.jobs.settling import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CompactSettings", "CompactSummary", "CompactTask", "bins", "merge_files", "run"]

# A file that is nearly full is left as it is: merging it would write much and win little.
_FULL: Final = 0.75


@dataclass(frozen=True)
class CompactSettings:
    """What to compact, and how.

    Attributes:
        archive: the archive's directory.
        streams: their names; all where there are none.
        target_bytes, target_rows: of a file, at most.
        grace_s: for so many seconds readers go on with a version that was replaced; at least a minute.
        verify: read each file back before it counts.
        dry_run: only say what would be done.
        quiet: show no progress, even on a terminal.
    """

    archive: str
    streams: tuple[bytes, ...] = ()
    target_bytes: int = 128 << 20
    target_rows: int = 2_000_000
    grace_s: float = 3600.0
    verify: bool = True
    dry_run: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class CompactSummary:
    """What a run did, or would do.

    Attributes:
        version: the archive's version after it.
        files_before, files_after: of the whole archive; in a dry run what it would come to.
        merged: how many files became fewer.
        rows: how many rows were written anew.
        bytes_before, bytes_after: of the merged files, and of what they became (0 in a dry run).
        seconds: how long it took.
        dry_run: whether nothing was done.
        garbage: what older versions and killed jobs left.
    """

    version: int
    files_before: int
    files_after: int
    merged: int
    rows: int
    bytes_before: int
    bytes_after: int
    seconds: float
    dry_run: bool
    garbage: Garbage


@dataclass(frozen=True)
class CompactTask:
    """What one task does: some files of one partition, in order of IDs, become one."""

    archive: str
    files: tuple[ArchivedFile, ...]
    shape: Shape
    job: str
    verify: bool


def bins(files: Iterable[ArchivedFile], target_bytes: int, target_rows: int) -> list[tuple[ArchivedFile, ...]]:
    """Runs of small neighbours of a partition that fit into one file. A file in no run stays as it is.

    Only neighbours: so files of a partition stay apart by ID, and each in order.
    """
    found: list[tuple[ArchivedFile, ...]] = []
    ordered = sorted(files, key=lambda each: (each.folder, each.first))
    for _, partition in groupby(ordered, key=lambda each: each.folder):
        run: list[ArchivedFile] = []
        for each in partition:
            full = each.size_bytes >= _FULL * target_bytes or each.rows >= _FULL * target_rows
            over = (
                sum(held.size_bytes for held in run) + each.size_bytes > target_bytes
                or sum(held.rows for held in run) + each.rows > target_rows
            )
            if full or over:
                found.append(tuple(run))
                run = []
            if not full:
                run.append(each)
        found.append(tuple(run))
    return [run for run in found if len(run) > 1]


def merge_files(task: CompactTask) -> list[ArchivedFile]:
    """Writes the one file of a task; two where some IDs have parts from 2^63 on, and so another order in a file.

    Raises:
        ArchiveError: a file is damaged or missing.
        StorageError: the disk says no.
    """
    place, head = Place(task.archive), task.files[0]
    writer = PartWriter(place, head.folder, head.stream, task.shape, task.job)
    made: list[ArchivedFile] = []
    try:
        for each in task.files:
            found = Digest()
            for batch in read_part(place, each.path, task.shape, among=True):
                found += digest_of([batch])
                if not writer.takes(batch):
                    made.append(writer.close("compact"))
                    writer = PartWriter(place, head.folder, head.stream, task.shape, task.job)
                writer.write(batch)
            _check(place, each, found)
        made.append(writer.close("compact"))
        if task.verify:
            for one in made:
                verify_part(place, one, task.shape)
    except BaseException:
        writer.abandon()
        discard(place, made)
        raise
    return made


def _check(place: Place, file: ArchivedFile, found: Digest) -> None:
    if found != file.digest:
        raise ArchiveError(
            f"{place.full(file.path)} is damaged: its digest is {found}, not {file.digest}; nothing was compacted"
        )


def run(spark: "SparkSession | None", settings: CompactSettings) -> CompactSummary:
    """Compacts an archive, and removes what has become garbage.

    Args:
        spark: the session; without one it is a dry run.
        settings: what to do.

    Raises:
        ArgumentError: targets or a grace time that make no sense.
        ArchiveChangedError: another job has committed meanwhile; of this run nothing is left.
        ArchiveError: there is no archive, or a file of it is damaged.
        StorageError: the disk said no.
    """
    began = time.monotonic()
    if settings.target_bytes < 1 or settings.target_rows < 1:
        raise ArgumentError("a file has at least one row and one byte")
    check_grace(settings.grace_s)
    place = Place(settings.archive)
    base = there(place)
    base.check_has(settings.streams, place.root)
    chosen = [each for each in base.files if not settings.streams or each.stream in settings.streams]
    runs = bins(chosen, settings.target_bytes, settings.target_rows)
    old = {each.path: each for run in runs for each in run}
    made, files = base, list[ArchivedFile]()
    settings = replace(settings, dry_run=settings.dry_run or spark is None)
    garbage = collect(place, settings.grace_s, dry_run=True)
    if runs and spark is not None and not settings.dry_run:
        with running(place) as marker:
            tasks = [CompactTask(place.root, run, base.shape, marker.job, settings.verify) for run in runs]
            sizes = [sum(each.size_bytes for each in run) for run in runs]
            outcomes = run_tasks(spark, "compacting", tasks, Guarded(merge_files), quiet=settings.quiet, sizes=sizes)

            def following(files: list[ArchivedFile]) -> Manifest:
                kept = (each for each in base.files if each.path not in old)
                return base.next("compact", (*kept, *files))

            made, files = settle(place, marker, outcomes, following)
    if not settings.dry_run:
        garbage = collect_behind(place, settings.grace_s)
    return CompactSummary(
        made.version,
        len(base.files),
        len(base.files) - len(old) + len(runs) if settings.dry_run else len(made.files),
        len(old),
        sum(each.rows for each in old.values()),
        sum(each.size_bytes for each in old.values()),
        sum(each.size_bytes for each in files),
        time.monotonic() - began,
        settings.dry_run,
        garbage,
    )
