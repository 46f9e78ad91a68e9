"""Partitions: pieces of streams, packed so that each task has enough to do and not too much."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyspark.sql.datasource import InputPartition

from diskstream.ids import EntryID
from diskstream.plurals import number_of
from diskstream.spark.versions import VERSION

__all__ = ["EntriesPartition", "Slice", "pack", "spread"]


@dataclass(frozen=True)
class Slice:
    """A contiguous part of one stream, in one segment.

    Attributes:
        stream: the stream's name.
        first, last: IDs as pairs of numbers, both included.
        entries: at most so many.
        size_bytes: bytes of names and values, about.
        identity: of the stream that was planned: `Stream.identity`.
    """

    stream: bytes
    first: tuple[int, int]
    last: tuple[int, int]
    entries: int
    size_bytes: int
    identity: bytes | None = None

    @property
    def range(self) -> tuple[EntryID, EntryID]:
        """The first and the last ID."""
        return EntryID(*self.first), EntryID(*self.last)


class EntriesPartition(InputPartition):
    """What one task reads.

    `path` is the lease, or the store itself; `given` the path that the user named.
    """

    def __init__(self, path: str, given: str, slices: tuple[Slice, ...], *, leased: bool) -> None:
        super().__init__(None)
        self.path, self.given, self.slices, self.leased = path, given, slices, leased
        self.version = VERSION

    def __repr__(self) -> str:
        entries = sum(each.entries for each in self.slices)
        return f"EntriesPartition({self.given}, {number_of(len(self.slices), 'slice')}, {number_of(entries, 'entry')})"


class _Sized(Protocol):
    """What is shared out among partitions."""

    @property
    def entries(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


_S = TypeVar("_S", bound=_Sized)


def pack(slices: Iterable[_S], max_bytes: int, max_entries: int) -> list[tuple[_S, ...]]:
    """Runs of slices, in order, each within the limits but for a single slice."""
    packed: list[tuple[_S, ...]] = []
    run: list[_S] = []
    held_bytes = held_entries = 0
    for each in slices:
        if run and (held_bytes + each.size_bytes > max_bytes or held_entries + each.entries > max_entries):
            packed.append(tuple(run))
            run, held_bytes, held_entries = [], 0, 0
        run.append(each)
        held_bytes, held_entries = held_bytes + each.size_bytes, held_entries + each.entries
    if run:
        packed.append(tuple(run))
    return packed


def spread(slices: Iterable[_S], count: int) -> list[tuple[_S, ...]]:
    """At most `count` runs of slices, in order, of about as many bytes each."""
    known = list(slices)
    total = max(1, sum(each.size_bytes for each in known))
    runs: dict[int, list[_S]] = {}
    before = 0
    for each in known:
        at = min(count - 1, (2 * before + each.size_bytes) * count // (2 * total))  # the last may be empty
        runs.setdefault(at, []).append(each)
        before += each.size_bytes
    return [tuple(run) for run in runs.values()]
