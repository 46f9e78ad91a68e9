"""A server over the store, for those who speak to one. It is killed as everybody is, and begins anew."""

from collections.abc import Callable

from diskstream.server.serving import Server
from diskstream.server.settings import ServerSettings
from tests.crowd.part import SOCKETS, Part

__all__ = ["serve"]

_POLICIES = {"always": "always", "os": "no"}


def serve(part: Part) -> Callable[[], None]:
    """Serves until it is told to end."""
    options = part.scene.options(part.chance)
    settings = ServerSettings(
        dir=str(part.path),
        port=0,
        unixsocket=str(part.root / SOCKETS / part.name),
        appendfsync=_POLICIES.get(options["fsync"], "everysec"),
        max_open_streams=part.scene.max_open_streams,
    )

    def step() -> None:
        part.journal.note("serve")
        with Server(settings) as server, server.signals():
            server.run()
        raise SystemExit(0)

    return step
