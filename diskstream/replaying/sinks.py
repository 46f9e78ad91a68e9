"""Where entries go: standard output, or what keeps, with them and in one step, how far the replay has come."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from diskstream import Entry
from diskstream.commits import COMPLETE, Commit
from diskstream.errors import ArgumentError, ChangedError
from diskstream.ids import MIN_ID, EntryID
from diskstream.stream import Stream

__all__ = ["CallSink", "Sink", "StreamSink", "check_places"]

_MAX_PART: Final = COMPLETE - 1


def check_places(entries: Sequence[Entry]) -> None:
    """Makes sure that a commit record can hold the place of each, whichever one a batch happens to end with.

    Raises:
        ArgumentError: it cannot hold the sequence of one.
    """
    for entry in entries:
        if entry.id.seq > _MAX_PART:
            raise ArgumentError(
                f"the sequence of {entry.id} is beyond {_MAX_PART}, up to which a replay to a stream can keep its "
                "place: end before it with --end, or replay to a Redis"
            )


class Sink(Protocol):
    """What takes entries, some at a time."""

    def position(self) -> EntryID:
        """The ID, in the source, of the last entry that is there for certain; 0-0 where there is none."""

    def send(self, entries: Sequence[Entry]) -> None:
        """Takes entries: all of them or none, together with the new position, where it keeps one.

        Raises:
            DiskstreamError: they cannot be taken; see each sink.
        """

    def finish(self) -> None:
        """Makes all durable: the replay has come to its end, or is stopped."""


class CallSink:
    """Hands entries to a function, such as one that prints them; it keeps no position."""

    def __init__(self, take: Callable[[Sequence[Entry]], None]) -> None:
        self._take = take

    def position(self) -> EntryID:
        """Always 0-0: each replay begins at its beginning."""
        return MIN_ID

    def send(self, entries: Sequence[Entry]) -> None:
        """Hands them over."""
        self._take(entries)

    def finish(self) -> None:
        """Does nothing."""


class StreamSink:
    """Adds entries to a stream. Each frame has the position as a commit record, so an entry is added exactly once."""

    def __init__(
        self,
        stream: Stream,
        writer: bytes,
        *,
        keep_ids: bool,
        sync: Callable[[], None],
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        """The stream that is there now is the one that is added to; where there is none, the first entries make it.

        Args:
            stream: what is added to.
            writer: tells this replay from others.
            keep_ids: whether entries keep their IDs.
            sync: makes the stream's store durable.
            on_begin: called once, before anything is added: see `begin`.
        """
        self._stream, self._writer, self._keep_ids, self._sync = stream, writer, keep_ids, sync
        self._identity = stream.identity()
        self._on_begin = on_begin

    def begin(self) -> None:
        """Has written down what is replayed, unless it is. The first entries do so, once it is known that they can be.

        Raises:
            ChangedError: the stream was removed, or made anew.
            DiskstreamError: what `on_begin` raises.
        """
        if self._on_begin is not None:
            self.check_same()
            self._on_begin()
            self._on_begin = None
            self._identity = self._stream.identity()

    def position(self) -> EntryID:
        """The ID of the entry that was added last."""
        found = self._stream.committed(self._writer)
        return MIN_ID if found is None else EntryID(*found)

    def send(self, entries: Sequence[Entry]) -> None:
        """Adds them as one frame.

        Raises:
            ArgumentError: an ID whose sequence a commit record cannot hold; see `check_places`.
            ChangedError: the stream was removed, or made anew.
            IDOrderError: the stream has passed the IDs that were to be kept.
            StorageError: the disk said no.
        """
        check_places(entries)
        self.begin()
        self.check_same()
        last = entries[-1].id
        commit = Commit(self._writer, last.ms, last.seq)
        ids = [entry.id for entry in entries] if self._keep_ids else None
        known = self._identity is not None
        added = self._stream.add_many([entry.pairs for entry in entries], ids=ids, commit=commit, nomkstream=known)
        if not known:
            self._identity = self._stream.identity()
        elif added == []:
            raise self._gone()

    def check_same(self) -> None:
        """Makes sure that the stream is the one that was added to.

        Raises:
            ChangedError: it was removed, or made anew.
        """
        if self._identity not in (None, self._stream.identity()):
            raise self._gone()

    def _gone(self) -> ChangedError:
        return ChangedError(
            f"the stream {self._stream.name.decode('utf-8', 'backslashreplace')!r}",
            "it was removed, or made anew, while entries were replayed to it",
            "replay it again from its beginning with another --name",
        )

    def finish(self) -> None:
        """Flushes."""
        self._sync()
