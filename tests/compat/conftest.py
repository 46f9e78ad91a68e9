"""The same tests for compat, for redis-py over Redis, and for redis-py over diskstream's own server."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.compat.backends import Backend, Compat, OverSocket
from tests.conftest import RedisServer
from tests.server.client import serving


@contextmanager
def _made(name: str, request: pytest.FixtureRequest, path: Path) -> Iterator[Backend]:
    with ExitStack() as stack:
        made: Backend
        if name == "compat":
            made = Compat(path / "compat")
        elif name == "server":
            unix = str(path / "socket")
            stack.enter_context(serving(path / "served", unixsocket=unix, appendfsync="no"))
            made = OverSocket(name, unix_socket_path=unix)
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
