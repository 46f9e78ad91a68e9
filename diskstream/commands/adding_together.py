"""Plain XADDs that follow each other: one frame, and one flush where there is one."""

from diskstream.commands.caller import Caller
from diskstream.commands.replies import Failure, Reply
from diskstream.errors import DiskstreamError

__all__ = ["MOST_ADDS", "add_together", "adds_from"]

# Redis's pipelines are cut anywhere; a frame is read as a whole.
MOST_ADDS = 4096
_LEAST_WORDS = 5


def adds_from(commands: list[list[bytes]], at: int) -> int:
    """How many commands from `at` on are `XADD key * name value ...`, without options, for the same key."""
    key, end = b"", at
    while end < len(commands) and end - at < MOST_ADDS:
        words = commands[end]
        plain = len(words) >= _LEAST_WORDS and len(words) % 2 and words[2] == b"*" and words[0].upper() == b"XADD"
        if not plain or (end > at and words[1] != key):
            break
        key = words[1]
        end += 1
    return end - at


def add_together(caller: Caller, commands: list[list[bytes]]) -> list[Reply] | None:
    """Runs such commands as one. None where they must be run one by one, so that each has its own error."""
    if caller.transaction is not None or caller.user is None:
        return None
    rows = [list(zip(words[3::2], words[4::2], strict=True)) for words in commands]
    try:
        ids = caller.keyspace.stream(caller.database, commands[0][1]).add_many(rows)
    except (Failure, DiskstreamError):
        return None
    caller.keyspace.statistics.of("xadd").calls += len(rows)
    return list(ids)
