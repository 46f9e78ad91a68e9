"""XACKs that stand behind each other in a turn, for one group, as one call: one frame, one look into the list."""

from collections.abc import Callable
from time import perf_counter_ns

from diskstream.commands.arguments import as_id
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure, Reply
from diskstream.errors import DiskstreamError
from diskstream.server.connection import Connection

__all__ = ["AckBatch", "is_ack"]

_MOST_IDS = 65_536
_FEWEST_WORDS = 4


def is_ack(words: list[bytes]) -> bool:
    """Whether this is an XACK that may be one of many."""
    return len(words) >= _FEWEST_WORDS and words[0] in (b"XACK", b"xack")


class AckBatch:
    """XACKs for one group, of one client or several, in the order in which they came.

    Args:
        keyspace: where the streams are.
        one_by_one: runs a command as all others are; what gives each its own error.
    """

    def __init__(self, keyspace: Keyspace, one_by_one: Callable[[Connection, list[bytes]], Reply]) -> None:
        self._keyspace, self._one_by_one = keyspace, one_by_one
        self._place: tuple[int, bytes, bytes] | None = None
        self._given: list[tuple[Connection, list[bytes]]] = []
        self._id_count = 0

    def __len__(self) -> int:
        """Commands."""
        return len(self._given)

    def take(self, connection: Connection, words: list[bytes]) -> bool:
        """Takes a command. False where it is for another group, or there is no more room: `run` comes first."""
        place = connection.caller.database, words[1], words[2]
        if self._given and (place != self._place or self._id_count >= _MOST_IDS):
            return False
        self._place = place
        self._given.append((connection, words))
        self._id_count += len(words) - 3
        return True

    def run(self) -> list[tuple[Connection, Reply]]:
        """Runs them, and empties the batch. Returns everybody's reply, in order."""
        given, self._given, self._id_count = self._given, [], 0
        if len(given) > 1:
            began = perf_counter_ns()
            replies = self._together([words for _, words in given])
            if replies is not None:
                calls = self._keyspace.statistics.of("xack")
                calls.calls += len(given)
                calls.nanoseconds += perf_counter_ns() - began
                return [(connection, reply) for (connection, _), reply in zip(given, replies, strict=True)]
        return [(connection, self._one_by_one(connection, words)) for connection, words in given]

    def _together(self, given: list[list[bytes]]) -> list[int] | None:
        """The replies to all; None where one of them is wrong, and nothing was done."""
        assert self._place is not None
        database, key, group = self._place
        try:
            ids = [as_id(word) for words in given for word in words[3:]]
            stream = self._keyspace.stream(database, key)
            return stream.group(group, create=False).ack_each(ids, [len(words) - 3 for words in given])
        except (Failure, DiskstreamError, OSError):
            return None  # each meets its own error
