"""The job `profile`: what streams hold, found in one pass inside the tasks and merged by the driver."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diskstream.errors import ArgumentError
from diskstream.spark.jobs.landing import check_landing, landing
from diskstream.spark.jobs.profile_facts import facts_of
from diskstream.spark.jobs.profile_page import page
from diskstream.spark.jobs.profile_task import StreamProfile, profile_partition
from diskstream.spark.jobs.run import run_tasks
from diskstream.spark.jobs.scanning import partitions
from diskstream.spark.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Settings", "Summary", "merged", "run"]


@dataclass(frozen=True)
class Settings:
    """A profile of streams.

    Attributes:
        path: the store's directory.
        streams: names of the streams; none of them: all, or those of `pattern`.
        pattern: streams whose names match, with ``*``, ``?`` and ``[]``.
        since_ms, until_ms: only entries with IDs from, and before, these times.
        html: page to write: one file that needs no other.
        json: file to write the facts to.
        dry_run: say what would be read, and do nothing.
        quiet: show no progress.
    """

    path: str
    streams: tuple[bytes, ...] = ()
    pattern: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    html: Path | None = None
    json: Path | None = None
    dry_run: bool = False
    quiet: bool = field(default=False, compare=False)

    def check(self) -> "Settings":
        """What the settings say together.

        Raises:
            ArgumentError: streams and a pattern.
        """
        if self.streams and self.pattern:
            raise ArgumentError("name the streams, or give a pattern, not both")
        return self

    def reading(self) -> ReadOptions:
        """The same as options of a read."""
        return ReadOptions(
            path=self.path,
            streams=self.streams,
            stream_pattern=self.pattern,
            starting_timestamp=self.since_ms,
            ending_timestamp=self.until_ms,
            lease=not self.dry_run,
        ).check()


@dataclass
class Summary:
    """What was found, or would be looked at.

    Attributes:
        streams: facts of each stream, the one with most entries first: see `profile_facts.facts_of`.
        tasks: how many read.
        entries: of all streams; for a dry run as planned.
        seconds: how long it took, planning included.
        html, json: what was written.
        dry_run: nothing was read; `streams` have no more than a name.
    """

    streams: list[dict[str, Any]]
    tasks: int
    entries: int
    seconds: float = 0.0
    html: str | None = None
    json: str | None = None
    dry_run: bool = False

    def facts(self) -> dict[str, Any]:
        """All of it for JSON."""
        return dict(vars(self))


def merged(parts: list[dict[bytes, StreamProfile]], names: list[bytes]) -> dict[bytes, StreamProfile]:
    """Profiles of the parts of streams as those of the streams.

    Args:
        parts: in order of the partitions.
        names: all streams; those without entries have empty profiles.
    """
    found = {name: StreamProfile() for name in names}
    for part in parts:
        for name, profile in part.items():
            found[name].merge(profile)
    return found


def run(spark: "SparkSession | None", settings: Settings) -> Summary:
    """Profiles, and writes what the settings ask for.

    Args:
        spark: the session; a dry run needs none.
        settings: what to do.

    Raises:
        ArgumentError: settings that contradict each other.
        NotAStoreError, NoSuchStreamError, CorruptionError: what cannot be read.
        StorageError: a report cannot be written.
    """
    settings.check()
    check_landing(settings.html, settings.json)
    began = time.perf_counter()
    with partitions(settings.reading()) as (names, planned):
        if spark is None or settings.dry_run:
            entries = sum(each.entries for partition in planned for each in partition.slices)
            streams = [{"stream": facts_of(name, StreamProfile())["stream"]} for name in names]
            return Summary(streams, len(planned), entries, dry_run=True)
        parts = run_tasks(spark, "profiling", planned, profile_partition, quiet=settings.quiet)
    facts = [facts_of(name, profile) for name, profile in merged(parts, names).items()]
    facts.sort(key=lambda each: (-each["entries"], each["stream"]))
    summary = Summary(facts, len(planned), sum(each["entries"] for each in facts))
    if settings.html is not None:
        _write(settings.html, page(settings.path, facts))
        summary.html = str(settings.html)
    if settings.json is not None:
        _write(settings.json, json.dumps({"store": settings.path, "streams": facts}, indent=1) + "\n")
        summary.json = str(settings.json)
    summary.seconds = time.perf_counter() - began
    return summary


def _write(target: Path, text: str) -> None:
    with landing(target) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
