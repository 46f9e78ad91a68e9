"""The databases of a directory: streams, and what else a key can be."""

import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from diskstream import settling
from diskstream import store as _store
from diskstream.arguments import path_of
from diskstream.commands.caller import Caller
from diskstream.commands.failures import WRONG_TYPE
from diskstream.commands.key_moves import MovingKeys
from diskstream.commands.key_records import Key, KeyRecords, Record, Row, gone, put
from diskstream.commands.key_removing import RemovingKeys
from diskstream.commands.key_sweeping import SweepingKeys, is_due
from diskstream.commands.listing import Listing, Order, ordered
from diskstream.commands.moments import Moment, MomentOfThread
from diskstream.commands.replies import Failure
from diskstream.commands.settings import Settings
from diskstream.commands.statistics import Statistics
from diskstream.commands.troubles import Troubles
from diskstream.commands.versions import LastIdsSet, identity
from diskstream.copying import UNFINISHED
from diskstream.errors import ClosedError, DiskFullError, DiskstreamError, StreamExistsError
from diskstream.store import Store
from diskstream.stream import Stream
from diskstream.system_calls import is_there
from diskstream.watching import Place

__all__ = ["DATABASES", "Keyspace"]

DATABASES = 16

_LOG = logging.getLogger("diskstream.server")
# Streams by name that are kept at hand for each database: what is beyond is looked up again, no more.
_AT_HAND = 4096
# What a store takes for the name of a stream, in bytes; keys of other types may be longer.
_MAX_STREAM_NAME = 4096
# So long a look at all keys removes what has expired.
_LOOK_S = 0.002

# Only to reach them in a forked child, where their locks may be held by threads that are the parent's.
_KEYSPACES: "weakref.WeakSet[Keyspace]" = weakref.WeakSet()


