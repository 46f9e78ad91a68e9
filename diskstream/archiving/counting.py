"""How much of a stream is still to be copied."""

from __future__ import annotations

from diskstream.archiving.marks import Mark
from diskstream.archiving.server import StreamFacts
from diskstream.ids import MIN_ID
from diskstream.stream import Stream

__all__ = ["left_to_copy"]


def left_to_copy(mark: Mark | None, facts: StreamFacts, copy: Stream | None) -> int | None:
    """Entries that the source has and the copy has not; None where the server does not tell."""
    if mark is None or copy is None:
        return facts.length
    copied = copy.last_id()
    if copied == MIN_ID or facts.first is None or facts.first.id > copied:
        return facts.length
    if facts.entries_added is None or mark.drained_added is None:
        return None
    behind = mark.drained_to.next()
    came = copy.count_from(behind) if behind is not None and copied >= behind else 0
    return max(0, min(facts.length, facts.entries_added - mark.drained_added - came))
