"""A stream as a Redis client has it: what roles ask of a store, in the words of commands, with what they take back."""

import random
import select
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import redis
from redis.backoff import NoBackoff
from redis.connection import UnixDomainSocketConnection
from redis.retry import Retry

from diskstream import EntryID

__all__ = ["Asked", "Given", "Line", "ServedStream", "ServerAwayError", "Word"]

# Longer than anybody waits in a command, or is stopped: who is not answered by then hangs.
_ANSWER_S = 60.0
_AGAIN_S = 0.01
_SOCKET: Any = UnixDomainSocketConnection  # which has no types, and says that it is abstract

Word = str | bytes | int


class ServerAwayError(Exception):
    """The server has gone: what was under way has an end that nobody knows."""


@dataclass(frozen=True)
class Given:
    """An entry of a reply.

    Attributes:
        deliveries: how often it had been delivered before; None where the reply does not say it.
        gone: whether the entry was removed, and only its ID is left.
    """

    id: EntryID
    pairs: list[tuple[bytes, bytes]]
    deliveries: int | None = None
    gone: bool = False

    def __getitem__(self, name: str) -> bytes:
        """The value of a field."""
        return dict(self.pairs)[name.encode()]


@dataclass(frozen=True)
class _Row:
    """One of XPENDING."""

    id: EntryID


@dataclass(frozen=True)
class _AutoClaim:
    entries: list[Given]
    deleted: list[EntryID]