class Keyspace(MovingKeys, RemovingKeys, SweepingKeys):
    """The databases of a directory, opened as they are used. Safe under threads.

    Args:
        path: the directory; database 0 is the store in it, as long as SWAPDB has not moved it.
        options: how stores are opened: see `diskstream.open`.

    Attributes:
        settings: what CONFIG says.
        statistics: what INFO counts.
        moment: that of the command which runs.
        sweeps: whether `expire_due` does anything (DEBUG SET-ACTIVE-EXPIRE).
        compacting: held while BGREWRITEAOF is under way.
        ids_set: sets last IDs, for XSETID.
        must_reopen: whether a reopening ended half done: until another one has come to its end, nothing can be used.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = path_of(path)  # databases are opened as they are used: from wherever the process is then
        self.options = options
        self.settings = Settings(options, self.path)
        self.statistics = Statistics()
        self.troubles = Troubles()
        self.sweeps, self.must_reopen = True, False
        self.moment: Moment = MomentOfThread()
        self._puts_off = self._is_closed = False
        # Of a store that was closed before `settle` came: the answers that rest on it are still kept back.
        self._lost: DiskstreamError | OSError | None = None
        self.compacting = threading.Lock()
        self._mutex = threading.RLock()
        self._stores: dict[int, Store] = {}
        self._streams: dict[Key, Stream] = {}
        self._listings: dict[int, Listing] = {}
        self.ids_set = LastIdsSet()
        self._watchers: weakref.WeakSet[Caller] = weakref.WeakSet()
        store = self._place_store(0)
        try:
            self._records = KeyRecords(self.path / "keys", DATABASES, options)
        except BaseException:
            with contextlib.suppress(DiskstreamError, OSError):  # what the keys are read by is what is told
                store.close()
            raise
        _KEYSPACES.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- stores and streams -------------------------------------------------------------------------------------------

    def store(self, database: int) -> Store:
        """The store of a database.

        Raises:
            DiskstreamError: it cannot be opened.
        """
        self._records.refresh()
        return self._place_store(self._records.places[database])

    def _place_store(self, place: int) -> Store:
        found = self._stores.get(place)
        if found is not None:
            return found
        with self._mutex:
            if self._is_closed:  # who waits in another thread may not know it yet
                raise ClosedError(f"the store {self.path}")
            found = self._stores.get(place)
            if found is None:
                path = self.path / f"db{place}" if place else self.path
                found = _store.open(path, **self.options)
                found._windows_of_new, found._run_entries = self.settings.windows, self.settings.run_entries
                if self._puts_off:
                    settling.put_off(found)
                self._stores[place] = found
            return found

    def _is_used(self, place: int) -> bool:
        """Whether the store is there: not every look shall make one."""
        return place in self._stores or not place or is_there(self.path / f"db{place}" / "store.json")

    def stream(self, database: int, key: bytes) -> Stream:
        """The stream of that name, whether there is one or not. One that has expired is gone.

        Raises:
            Failure: the key is of another type.
        """
        records = self._records
        records.refresh()
        at = records.places[database], key
        if records.known and at in records.known:
            record = self._living(at)
            if record is not None and record.kind:
                raise Failure(WRONG_TYPE)
        found = self._streams.get(at)
        if found is None:
            if len(self._streams) >= _AT_HAND:
                self._streams.clear()
            found = self._streams[at] = self._place_store(at[0]).stream(key)
        return found

    def arrangement(self) -> tuple[object, object]:
        """Two objects that stay the same ones as long as each database is in the same store, opened as it is."""
        return self._records, self._records.places

    def records_place(self) -> Place | None:
        """The stream whose bell rings when a key of another type than stream changes; None where there is none."""
        return self._records.place()

    def put_off_flushes(self) -> None:
        """Under `appendfsync always`, from now on `settle` must come before any reply is given."""
        self._puts_off = True
        for store in list(self._stores.values()):
            settling.put_off(store)

    def settle(self) -> None:
        """Makes durable what replies rest on that were put off.

        Raises:
            StorageError: a flush failed.
        """
        for store in self._stores.values():
            settling.settle(store)
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost

    def sync(self) -> None:
        """Makes everything durable."""
        for store in list(self._stores.values()):
            store.sync()
        self._records.sync()

    def reopen(self, **options: Any) -> None:
        """Closes everything and opens it again from disk, with `options` changed.

        Raises:
            DiskstreamError: something cannot be opened. Then all is as it was, but closed, until this is called again.
        """
        with self._mutex:
            self.must_reopen, before = True, self.options
            try:
                self.close()
            except (DiskstreamError, OSError) as error:  # all are closed, and what is on disk is looked at anew
                _LOG.error("%s: the store is opened anew as it is on disk", error)  # expected, and no place of ours
            self._streams, self._listings = {}, {}
            self.options, self._is_closed = {**before, **options}, False
            try:
                self._place_store(0)
                self._records = KeyRecords(self.path / "keys", DATABASES, self.options)
            except BaseException:
                self.options, self._is_closed = before, True
                raise
            self.must_reopen = False

    def is_open(self) -> bool:
        """Whether its stores may be used; waits for another thread that opens them anew just then."""
        with self._mutex:
            return not self._is_closed

    def close(self) -> None:
        """Closes all stores. Closing twice is fine.

        Raises:
            StorageError: a last flush failed. All stores are closed all the same.
        """
        with self._mutex:
            self._is_closed = True
            stores, self._stores = self._stores, {}
        with contextlib.ExitStack() as closing:
            closing.callback(self._records.close)
            for store in stores.values():
                closing.callback(self._close, store)

    def _close(self, store: Store) -> None:
        try:
            store.close()
        except (DiskstreamError, OSError) as error:
            if settling.owes(store):
                self._lost = error
            raise

    def _after_fork(self) -> None:
        self._mutex, self.compacting = threading.RLock(), threading.Lock()
        self._records.after_fork()

    # --- keys ---------------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Milliseconds since 1970 of the store's clock; one and the same while a command runs."""
        return self.moment.now(self._clock)

    def _clock(self) -> int:
        clock = self.options.get("clock")
        return int(time.time() * 1000) if clock is None else int(clock())

    def _at(self, database: int, key: bytes) -> Key:
        self._records.refresh()
        return self._records.places[database], key

    def _living(self, at: Key) -> Record | None:
        """What is known of a key; once it has expired the key goes, unless its stream is not the one that expires."""
        record = self._records.known.get(at)
        if record is None or record.expires is None or record.expires > self.now_ms():
            return record
        if self._records.read_only:
            return record
        try:
            self._expire(at, self.now_ms())
        except DiskFullError:
            if record.kind or record.stream != identity(self._plain(at)):
                return None  # it is as good as gone: reads go on
            raise
        return self._records.known.get(at)

    def _plain(self, at: Key) -> Stream | None:
        """The stream of a place, whatever is known of the key; None where there cannot be one."""
        return self._place_store(at[0]).stream(at[1]) if self._may_be_stream(at) else None

    def _may_be_stream(self, at: Key) -> bool:
        return 0 < len(at[1]) <= _MAX_STREAM_NAME and self._is_used(at[0])

    def _holds_stream(self, at: Key) -> bool:
        return self._may_be_stream(at) and self._place_store(at[0]).exists(at[1])

    def is_other(self, database: int, key: bytes) -> bool:
        """Whether the key holds something else than a stream."""
        record = self._living(self._at(database, key))
        return record is not None and bool(record.kind)

    def kind(self, database: int, key: bytes) -> str | None:
        """The type of a key, as ``stream``; None where there is none."""
        found = self.held(database, key)
        return None if found is None else found[0]

    def held(self, database: int, key: bytes) -> tuple[str, tuple[bytes, ...]] | None:
        """The type of a key and its elements, those of a stream left out; None where there is no such key.

        Of one look: between two of them the key may expire, or another process remove it.
        """
        at = self._at(database, key)
        record = self._living(at)
        if record is not None and record.kind:
            return record.kind, record.values
        return ("stream", ()) if self._holds_stream(at) else None

    def names(self, database: int) -> list[bytes]:
        """All keys of a database, in byte order; not to be changed."""
        others, ended, listing = self._listed(database)
        return sorted(others - ended) if listing is None else listing.names(others, ended)

    def order(self, database: int) -> Order:
        """The same in the order of SCAN: see `ordered`."""
        others, ended, listing = self._listed(database)
        return ordered(others - ended) if listing is None else listing.order(others, ended)

    def _listed(self, database: int) -> tuple[set[bytes], set[bytes], Listing | None]:
        """The keys of other types, those that have expired, and the listing of the streams; None where there is none.

        Of what has expired no more is removed than a moment allows: there may be any number, and others wait.
        """
        self._records.refresh()
        place, now = self._records.places[database], self.now_ms()
        if not self._records.read_only:
            self._sweep(now, _LOOK_S)
        others: set[bytes] = set()
        ended: set[bytes] = set()
        for at, record in self._records.all():
            if at[0] != place:
                continue
            if is_due(record, now) and not self._records.read_only:
                ended.add(at[1])
            elif record.kind:
                others.add(at[1])
        if not self._is_used(place):
            return others, ended, None
        listing = self._listings.get(place)
        if listing is None:
            listing = self._listings[place] = Listing(self._place_store(place), UNFINISHED)
        return others, ended, listing

    def version(self, database: int, key: bytes) -> object:
        """Something that is another one after each change of the key, by whichever process: for WATCH."""
        at = self._at(database, key)
        record = self._living(at)
        touched = self._records.touches.of((database, key))
        if (record is not None and record.kind) or not self._holds_stream(at):
            return touched
        return touched, self._records.swaps[database], self.ids_set.entries_version(self._plain(at))

    def watches(self, caller: Caller) -> None:
        """Notes that a client watches keys."""
        with self._mutex:
            self._watchers.add(caller)

    def watchers(self) -> list[Caller]:
        """The clients that have watched keys, and may do so still."""
        with self._mutex:
            return list(self._watchers)

    # --- keys of other types ------------------------------------------------------------------------------------------

    def values(self, database: int, key: bytes, kind: str) -> tuple[bytes, ...] | None:
        """The elements of a key of another type than stream; None where there is none.

        Raises:
            Failure: the key is of another type than `kind`.
        """
        found = self.held(database, key)
        if found is None:
            return None
        if found[0] != kind:
            raise Failure(WRONG_TYPE)
        return found[1]

    def put_values(
        self,
        database: int,
        key: bytes,
        kind: str,
        values: tuple[bytes, ...],
        *,
        expires: int | None = None,
        replace: bool = True,
    ) -> None:
        """Makes a key hold this, whatever it held before.

        Raises:
            Failure: the value is too large.
            StreamExistsError: it is a stream, and `replace` is false.
        """
        at = self._at(database, key)
        with self._records.changing():
            self._put_over(at, {at: Record(kind, values, expires)}, replace=replace)

    def _put_over(self, at: Key, changes: Mapping[Key, Record | None], *, replace: bool = True) -> None:
        """Changes records, that of `at` to one of another type: a stream that has the key goes behind that.

        So what is refused leaves it. Who dies in between leaves both: while there is the record it hides the stream.
        """
        with self._changed(changes):
            if self._holds_stream(at):
                if not replace:
                    raise StreamExistsError(at[1])
                self._removed(at)

    @contextlib.contextmanager
    def _changed(self, changes: Mapping[Key, Record | None]) -> Iterator[None]:
        """Changes records; where what follows is refused they are as before."""
        before = {key: self._records.known.get(key) for key in changes}
        self._records.write(*_rows(changes))
        try:
            yield
        except BaseException:
            with contextlib.suppress(DiskstreamError, OSError):  # what hinders the one may hinder the other
                self._records.write(*_rows(before))
            raise

    def changing(self) -> Any:
        """A ``with`` block in which no other process changes keys of other types, or times of expiry."""
        return self._records.changing()

    # --- times of expiry ----------------------------------------------------------------------------------------------

    def expires_at(self, database: int, key: bytes) -> int | None:
        """When a key expires, in milliseconds since 1970; None where it does not, or there is none."""
        at = self._at(database, key)
        record = self._living(at)
        if record is None or record.expires is None:
            return None
        if record.kind or record.stream == identity(self._plain(at)):
            return record.expires
        return None

    def set_expiry(self, database: int, key: bytes, expires: int | None) -> bool:
        """Sets when a key expires; None is never, what has passed is now. Returns whether there is such a key."""
        at = self._at(database, key)
        with self._records.changing():
            record = self._living(at) or Record()
            if not record.kind and not self._holds_stream(at):
                return False
            if expires is not None and expires <= self.now_ms():
                self.delete(database, key)
            elif record.kind:
                self._records.write(put(at, Record(record.kind, record.values, expires)))
            elif expires is not None:
                self._records.write(put(at, Record(expires=expires, stream=identity(self._plain(at)))))
            elif at in self._records.known:
                self._records.write(gone(at))
        return True

    def times_to_live_ms(self, database: int) -> list[int]:
        """How long each key of a database that has a time of expiry is still there."""
        self._records.refresh()
        place, now = self._records.places[database], self.now_ms()
        found = [record for at, record in self._records.all() if at[0] == place]
        return [each.expires - now for each in found if each.expires is not None and not is_due(each, now)]


def _rows(changes: Mapping[Key, Record | None]) -> list[Row]:
    return [gone(key) if record is None else put(key, record) for key, record in changes.items()]


def _after_fork() -> None:
    for keyspace in list(_KEYSPACES):
        keyspace._after_fork()  # the class's own module


os.register_at_fork(after_in_child=_after_fork)
