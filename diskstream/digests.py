"""The digest of entries: equal for equal entries with equal IDs, in whatever frames, segments and stores they stand.

All numbers are unsigned and of 64 bits, all arithmetic is modulo 2^64; `>>` shifts zeros in. There are two lanes, A and
B, which differ in a multiplier ``M`` only::

    A: M = 0x9E3779B97F4A7C15      B: M = 0xC2B2AE3D27D4EB4F

    mix(x)     x ^= x >> 32; x *= M; x ^= x >> 29; x *= 0xBF58476D1CE4E5B9; x ^= x >> 32; x
    bytes(v)   of at most 64 bytes: h = M + length of v; then for each 8 bytes of v, little-endian, the last ones filled
               up with zeros: h = (h ^ word) * M; h ^= h >> 32
               of more: BLAKE2b of 16 bytes, A its first eight, B its last, little-endian
    list       sum of mix(bytes(name) + 3 * bytes(value) + place * 0xD6E8FEB86659FD93) over the fields of the entry,
               places from 1; plus their number
    entry      mix(mix(id_ms * M + mix(id_seq + M)) + mix(list + bytes("fields")))
    digest     the sum over the entries

It is what the jobs of Spark find for an archive that lists fields. It finds what went wrong by accident; it is no
defence against who wants two streams to look alike.
"""

from dataclasses import dataclass
from typing import Self

__all__ = ["NOTHING", "Digest"]

_MASK = (1 << 64) - 1
_HEX_DIGITS = 32  # two words of 16


@dataclass(frozen=True)
class Digest:
    """Of a number of entries. Digests of disjoint ranges add up to that of both, and can be taken off again.

    Attributes:
        entries: how many.
        size_bytes: of their names and values.
        lanes: the two sums.
    """

    entries: int = 0
    size_bytes: int = 0
    lanes: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, parts: tuple[int, int, int, int]) -> Self:
        """The digest that the native core found."""
        entries, size, first, second = parts
        return cls(entries, size, (first, second))

    @classmethod
    def parse(cls, text: str, entries: int, size_bytes: int) -> Self:
        """The digest of so many entries from its text.

        Raises:
            ValueError: it is not 32 hex digits.
        """
        if len(text) != _HEX_DIGITS:
            raise ValueError(f"a digest has 32 hex digits: {text!r}")
        return cls(entries, size_bytes, (int(text[:16], 16), int(text[16:], 16)))

    def __add__(self, other: "Digest") -> "Digest":
        first, second = ((a + b) & _MASK for a, b in zip(self.lanes, other.lanes, strict=True))
        return Digest(self.entries + other.entries, self.size_bytes + other.size_bytes, (first, second))

    def __sub__(self, other: "Digest") -> "Digest":
        first, second = ((a - b) & _MASK for a, b in zip(self.lanes, other.lanes, strict=True))
        return Digest(self.entries - other.entries, self.size_bytes - other.size_bytes, (first, second))

    def __str__(self) -> str:
        return f"{self.lanes[0]:016x}{self.lanes[1]:016x}"


NOTHING = Digest()
"""The digest of no entries."""
