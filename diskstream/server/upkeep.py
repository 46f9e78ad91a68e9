"""What the keyspace is asked for by the server: its settings at the start, expired keys, opening anew."""

from typing import Any

from diskstream.commands.keyspace import Keyspace
from diskstream.server.settings import ServerSettings

__all__ = ["expire", "publish", "reopen"]


def publish(keyspace: Keyspace, settings: ServerSettings) -> None:
    """Tells CONFIG GET, and the commands that go by them, what was set at the start."""
    known: Any = getattr(keyspace, "settings", None)
    if known is not None:
        for name, value in settings.as_text().items():
            known.put(name, value)


def expire(keyspace: Keyspace) -> list[tuple[int, bytes]]:
    """Removes keys that have expired. Returns (database, key) of each: who waits for one learns of it."""
    expire_due: Any = getattr(keyspace, "expire_due", None)
    return [] if expire_due is None else list(expire_due())


def reopen(keyspace: Keyspace) -> bool:
    """Closes the stores and opens them again, after a write has failed. Returns False where this keyspace cannot.

    Raises:
        DiskstreamError: they cannot be opened; the next try may do better.
    """
    again: Any = getattr(keyspace, "reopen", None)
    if again is None:
        return False
    again()
    return True
