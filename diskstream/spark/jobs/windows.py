"""Aggregates of windows: what a task makes of its partition, and how such parts become one.

They are columns: one row for each window and group, in order. Counting, least, greatest and sum need one pass of numpy
over a batch, since IDs ascend and a window is a run of rows; with groups or a timestamp field a batch is sorted first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from diskstream.errors import ArgumentError
from diskstream.plurals import number_of
from diskstream.spark.jobs.sketch import Points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Aggregates", "Key", "Rows", "Tally", "aggregate", "unite"]

# A row is some 50 bytes and 40 for each field: a gigabyte or so, which is what Spark lets its driver collect.
MAX_ROWS = 5_000_000

Key = tuple[bytes | None, ...]


@dataclass(frozen=True)
class Aggregates:
    """One field's numbers, a row each; where `counts` is 0, `least` is inf, `greatest` -inf and `sums` 0. A sum that
    a double cannot hold, whole or in between, is not finite."""

    counts: "Ints"
    least: "Floats"
    greatest: "Floats"
    sums: "Floats"
    points: Points


@dataclass
class Tally:
    """What became of the values of one field."""

    values: int = 0
    missing: int = 0
    unparseable: int = 0

    def add(self, other: "Tally") -> None:
        """Adds up."""
        self.values += other.values
        self.missing += other.missing
        self.unparseable += other.unparseable


@dataclass
class Rows:
    """Windows and groups with their numbers, in order of both.

    Attributes:
        windows: numbers of windows: their start divided by their length.
        groups: places in `keys`.
        keys: stream and values of the group-by fields, None where an entry had none.
        entries: entries of each row.
        fields: of each aggregated field.
        tallies: of each aggregated field.
        untimed: entries that belong to no window: their timestamp is missing, or none that a table can hold.
    """

    windows: "Ints"
    groups: "Ints"
    keys: list[Key]
    entries: "Ints"
    fields: list[Aggregates]
    tallies: list[Tally] = field(default_factory=list)
    untimed: int = 0


def _boundaries(*sorted_keys: Any) -> "Ints":
    new = np.ones(len(sorted_keys[0]), bool)
    new[1:] = False
    for each in sorted_keys:
        new[1:] |= each[1:] != each[:-1]
    return np.flatnonzero(new)


def aggregate(windows: "Ints", groups: "Ints | int", columns: "Sequence[Floats]", *, points: bool) -> Rows:
    """Aggregates of one batch; values that are not finite count as none.

    Args:
        windows: the number of each row's window.
        groups: the place of each row's key, or the one of all of them.
        columns: values of each field.
        points: keep the values for quantiles too.
    """
    one_group = isinstance(groups, int)
    ascending = one_group and bool(np.all(windows[1:] >= windows[:-1]))
    keys: list[Any] = [windows] if one_group else [windows, groups]
    if not ascending:
        order = np.lexsort(keys[::-1])
        keys, columns = [each[order] for each in keys], [each[order] for each in columns]
    starts = _boundaries(*keys)
    entries = np.diff(np.append(starts, len(windows)))
    of_row = np.repeat(np.arange(len(starts)), entries) if points else None
    fields = [_one_field(values, starts, entries, of_row) for values in columns]
    held = np.full(len(starts), groups, np.int64) if one_group else keys[1][starts]
    return Rows(keys[0][starts], held, [], entries, fields)


def _sums(values: "Floats", starts: "Ints") -> "Floats":
    with np.errstate(over="ignore", invalid="ignore"):  # it is seen by the sum
        found: Floats = np.add.reduceat(values, starts)
    return found


def _one_field(values: "Floats", starts: "Ints", entries: "Ints", of_row: "Ints | None") -> Aggregates:
    finite = np.isfinite(values)
    if finite.all():
        counts, kept = entries, values
        least, greatest = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        sums = _sums(values, starts)
    else:
        kept = values[finite]
        counts = np.add.reduceat(finite.astype(np.int64), starts)
        least = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
        greatest = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
        sums = _sums(np.where(finite, values, 0.0), starts)
    points = Points.joined([])
    if of_row is not None:
        points = Points.of(of_row if kept is values else of_row[finite], kept)
    return Aggregates(counts, least, greatest, sums, points)


def unite(parts: Iterable[Rows], field_count: int, *, limit: int = MAX_ROWS) -> Rows:
    """Parts as one, whatever their keys and their order.

    Raises:
        ArgumentError: more than `limit` rows.
    """
    given = list(parts)
    places: dict[Key, int] = {}
    for part in given:
        for key in part.keys:
            places.setdefault(key, len(places))
    tallies = [Tally() for _ in range(field_count)]
    for part in given:
        for tally, other in zip(tallies, part.tallies, strict=False):
            tally.add(other)
    untimed = sum(part.untimed for part in given)
    given = [part for part in given if len(part.windows)]
    if not given:
        empty = np.zeros(0, np.int64)
        none = Aggregates(empty, np.zeros(0), np.zeros(0), np.zeros(0), Points.joined([]))
        return Rows(empty, empty, list(places), empty, [none] * field_count, tallies, untimed)
    moved = [np.array([places[key] for key in part.keys], np.int64)[part.groups] for part in given]
    windows, groups = np.concatenate([part.windows for part in given]), np.concatenate(moved)
    order = np.lexsort((groups, windows))
    windows, groups = windows[order], groups[order]
    starts = _boundaries(windows, groups)
    if len(starts) > limit:
        raise ArgumentError(
            f"more than {number_of(limit, 'window')} and groups: choose a longer window, or fields with fewer values "
            "to group by"
        )
    row_of = np.empty(len(order), np.int64)
    row_of[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    entries = np.add.reduceat(np.concatenate([part.entries for part in given])[order], starts)
    fields = [_united_field([part.fields[at] for part in given], order, starts, row_of) for at in range(field_count)]
    return Rows(windows[starts], groups[starts], list(places), entries, fields, tallies, untimed)


def _united_field(parts: Sequence[Aggregates], order: "Ints", starts: "Ints", row_of: "Ints") -> Aggregates:
    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])[order]

    offsets = np.cumsum([0, *(len(part.counts) for part in parts)])
    points = [
        Points(row_of[part.points.groups + offset], part.points.values, part.points.weights)
        for part, offset in zip(parts, offsets, strict=False)
    ]
    return Aggregates(
        np.add.reduceat(column("counts"), starts),
        np.minimum.reduceat(column("least"), starts),
        np.maximum.reduceat(column("greatest"), starts),
        _sums(column("sums"), starts),
        Points.joined(points).folded(),
    )