class Asked(Protocol):
    """Whoever answers commands."""

    def ask(self, *words: Word) -> Any:
        """The reply to one command."""

    def ask_all(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """The replies to some."""


class Line:
    """A connection to any of the servers whose sockets are in a folder; to another one where that has gone."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder, self._chance = folder, chance
        self._connection: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._hang_up()

    def _connected(self) -> Any:
        while self._connection is None:
            path = self._chance.choice(sorted(self._folder.iterdir()) or [self._folder / "none"])
            # Nothing is sent again behind our back: it would be there twice.
            trial = _SOCKET(path=str(path), socket_timeout=_ANSWER_S, retry=Retry(NoBackoff(), 0), protocol=2)
            try:
                trial.connect()
                self._connection = trial
            except (redis.ConnectionError, OSError):  # it has not begun yet, or was killed
                trial.disconnect()
                select.select([], [], [], _AGAIN_S)
        return self._connection

    def ask(self, *words: Word) -> Any:
        """The reply to one command.

        Raises:
            ServerAwayError: there is none.
            redis.ResponseError: it is an error.
        """
        return self.ask_all([words])[0]

    def ask_all(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """The replies to commands that are sent at once."""
        connection = self._connected()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            return [connection.read_response() for _ in commands]
        except redis.ResponseError:
            raise
        except (redis.ConnectionError, OSError) as error:
            self._hang_up()
            raise ServerAwayError(str(error)) from error
        except BaseException:  # what is not read yet is no reply to what comes next
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()


def _pairs(flat: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _given(rows: Iterable[Sequence[Any]] | None) -> list[Given]:
    """The entries of a reply: each an ID and its fields and, with CLAIM, how often it was delivered before."""
    found = []
    for entry_id, flat, *more in rows or ():
        told = int(more[1]) if more else None
        found.append(Given(EntryID(entry_id), [] if flat is None else _pairs(flat), told, gone=flat is None))
    return found


def _of_one_stream(reply: Sequence[Sequence[Any]] | None) -> list[Given]:
    return [] if reply is None else _given(reply[0][1])


def _blocking(block: float | None) -> list[Word]:
    return [] if block is None else ["BLOCK", round(block * 1000)]


class ServedStream:
    """What roles use of a `Stream`."""

    def __init__(self, line: Asked, name: str) -> None:
        self.line, self.name = line, name

    def add(
        self,
        row: Sequence[tuple[bytes, bytes]],
        *,
        durable: bool = False,
        producer: str | None = None,
        message_id: str | None = None,
    ) -> EntryID:
        """As XADD; what is to be durable at once waits for that."""
        words = self._adding(row, [] if producer is None else ["IDMP", producer, message_id or ""])
        made, *_ = self.line.ask_all([words, ["WAITAOF", 1, 0, 0]] if durable else [words])
        return EntryID(made)

    def add_many(self, rows: Iterable[Sequence[tuple[bytes, bytes]]]) -> list[EntryID]:
        """A pipeline: each entry for itself."""
        return [EntryID(made) for made in self.line.ask_all([self._adding(row, []) for row in rows])]

    def _adding(self, row: Sequence[tuple[bytes, bytes]], options: Sequence[Word]) -> list[Word]:
        return ["XADD", self.name, *options, "*", *(word for pair in row for word in pair)]

    def range(self, low: EntryID, high: str, *, count: int) -> list[Given]:
        """As XRANGE."""
        return _given(self.line.ask("XRANGE", self.name, str(low), high, "COUNT", count))

    def revrange(self, high: str, low: EntryID, *, count: int) -> list[Given]:
        """As XREVRANGE."""
        return _given(self.line.ask("XREVRANGE", self.name, high, str(low), "COUNT", count))

    def read(self, after: EntryID, *, count: int, block: float | None) -> list[Given]:
        """As XREAD."""
        words = ["COUNT", count, *_blocking(block), "STREAMS", self.name, str(after)]
        return _of_one_stream(self.line.ask("XREAD", *words))

    def get(self, entry_id: EntryID) -> Given | None:
        """XRANGE of one ID."""
        return next(iter(_given(self.line.ask("XRANGE", self.name, str(entry_id), str(entry_id)))), None)

    def group(self, name: str, *, create: bool) -> "_ServedGroup":
        """One that is there."""
        assert not create
        return _ServedGroup(self, name.encode())


class _ServedGroup:
    """What roles use of a `Group`."""

    def __init__(self, stream: ServedStream, name: bytes) -> None:
        self.stream, self.name = stream, name

    def ask(self, command: str, *words: Word) -> Any:
        """The reply to a command about the group."""
        return self.stream.line.ask(command, self.stream.name, self.name, *words)

    def consumer(self, name: str) -> "_ServedConsumer":
        """One of its consumers."""
        return _ServedConsumer(self, name)

    def ack(self, *ids: EntryID) -> int:
        """As XACK; of nothing, nothing."""
        return int(self.ask("XACK", *map(str, ids))) if ids else 0

    def ack_delete(self, *ids: EntryID, ref: str) -> list[int]:
        """As XACKDEL."""
        return [int(answer) for answer in self.ask("XACKDEL", ref, "IDS", len(ids), *map(str, ids))]

    def nack(self, *ids: EntryID) -> int:
        """As XNACK."""
        return int(self.ask("XNACK", "FAIL", "IDS", len(ids), *map(str, ids)))

    def pending_range(self, *, count: int, idle_ms: int) -> list[_Row]:
        """As XPENDING."""
        return [_Row(EntryID(row[0])) for row in self.ask("XPENDING", "IDLE", idle_ms, "-", "+", count)]


class _ServedConsumer:
    """What roles use of a `Consumer`."""

    def __init__(self, group: _ServedGroup, name: str) -> None:
        self.group, self.name = group, name

    def read(
        self, after: str = ">", *, count: int, block: float | None = None, claim_ms: int | None = None
    ) -> list[Given]:
        """As XREADGROUP; what is new was never delivered before, of a backlog that is not told."""
        claim: list[Word] = [] if claim_ms is None else ["CLAIM", claim_ms]
        stream = self.group.stream
        words = ["GROUP", self.group.name, self.name, "COUNT", count, *_blocking(block), *claim]
        found = _of_one_stream(stream.line.ask("XREADGROUP", *words, "STREAMS", stream.name, after))
        return [Given(each.id, each.pairs, 0) for each in found] if after == ">" and claim_ms is None else found

    def autoclaim(self, idle_ms: int, *, count: int) -> _AutoClaim:
        """As XAUTOCLAIM from the start on."""
        _, entries, deleted = self.group.ask("XAUTOCLAIM", self.name, idle_ms, "-", "COUNT", count)
        return _AutoClaim(_given(entries), [EntryID(each) for each in deleted])

    def claim(self, *ids: EntryID, min_idle_ms: int) -> list[Given]:
        """As XCLAIM."""
        return _given(self.group.ask("XCLAIM", self.name, min_idle_ms, *map(str, ids)))
