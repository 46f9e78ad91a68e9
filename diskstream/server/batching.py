"""Plain XADDs that stand behind each other in a turn, as one call: one frame, and one flush where there is one."""

from time import perf_counter_ns

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure, Raw, Reply
from diskstream.commands.wire import AddRun
from diskstream.errors import DiskstreamError
from diskstream.server.connection import Connection
from diskstream.server.kindred import Answers, Kindred, OneByOne, apart

__all__ = ["AddBatch"]

# A frame is read as a whole, and so many entries already share the cost of one call.
_MOST_ENTRIES = 4096


class AddBatch(Kindred[AddRun]):
    """Runs of XADDs for one stream, in the order in which they came, and who gets the IDs.

    Args:
        keyspace: where the streams are.
        one_by_one: runs a command as all others are; what gives each its own error.
    """

    def __init__(self, keyspace: Keyspace, one_by_one: OneByOne) -> None:
        super().__init__(AddRun, "xadd", _MOST_ENTRIES)
        self._keyspace, self._one_by_one = keyspace, one_by_one

    def run(self) -> Answers:
        """Adds them, and empties the batch. Returns everybody's replies, in order."""
        connections, runs = self.empty()
        answers = self._together(connections, runs)
        if answers is not None:
            return answers
        # What does not fit into one frame is as many: an error of one must not repeat those before it.
        replies: list[Reply] = []
        for connection, run in zip(connections, runs, strict=True):
            answers = self._together([connection], [run])
            if answers is not None:  # one fits
                _, (reply,), is_bytes = answers
                replies.append(Raw(reply) if is_bytes else reply)
        return connections, replies, False

    def _together(self, connections: list[Connection], runs: list[AddRun]) -> Answers | None:
        """The replies to runs that are added as one; None where they do not fit into one frame."""
        began = perf_counter_ns()
        try:
            stream = self._keyspace.stream(self._database, runs[0].key)
            replies = [stream.add_run(runs[0])] if len(runs) == 1 else stream.add_runs(runs)
        except (Failure, DiskstreamError, OSError, MemoryError):
            # Nothing was added, or the stream takes no more: each meets its own error.
            return apart(connections, runs, self._one_by_one)
        if replies is None:
            return None
        calls = self._keyspace.statistics.of("xadd")
        calls.calls += sum(map(len, runs))
        calls.nanoseconds += perf_counter_ns() - began
        return connections, replies, True
