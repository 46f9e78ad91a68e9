"""XACKs for one group that stand behind each other in a turn, as one call: one frame, and one flush at most."""

from time import perf_counter_ns

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure
from diskstream.commands.wire import CommandRun
from diskstream.errors import DiskstreamError
from diskstream.server.kindred import Answers, Kindred, OneByOne, apart

__all__ = ["AckBatch"]

_MOST_IDS = 65_536


class AckBatch(Kindred[CommandRun]):
    """Runs of XACKs for one group, of one client or several, in the order in which they came.

    Args:
        keyspace: where the streams are.
        one_by_one: runs a command as all others are; what gives each its own error.
    """

    def __init__(self, keyspace: Keyspace, one_by_one: OneByOne) -> None:
        super().__init__(CommandRun, "xack", _MOST_IDS)
        self._keyspace, self._one_by_one = keyspace, one_by_one

    def run(self) -> Answers:
        """Runs them, and empties the batch. Returns everybody's replies, in order."""
        connections, runs = self.empty()
        began = perf_counter_ns()
        try:
            stream = self._keyspace.stream(self._database, runs[0].key)
            replies = stream.group(runs[0].group, create=False).ack_runs(runs)
        except (Failure, DiskstreamError, OSError, MemoryError):
            # Nothing was done: each meets its own error.
            return apart(connections, runs, self._one_by_one)
        calls = self._keyspace.statistics.of("xack")
        calls.calls += sum(map(len, runs))
        calls.nanoseconds += perf_counter_ns() - began
        return connections, replies, True
