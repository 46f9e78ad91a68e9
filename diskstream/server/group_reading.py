"""XREADGROUPs for one group that stand behind each other in a turn, as one call: one frame for all their deliveries."""

from dataclasses import dataclass
from time import perf_counter_ns

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure
from diskstream.commands.wire import CommandRun
from diskstream.errors import DiskstreamError
from diskstream.server.connection import Connection
from diskstream.server.kindred import Kindred

__all__ = ["ReadBatch", "Served"]

# What one call gives out is bounded by itself; this bounds what is carried from one to the next.
_MOST_ENTRIES = 65_536


@dataclass(slots=True)
class Served:
    """What became of a run.

    Attributes:
        connection: whose it is.
        count: commands that were answered.
        reply: to those.
        rest: the others; None where there are none.
        more: whether there is something for them still. Else each is to be run by itself.
    """

    connection: Connection
    count: int
    reply: bytes
    rest: CommandRun | None
    more: bool


class ReadBatch:
    """Runs of XREADGROUPs for one group, of one client or several, in the order in which they came.

    Only what finds entries is answered here: what finds none may have to wait, or to be told why.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace, self._kindred = keyspace, Kindred(_MOST_ENTRIES)

    def take(self, connection: Connection, run: CommandRun) -> bool:
        """Takes a run. False where it is for another group, or there is no more room: `run` comes first."""
        return self._kindred.take(connection, run)

    def run(self) -> list[Served]:
        """Reads, and empties the batch. Says of everybody how far it went, in order."""
        given = self._kindred.empty()
        began = perf_counter_ns()
        readers = [(run, connection.caller.protocol > 2) for connection, run in given]  # noqa: PLR2004  # RESP3
        try:
            stream = self._keyspace.stream(self._kindred.database, given[0][1].key)
            answers = stream.group(given[0][1].group, create=False).read_runs(readers)
        except (Failure, DiskstreamError, OSError, MemoryError):
            answers = None  # each meets its own error
        if answers is None:
            return [Served(connection, 0, b"", run, more=False) for connection, run in given]
        done, more = answers
        count = sum(answered for answered, _ in done)
        calls = self._keyspace.statistics.of("xreadgroup")
        calls.calls += count
        calls.nanoseconds += perf_counter_ns() - began
        return [
            Served(connection, answered, reply, run.rest(answered) if answered < len(run) else None, more)
            for (connection, run), (answered, reply) in zip(given, done, strict=True)
        ]
