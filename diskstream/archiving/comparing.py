"""A range of a copy against the same range of its source, which may have lost entries since."""

from __future__ import annotations

from typing import Any

from diskstream.archiving.reports import ArchiveReport
from diskstream.archiving.server import Server
from diskstream.digests import Digest
from diskstream.errors import ChangedError
from diskstream.ids import EntryID
from diskstream.stream import Stream

__all__ = ["compare"]

_AT_ONCE = 1000
_AT_ONCE_BYTES = 8 << 20


def compare(server: Server, copy: Stream, after: EntryID, upto: EntryID, report: ArchiveReport) -> Digest:
    """Compares what an earlier run copied and did not read back. Returns the digest of the copy's entries.

    Entries that are in the copy alone were deleted at the source since, which is noted.

    Raises:
        ChangedError: an entry differs, or the copy lacks one.
        RemoteError: the source failed or refused.
    """
    copy.wait_durable(upto)
    alone = 0
    start = after.next()
    while start is not None and start <= upto:
        entries = copy.read(start.prev() or EntryID(0, 0), count=_AT_ONCE, max_bytes=_AT_ONCE_BYTES)
        ours = {entry.id: entry.pairs for entry in entries if entry.id <= upto}
        end = max(ours) if ours and len(entries) > 0 and max(ours) < upto else upto
        for entry_id, pairs in _theirs(server, copy.name, start, end, len(ours) + 1):
            if entry_id not in ours:
                raise _differs(copy, f"it lacks the entry {entry_id}, which the source has")
            if ours.pop(entry_id) != pairs:
                raise _differs(copy, f"its entry {entry_id} is not that of the source")
        alone += len(ours)
        start = end.next()
    if alone:
        report.note(f"{alone:,} entries that an earlier run copied are not at the source any more")
    first = after.next()
    return Digest() if first is None else copy.digest(first, upto)


def _theirs(
    server: Server, key: bytes, start: EntryID, end: EntryID, most: int
) -> list[tuple[EntryID, list[tuple[bytes, bytes]]]]:
    """No more than there can be if all is well: one too many is enough to tell."""
    reply: list[Any] = server.call(f"read the stream {key!r}", "XRANGE", key, bytes(start), bytes(end), "COUNT", most)
    return [(EntryID(each), list(zip(words[::2], words[1::2], strict=True))) for each, words in reply]


def _differs(copy: Stream, what: str) -> ChangedError:
    return ChangedError(
        f"the copy of {copy.name!r}", what, "a copy is for reading: archive to another directory, and compare the two"
    )
