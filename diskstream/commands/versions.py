"""Which stream a name stands for, and in which state it is."""

from typing import Any, Final

from diskstream._native import EntryID
from diskstream.last_id import set_last_id
from diskstream.membership import looked
from diskstream.stream import Stream

__all__ = ["LastIdsSet", "identity", "version", "version_of"]

_AT_HAND: Final = 1024


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


def version_of(log: Any) -> object:
    """The same of a log whose append lock the caller holds."""
    groups = log.native.groups()
    consumers = tuple(tuple(log.native.consumers(group[0])) for group in groups)
    windows = log.native.windows(0)[:2]
    return log.native.uuid, log.native.counters(), tuple(groups), consumers, windows


class LastIdsSet:
    """What WATCH goes by: a stream's state without groups, consumers and windows, and without what XSETID did here.

    In Redis (7.0.15, tried) none of these aborts an EXEC. What another process sets cannot be told from other changes.
    """

    def __init__(self) -> None:
        self._before: dict[object, object] = {}

    def set(self, stream: Stream, last: EntryID, entries_added: int | None, max_deleted: EntryID) -> bool:
        """Sets the last ID of a stream: see `set_last_id`. Returns whether there is one."""

        def set_it(log: Any) -> tuple[object, object]:
            before, after = set_last_id(log, last, entries_added, max_deleted)
            return (log.native.uuid, before), (log.native.uuid, after)

        done = stream._use(set_it, None)
        if done is None:
            return False
        before, after = done
        before = self._before.get(before, before)
        if before != after:
            if len(self._before) >= _AT_HAND:
                self._before.clear()  # who watched one of them since then tries again
            self._before[after] = before
        return True

    def entries_version(self, stream: Stream | None) -> object:
        """Another one after each change of the entries."""

        def look(log: Any) -> object:
            log.refresh()
            return log.native.uuid, log.native.counters()

        found = None if stream is None else stream._use(look, None)
        return self._before.get(found, found)
