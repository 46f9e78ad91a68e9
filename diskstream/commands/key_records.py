"""What is known of keys beside their streams: times of expiry, and the keys of other types.

It is kept as a stream of its own, in the store ``keys`` below the directory: each change is one frame, so that it is
as durable as the store's policy says, is seen by every process, and survives what a stream survives. Its only stream,
``keys``, is read from its beginning when it is opened, and begun anew once most of it is of the past.

::

    field       value
    put         a key; what was known of it before is replaced
    gone        a key of which nothing is known any more; with `put` and `gone` comes
    place         the number of the directory: 0 is the store itself, N is ``dbN``
    kind          of `put`: ``string``, ``list`` or ``set``; empty for a stream
    expires       of `put`: milliseconds since 1970, or empty
    stream        of `put`: the UUID of the stream that expires, in hex; another stream of that name does not
    value         of `put`: as often as there are elements
    clear       a place, of which nothing is known any more
    places      for each database in order its place, with commas between them (SWAPDB)
"""

import contextlib
import errno
import heapq
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diskstream import store as _store
from diskstream._native import Entry, EntryID
from diskstream.commands.key_touches import Key, Touches
from diskstream.commands.replies import Failure
from diskstream.errors import CorruptionError, DiskstreamError, ReadOnlyError, StorageError
from diskstream.ids import MIN_ID
from diskstream.system_calls import exclusively, is_there
from diskstream.watching import Place

__all__ = ["Key", "KeyRecords", "Record", "Row", "clear", "gone", "places", "put"]

Row = list[tuple[bytes, bytes]]

