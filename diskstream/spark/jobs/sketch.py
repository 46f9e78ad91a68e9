"""Quantiles of many groups at once: values while they are few, then a logarithmic histogram with a bounded error.

Both are points: a group, a value and a weight. A group of more than `EXACT_POINTS` different points is coarsened: each
value becomes the representative of its bucket, and points of one bucket become one. The buckets are those of DDSketch
(Masson, Rim and Lee, 2019): bucket i holds the magnitudes in (g^(i-1), g^i] with g = (1 + e) / (1 - e), and its
representative 2 g^i / (g + 1) is off by e of the value at most. A representative lies inside its own bucket, so that
coarsening twice changes nothing, and the order of merges does not either: values and representatives mix freely.
Positive and negative doubles of all magnitudes have some 142 thousand buckets together, which bounds a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["EXACT_POINTS", "RELATIVE_ERROR", "Points", "quantiles"]

RELATIVE_ERROR = 0.01
# 256 points are 6 KiB; from some hundred values on, one percent is less than what the next value would change.
EXACT_POINTS = 256
_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)


def _representatives(values: "Floats") -> "Floats":
    """Each value's bucket, as the value that stands for it."""
    magnitudes = np.abs(values)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        buckets = np.ceil(np.log(magnitudes) / np.log(_GROWTH))
        found = 2 / (_GROWTH + 1) * np.exp(buckets * np.log(_GROWTH))
    # The last bucket ends beyond the largest double, the first ones at numbers without all their digits.
    found = np.minimum(found, np.finfo(np.float64).max)
    found = np.where(magnitudes < np.finfo(np.float64).tiny, magnitudes, found)
    signed: Floats = np.copysign(found, values)
    return signed


@dataclass(frozen=True)
class Points:
    """Weighted values of groups, which are numbered from 0 on.

    Attributes:
        groups, values, weights: one of each for a point, of types int64, float64 and int64.
    """

    groups: "Ints"
    values: "Floats"
    weights: "Ints"

    @classmethod
    def of(cls, groups: "Ints", values: "Floats") -> "Points":
        """A point for each value."""
        return cls(groups, values, np.ones(len(values), np.int64))

    @classmethod
    def joined(cls, parts: "Sequence[Points]") -> "Points":
        """All points of several, whose numbers of groups mean the same."""
        if not parts:
            return cls.of(np.zeros(0, np.int64), np.zeros(0))
        names = ("groups", "values", "weights")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def folded(self) -> "Points":
        """The same in order of groups and values, equal ones as one; groups of too many points are coarsened."""
        points = self._united()
        sizes = np.bincount(points.groups)
        coarse = (sizes > EXACT_POINTS)[points.groups] if len(sizes) else np.zeros(0, bool)
        if not coarse.any():
            return points
        values = points.values.copy()
        values[coarse] = _representatives(values[coarse])
        # Coarsening keeps the order, so that what became equal stands side by side.
        return Points(points.groups, values, points.weights)._runs()

    def _united(self) -> "Points":
        order = np.lexsort((self.values, self.groups))
        return Points(self.groups[order], self.values[order], self.weights[order])._runs()

    def _runs(self) -> "Points":
        if not len(self.values):
            return self
        new = np.ones(len(self.values), bool)
        new[1:] = (self.groups[1:] != self.groups[:-1]) | (self.values[1:] != self.values[:-1])
        starts = np.flatnonzero(new)
        return Points(self.groups[starts], self.values[starts], np.add.reduceat(self.weights, starts))


def quantiles(points: Points, group_count: int, wanted: Sequence[float]) -> "list[Floats]":
    """For each wanted quantile its value in each group, NaN where a group has none.

    Between two values the result is interpolated, as numpy and pandas do it. It is exact in a group that was not
    coarsened; else it is off by `RELATIVE_ERROR` of the true one, or, between a negative and a positive value, of the
    larger of their magnitudes.

    Args:
        points: folded ones.
        group_count: how many groups there are.
        wanted: from 0 to 1.
    """
    totals = np.bincount(points.groups, points.weights, group_count).astype(np.int64)
    through = np.cumsum(points.weights)  # ranks across all groups; a group's own begin behind those before it
    before = np.cumsum(totals) - totals
    there = totals > 0

    def at(ranks: Any) -> "Floats":
        found: Floats = points.values[np.searchsorted(through, ranks, side="right")]
        return found

    results = []
    for each in wanted:
        ranks = each * (totals[there] - 1)
        low = np.floor(ranks).astype(np.int64)
        high = np.minimum(low + 1, totals[there] - 1)
        one, other = at(before[there] + low), at(before[there] + high)
        result = np.full(group_count, np.nan)
        share = ranks - low
        result[there] = one * (1 - share) + other * share
        results.append(result)
    return results
