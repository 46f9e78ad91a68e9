"""The same tests for compat, for redis-py over Redis, and for redis-py over diskstream's own server."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from diskstream.server.serving import Server
from diskstream.server.settings import ServerSettings
from tests.compat.backends import Backend, Compat, OverSocket
from tests.conftest import RedisServer


@contextmanager
def _serving(path: Path) -> Iterator[str]:
    """diskstream's own server, in a thread; gives the path of its socket."""
    socket = str(path / "socket")
    settings = ServerSettings(dir=str(path / "served"), port=0, unixsocket=socket, appendfsync="no")
    with Server(settings) as server:
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