# Of what is no stream only so much is held as Redis's rules about types need: see docs/architecture-server.md.
MAX_VALUE_BYTES = 1 << 20
# Begun anew once there are so many more entries than records: then it is read in the time of at most three passes.
_SPARE = 1024
# Or so many more bytes than they had when it was begun: a thousand changes of a large value fill a disk, too.
_SPARE_BYTES = 64 << 20
# Rows that are written together; a frame takes some more, and one value is a mebibyte at most.
_FRAME_BYTES = 8 << 20
_NAME = b"keys"
_GONE = "it is not there any more: it was removed or moved while the store was open; open the store where it is now"


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a key.

    Attributes:
        kind: ``string``, ``list``, ``set``, or empty for a stream.
        values: the elements.
        expires: when it does, in milliseconds since 1970.
        stream: the UUID of the stream that does.
    """

    kind: str = ""
    values: tuple[bytes, ...] = ()
    expires: int | None = None
    stream: bytes = b""


def put(key: Key, record: Record) -> Row:
    """The row that replaces what is known of a key.

    Raises:
        Failure: the value is too large, or the key.
    """
    if len(key[1]) > MAX_VALUE_BYTES:
        raise Failure(f"ERR a key of {len(key[1])} bytes is over the limit of {MAX_VALUE_BYTES}")
    if (size := sum(map(len, record.values))) > MAX_VALUE_BYTES:
        raise Failure(f"ERR a value of {size} bytes is over the limit of {MAX_VALUE_BYTES}: only streams may be large")
    return [
        (b"put", key[1]),
        (b"place", b"%d" % key[0]),
        (b"kind", record.kind.encode()),
        (b"expires", b"" if record.expires is None else b"%d" % record.expires),
        (b"stream", record.stream.hex().encode()),
        *((b"value", value) for value in record.values),
    ]


def gone(key: Key) -> Row:
    """The row after which nothing is known of a key."""
    return [(b"gone", key[1]), (b"place", b"%d" % key[0])]


def clear(place: int) -> Row:
    """The row after which nothing is known of a place."""
    return [(b"clear", b"%d" % place)]


def places(numbers: list[int]) -> Row:
    """The row that says where each database is."""
    return [(b"places", b",".join(b"%d" % number for number in numbers))]


class KeyRecords:
    """The records of a directory, in memory as of the last look. Safe under threads.

    Attributes:
        known: by place and name.
        touches: when each key was last changed, by the number of its database and its name.
        places: for each database in order its place.
        swaps: how often each database came to another place.
    """

    def __init__(self, path: Path, databases: int, options: dict[str, Any]) -> None:
        self.read_only = bool(options.get("read_only", False))
        self.known: dict[Key, Record] = {}
        self.touches = Touches()
        self.places = list(range(databases))
        self.swaps = [0] * databases
        self._databases = databases
        self._path = path
        self._mutex = threading.RLock()
        self._held = self._is_repeated = False
        self._due: list[tuple[int, Key]] = []
        self._at = MIN_ID
        self._visible: tuple[int, int] | None = None
        self._entries = self._size = self._size_begun = 0
        self._store = None
        if not self.read_only or is_there(path / "store.json"):
            kept = {name: options[name] for name in ("fsync", "read_only", "files") if name in options}
            self._store = _store.open(path, segment_bytes=1 << 20, cache_bytes=1 << 20, audit=False, **kept)
            self._stream = self._store.stream(_NAME)
            self._last_id = self._stream.last_id
        try:
            self._begin()
        except BaseException:
            with contextlib.suppress(DiskstreamError, OSError):  # that it cannot be read is what is told
                self.close()
            raise

    def _begin(self) -> None:
        self.refresh()
        if not self.read_only and self._at == MIN_ID:
            with self.changing():
                if self._at == MIN_ID:  # still: nobody else was first
                    self.write(places(self.places))  # so that looking for changes is looking at its page

    def refresh(self) -> None:
        """Learns what other processes have changed."""
        if self._store is None:
            return
        # Called for each command: where the log's page says what it said before, nobody has written.
        log = self._store._logs.get(_NAME)
        visible = None if log is None or self.read_only else log.ctl.visible
        if visible is not None and visible == self._visible:
            return
        with self._mutex:
            if self._last_id() == self._at:
                self._visible = visible
                return
            while not self._catch_up():
                pass

    def _catch_up(self) -> bool:
        """Reads what is new; False where another process began the stream anew meanwhile."""
        first = self._first_id()
        known, at, entries, size = self.known, self._at, self._entries, self._size
        if first is not None and first > at:  # what came after the last look is gone already: all of it again
            self.touches.note_all()
            known, at, entries, size, self._due = {}, MIN_ID, 0, 0, []
        after = at.next()
        for entry in self._stream.range(at if after is None else after):
            try:
                self._apply(entry, known)
            except (ValueError, IndexError) as error:  # every checksum is right: a file of another stream, say
                where = str(self._path / "streams" / "keys")
                what = f"the record of a key, entry {entry.id},"
                raise CorruptionError(where, what, 0, "a change of what is known of keys", str(error)) from error
            at = entry.id
            entries += 1
            size += entry.size_bytes
        self.known, self._at, self._entries, self._size = known, at, entries, size
        return self._first_id() == first

    def _first_id(self) -> EntryID | None:
        return next((entry.id for entry in self._stream.range(count=1)), None)

    def _apply(self, entry: Entry, known: dict[Key, Record]) -> None:
        word, name = entry.pairs[0]
        if word in (b"put", b"gone"):
            key = int(entry.pairs[1][1]), bytes(name)
            self._touch(*key)
            if word == b"gone":
                known.pop(key, None)
                return
            (_, kind), (_, expires), (_, stream) = entry.pairs[2:5]
            values = tuple(value for _, value in entry.pairs[5:])
            record = Record(kind.decode(), values, int(expires) if expires else None, bytes.fromhex(stream.decode()))
            known[key] = record
            if record.expires is not None:
                heapq.heappush(self._due, (record.expires, key))
        elif word == b"clear":
            place = int(name)
            for key in [key for key in known if key[0] == place]:
                self._touch(*key)
                del known[key]
        elif word == b"places":
            numbers = [int(number) for number in name.split(b",")]
            self._arrange(numbers + list(range(len(numbers), self._databases)), known)
        else:
            raise ValueError(f"a change called {word[:20]!r}")

    def _touch(self, place: int, name: bytes) -> None:
        if not self._is_repeated:
            self.touches.note((self.places.index(place) if place in self.places else -1, name))

    def _arrange(self, after: list[int], known: Mapping[Key, Record]) -> None:
        """Puts databases into other places. Of their keys those are touched that were there, or are now."""
        for database, (old, new) in enumerate(zip(self.places, after, strict=False)):
            if old != new:
                self.swaps[database] += 1
                for place, name in known:
                    if place in (old, new):
                        self.touches.note((database, name))
        self.places = after

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """No other thread or process changes anything meanwhile; all that was changed before is known."""
        with self._mutex:
            if self._held or self.read_only:
                yield
                return
            # Opened each time: a lock on a descriptor that a forked child has too would be the child's as well.
            try:
                with exclusively(self._path / "lock", os.O_RDWR | os.O_CREAT):
                    self._held = True
                    try:
                        self.refresh()
                        yield
                    finally:
                        self._held = False  # whatever ended the wait, or forked
            except FileNotFoundError as error:
                if is_there(self._path / "lock"):
                    raise
                raise StorageError(str(self._path), "lock", errno.ENOENT, _GONE) from error

    def write(self, *rows: Row) -> None:
        """Changes records, all of them or none; within `changing`.

        Raises:
            StorageError: the disk said no.
        """
        if not rows:
            return
        if self._store is None:
            raise ReadOnlyError(str(self._path))
        self._stream.add_many(rows)
        self.refresh()
        spare = self._size > 2 * self._size_begun + _SPARE_BYTES
        if spare or self._entries > 2 * len(self.known) + _SPARE:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Writes all that is known once more, and drops what came before."""
        rows, size, before = [places(self.places)], 0, self._size
        first: EntryID | None = None
        for key, record in self.known.items():
            if size > _FRAME_BYTES:
                ids = self._stream.add_many(rows)
                first = first or ids[0]
                rows, size = [], 0
            rows.append(put(key, record))
            size += sum(map(len, record.values)) + len(key[1])
        ids = self._stream.add_many(rows)
        self._is_repeated = True  # nothing has changed: nobody else could meanwhile
        try:
            self.refresh()
        finally:
            self._is_repeated = False
        self._stream.trim(minid=first or ids[0])
        self._entries = len(self.known) + 1
        self._size = self._size_begun = self._size - before
        self._due = [(record.expires, key) for key, record in self.known.items() if record.expires is not None]
        heapq.heapify(self._due)

    def place(self) -> Place | None:
        """The stream that they are; None where nothing may be written and nothing is there."""
        return None if self._store is None else (self._store, _NAME)

    def all(self) -> list[tuple[Key, Record]]:
        """All records as of now, whatever other threads change."""
        return list(self.known.items())

    def has_due(self, now: int) -> bool:
        """Whether `due` may name a key."""
        return bool(self._due) and self._due[0][0] <= now

    def due(self, now: int, limit: int) -> list[Key]:
        """Keys that expire at `now`, in the order of their times; each is named once."""
        found: list[Key] = []
        with self._mutex:
            while self._due and self._due[0][0] <= now and len(found) < limit:
                expires, key = heapq.heappop(self._due)
                record = self.known.get(key)
                if record is not None and record.expires == expires:
                    found.append(key)
        return found

    def due_again(self, keys: Iterable[Key]) -> None:
        """Takes back keys that `due` has named and that could not be removed: it names them once more."""
        with self._mutex:
            for key in keys:
                record = self.known.get(key)
                if record is not None and record.expires is not None:
                    heapq.heappush(self._due, (record.expires, key))

    def after_fork(self) -> None:
        """In a forked child: the threads that held the locks are the parent's."""
        self._mutex, self._held = threading.RLock(), False
        self.touches.after_fork()

    def sync(self) -> None:
        """Makes all changes durable."""
        if self._store is not None:
            self._store.sync()

    def close(self) -> None:
        """Lets go of the directory."""
        if self._store is not None:
            self._store.close()
