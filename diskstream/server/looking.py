"""XLENs of one stream, or XRANGEs, that stand behind each other in a pipeline, as one call."""

from time import perf_counter_ns

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure
from diskstream.commands.wire import CommandRun
from diskstream.errors import DiskstreamError

__all__ = ["Looks"]


class Looks:
    """Answers runs of commands that change nothing.

    What is sent to a server at the same time is run at the same time: until this server changes something, or its turn
    ends, one XLEN of a stream is what the next client's finds too.

    Args:
        keyspace: where the streams are.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._lengths: dict[tuple[int, bytes], bytes] = {}

    def forget(self) -> None:
        """Takes nothing for known any more: something was changed, or others may have changed something."""
        if self._lengths:
            self._lengths.clear()

    def look(self, database: int, run: CommandRun, done: int) -> tuple[bytes, int] | None:
        """Answers the commands of a run behind the first `done`, as many as make a reply of some hundred kilobytes.

        Returns:
            The replies, and how many commands are answered now; None where each is to be run by itself, and nothing
            was counted.
        """
        began = perf_counter_ns()
        try:
            if run.name == "xlen":
                answered = len(run)
                reply = self._length(database, run.key) * (answered - done)
            else:
                reply, answered = self._keyspace.stream(database, run.key).range_run(run, done)
        except (Failure, DiskstreamError, OSError, MemoryError):
            return None  # each meets its own error
        calls = self._keyspace.statistics.of(run.name)
        calls.calls += answered - done
        calls.nanoseconds += perf_counter_ns() - began
        return reply, answered

    def again(self, database: int, run: CommandRun) -> bytes | None:
        """Answers XLENs of a stream whose length is known; None where it is not, and for other commands."""
        lengths = run.lengths
        if not lengths or not self._lengths:
            return None
        began = perf_counter_ns()
        known = self._lengths.get((database, run.key))
        if known is None:
            return None
        calls = self._keyspace.statistics.of("xlen")
        calls.calls += lengths
        calls.nanoseconds += perf_counter_ns() - began
        return known * lengths

    def _length(self, database: int, key: bytes) -> bytes:
        place = database, key
        known = self._lengths.get(place)
        if known is None:
            known = self._lengths[place] = b":%d\r\n" % len(self._keyspace.stream(database, key))
        return known
