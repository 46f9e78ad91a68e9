"""Bytes nearly as they were: what a parser is given that has only seen what its own writer made."""

import random
import re
from collections.abc import Callable, Sequence

__all__ = ["mutated"]

_MANY = 4
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")
_NUMBERS = (
    b"0",
    b"-1",
    b"1e999",
    b"Infinity",
    b"NaN",
    b"18446744073709551615",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"9" * 5000,
    b"0.5",
    b"null",
    b'""',
    b"[]",
    b"{}",
    b"true",
)
_TEXTS = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b'"',
    b"[" * 20_000,
    b"\xff",
    b"\0",
    b"\xed\xb3\xbf",
    b"\r\n",
    b"%",
    b"\xef\xbb\xbf",
)


def _flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + bytes(byte ^ 1 << chance.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]


def _set(data: bytes, chance: random.Random) -> bytes:
    at, size = chance.randrange(len(data) + 1), chance.choice((1, 4, 8))
    return data[:at] + bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF))]) * size + data[at + size :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _without(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + data[at + chance.randrange(1, 20) :]


def _twice(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    size = chance.randrange(1, 40)
    return data[: at + size] + data[at:]


def _number(data: bytes, chance: random.Random) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    place = chance.choice(found)
    return data[: place.start()] + chance.choice(_NUMBERS) + data[place.end() :]


def _value(data: bytes, chance: random.Random) -> bytes:
    """Another kind of value for one of a JSON object: what is between a colon and a comma."""
    found = list(re.finditer(rb": ?([^,{}\[\]]+)", data))
    if not found:
        return data
    place = chance.choice(found)
    return data[: place.start(1)] + chance.choice(_NUMBERS) + data[place.end(1) :]


def _text(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(_TEXTS) + data[at:]


_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _set,
    _cut,
    _without,
    _twice,
    _number,
    _value,
    _value,
    _text,
)


def mutated(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the seeds, changed in one to four places; now and then the tail of another."""
    data = chance.choice(seeds)
    for _ in range(chance.randrange(1, _MANY + 1)):
        data = chance.choice(_CHANGES)(data, chance)
    if chance.randrange(10) == 0:
        other = chance.choice(seeds)
        data = data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]
    return data
