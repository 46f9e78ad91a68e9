"""What remembers little of much, and can be merged: different values, frequent values, a course over time."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["Distinct", "Frequent", "Timeline"]

# The estimate's standard error is 1/sqrt(k - 2): 1.6 %; 32 KiB a field.
_HASHES = 4096
# A value in more than 1/1024 of the entries is never lost.
_COUNTERS = 1024
_LONGEST = 200
_BUCKETS = 512
_LAST_SHIFT = 63


def _no_numbers() -> Any:
    return np.zeros(0, np.uint64)


@dataclass
class Distinct:
    """How many different values there are: the k least hashes (Bar-Yossef et al., 2002). Exact below k."""

    hashes: "NDArray[np.uint64]" = field(default_factory=_no_numbers)

    def add(self, values: "pa.Array") -> None:
        """Adds different values, of type binary."""
        # SipHash with a fixed key: the same in every process.
        from pandas.util import hash_array

        self._keep(hash_array(np.array(values.to_pylist(), dtype=object), categorize=False))

    def merge(self, other: "Distinct") -> None:
        """Adds what another has seen."""
        self._keep(other.hashes)

    def _keep(self, hashes: "NDArray[np.uint64]") -> None:
        if len(self.hashes) == _HASHES:
            hashes = hashes[hashes < self.hashes[-1]]
        if len(hashes):
            self.hashes = np.unique(np.concatenate([self.hashes, hashes]))[:_HASHES]

    @property
    def is_exact(self) -> bool:
        """Whether `estimate` is the number itself, but for values of equal hash."""
        return len(self.hashes) < _HASHES

    def estimate(self) -> int:
        """How many different values there were."""
        if self.is_exact:
            return len(self.hashes)
        return round((_HASHES - 1) / ((int(self.hashes[-1]) + 1) / 2**64))


@dataclass
class Frequent:
    """The most frequent values, by Misra and Gries' counters: those of space-saving less their error.

    A count is too low by `error` at most, and `error` is at most 1/1024 of what was added. Values of more than 200
    bytes are left out, but count as `long`.
    """

    counts: dict[bytes, int] = field(default_factory=dict)
    error: int = 0
    long: int = 0

    def add(self, values: "pa.Array", counts: "NDArray[np.int64]") -> None:
        """Adds different values, of type binary, and how often each was there."""
        import pyarrow.compute as pc

        short = pc.less_equal(pc.binary_length(values), _LONGEST).to_numpy(zero_copy_only=False)
        if not short.all():
            self.long += int(counts[~short].sum())
            values, counts = values.filter(short), counts[short]
        if len(counts) > _COUNTERS:
            # A summary of the batch by itself first, without making Python's objects of its rare values.
            least = int(np.partition(counts, -_COUNTERS - 1)[-_COUNTERS - 1])
            kept = np.flatnonzero(counts > least)
            values, counts, self.error = values.take(kept), counts[kept] - least, self.error + least
        self._add(dict(zip(values.to_pylist(), counts.tolist(), strict=True)))

    def merge(self, other: "Frequent") -> None:
        """Adds what another has seen."""
        self.error, self.long = self.error + other.error, self.long + other.long
        self._add(other.counts)

    def _add(self, found: dict[bytes, int]) -> None:
        for value, count in found.items():
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > _COUNTERS:
            least = sorted(self.counts.values(), reverse=True)[_COUNTERS]
            self.counts = {value: count - least for value, count in self.counts.items() if count > least}
            self.error += least

    def top(self, count: int) -> list[tuple[bytes, int]]:
        """The most frequent values and how often they were there, at least."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:count]


@dataclass
class Timeline:
    """Counts and sums over time, in at most 512 buckets that grow as they must: each 2^shift ms long.

    Attributes:
        shift: binary logarithm of a bucket's length in ms.
        buckets: starts of those that are not empty, divided by their length; ascending.
        counts, sums: of each.
    """

    shift: int = 0
    buckets: "NDArray[np.uint64]" = field(default_factory=_no_numbers)
    counts: "NDArray[np.int64]" = field(default_factory=lambda: np.zeros(0, np.int64))
    sums: "NDArray[np.float64]" = field(default_factory=lambda: np.zeros(0))

    def add(self, ms: "NDArray[np.uint64]", values: "NDArray[np.float64] | None" = None) -> None:
        """Adds times in ms, with a value each unless only counted."""
        ones = np.ones(len(ms), np.int64)
        self._join(ms >> np.uint64(self.shift), ones, np.zeros(len(ms)) if values is None else values)

    def merge(self, other: "Timeline") -> None:
        """Adds what another has seen."""
        shift = max(self.shift, other.shift)
        self._coarsen(shift)
        self._join(other.buckets >> np.uint64(shift - other.shift), other.counts, other.sums)

    def _coarsen(self, shift: int) -> None:
        buckets, self.buckets = self.buckets >> np.uint64(shift - self.shift), self.buckets[:0]
        counts, sums, self.shift = self.counts, self.sums, shift
        self.counts, self.sums = self.counts[:0], self.sums[:0]
        self._join(buckets, counts, sums)

    def _join(self, buckets: Any, counts: Any, sums: Any) -> None:
        buckets = np.concatenate([self.buckets, buckets])
        if not len(buckets):
            return
        counts, sums = np.concatenate([self.counts, counts]), np.concatenate([self.sums, sums])
        if (buckets[1:] < buckets[:-1]).any():
            order = np.argsort(buckets, kind="stable")
            buckets, counts, sums = buckets[order], counts[order], sums[order]
        while True:
            starts = np.flatnonzero(np.concatenate([[True], buckets[1:] != buckets[:-1]]))
            if len(starts) <= _BUCKETS or self.shift == _LAST_SHIFT:
                break
            buckets, self.shift = buckets >> np.uint64(1), self.shift + 1
        self.buckets = buckets[starts]
        self.counts, self.sums = np.add.reduceat(counts, starts), np.add.reduceat(sums, starts)

    def columns(self, first_ms: int, last_ms: int, most: int) -> "tuple[int, int, NDArray[Any], NDArray[Any]]":
        """Dense columns, at most so many, from `first_ms` to `last_ms`: start in ms, length in ms, counts, sums."""
        shift = self.shift
        while (last_ms >> shift) - (first_ms >> shift) >= most:
            shift += 1
        first = first_ms >> shift
        width = (last_ms >> shift) - first + 1
        at = ((self.buckets >> np.uint64(shift - self.shift)) - np.uint64(first)).astype(np.int64)
        counts, sums = np.zeros(width, np.int64), np.zeros(width)
        np.add.at(counts, at, self.counts)
        np.add.at(sums, at, self.sums)
        return first << shift, 1 << shift, counts, sums
