"""What a command answers with. Its forms on the wire are drawn in docs/architecture-server.md."""

from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["NIL_ARRAY", "OK", "QUEUED", "ErrorReply", "Failure", "Map", "NilArray", "Raw", "Reply", "Status"]

# Numbers, bytes, str, None, lists and tuples of replies, `Entry`, `Delivery`, `EntryID`, and the classes below: a union
# that contains itself says no more to a type checker than this does.
Reply: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Status:
    """A simple string, as ``+OK``; without line ends."""

    text: bytes


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error as a reply: the code and the words behind it; without line ends."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Map:
    """Keys and values in order: a map of RESP3, a flat array of RESP2."""

    pairs: list[tuple[Reply, Reply]]


@dataclass(slots=True)  # not frozen: that would make it twice as dear, and one is made for each client in a turn
class Raw:
    """Bytes for the wire that are a reply, or several, already."""

    data: bytes


@dataclass(frozen=True, slots=True)
class NilArray:
    """No array: ``*-1`` of RESP2, the one null of RESP3."""


NIL_ARRAY = NilArray()
OK = Status(b"OK")
QUEUED = Status(b"QUEUED")


class Failure(Exception):  # noqa: N818  # an answer to a client, in Redis's words, and no error of diskstream's tree
    """An error that the client sees: the code and the words behind it, as ``ERR syntax error``."""

    def __init__(self, text: str | bytes) -> None:
        super().__init__(text)
        self.text = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
