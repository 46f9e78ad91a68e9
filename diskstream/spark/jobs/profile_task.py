"""A profile's task: one pass over a partition, and how the profiles of parts of a stream become one."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from diskstream.spark.jobs.profile_fields import FieldProfile
from diskstream.spark.jobs.profile_sketches import Timeline
from diskstream.spark.jobs.scanning import scanned
from diskstream.spark.partitions import EntriesPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["StreamProfile", "profile_partition"]

# What input can grow: a field's profile is up to 100 KiB, a shape's is its names.
MAX_FIELDS = 500
MAX_SHAPES = 200
_GAPS = 10

Gap = tuple[int, int, int]  # how long, from, to: in ms


@dataclass
class StreamProfile:
    """A stream, or a contiguous part of it.

    Attributes:
        entries: how many there are.
        size_bytes: of names and values; `size_classes[k]` entries have 2^(k-1) to 2^k - 1 of them.
        first_ms, last_ms: times of the first and the last ID.
        course: entries over time.
        gaps: the longest silences.
        shapes: entries by their set of field names, at least: of many sets the rare ones are left out.
        fields: by name; `other_values` are of fields beyond the first 500.
    """

    entries: int = 0
    size_bytes: int = 0
    size_classes: "NDArray[np.int64]" = field(default_factory=lambda: np.zeros(65, np.int64))
    first_ms: int = -1
    last_ms: int = -1
    course: Timeline = field(default_factory=Timeline)
    gaps: list[Gap] = field(default_factory=list)
    shapes: Counter[frozenset[bytes]] = field(default_factory=Counter)
    fields: dict[bytes, FieldProfile] = field(default_factory=dict)
    other_values: int = 0

    def add(self, batch: "pa.RecordBatch") -> None:
        """Adds a batch of layout ``fields`` with metadata, which comes behind those before it."""
        ms = batch.column(0).to_numpy()
        before = [] if self.last_ms < 0 else [self.last_ms]
        self._add_gaps(np.concatenate([np.array(before, np.uint64), ms]))
        if self.first_ms < 0:
            self.first_ms = int(ms[0])
        self.last_ms = int(ms[-1])
        self.entries += len(ms)
        sizes = batch.column("size_bytes").to_numpy()
        self.size_bytes += int(sizes.sum())
        # A double's exponent is the number's length in bits, up to 2^53.
        self.size_classes += np.bincount(np.frexp(sizes.astype(np.float64))[1], minlength=65)
        self.course.add(ms)
        self._add_fields(batch.column("fields"), ms)

    def _add_gaps(self, ms: Any) -> None:
        lengths = np.diff(ms)
        if not len(lengths):
            return
        longest = np.argsort(lengths.max() - lengths, kind="stable")[:_GAPS]  # of equal ones the first
        found = [(int(lengths[at]), int(ms[at]), int(ms[at + 1])) for at in longest if lengths[at]]
        self.gaps = sorted([*self.gaps, *found], key=lambda gap: (-gap[0], gap[1]))[:_GAPS]

    def _add_fields(self, fields: "pa.ListArray", ms: Any) -> None:
        ends = fields.offsets.to_numpy()
        flat = fields.flatten()
        names, values = flat.field("name").dictionary_encode(), flat.field("value")
        different, codes = names.dictionary.to_pylist(), names.indices.to_numpy()
        counts = np.diff(ends)
        rows = np.repeat(np.arange(len(ms)), counts)
        self._add_shapes(different, codes, counts)
        order = np.argsort(codes, kind="stable")
        bounds = np.cumsum([0, *np.bincount(codes, minlength=len(different))])
        for code, name in enumerate(different):
            chosen = order[bounds[code] : bounds[code + 1]]
            if name not in self.fields and len(self.fields) >= MAX_FIELDS:
                self.other_values += len(chosen)
                continue
            of = rows[chosen]  # ascending
            entries = len(of) - int((of[1:] == of[:-1]).sum())
            taken = values if len(chosen) == len(codes) else values.take(chosen)
            self.fields.setdefault(name, FieldProfile()).add(taken, ms[of], entries)

    def _add_shapes(self, names: list[bytes], codes: Any, counts: Any) -> None:
        """Entries of the same list of names are of the same sum of random numbers; only one of each is looked at."""
        marks = np.random.default_rng(0).integers(0, 1 << 63, len(names), np.uint64)
        starts = np.cumsum(counts) - counts
        sums = np.zeros(len(counts), np.uint64)
        filled = counts > 0  # what has no fields would take over the first mark behind it
        if filled.any():
            sums[filled] = np.add.reduceat(marks[codes], starts[filled])
        _, examples, found = np.unique(sums, return_index=True, return_counts=True)
        for at, count in zip(examples, found.tolist(), strict=True):
            shape = frozenset(names[code] for code in codes[starts[at] : starts[at] + counts[at]])
            self.shapes[shape] += count
        self._prune_shapes()

    def _prune_shapes(self) -> None:
        if len(self.shapes) > MAX_SHAPES:
            self.shapes = Counter(dict(self.shapes.most_common(MAX_SHAPES)))

    def merge(self, other: "StreamProfile") -> None:
        """Adds the part of the stream that comes next."""
        if not other.entries:
            return
        if self.entries:
            self._add_gaps(np.array([self.last_ms, other.first_ms], np.uint64))
        else:
            self.first_ms = other.first_ms
        self.gaps = sorted([*self.gaps, *other.gaps], key=lambda gap: (-gap[0], gap[1]))[:_GAPS]
        self.last_ms = other.last_ms
        for name in ("entries", "size_bytes", "size_classes", "other_values"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.course.merge(other.course)
        self.shapes.update(other.shapes)
        self._prune_shapes()
        for of_field, of in other.fields.items():
            if of_field in self.fields or len(self.fields) < MAX_FIELDS:
                self.fields.setdefault(of_field, FieldProfile()).merge(of)
            else:
                self.other_values += of.values


def profile_partition(partition: EntriesPartition) -> dict[bytes, StreamProfile]:
    """Scans a partition; the profile of each stream's part.

    Raises:
        NotAStoreError, CorruptionError: see `diskstream.spark.jobs.scanning.scanned`.
    """
    found: dict[bytes, StreamProfile] = {}
    for stream, batch in scanned(partition, "fields", metadata=True):
        found.setdefault(stream, StreamProfile()).add(batch)
    for profile in found.values():
        for each in profile.fields.values():
            each.points = each.points.folded()
    return found
