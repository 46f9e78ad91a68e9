"""A consumer group that follows a query: its last delivered ID moves on as the query's batches are complete."""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress

import diskstream
from diskstream.errors import DiskstreamError, NoGroupError, NoSuchStreamError, ReadOnlyError
from diskstream.ids import MIN_ID
from diskstream.spark import offsets

__all__ = ["acknowledge", "acknowledge_progress"]

_log = logging.getLogger("diskstream.spark")


def acknowledge(offset: Mapping[str, str]) -> None:
    """Moves the group that the offset names forward to it, in each stream; makes it where it is missing.

    It never moves back, so it may be told twice, or late; a stream that was made anew meanwhile is passed over. A store
    that cannot be written to has no group to move.
    """
    found = offsets.followed(offset)
    if found is None:
        return
    path, name = found
    with suppress(ReadOnlyError), diskstream.open(path, create=False) as store:
        known = offsets.identities(offset)
        for stream, at in offsets.decode(offset).items():
            with suppress(NoSuchStreamError, NoGroupError):  # deleted meanwhile
                identity = store.stream(stream).identity()
                # Of another stream that has the name now, the query has read nothing up to there.
                if at > MIN_ID and identity is not None and known.get(stream, identity) == identity:
                    store.stream(stream).group(name, start=MIN_ID, entries_read=0).advance(at)


def acknowledge_progress(ends: list[str | None]) -> None:
    """The same for the end offsets of a batch's sources, as its progress shows them; other sources' are passed over."""
    for text in ends:
        try:
            offset = json.loads(text) if text else None
        except (ValueError, RecursionError):
            continue
        if isinstance(offset, dict) and all(isinstance(at, str) for at in offset.values()):
            try:
                acknowledge(offset)
            except DiskstreamError as error:
                # The query must not end for it: the next batch tells the group again.
                _log.warning("a group did not follow its query: %s", error)
