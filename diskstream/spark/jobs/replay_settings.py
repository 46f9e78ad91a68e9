"""What a replay is told, what its tasks are told, and what it did."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diskstream.errors import ArgumentError
from diskstream.spark.jobs.manifest import ArchivedFile
from diskstream.spark.jobs.replaced_sources import Part
from diskstream.spark.names import as_text
from diskstream.spark.options import on_this_machine

__all__ = ["ReplaySettings", "ReplaySummary", "Round", "Work"]


@dataclass(frozen=True)
class ReplaySettings:
    """What to replay, and where to.

    Attributes:
        source: the directory of a store, or of an archive.
        target: the store to append to, made where it is missing.
        streams: names; all that `pattern` matches where there are none.
        pattern: a glob pattern.
        start, end: the first and the last ID, as `Stream.range` takes them.
        ids: ``original``, which must be above the last ID of each target stream, or ``new``.
        to: the name of the target stream, where one stream is replayed; with several, what comes before each name.
        name: what tells this replay from others into the same target; made from the settings where it is empty.
        dry_run: only say what would be done.
        max_entries: of one task.
        tasks_per_round: between two commits; a replay that goes on keeps to what it was begun with.
        quiet: show no progress, even on a terminal.
    """

    source: str
    target: str
    streams: tuple[bytes, ...] = ()
    pattern: str = ""
    start: str = "-"
    end: str = "+"
    ids: str = "original"
    to: str = ""
    name: str = ""
    dry_run: bool = False
    max_entries: int = 500_000
    tasks_per_round: int = 8
    quiet: bool = False

    def __post_init__(self) -> None:
        """Takes paths as Spark writes them for what they mean: the name of the replay is made of them.

        Raises:
            ArgumentError: one is of another machine, or none.
        """
        object.__setattr__(self, "source", on_this_machine(self.source, "what is replayed"))
        object.__setattr__(self, "target", on_this_machine(self.target, "the store that a replay goes to"))

    def check(self) -> None:
        """What the settings say together.

        Raises:
            ArgumentError: they contradict each other.
        """
        if self.ids not in ("original", "new"):
            raise ArgumentError(f"ids is 'original' or 'new', not {self.ids!r}")
        if self.streams and self.pattern:
            raise ArgumentError("name the streams, or give a pattern, not both")

    @property
    def words(self) -> dict[str, Any]:
        """What is replayed, in the words of whoever asked: a name stands for these, and for no others."""
        return {
            "source": str(Path(self.source).absolute()),
            "streams": sorted({as_text(name) for name in self.streams}),
            "pattern": self.pattern,
            "start": self.start,
            "end": self.end,
            "ids": self.ids,
            "to": self.to,
        }

    @property
    def writer(self) -> str:
        """The name of the writer in the target's streams."""
        if self.name:
            return f"replay:{self.name}"
        streams = tuple(sorted(set(self.streams)))  # as `words` has it: the same words must not be done twice
        facts = [self.words["source"], streams, self.pattern, self.start, self.end, self.ids, self.to]
        return f"replay:{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}"


@dataclass(frozen=True)
class Work:
    """What one task stages: slices of a store's lease, or files of an archive, by the names of their streams.

    Attributes:
        path: the store's, its lease's, or the archive's.
        archive: whether it is one.
        parts: what is staged.
        entries: how many, about.
        identities: in hex, what each part's stream is known by for life, or once, the store that the archive is of.
            Plans of earlier versions have none.
    """

    path: str
    archive: bool
    parts: tuple[Part, ...]
    entries: int
    identities: tuple[str, ...] = ()


@dataclass(frozen=True)
class Round:
    """What lies between two commits, and where a task of it stages; the files are those of an archive's parts."""

    target: str
    job: str
    given: bool
    number: int
    work: Work
    files: tuple[ArchivedFile, ...] = ()


@dataclass(frozen=True)
class ReplaySummary:
    """What a run did.

    Attributes:
        entries: that were appended by this run; in a dry run, that would be (deleted ones count).
        streams: source streams.
        rounds: of the plan; 0 where the replay was complete before, or nothing is in the range.
        rounds_before: how many of them an earlier run had completed.
        seconds: how long it took.
        dry_run: whether nothing was done.
        writer: the replay's name: once complete under it, it will not be done again.
        complete_before: whether an earlier run had completed it, so that there was nothing to do.
    """

    entries: int
    streams: int
    rounds: int
    rounds_before: int
    seconds: float
    dry_run: bool
    writer: str
    complete_before: bool = False

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)
