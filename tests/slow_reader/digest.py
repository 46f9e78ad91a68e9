"""The digest of entries, by docs/format/digest.md."""

import hashlib
import struct
from collections.abc import Iterable

from tests.slow_reader.wire import Entry, Pairs

__all__ = ["LANES", "MASK", "chained", "digest", "mix", "of_bytes", "of_id", "of_list"]

# Of each lane its multiplier, by which it is named here.
LANES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
MASK = (1 << 64) - 1
_BLAKE_FROM_BYTES = 65


def mix(x: int, lane: int) -> int:
    """`mix` of the page."""
    x ^= x >> 32
    x = x * lane & MASK
    x ^= x >> 29
    x = x * 0xBF58476D1CE4E5B9 & MASK
    return x ^ x >> 32


def chained(start: int, words: Iterable[int], lane: int) -> int:
    """What is done with each word of short bytes, and of a decimal."""
    for word in words:
        start = (start ^ word) * lane & MASK
        start ^= start >> 32
    return start


def of_bytes(value: bytes, lane: int) -> int:
    """`bytes` of the page."""
    if len(value) >= _BLAKE_FROM_BYTES:
        halves = struct.unpack("<QQ", hashlib.blake2b(value, digest_size=16).digest())
        return int(halves[LANES.index(lane)])
    words = (int.from_bytes(value[at : at + 8], "little") for at in range(0, len(value), 8))
    return chained(lane + len(value) & MASK, words, lane)


def of_list(pairs: Pairs, lane: int) -> int:
    """`list` of the page."""
    terms = (
        mix(of_bytes(name, lane) + 3 * of_bytes(value, lane) + place * 0xD6E8FEB86659FD93 & MASK, lane)
        for place, (name, value) in enumerate(pairs, 1)
    )
    return sum(terms) + len(pairs) & MASK


def of_id(ms: int, seq: int, lane: int) -> int:
    """`id` of the page."""
    return mix(ms * lane + mix(seq + lane & MASK, lane) & MASK, lane)


def _entry(entry: Entry, lane: int) -> int:
    (ms, seq), pairs = entry
    fields = mix(of_list(pairs, lane) + of_bytes(b"fields", lane) & MASK, lane)
    return mix(of_id(ms, seq, lane) + fields & MASK, lane)


def digest(entries: Iterable[Entry]) -> str:
    """The digest of some entries, as text."""
    kept = list(entries)
    return "".join(f"{sum(_entry(entry, lane) for entry in kept) & MASK:016x}" for lane in LANES)
