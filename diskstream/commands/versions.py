"""Which stream a name stands for, and in which state it is."""

from typing import Any

from diskstream.membership import looked
from diskstream.stream import Stream

__all__ = ["entries_version", "identity", "version", "version_of"]


def identity(stream: Stream | None) -> bytes:
    """The UUID of a stream: another one once it was deleted and made again. Empty where there is none.

    A stream that is not open stays so: of ten thousand that are given a time of expiry each would close another.
    """
    if stream is None:
        return b""

    def look(log: Any) -> bytes:
        log.refresh()
        found: bytes = log.native.uuid
        return found

    found = stream._store._identity_unopened(stream.name)
    return stream._use(look, b"") if found is None else found


def version(stream: Stream | None) -> object:
    """A stream's state as far as commands change it: entries, groups, consumers, windows, and which stream it is.

    Not the place in its log: marks and rolls, which happen by themselves, change that too.
    """

    return None if stream is None else stream._use(lambda log: looked(log, version_of), None)


def entries_version(stream: Stream | None) -> object:
    """The same without groups, consumers and windows: what WATCH goes by.

    In Redis (7.0.15, tried) neither a delivery nor an acknowledgement, a claim or a change of a group aborts an EXEC.
    """

    def look(log: Any) -> object:
        log.refresh()
        return log.native.uuid, log.native.counters()

    return None if stream is None else stream._use(look, None)


def version_of(log: Any) -> object:
    """The same of a log whose append lock the caller holds."""
    groups = log.native.groups()
    consumers = tuple(tuple(log.native.consumers(group[0])) for group in groups)
    windows = log.native.windows(0)[:2]
    return log.native.uuid, log.native.counters(), tuple(groups), consumers, windows
