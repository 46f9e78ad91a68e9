"""A range of a copy against the same range of its source, which may have lost entries since."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

from diskstream.archiving.entries import EntriesReader
from diskstream.archiving.reports import ArchiveReport
from diskstream.archiving.server import Server
from diskstream.digests import NOTHING, Digest
from diskstream.errors import ChangedError, quoted
from diskstream.ids import MIN_ID, EntryID
from diskstream.pace import Pace
from diskstream.plurals import number_of
from diskstream.stream import Stream

__all__ = ["compare", "compare_entries"]

_AT_ONCE = 1000
_AT_ONCE_BYTES = 8 << 20
_GONE_S = 1.0  # the copy has come as far; where it has not it was removed, and the digests differ


def compare(
    reader: EntriesReader,
    copy: Stream,
    start: EntryID,
    end: EntryID,
    report: ArchiveReport,
    *,
    pace: Pace,
    stop: threading.Event,
) -> Digest | None:
    """Compares what earlier runs copied with what the source has of it.

    Returns:
        The digest of the copy's entries; None where it was stopped before it knew.

    Where digests differ, entry is compared with entry. Those that are in the copy alone were deleted at the source
    since, which is noted.

    Args:
        reader: what to read the source with.
        copy: the copy.
        start, end: IDs, both included; `start` is above 0-0.
        report: takes the note.
        pace: how fast the source is read.
        stop: ends it.

    Raises:
        ChangedError: an entry differs, or the copy lacks one.
        RemoteError: the source failed or refused.
    """
    copy.wait_durable(end, _GONE_S)
    ours = copy.digest(start, end)
    theirs = NOTHING
    with closing(reader.read(copy.name, start.prev() or MIN_ID, end, ahead=not pace.is_limited)) as replies:
        for _, batch in replies:
            if batch is not None:
                theirs += batch.digest
                pace.passed(batch.digest.entries, stop.wait)
            if stop.is_set():
                return None
    if ours != theirs:
        alone = compare_entries(reader.server, copy, start, end)
        if alone:
            gone = number_of(alone, "entry that an earlier run copied is", "entries that an earlier run copied are")
            report.note(f"{gone} not at the source any more")
    return ours


def compare_entries(server: Server, copy: Stream, start: EntryID, end: EntryID) -> int:
    """Compares entry with entry. Returns how many are in the copy alone.

    Raises:
        ChangedError: an entry differs, or the copy lacks one.
        RemoteError: the server failed or refused.
    """
    alone = 0
    following: EntryID | None = start
    while following is not None and following <= end:
        entries = copy.read(following.prev() or MIN_ID, count=_AT_ONCE, max_bytes=_AT_ONCE_BYTES)
        ours = {entry.id: entry.pairs for entry in entries if entry.id <= end}
        last = max(ours, default=end)
        # No more than there can be if all is well: one too many is enough to tell.
        for entry_id, pairs in _theirs(server, copy.name, following, last, len(ours) + 1):
            if entry_id not in ours:
                raise _differs(server, copy, f"the copy lacks its entry {entry_id}")
            if ours.pop(entry_id) != pairs:
                raise _differs(server, copy, f"its entry {entry_id} is another one")
        alone += len(ours)
        following = last.next()
    return alone


def _theirs(
    server: Server, key: bytes, start: EntryID, end: EntryID, most: int
) -> list[tuple[EntryID, list[tuple[bytes, bytes]]]]:
    reply: list[Any] = server.call(
        f"read the stream {quoted(key)}", "XRANGE", key, bytes(start), bytes(end), "COUNT", most
    )
    return [(EntryID(each), list(zip(words[::2], words[1::2], strict=True))) for each, words in reply]


def _differs(server: Server, copy: Stream, what: str) -> ChangedError:
    return ChangedError(
        server.shown,
        f"the stream {quoted(copy.name)} is not the one that was copied: {what}",
        "the source was made anew, or somebody changed the copy; archive to another directory, and compare the two",
    )
