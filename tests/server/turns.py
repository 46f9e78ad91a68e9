"""A server whose turns a test takes itself: what came in one turn, and in which order, is then no matter of chance."""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from diskstream.commands.caller import Caller
from diskstream.commands.wire import RequestParser
from diskstream.server.connection import Connection
from diskstream.server.parts import installed
from diskstream.server.serving import Server
from diskstream.server.settings import ServerSettings
from tests.server.client import packed

_TURNS = 10_000
END = "that was all"


def _without_runs(**options: Any) -> RequestParser:
    return RequestParser(**{**options, "runs": False})


class Turns:
    """A server and clients of it, in one thread.

    Args:
        path: of the store.
        clients: how many there are.
        runs: whether the commands of a pipeline are run together where they can be.
        settings: of the server.
    """

    def __init__(self, path: Path, clients: int = 1, *, runs: bool = True, **settings: Any) -> None:
        parts = installed() if runs else replace(installed(), parser=_without_runs)
        chosen = ServerSettings(dir=str(path), port=0, unixsocket=str(path.with_suffix(".socket")), **settings)
        self.server = Server(chosen, parts=parts)
        self.ends: list[socket.socket] = []
        self.connections: list[Connection] = []
        for number in range(clients):
            end, other = socket.socketpair()
            for each in (end, other):
                each.setblocking(False)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            caller = Caller(self.server.keyspace, id=number + 1, host=self.server)
            parser = parts.parser(runs=runs)
            connection = Connection(other, caller, parser, parts.encode)
            self.server.loop.add(connection)
            self.ends.append(end)
            self.connections.append(connection)
        self.heard = [bytearray() for _ in range(clients)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        for end in self.ends:
            end.close()
        self.server.close()

    def turn(self, pieces: Sequence[bytes] = ()) -> None:
        """One turn, in which so much has come from each client, in their order."""
        for end, piece in zip(self.ends, pieces, strict=False):
            while piece:
                piece = piece[end.send(piece) :]  # noqa: PLW2901  # what did not fit comes next
        self.server.loop.poke()  # so that it sleeps over nothing
        self.server.loop.turn()
        self.listen()

    def second(self) -> None:
        """The turn in which a second is over."""
        self.server.loop._second = self.server.loop._sweep_at = 0.0
        self.turn()

    def listen(self) -> None:
        """Hears what came for the clients."""
        for client, end in enumerate(self.ends):
            with contextlib.suppress(BlockingIOError):
                while data := end.recv(1 << 20):
                    self.heard[client] += data

    def finish(self) -> list[bytes]:
        """What each client has heard by the time that all its commands are answered; waits end without entries."""
        closing = packed("DISCARD") + packed("CLIENT", "REPLY", "ON") + packed("ECHO", END)
        self.turn([closing] * len(self.ends))
        wanted = f"{END}\r\n".encode()
        for _ in range(_TURNS):
            if all(heard.endswith(wanted) for heard in self.heard):
                return [bytes(heard) for heard in self.heard]
            for connection in self.connections:
                self.server.loop.runner.waiters.unblock(connection, with_error=False)
            self.turn()
        raise AssertionError("a client was not answered to the end")


def pieces_of(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    """The bytes, cut at these places."""
    places = sorted({min(cut, len(data)) for cut in cuts})
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        yield data[start:end]
