"""A RESP client that knows nothing of replies but where they end: it gives their bytes."""

import socket
from types import TracebackType
from typing import Self

__all__ = ["WireClient", "request"]


def request(*words: bytes | str) -> bytes:
    """A command as clients send it."""
    given = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(given) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in given)


class WireClient:
    """A connection. `call` sends a command and gives the bytes of its reply."""

    def __init__(self, host: str, port: int, timeout_s: float = 20.0) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
        self.socket.close()

    def send(self, *words: bytes | str) -> None:
        """Sends a command and waits for nothing."""
        self.socket.sendall(request(*words))

    def call(self, *words: bytes | str) -> bytes:
        """Sends a command. Returns its reply."""
        self.send(*words)
        return self.reply()

    def reply(self) -> bytes:
        """The bytes of the next reply; empty where the connection has ended."""
        line = self._file.readline()
        kind = line[:1]
        if kind in (b"$", b"=") and int(line[1:]) >= 0:
            return line + self._file.read(int(line[1:]) + 2)
        if kind in (b"*", b"%", b"~", b">") and int(line[1:]) > 0:
            parts = int(line[1:]) * (2 if kind == b"%" else 1)
            return line + b"".join(self.reply() for _ in range(parts))
        return line
