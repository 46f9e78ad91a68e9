"""The digest of entries, by docs/format/digest.md."""

import hashlib
from collections.abc import Iterable

from tests.slow_reader.wire import Entry, Pairs

__all__ = ["LANES", "digest"]

LANES = {"A": 0x9E3779B97F4A7C15, "B": 0xC2B2AE3D27D4EB4F}
_MASK = (1 << 64) - 1
_BLAKE_FROM_BYTES = 65


def _mix(x: int, m: int) -> int:
    x ^= x >> 32
    x = x * m & _MASK
    x ^= x >> 29
    x = x * 0xBF58476D1CE4E5B9 & _MASK
    return x ^ x >> 32


def _bytes(value: bytes, lane: str) -> int:
    if len(value) >= _BLAKE_FROM_BYTES:
        halves = hashlib.blake2b(value, digest_size=16).digest()
        return int.from_bytes(halves[:8] if lane == "A" else halves[8:], "little")
    found = LANES[lane] + len(value) & _MASK
    for at in range(0, len(value), 8):
        found = (found ^ int.from_bytes(value[at : at + 8], "little")) * LANES[lane] & _MASK
        found ^= found >> 32
    return found


def _list(pairs: Pairs, lane: str) -> int:
    terms = (
        _mix(_bytes(name, lane) + 3 * _bytes(value, lane) + place * 0xD6E8FEB86659FD93 & _MASK, LANES[lane])
        for place, (name, value) in enumerate(pairs, 1)
    )
    return sum(terms) + len(pairs) & _MASK


def _entry(entry: Entry, lane: str) -> int:
    (ms, seq), pairs = entry
    m = LANES[lane]
    entry_id = _mix(ms * m + _mix(seq + m & _MASK, m) & _MASK, m)
    return _mix(entry_id + _mix(_list(pairs, lane) + _bytes(b"fields", lane) & _MASK, m) & _MASK, m)


def digest(entries: Iterable[Entry]) -> str:
    """The digest of some entries, as text."""
    kept = list(entries)
    return "".join(f"{sum(_entry(entry, lane) for entry in kept) & _MASK:016x}" for lane in LANES)
