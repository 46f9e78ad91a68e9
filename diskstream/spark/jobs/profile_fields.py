"""What a profile knows of one field: types, numbers, lengths, different and frequent values, its course over time."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from diskstream.spark.jobs.profile_sketches import Distinct, Frequent, Timeline
from diskstream.spark.jobs.sketch import Points, quantiles

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["KINDS", "FieldProfile"]

# In order of what is tried: a value is of the first kind whose form it has wholly.
_FORMS = {
    "int": r"^-?[0-9]{1,18}$",
    "float": r"^-?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,2})?$",
    "bool": r"^(?i:true|false|yes|no)$",
    "timestamp": r"^[0-9]{4}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-5][0-9](:[0-6][0-9]([.,][0-9]{1,9})?)?"
    r"(Z|[+-][0-2][0-9]:?[0-5][0-9])?)?$",
    "empty": r"^$",
    "text": r"^[^\x00-\x08\x0e-\x1f]*$",
}
KINDS = (*_FORMS, "binary")
_NUMBERS = ("int", "float")
# From there on the rest are outliers, and are told as such.
_MOST = 0.9
_POINTS_AT_ONCE = 1 << 16


def _kinds(values: "pa.Array") -> "tuple[NDArray[np.int8], NDArray[np.float64]]":
    """The kind of each value, as its place in `KINDS`, and the numbers, NaN where it is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = np.full(len(values), len(KINDS) - 1, np.int8)
    numbers = np.full(len(values), np.nan)
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:  # some are not UTF-8
        texts = pa.array([_as_text(value) for value in values.to_pylist()], pa.string())
    left = np.flatnonzero(pc.is_valid(texts).to_numpy(zero_copy_only=False))
    for number, (kind, form) in enumerate(_FORMS.items()):
        if not len(left):
            break
        rest = texts.take(left) if len(left) < len(texts) else texts
        fits = pc.match_substring_regex(rest, form).to_numpy(zero_copy_only=False)
        found = left[fits]
        kinds[found] = number
        if kind in _NUMBERS and len(found):
            numbers[found] = rest.filter(fits).cast(pa.float64()).to_numpy()
        left = left[~fits]
    return kinds, numbers


def _as_text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


@dataclass
class FieldProfile:
    """A field of a stream.

    Attributes:
        entries: entries that have it; `values` counts a value for each time that an entry names it.
        kinds: values of each of `KINDS`.
        least, greatest, total, numbers: of the values that are numbers, and how many those are.
        shortest, longest, size_bytes: lengths of values in bytes, and their sum.
        points: the numbers, for quantiles.
        distinct, frequent: see there.
        course: values over time; the sums are those of the numbers, `numbers_course` counts them.
    """

    entries: int = 0
    values: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    least: float = float("inf")
    greatest: float = float("-inf")
    total: float = 0.0
    numbers: int = 0
    shortest: int = 1 << 62
    longest: int = 0
    size_bytes: int = 0
    points: Points = field(default_factory=lambda: Points.joined([]))
    distinct: Distinct = field(default_factory=Distinct)
    frequent: Frequent = field(default_factory=Frequent)
    course: Timeline = field(default_factory=Timeline)
    numbers_course: Timeline = field(default_factory=Timeline)

    def add(self, values: "pa.Array", ms: "NDArray[np.uint64]", entries: int) -> None:
        """Adds values of type binary, the times of their entries, ascending, and how many entries those are."""
        import pyarrow.compute as pc

        encoded = values.dictionary_encode()
        different, codes = encoded.dictionary, encoded.indices.to_numpy()
        counts = np.bincount(codes, minlength=len(different))
        kinds, numbers = _kinds(different)
        for kind, count in zip(KINDS, np.bincount(kinds, counts, len(KINDS)), strict=True):
            self.kinds[kind] += int(count)
        lengths = pc.binary_length(different).to_numpy()
        self.shortest = min(self.shortest, int(lengths.min()))
        self.longest = max(self.longest, int(lengths.max()))
        self.size_bytes += int((lengths * counts).sum())
        self.entries, self.values = self.entries + entries, self.values + len(values)
        self._add_numbers(numbers, counts, numbers[codes], ms)
        self.distinct.add(different)
        self.frequent.add(different, counts)
        self.course.add(ms)

    def _add_numbers(self, different: Any, counts: Any, numbers: Any, ms: Any) -> None:
        there = np.isfinite(different)
        if not there.any():
            return
        found = different[there]
        self.least = min(self.least, float(found.min()))
        self.greatest = max(self.greatest, float(found.max()))
        self.total += float((found * counts[there]).sum())
        self.numbers += int(counts[there].sum())
        new = Points(np.zeros(len(found), np.int64), found, counts[there])
        self.points = Points.joined([self.points, new])
        if len(self.points.values) > _POINTS_AT_ONCE:
            self.points = self.points.folded()
        valid = np.isfinite(numbers)
        self.numbers_course.add(ms[valid], numbers[valid])

    def merge(self, other: "FieldProfile") -> None:
        """Adds what another has seen."""
        for name in ("entries", "values", "total", "numbers", "size_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.kinds.update(other.kinds)
        self.least, self.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        self.shortest, self.longest = min(self.shortest, other.shortest), max(self.longest, other.longest)
        self.points = Points.joined([self.points, other.points]).folded()
        self.distinct.merge(other.distinct)
        self.frequent.merge(other.frequent)
        self.course.merge(other.course)
        self.numbers_course.merge(other.numbers_course)

    def kind(self) -> str:
        """The type that nearly all values have; `float` of ints and floats, `text` of what has nothing in common."""
        counts = Counter({kind: count for kind, count in self.kinds.items() if count and kind != "empty"})
        if not counts:
            return "empty"
        if counts["float"]:
            counts["float"] += counts.pop("int", 0)
        kind, count = counts.most_common(1)[0]
        if count >= _MOST * sum(counts.values()):
            return kind
        return "binary" if counts["binary"] else "text"

    def quantiles(self, wanted: tuple[float, ...]) -> list[float]:
        """Of the numbers; none where there are none."""
        if not self.numbers:
            return []
        folded = self.points.folded()
        return [min(max(float(each[0]), self.least), self.greatest) for each in quantiles(folded, 1, wanted)]
