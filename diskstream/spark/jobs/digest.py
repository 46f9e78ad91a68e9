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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from diskstream.arrow_digests import row_digests

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Digest", "digest_of", "row_hashes"]

_Words = npt.NDArray[np.uint64]

_MASK: Final = (1 << 64) - 1
_LEFT_OUT: Final = frozenset({"ts"})


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
    """The digest of all rows of some batches.

    Raises:
        ArgumentError: a column of a type that archives do not have.
    """
    total = Digest()
    for batch in batches:
        total += Digest(batch.num_rows, row_digests(batch, _LEFT_OUT).total())
    return total


def row_hashes(batch: "pa.RecordBatch") -> tuple[_Words, _Words]:
    """``mix(row)`` of each row, in both lanes.

    Raises:
        ArgumentError: a column of a type that archives do not have.
    """
    return row_digests(batch, _LEFT_OUT).rows()
