"""A client on a raw socket, and a server in a thread."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from diskstream.server.serving import Server
from diskstream.server.settings import ServerSettings

_PATIENCE_S = 20


class ErrorLine(Exception):  # noqa: N818  # what a server answered
    """An error that the server answered with."""


class Client:
    """Sends words, reads replies."""

    def __init__(self, sock: socket.socket | ssl.SSLSocket) -> None:
        self.sock = sock
        sock.settimeout(_PATIENCE_S)
        self._file = sock.makefile("rb")

    @classmethod
    def to(cls, server: Server) -> Self:
        return cls.connected("127.0.0.1", server.port)

    @classmethod
    def connected(cls, host: str, port: int) -> Self:
        return cls(socket.create_connection((host, port), timeout=_PATIENCE_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self.sock.close()

    def send(self, *words: str | bytes | int) -> None:
        self.sock.sendall(packed(*words))

    def call(self, *words: str | bytes | int) -> Any:
        self.send(*words)
        return self.reply()

    def line(self) -> bytes:
        return self._file.readline().rstrip(b"\r\n")

    def at_end(self) -> bool:
        """Whether the server has closed the connection, all that it sent having been read."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def reply(self) -> Any:
        line = self.line()
        sign, rest = line[:1], line[1:]
        if sign == b"":
            raise EOFError
        if sign == b"-":
            return ErrorLine(rest.decode(errors="backslashreplace"))
        if sign == b"+":
            return rest
        if sign == b":":
            return int(rest)
        if sign in (b"_", b"#"):
            return None if sign == b"_" else rest == b"t"
        size = int(rest)
        if size < 0:
            return None
        if sign == b"$":
            return self._file.read(size + 2)[:-2]
        if sign == b"%":
            return {self.reply(): self.reply() for _ in range(size)}
        return [self.reply() for _ in range(size)]


def packed(*words: str | bytes | int) -> bytes:
    """A command as a client sends it."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


@contextlib.contextmanager
def serving(path: Path, **settings: Any) -> Iterator[Server]:
    """A server over `path` in a thread; on a free port of the loopback interface where no port is given."""
    chosen = ServerSettings(dir=str(path), **{"port": 0, "bind": ("127.0.0.1",), **settings})
    with Server(chosen) as server:
        thread = threading.Thread(target=server.run, name="server under test")
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join(_PATIENCE_S)
            assert not thread.is_alive()


def waits_until_blocked(client: Client, server: Server, count: int) -> None:
    """Returns once so many clients wait; asks the server, whose turns it lets go by."""
    for _ in range(100_000):
        client.call("PING")
        if server.loop.runner.waiters.count == count:
            return
    raise AssertionError(f"{server.loop.runner.waiters.count} clients wait, not {count}")
