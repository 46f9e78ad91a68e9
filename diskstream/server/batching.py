"""Plain XADDs that stand behind each other in a turn, as one call: one frame, and one flush where there is one."""

from collections.abc import Callable
from time import perf_counter_ns

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure, Raw, Reply
from diskstream.commands.wire import AddRun, encode
from diskstream.errors import DiskstreamError
from diskstream.server.connection import Connection

__all__ = ["AddBatch"]

# A frame is read as a whole, and so many entries already share the cost of one call.
_MOST_ENTRIES = 4096


class AddBatch:
    """Runs of XADDs for one stream, in the order in which they came, and who gets the IDs.

    Args:
        keyspace: where the streams are.
        one_by_one: runs a command as all others are; what gives each its own error.
    """

    def __init__(self, keyspace: Keyspace, one_by_one: Callable[[Connection, list[bytes]], Reply]) -> None:
        self._keyspace, self._one_by_one = keyspace, one_by_one
        self._database, self._key = -1, b""
        self._runs: list[tuple[Connection, AddRun]] = []
        self._entries = 0

    def __len__(self) -> int:
        """Entries."""
        return self._entries

    @property
    def place(self) -> tuple[int, bytes]:
        """The database and the key."""
        return self._database, self._key

    def take(self, connection: Connection, run: AddRun) -> bool:
        """Takes a run. False where it is for another stream, or there is no more room: `run` comes first."""
        database, key = connection.caller.database, run.key
        if not self._runs:
            self._database, self._key = database, key
        elif key != self._key or database != self._database or self._entries >= _MOST_ENTRIES:
            return False
        self._entries += len(run)
        self._runs.append((connection, run))
        return True

    def run(self) -> list[tuple[Connection, Reply]]:
        """Adds them, and empties the batch. Returns everybody's replies, in order."""
        runs, self._runs = self._runs, []
        self._entries = 0
        # What does not fit into one frame is as many: an error of one must not repeat those before it.
        return self._together(runs) or [reply for each in runs for reply in self._together([each]) or ()]

    def _together(self, runs: list[tuple[Connection, AddRun]]) -> list[tuple[Connection, Reply]] | None:
        """The replies to runs that are added as one; None where they do not fit into one frame."""
        began = perf_counter_ns()
        try:
            stream = self._keyspace.stream(self._database, self._key)
            replies = [stream.add_run(runs[0][1])] if len(runs) == 1 else stream.add_runs([run for _, run in runs])
        except (Failure, DiskstreamError, OSError, MemoryError):
            # Nothing was added, or the stream takes no more: each meets its own error.
            return [(connection, self._apart(connection, run)) for connection, run in runs]
        if replies is None:
            return None
        calls = self._keyspace.statistics.of("xadd")
        calls.calls += sum(len(run) for _, run in runs)
        calls.nanoseconds += perf_counter_ns() - began
        return [(connection, Raw(reply)) for (connection, _), reply in zip(runs, replies, strict=True)]

    def _apart(self, connection: Connection, run: AddRun) -> Reply:
        replies = [self._one_by_one(connection, words) for words in run.commands()]
        return replies[0] if len(replies) == 1 else Raw(encode(replies, resp3=connection.protocol > 2))  # noqa: PLR2004  # RESP3
