"""How a stream is, for who looks every second: counters and sizes, without reading an entry or listing a directory."""

from dataclasses import dataclass

from diskstream._native import EntryID
from diskstream.engine.log import StreamLog
from diskstream.engine.peek import peek
from diskstream.engine.positions import all_listed

__all__ = ["Vitals", "take"]


@dataclass(frozen=True)
class Vitals:
    """How a stream is.

    Attributes:
        length: live entries.
        entries_added: entries ever added.
        last_id: the greatest ID ever added, or set.
        segments: number and bytes of frames of each, in order; the last is the active one.
        groups: consumer groups.
        unflushed_bytes: bytes written that are not known to be on disk; None where nobody knows.
        is_poisoned: whether a write or flush failed, so that the stream takes no more until it is opened anew.
        is_damaged: whether its log was found damaged.
    """

    length: int
    entries_added: int
    last_id: EntryID
    segments: tuple[tuple[int, int], ...]
    groups: int
    unflushed_bytes: int | None
    is_poisoned: bool
    is_damaged: bool

    @property
    def size_bytes(self) -> int:
        """Bytes of frames, as they were before they were packed."""
        return sum(size for _, size in self.segments)

    def bytes_since(self, before: "Vitals") -> int:
        """Bytes of frames that were appended since."""
        number, size = before.segments[-1]
        return max(0, sum(grown for each, grown in self.segments if each >= number) - size)


def take(log: StreamLog) -> Vitals:
    """How the stream is now."""
    log.refresh()
    length, last_id, added, _ = log.native.counters()
    views = all_listed(log)
    page = peek(log.directory)
    return Vitals(
        length=length,
        entries_added=added,
        last_id=last_id,
        segments=tuple((view.number, view.size_bytes) for view in views),
        groups=log.native.group_count[0],
        unflushed_bytes=None if page is None else page.unflushed_bytes,
        is_poisoned=page is not None and page.is_poisoned,
        is_damaged=log.fault is not None or (page is not None and page.is_rotten),
    )
