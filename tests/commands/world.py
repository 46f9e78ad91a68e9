"""Commands said to our dispatch and to a Redis server: the same words in, replies of RESP2 as plain values out."""

import shlex
import socket
from typing import Any

from diskstream import EntryID
from diskstream.commands.all_commands import table
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import ErrorReply, Map, NilArray, Raw, Status

__all__ = ["Ours", "Refused", "Theirs", "words_of"]


class Refused(bytes):
    """An error reply."""

    __slots__ = ()


def words_of(line: str) -> list[bytes]:
    """The words of a command, with quotes as in a shell."""
    return [word.encode("latin-1") for word in shlex.split(line)]


def plain(reply: Any) -> Any:
    """A reply as RESP2 would carry it."""
    if isinstance(reply, Status | ErrorReply):
        return Refused(reply.text) if isinstance(reply, ErrorReply) else reply.text
    if isinstance(reply, NilArray) or reply is None:
        return None
    if isinstance(reply, str | EntryID):
        return str(reply).encode()
    if isinstance(reply, Map):
        return [plain(each) for pair in reply.pairs for each in pair]
    if isinstance(reply, list | tuple):
        return [plain(each) for each in reply]
    return reply.data if isinstance(reply, Raw) else reply


class Ours:
    """A caller of our commands."""

    TABLE = table()

    def __init__(self, keyspace: Keyspace, **about: Any) -> None:
        self.keyspace = keyspace
        self.caller = Caller(keyspace, **about)

    def raw(self, *words: bytes) -> Any:
        """The reply as the front ends get it."""
        return dispatch(self.TABLE, self.caller, list(words))

    def run(self, line: str) -> Any:
        """The reply to a line, as plain values."""
        return plain(self.raw(*words_of(line)))


class Theirs:
    """A connection to a Redis server."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=20)
        self._file = self._socket.makefile("rb")
        self.run("FLUSHALL")

    def run(self, line: str) -> Any:
        """The reply to a line."""
        words = words_of(line)
        self._socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self._reply()

    def _reply(self) -> Any:
        line = self._file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return Refused(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self._reply() for _ in range(int(rest))]
        return rest

    def close(self) -> None:
        """Hangs up."""
        self._file.close()
        self._socket.close()
