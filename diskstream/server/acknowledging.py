"""XACKs for one group that stand behind each other in a turn, as one call: one frame, and one flush at most."""

from collections.abc import Callable
from time import perf_counter_ns

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure, Raw, Reply
from diskstream.commands.wire import CommandRun, encode
from diskstream.errors import DiskstreamError
from diskstream.server.connection import Connection
from diskstream.server.kindred import Kindred

__all__ = ["AckBatch"]

_MOST_IDS = 65_536


class AckBatch:
    """Runs of XACKs for one group, of one client or several, in the order in which they came.

    Args:
        keyspace: where the streams are.
        one_by_one: runs a command as all others are; what gives each its own error.
    """

    def __init__(self, keyspace: Keyspace, one_by_one: Callable[[Connection, list[bytes]], Reply]) -> None:
        self._keyspace, self._one_by_one, self._kindred = keyspace, one_by_one, Kindred(_MOST_IDS)

    def __len__(self) -> int:
        """Commands."""
        return self._kindred.commands

    def take(self, connection: Connection, run: CommandRun) -> bool:
        """Takes a run. False where it is for another group, or there is no more room: `run` comes first."""
        return self._kindred.take(connection, run)

    def run(self) -> list[tuple[Connection, Reply]]:
        """Runs them, and empties the batch. Returns everybody's replies, in order."""
        count, given = len(self), self._kindred.empty()
        began = perf_counter_ns()
        replies = self._together([run for _, run in given])
        if replies is None:
            return [(connection, self._apart(connection, run)) for connection, run in given]
        calls = self._keyspace.statistics.of("xack")
        calls.calls += count
        calls.nanoseconds += perf_counter_ns() - began
        return [(connection, Raw(reply)) for (connection, _), reply in zip(given, replies, strict=True)]

    def _together(self, runs: list[CommandRun]) -> list[bytes] | None:
        """The replies to all; None where something is wrong, and nothing was done."""
        try:
            stream = self._keyspace.stream(self._kindred.database, runs[0].key)
            return stream.group(runs[0].group, create=False).ack_runs(runs)
        except (Failure, DiskstreamError, OSError, MemoryError):
            return None  # each meets its own error

    def _apart(self, connection: Connection, run: CommandRun) -> Reply:
        replies = [self._one_by_one(connection, words) for words in run.commands()]
        return replies[0] if len(replies) == 1 else Raw(encode(replies, resp3=connection.protocol > 2))  # noqa: PLR2004  # RESP3
