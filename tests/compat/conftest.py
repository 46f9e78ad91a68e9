"""The same methods over a store, and of redis-py over a server."""

import inspect
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from diskstream import compat
from diskstream.commands import wire
from diskstream.commands.all_commands import table
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.replies import Reply
from diskstream.commands.table import Table
from diskstream.commands.waiting import Waiting
from diskstream.compat.link import Commands, Dispatch
from diskstream.server.bells import Bells
from diskstream.server.parts import Parts
from diskstream.server.serving import Server
from diskstream.server.settings import ServerSettings
from tests.conftest import RedisServer

# Both sides use databases other than 0, so that those work too; a Redis server keeps other tests' keys elsewhere.
DATABASE = 3


# To be removed once it is so: `Bells.stop` sets what its thread clears once more before that looks.
SERVER_STOPS = inspect.getsource(Bells._run).count("_stopping") > 1


class Backend:
    """Where clients of both kinds are made.

    Attributes:
        name: ``compat``, ``redis`` or ``server``.
    """

    name = ""

    def __init__(self) -> None:
        self._opened: list[Any] = []

    def client(self, **options: Any) -> Any:
        """A client; closed with the test."""
        made = self._client(db=options.pop("db", DATABASE), **options)
        self._opened.append(made)
        return made

    def aio(self, **options: Any) -> Any:
        """One for asyncio, for the test to close."""
        return self._aio(db=options.pop("db", DATABASE), **options)

    def until_one_waits(self) -> None:
        """Returns once a client waits."""
        raise NotImplementedError

    def _client(self, **options: Any) -> Any:
        raise NotImplementedError

    def _aio(self, **options: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        for client in self._opened:
            client.close()


class Compat(Backend):
    name = "compat"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.options: dict[str, Any] = {"fsync": "os"}
        self._waits = threading.Semaphore(0)
        self.options["commands"] = self._noticed(dispatch, table())

    def _noticed(self, dispatch: Dispatch, table: Table) -> Commands:
        """The same commands; tells of each wait that begins."""

        def notice(table: Table, caller: Caller, words: list[bytes]) -> Reply | Waiting:
            found = dispatch(table, caller, words)
            if isinstance(found, Waiting):
                self._waits.release()
            return found

        return notice, table

    def until_one_waits(self) -> None:
        assert self._waits.acquire(timeout=20)

    def _client(self, **options: Any) -> Any:
        return compat.Redis(self.path, **self.options, **options)

    def _aio(self, **options: Any) -> Any:
        return compat.aio.Redis(self.path, **self.options, **options)


class OverSocket(Backend):
    """redis-py and a server."""

    def __init__(self, name: str, **address: Any) -> None:
        super().__init__()
        self.name, self._address = name, address
        self.client().flushdb()

    def until_one_waits(self) -> None:
        client, until = self.client(), time.monotonic() + 20
        while client.info("clients")["blocked_clients"] == 0:
            assert time.monotonic() < until

    def _client(self, **options: Any) -> Any:
        return redis.Redis(**self._address, **options)

    def _aio(self, **options: Any) -> Any:
        return redis.asyncio.Redis(**self._address, **options)


@contextmanager
def _serving(path: Path) -> Iterator[str]:
    """diskstream's own server, in a thread; gives the path of its socket."""
    socket = str(path / "socket")
    settings = ServerSettings(dir=str(path / "served"), port=0, unixsocket=socket, appendfsync="no")
    parser: Any = wire.RequestParser  # its attribute is no property to a type checker
    with Server(settings, Parts(table(), dispatch, parser, wire.encode)) as server:
        thread = threading.Thread(target=server.run, name="server")
        thread.start()
        try:
            yield socket
        finally:
            server.stop()
            thread.join(20)


@contextmanager
def _made(name: str, request: pytest.FixtureRequest, path: Path) -> Iterator[Backend]:
    with ExitStack() as stack:
        made: Backend
        if name == "compat":
            made = Compat(path / "compat")
        elif name == "server":
            if not SERVER_STOPS:
                pytest.skip("needs a server that stops after clients have waited")
            made = OverSocket(name, unix_socket_path=stack.enter_context(_serving(path)))
        else:
            server: RedisServer = request.getfixturevalue("redis_server")
            made = OverSocket(name, host=server.host, port=server.port)
        stack.callback(made.close)
        yield made


@pytest.fixture(params=["compat", "redis", "server"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Each in turn."""
    with _made(request.param, request, tmp_path) as made:
        yield made


@pytest.fixture(params=["compat", "server"])
def ours(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Those that are diskstream's."""
    with _made(request.param, request, tmp_path) as made:
        yield made


@pytest.fixture
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """redis-py and Redis."""
    with _made("redis", request, tmp_path) as made:
        yield made
