"""What the children of these tests do."""

import resource
from pathlib import Path

from diskstream.server.serving import Server
from diskstream.server.settings import ServerSettings
from tests.engine.children import hear, say, until
from tests.server.client import serving


def serve(path: str, fsync: str) -> None:
    """Serves until SIGTERM; says its port, and that it has ended."""
    settings = ServerSettings(dir=path, port=0, bind=("127.0.0.1",), appendfsync=fsync)
    with Server(settings) as server, server.signals():
        say(server.port)
        server.run()
    say("ended")


def few_descriptors(path: str) -> None:
    """Serves with 64 descriptors; says its port, and once they are all taken."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    with serving(Path(path), maxclients=1000) as server:
        say(server.port)
        until(lambda: server.loop.resting)
        say("full")
        hear()
