"""What the server is put together from: the commands, and the two ends of the wire."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from diskstream.commands.all_commands import table
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.replies import Reply
from diskstream.commands.table import Table
from diskstream.commands.wire import AddRun, CommandRun, RequestParser, encode

__all__ = ["Parser", "Parts", "installed"]


class Parser(Protocol):
    """Takes a client's bytes as they come and gives whole commands."""

    @property
    def error(self) -> bytes | None:
        """What is wrong with what came, in Redis's words without the sign; nothing more is taken then."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of a command that is not whole yet."""

    @property
    def limit_passed(self) -> bool:
        """Whether `max_query_bytes` were passed: nothing more is taken, and nobody is answered."""

    @property
    def held_back(self) -> bool:
        """Whether to `feed` once more, with nothing if nothing came, after the commands so far have run."""

    def feed(self, data: bytes, authenticated: bool = True) -> Sequence[list[bytes] | AddRun | CommandRun]:
        """Takes bytes; returns the commands that are whole by now."""


@dataclass(frozen=True)
class Parts:
    """What the server is put together from.

    Attributes:
        table: the commands.
        dispatch: calls one for a caller: `dispatch(table, caller, words)` gives a reply or a `Waiting`.
        parser: makes a `Parser`; takes `max_bulk_bytes`, `max_query_bytes` and `runs`.
        encode: replies as bytes for the wire: `encode(replies, resp3=...)`.
    """

    table: Table
    dispatch: Callable[[Table, Caller, list[bytes]], Reply]
    parser: Callable[..., Parser]
    encode: Callable[..., bytes]


def installed() -> Parts:
    """The parts of this package."""
    return Parts(table(), dispatch, RequestParser, encode)
