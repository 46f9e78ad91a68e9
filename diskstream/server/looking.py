"""XLENs of one stream, or XRANGEs, that stand behind each other in a pipeline, as one call."""

from time import perf_counter_ns

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure
from diskstream.commands.wire import CommandRun
from diskstream.errors import DiskstreamError

__all__ = ["look"]


def look(keyspace: Keyspace, database: int, run: CommandRun, done: int) -> tuple[bytes, int] | None:
    """Answers the commands of a run behind the first `done`, as many as make a reply of some hundred kilobytes.

    Returns:
        The replies, and how many commands are answered now; None where each is to be run by itself, and nothing was
        counted.
    """
    began = perf_counter_ns()
    try:
        stream = keyspace.stream(database, run.key)
        if run.name == "xlen":
            answered = len(run)
            reply = b":%d\r\n" % len(stream) * (answered - done)
        else:
            reply, answered = stream.range_run(run, done)
    except (Failure, DiskstreamError, OSError):
        return None  # each meets its own error
    calls = keyspace.statistics.of(run.name)
    calls.calls += answered - done
    calls.nanoseconds += perf_counter_ns() - began
    return reply, answered
