"""XREADGROUPs for one group that stand behind each other in a turn, as one call: one frame for all their deliveries."""

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

# Whose run, the run, how many of its commands were answered, and the reply to those.
Served = tuple[Connection, CommandRun, int, bytes]


class ReadBatch(Kindred[CommandRun]):
    """Runs of XREADGROUPs for one group, of one client or several, in the order in which they came.

    Only what finds entries is answered here: what finds none may have to wait, or to be told why.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        super().__init__(CommandRun, "xreadgroup", _MOST_ENTRIES)
        self._keyspace = keyspace

    def run(self) -> tuple[list[Served], bool]:
        """Reads, and empties the batch.

        Returns:
            How far each run went, in order; and whether there is something for what is left of them. Else each command
            of that is to be run by itself.
        """
        connections, runs = self.empty()
        began = perf_counter_ns()
        readers = [(run, connection.caller.protocol > 2) for connection, run in zip(connections, runs, strict=True)]  # noqa: PLR2004  # RESP3
        try:
            stream = self._keyspace.stream(self._database, runs[0].key)
            answers = stream.group(runs[0].group, create=False).read_runs(readers)
        except (Failure, DiskstreamError, OSError, MemoryError):
            answers = None  # each meets its own error
        if answers is None:
            return [(connection, run, 0, b"") for connection, run in zip(connections, runs, strict=True)], False
        done, more = answers
        calls = self._keyspace.statistics.of("xreadgroup")
        calls.calls += sum(answered for answered, _ in done)
        calls.nanoseconds += perf_counter_ns() - began
        return [
            (connection, run, answered, reply)
            for connection, run, (answered, reply) in zip(connections, runs, done, strict=True)
        ], more
