"""The digest of rows: equal for equal rows, in whatever order, files and batches they stand.

All numbers are unsigned and of 64 bits, all arithmetic is modulo 2^64; `>>` shifts zeros in. There are two lanes, A and
B, which differ in a multiplier ``M`` only::

    A: M = 0x9E3779B97F4A7C15      B: M = 0xC2B2AE3D27D4EB4F

    mix(x)       x ^= x >> 32; x *= M; x ^= x >> 29; x *= 0xBF58476D1CE4E5B9; x ^= x >> 32; x
    bytes(v)     of at most 64 bytes: h = M + length of v; then for each 8 bytes of v, little-endian, the last ones
                 filled up with zeros: h = (h ^ word) * M; h ^= h >> 32
                 of more: BLAKE2b of 16 bytes, A its first eight, B its last, little-endian
    list(l)      sum of mix(bytes(name) + 3 * bytes(value) + place * 0xD6E8FEB86659FD93) over the pairs of name and
                 value, places from 1; plus their number
    value(x)     bytes or text: bytes(x). A list of pairs: list(x). A number: its bits (two's complement of 64 bits; of
                 a float, those of 32 bits extended by their sign), times M. A decimal: h = M; then for its two words
                 h = (h ^ word) * M; h ^= h >> 32
    row          mix(id_ms * M + mix(id_seq + M)) + sum of mix(value(x) + bytes(column's name)) over the columns whose x
                 is not null
    digest       the sum of mix(row) over the rows

Columns: those of an archive's file, but `ts`, which follows from the ID. As text a digest is 32 hex digits, A before B.
It finds what went wrong by accident; it is no defence against who wants two streams to look alike.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from diskstream.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Digest", "digest_of", "row_hashes"]

_Words = npt.NDArray[np.uint64]

_LANES: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_SECOND: Final = np.uint64(0xBF58476D1CE4E5B9)
_PLACE: Final = np.uint64(0xD6E8FEB86659FD93)
_MASK: Final = (1 << 64) - 1
_LONG: Final = 64  # bytes; a call of BLAKE2b costs as much as about so many words
_TAILS: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_LEFT_OUT: Final = frozenset({"id_ms", "id_seq", "ts", "segment", "position", "size_bytes"})


@dataclass(frozen=True)
class Digest:
    """Of a number of rows. Digests of disjoint rows add up to that of all of them, and can be taken off again.

    Attributes:
        rows: how many.
        lanes: the two sums.
    """

    rows: int = 0
    lanes: tuple[int, int] = (0, 0)

    def __add__(self, other: "Digest") -> "Digest":
        first, second = (a + b & _MASK for a, b in zip(self.lanes, other.lanes, strict=True))
        return Digest(self.rows + other.rows, (first, second))

    def __str__(self) -> str:
        return f"{self.lanes[0]:016x}{self.lanes[1]:016x}"

    @classmethod
    def parse(cls, text: str, rows: int) -> "Digest":
        """The digest of so many rows from its text.

        Raises:
            ValueError: it is not 32 hex digits.
        """
        if len(text) != 32:  # noqa: PLR2004  # two words of 16 hex digits
            raise ValueError(f"a digest has 32 hex digits: {text!r}")
        return cls(rows, (int(text[:16], 16), int(text[16:], 16)))


def digest_of(batches: "Iterable[pa.RecordBatch]") -> Digest:
    """The digest of all rows of some batches."""
    total = Digest()
    for batch in batches:
        first, second = (int(lane.sum(dtype=np.uint64)) for lane in row_hashes(batch))
        total += Digest(batch.num_rows, (first, second))
    return total


def row_hashes(batch: "pa.RecordBatch") -> tuple[_Words, _Words]:
    """``mix(row)`` of each row, in both lanes.

    Raises:
        ArgumentError: a column of a type that archives do not have.
    """
    ms, seq = (np.asarray(batch.column(name)).view(np.uint64) for name in ("id_ms", "id_seq"))
    rows = [_mix(ms * lane + _mix(seq + lane, lane), lane) for lane in _LANES]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in _LEFT_OUT or column.null_count == len(column):
            continue
        label = _name_hash(name)
        known = np.asarray(column.is_valid()) if column.null_count else None
        for number, value in enumerate(_values(column)):
            mixed = _mix(value + label[number], _LANES[number])
            rows[number] += mixed if known is None else np.where(known, mixed, np.uint64(0))
    return _mix(rows[0], _LANES[0]), _mix(rows[1], _LANES[1])


def _mix(x: _Words, lane: np.uint64) -> _Words:
    """In place, and returned."""
    x ^= x >> np.uint64(32)
    x *= lane
    x ^= x >> np.uint64(29)
    x *= _SECOND
    x ^= x >> np.uint64(32)
    return x


def _name_hash(name: str) -> tuple[np.uint64, np.uint64]:
    import pyarrow as pa

    first, second = _bytes(pa.array([name.encode("utf-8", "surrogateescape")], pa.binary()))
    return first[0], second[0]


def _values(column: "pa.Array") -> tuple[_Words, _Words]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_list(kind):
        return _lists(column)
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return _bytes(column)
    if pa.types.is_decimal128(kind):
        words = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset :][: 2 * len(column)]
        first, second = (
            _step(_step(np.full(len(column), lane), words[::2], lane), words[1::2], lane) for lane in _LANES
        )
        return first, second
    bits = _bits(column)
    return bits * _LANES[0], bits * _LANES[1]


def _bits(column: "pa.Array") -> _Words:
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        return np.asarray(column.cast(pa.uint8()).fill_null(0)).astype(np.uint64)
    try:
        width = column.type.bit_width
    except ValueError:
        raise ArgumentError(f"archives have no columns of type {column.type}") from None
    # Whatever a null's place holds: it is left out later.
    words = np.frombuffer(column.buffers()[1], f"i{width // 8}")[column.offset :][: len(column)]
    return words.astype(np.int64).view(np.uint64)


def _lists(column: "pa.Array") -> tuple[_Words, _Words]:
    offsets = np.asarray(column.offsets)
    low, high = int(offsets[0]), int(offsets[-1])
    pairs = column.values.slice(low, high - low)
    names, values = _bytes(pairs.field(0)), _bytes(pairs.field(1))
    counts = np.diff(offsets)
    ends = offsets - low
    places = (np.arange(1, high - low + 1) - np.repeat(ends[:-1], counts)).astype(np.uint64)
    places *= _PLACE
    found = []
    for lane, name, value in zip(_LANES, names, values, strict=True):
        pair = value * np.uint64(3)
        pair += name
        pair += places
        sums = np.zeros(high - low + 1, np.uint64)
        np.cumsum(_mix(pair, lane), out=sums[1:])
        found.append(sums[ends[1:]] - sums[ends[:-1]] + counts.astype(np.uint64))
    return found[0], found[1]


def _step(h: _Words, words: _Words, lane: np.uint64) -> _Words:
    h ^= words
    h *= lane
    h ^= h >> np.uint64(32)
    return h


def _bytes(column: "pa.Array") -> tuple[_Words, _Words]:
    """Eight bytes of each value at a time, while there are any left."""
    buffers: list[Any] = column.buffers()
    ends = np.frombuffer(buffers[1], np.int32)[column.offset :][: len(column) + 1].astype(np.int64)
    low, high = (int(ends[0]), int(ends[-1])) if len(column) else (0, 0)
    starts, sizes = ends[:-1] - low, np.diff(ends)
    data = np.zeros(high - low + 8, np.uint8)
    if high > low:
        data[:-8] = np.frombuffer(buffers[2], np.uint8)[low:high]
    words = np.ndarray((high - low + 1,), np.dtype("<u8"), data, strides=(1,))  # at every byte, eight bytes
    found = [sizes.astype(np.uint64) + lane for lane in _LANES]
    longest = int(sizes.max(initial=0))
    for at in range(0, min(longest, _LONG), 8):
        if at == 0 and int(sizes.min()) > 0:
            here = words.take(starts) & _TAILS.take(np.minimum(sizes, 8))
            for lane, hashes in zip(_LANES, found, strict=True):
                _step(hashes, here, lane)
            continue
        some = np.flatnonzero(sizes > at)
        here = words.take(starts.take(some) + at) & _TAILS.take(np.minimum(sizes.take(some) - at, 8))
        for lane, hashes in zip(_LANES, found, strict=True):
            hashes[some] = _step(hashes.take(some), here, lane)
    if longest > _LONG:
        view = data.tobytes()
        for row in np.flatnonzero(sizes > _LONG).tolist():
            made = hashlib.blake2b(view[starts[row] : starts[row] + sizes[row]], digest_size=16).digest()
            for half, hashes in enumerate(found):
                hashes[row] = int.from_bytes(made[8 * half :][:8], "little")
    return found[0], found[1]
