"""Following streams while they are trimmed, removed, renamed and made anew."""

from __future__ import annotations

import time
from collections.abc import Callable

import diskstream
from diskstream.cli.stopping import check_reader
from diskstream.cli.tail.lines import Lines
from diskstream.ids import MIN_ID, EntryID
from diskstream.plurals import number_of

# At most so much is read before it is written, of all streams together.
_ENTRIES_AT_ONCE = 512
_BYTES_AT_ONCE = 4 << 20
_LOOK_S = 1.0


class Follower:
    """Where the reader of one stream is, and which stream it was that it read.

    Attributes:
        stream: by its name.
        position: the ID behind which to read on.
    """

    def __init__(self, stream: diskstream.Stream) -> None:
        self.stream = stream
        self.position = self._least = MIN_ID
        self._is_below = False  # whether nothing that is to be shown was there yet
        self._identity: bytes | None = None
        self._missed, self._told = 0, 0.0
        self._seen = 0  # what `added_until` said of the position, and so many more as were read since

    def begin(self, start: EntryID = MIN_ID) -> None:
        """Begin behind what there is now, and with nothing that lies below `start`."""
        self._least = start.prev() or MIN_ID
        self._identity = self.stream.identity()
        self._begin_behind(self.stream.last_id())

    def _begin_behind(self, last: EntryID) -> None:
        self._is_below = last < self._least
        self.position = max(last, self._least)
        self._seen = self.stream.added_until(self.position)

    @property
    def gone(self) -> bool:
        """Whether there is no such stream, as of the last look."""
        return self._identity is None

    def take(
        self, entries: list[diskstream.Entry], say: Callable[[str], None], *, retry: bool
    ) -> list[diskstream.Entry]:
        """Those of the entries just read behind the position that are to be shown; says what happened meanwhile."""
        identity = self.stream.identity()
        if identity != self._identity:
            return self._changed(identity, entries, say, retry=retry)
        if identity is None:
            return []
        if self._is_below and not entries:
            self._begin_behind(self.stream.last_id())  # nobody misses what came below
            return []
        self._is_below = False
        trimmed, before = self.stream.trimmed_to(self.position), self.position
        if entries:
            self.position = entries[-1].id
        self._seen += len(entries)
        if trimmed is not None and trimmed > before:
            self._count_missed()
        if self._missed and time.monotonic() >= self._told + _LOOK_S:
            one = "entry was gone, trimmed or deleted, before it could be shown"
            say(number_of(self._missed, one, "entries were gone, trimmed or deleted, before they could be shown"))
            self._missed, self._told = 0, time.monotonic()
        return entries

    def _changed(
        self, identity: bytes | None, entries: list[diskstream.Entry], say: Callable[[str], None], *, retry: bool
    ) -> list[diskstream.Entry]:
        was_there, self._identity = self._identity is not None, identity
        self.position, self._seen, self._missed = self._least, 0, 0
        self._is_below = self._least > MIN_ID
        if identity is None:
            say("the stream is gone, removed or renamed" + ("; waiting for one of this name" if retry else ""))
            return entries  # read before it went
        if was_there:
            say("the stream was removed, and one of this name was made anew: from its beginning")
        else:
            say("the stream is there now")
        return []  # behind a position in the other one: read again, from the beginning

    def _count_missed(self) -> None:
        now = self.stream.added_until(self.position)
        self._missed += max(0, now - self._seen)
        self._seen = now


def follow(store: diskstream.Store, followers: list[Follower], lines: Lines, *, retry: bool) -> bool:
    """Write what comes, until Stopped is raised. Returns False once no stream is left to wait for.

    Raises:
        Stopped: the command was told to end.
        CorruptionError: a stream cannot be read on.
    """
    left = list(followers)
    while True:
        # The one that is read first may fill the batch: each has its turn at being it.
        left = left[1:] + left[:1]
        found = store.read(
            {each.stream.name: each.position for each in left},
            count=_ENTRIES_AT_ONCE,
            max_bytes=_BYTES_AT_ONCE,
            block=_LOOK_S,
        )
        for each in list(left):
            name = each.stream.name
            shown = each.take(found.get(name, []), lambda what, name=name: lines.say(name, what), retry=retry)  # type: ignore[misc]  # the name is bound now
            lines.write(name, shown)
            if each.gone and not retry:
                left.remove(each)
        if not left:
            return False
        if not found:
            check_reader()
