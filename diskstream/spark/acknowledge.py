"""A consumer group that follows a query: its last delivered ID moves on as the query's batches are complete.

Two tell it. The listener does at once, and has no store open: it opens the streams whose position it has not told yet,
and no others. The reader does when the next batch is planned, in the store that it has open with all of them: it looks
at each, and so makes up for what the listener could not do, or somebody undid.
"""

import json
import logging
import threading
from collections.abc import Mapping
from contextlib import suppress

import diskstream
from diskstream.errors import DiskstreamError, NoGroupError, NoSuchStreamError, ReadOnlyError
from diskstream.ids import MIN_ID, EntryID
from diskstream.spark import offsets
from diskstream.store import Store

__all__ = ["Follower", "acknowledge_in"]

_log = logging.getLogger("diskstream.spark")

_Told = dict[bytes, EntryID]  # by what streams are known by, whatever their names


class Follower:
    """Tells groups how far the queries of a session have come; safe under threads."""

    def __init__(self) -> None:
        """Has told nobody yet."""
        # By store and group. Of what failed nothing stands here, so that it is told again.
        self._told: dict[tuple[str, str], _Told] = {}
        self._mutex = threading.Lock()

    def acknowledge(self, offset: Mapping[str, str]) -> None:
        """Moves the group that the offset names forward to it, in each stream; makes it where it is missing.

        It never moves back, so it may be told twice, or late; a stream that was made anew meanwhile is passed over, as
        is one that was told so before. A store that cannot be written to has no group to move.

        Raises:
            DiskstreamError: in one stream or more it could not be done; in the others it was.
        """
        found = offsets.followed(offset)
        if found is None:
            return
        path, name = found
        with self._mutex:
            known, before = offsets.identities(offset), self._told.get(found, {})
            # Of streams that the query reads no more nothing is kept.
            told = self._told[found] = {each: before[each] for each in known.values() if each in before}
            positions = offsets.decode(offset).items()
            left = {stream: at for stream, at in positions if at > told.get(known.get(stream, b""), MIN_ID)}
            if left:
                with suppress(ReadOnlyError), diskstream.open(path, create=False) as store:
                    _move(store, name, left, known, told)

    def acknowledge_progress(self, ends: list[str | None]) -> None:
        """The same for the end offsets of a batch's sources, as its progress shows them; others' are passed over."""
        for text in ends:
            try:
                offset = json.loads(text) if text else None
            except (ValueError, RecursionError):
                continue
            if isinstance(offset, dict) and all(isinstance(at, str) for at in offset.values()):
                try:
                    self.acknowledge(offset)
                except DiskstreamError as error:
                    # The query must not end for it: the next batch tells the group again.
                    _log.warning("a group did not follow its query: %s", error)


def acknowledge_in(store: Store, offset: Mapping[str, str]) -> None:
    """As `Follower.acknowledge`, in a store that is open, wherever the offset has it, for it may have been moved: each
    stream is looked at, whether it was told before or not.

    Raises:
        DiskstreamError: as there.
    """
    found = offsets.followed(offset)
    if found is not None:
        with suppress(ReadOnlyError):
            _move(store, found[1], offsets.decode(offset), offsets.identities(offset), {})


def _move(
    store: Store, group: str, positions: Mapping[bytes, EntryID], known: Mapping[bytes, bytes], told: _Told
) -> None:
    failed: DiskstreamError | None = None
    for name, at in positions.items():
        stream = store.stream(name)
        try:
            identity = stream.identity()
            # Of another stream that has the name now, the query has read nothing up to there.
            if identity is not None and known.get(name, identity) == identity:
                # There before anything was read, since what no group has to read a trim with ACKED takes.
                follower = stream.group(group, start=MIN_ID, entries_read=0)
                if at > MIN_ID:
                    follower.advance(at)
                told[identity] = at
        except (NoSuchStreamError, NoGroupError):
            continue  # deleted meanwhile
        except ReadOnlyError:
            raise  # so are all others
        except DiskstreamError as error:
            failed = failed or error  # the groups of the others follow all the same
    if failed is not None:
        raise failed
