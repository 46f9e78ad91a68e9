"""Plain XADDs that stand behind each other in a turn, as one call: one frame, and one flush where there is one."""

from collections.abc import Callable

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure, Reply
from diskstream.errors import DiskstreamError
from diskstream.server.connection import Connection

__all__ = ["AddBatch", "is_plain_add"]

# A frame is read as a whole, and so many entries already share the cost of one call.
_MOST_ENTRIES = 1024
_MOST_BYTES = 4 << 20
_LEAST_WORDS = 5


def is_plain_add(words: list[bytes]) -> bool:
    """Whether it is `XADD key * name value ...` without options."""
    count = len(words)
    return count >= _LEAST_WORDS and count & 1 == 1 and words[2] == b"*" and words[0] in (b"XADD", b"xadd", b"Xadd")


class AddBatch:
    """Entries for one stream, in the order in which their commands came, and who gets the IDs.

    Args:
        keyspace: where the streams are.
        one_by_one: runs a command as all others are; what gives each its own error.
    """

    def __init__(self, keyspace: Keyspace, one_by_one: Callable[[Connection, list[bytes]], Reply]) -> None:
        self._keyspace, self._one_by_one = keyspace, one_by_one
        self._database, self._key, self._bytes = -1, b"", 0
        self._adds: list[tuple[Connection, list[bytes]]] = []

    def __len__(self) -> int:
        return len(self._adds)

    @property
    def place(self) -> tuple[int, bytes]:
        """The database and the key."""
        return self._database, self._key

    def take(self, connection: Connection, words: list[bytes]) -> bool:
        """Takes a plain XADD. False where it is for another stream, or there is no more room: `run` comes first."""
        database, key = connection.caller.database, words[1]
        if not self._adds:
            self._database, self._key, self._bytes = database, key, 0
        elif (
            key != self._key
            or database != self._database
            or len(self._adds) >= _MOST_ENTRIES
            or self._bytes >= _MOST_BYTES
        ):
            return False
        self._bytes += sum(map(len, words))
        self._adds.append((connection, words))
        return True

    def run(self) -> list[tuple[Connection, Reply]]:
        """Adds them, and empties the batch. Returns everybody's reply, in order."""
        adds, self._adds = self._adds, []
        if len(adds) > 1:
            try:
                stream = self._keyspace.stream(self._database, self._key)
                ids = stream.add_many([list(zip(words[3::2], words[4::2], strict=True)) for _, words in adds])
            except (Failure, DiskstreamError):
                pass  # nothing was added, or the stream takes no more: each meets its own error below
            else:
                return [(connection, found) for (connection, _), found in zip(adds, ids, strict=True)]
        return [(connection, self._one_by_one(connection, words)) for connection, words in adds]
