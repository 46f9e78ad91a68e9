"""The windows of idempotent appends: for how long, and how many of each producer, messages are remembered.

A server tells them since Redis 8.6, and has others set by XCFGSET. What is remembered is told by none, so that messages
stay behind.
"""

from __future__ import annotations

from diskstream.archiving.server import Server, StreamFacts
from diskstream.errors import quoted
from diskstream.plurals import number_of
from diskstream.stream import Stream

__all__ = ["put_windows", "take_windows"]

_UNLESS_SET = (100, 100)  # seconds and messages of a stream of which nobody said anything


def take_windows(copy: Stream, facts: StreamFacts) -> bool:
    """Gives a copy, which is there, the windows of its source; False where none are told.

    Raises:
        NoSuchStreamError: the copy is gone.
        StorageError: the disk said no.
    """
    if facts.windows is None:
        return False
    duration_s, max_size = facts.windows
    copy.configure_idempotence(duration_s=duration_s, max_size=max_size)
    return True


def put_windows(server: Server, key: bytes, windows: tuple[int, int]) -> str | None:
    """Gives a stream of a server these windows, in seconds and messages.

    Returns:
        What is to be said where the server has no such thing; None where nothing is.

    Raises:
        RemoteError: the server failed or refused.
    """
    facts = server.stream(key)
    if facts is not None and facts.windows is None and windows != _UNLESS_SET:
        sizes = f"{number_of(windows[0], 'second')}, {number_of(windows[1], 'message')} of a producer"
        return f"the windows of idempotent appends ({sizes}) are left out: this server has none"
    if facts is not None and facts.windows not in (None, windows):
        words = ("IDMP-DURATION", windows[0], "IDMP-MAXSIZE", windows[1])
        server.call(f"restore {quoted(key)}", "XCFGSET", key, *words)
    return None
