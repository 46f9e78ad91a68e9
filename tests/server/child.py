"""What the children of these tests do."""

import contextlib
import os
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


def short_of_memory(path: str, spare_bytes: int) -> None:
    """Serves with so many bytes to spare until SIGTERM; says its port, and that it has ended."""
    with Server(ServerSettings(dir=path, port=0, bind=("127.0.0.1",))) as server, server.signals():
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + int(spare_bytes), most))
        say(server.port)
        server.run()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    say("ended")


def few_descriptors(path: str) -> None:
    """Serves with 40 descriptors left of 512; says its port, and once they are all taken."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    with serving(Path(path), maxclients=1000) as server, contextlib.ExitStack() as taken:
        spare = [taken.enter_context(open(os.devnull)) for _ in range(40)]  # noqa: PTH123  # no path of ours
        with contextlib.suppress(OSError):
            while True:
                taken.enter_context(open(os.devnull))  # noqa: PTH123  # no path of ours
        for each in spare:
            each.close()
        say(server.port)
        until(lambda: server.loop.resting)
        say("full")
        hear()
