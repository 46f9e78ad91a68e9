"""Reads RESP that a command made ready for the wire: a command may answer with `Raw`."""

from typing import Any

from diskstream.commands.replies import ErrorReply, Map, Reply, Status
from diskstream.plurals import number_of

__all__ = ["parse_all"]


def parse_all(data: bytes) -> Reply:
    """The one reply in `data`; a list where there are several.

    Raises:
        ValueError: it is not RESP, or ends too early.
    """
    found, at = [], 0
    while at < len(data):
        reply, at = _parse(data, at)
        found.append(reply)
    return found[0] if len(found) == 1 else found


def _parse(data: bytes, at: int) -> tuple[Reply, int]:
    end = data.index(b"\r\n", at)
    kind, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    match kind:
        case b"+":
            return Status(line), at
        case b"-":
            return ErrorReply(line), at
        case b":":
            return int(line), at
        case b"_":
            return None, at
        case b"#":
            return line == b"t", at
        case b",":
            return float(line), at
    count = int(line)
    if count < 0:
        return None, at
    match kind:
        case b"$" | b"=":
            if data[at + count : at + count + 2] != b"\r\n":
                raise ValueError(f"a string of {number_of(count, 'byte')} does not end at {at + count}")
            return data[at + (4 if kind == b"=" else 0) : at + count], at + count + 2  # behind "txt:"
        case b"*" | b"~" | b">":
            return _several(data, at, count)
        case b"%":
            words, at = _several(data, at, 2 * count)
            return Map(list(zip(words[::2], words[1::2], strict=True))), at
    raise ValueError(f"no type of RESP: {kind!r} before byte {at}")


def _several(data: bytes, at: int, count: int) -> tuple[list[Any], int]:
    found = []
    for _ in range(count):
        reply, at = _parse(data, at)
        found.append(reply)
    return found, at
