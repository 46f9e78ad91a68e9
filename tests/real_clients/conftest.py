"""The same tests against diskstream's server and, where it is installed, against Redis."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import RedisServer
from tests.real_clients.servers import Target
from tests.server.client import serving


@pytest.fixture(params=["diskstream", "redis"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    """Each in turn, its database empty."""
    if request.param == "diskstream":
        with serving(tmp_path / "served", appendfsync="no") as server:
            yield Target(server.port, ours=True)
        return
    redis_server: RedisServer = request.getfixturevalue("redis_server")
    found = Target(redis_server.port, ours=False)
    with found.admin() as admin:
        admin.call("FLUSHDB")
    yield found
