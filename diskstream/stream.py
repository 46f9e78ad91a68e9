"""One stream: Redis's verbs over a log on disk."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from diskstream._native import Block, Entry, EntryID, are_plain, check_rows, entry_lists
from diskstream.arguments import items_of, whole_of
from diskstream.columned import Columned
from diskstream.commits import AddOptions, Commit, EntryOptions, record_of
from diskstream.committing import Committing
from diskstream.counts import block_of, check_count
from diskstream.described import Described
from diskstream.engine import reader, seal, trimming
from diskstream.engine.closing import check_removed
from diskstream.engine.fetching import fetch_ahead
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.moved import cut_short
from diskstream.engine.seal import CompactReport
from diskstream.errors import ArgumentError, DiskFullError, IDOrderError, NoSuchStreamError, ReadOnlyError, ZeroIDError
from diskstream.grouped import Grouped
from diskstream.idempotence import Message, message_of, remembered
from diskstream.ids import MIN_ID, IDLike, parse_add_id, parse_end, parse_id, parse_start
from diskstream.last_id import set_last_id
from diskstream.reading import wait_for_last
from diskstream.retained import Retained
from diskstream.retention import Trim
from diskstream.scanned import Scanned
from diskstream.wire_adding import WireAdding
from diskstream.wire_reading import WireReading

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["Fields", "Stream"]

Fields = Mapping[Any, Any] | Sequence[tuple[Any, Any]]
_T = TypeVar("_T")
_NONE: list[Callable[..., EntryID] | None] = [None]
# Fields that are the same when they are read again, and run no code of the caller's. Of others, as many as are told.
_PLAIN = frozenset((dict, list, tuple))
_MOST_FIELDS = 65_536


class Stream(Grouped, Columned, Committing, Described, Retained, Scanned, WireAdding, WireReading):
    """A stream of a store, by name: it need not exist yet, and may come and go."""

    def __init__(self, store: "Store", name: bytes) -> None:
        self._store, self._name = store, name
        self._direct: list[Callable[..., EntryID] | None] = _NONE  # see `StreamLog.direct`

    @property
    def name(self) -> bytes:
        """The stream's name."""
        return self._name

    def __repr__(self) -> str:
        return f"<diskstream.Stream {self._name!r} of {str(self._store.path)!r}>"

    def _self(self) -> "Stream":
        return self

    # --- the log behind the name --------------------------------------------------------------------------------------

    def _log(self, *, create: bool) -> StreamLog | None:
        return self._store._log(self._name, create=create)  # a stream is part of its store

    def _use(self, action: Callable[[StreamLog], _T], missing: _T) -> _T:
        """Does something with the log, again where the stream has moved meanwhile; `missing` where there is none."""
        while True:
            log = self._log(create=False)
            if log is None:
                return missing
            try:
                return action(log)
            except StreamMoved:
                self._store._forget(self._name, log)

    def _write(self, action: Callable[[StreamLog], _T], *, create: bool = True) -> _T | None:
        """The same for an append, which makes the stream where there is none."""
        if self._store.read_only:
            raise ReadOnlyError(str(self._store.path))
        while True:
            log = self._log(create=create)
            if log is None:
                return None
            try:
                try:
                    return action(log)
                except IDOrderError:
                    log.settle()  # who adds it once more takes that for done, and another may die before his flush
                    raise
                except DiskFullError:
                    if create:
                        self._store._delete_unused(self._name)
                    raise
            except StreamMoved:
                self._store._forget(self._name, log)

    def exists(self) -> bool:
        """Whether the stream exists; one without entries does."""
        return self._store.exists(self._name)

    def last_id(self) -> EntryID:
        """The last ID ever added, or set; 0-0 where there is no stream."""
        return self._use(reader.last_id, MIN_ID)

    @property
    def waits_for_disk(self) -> bool:
        """Whether every append waits for a flush."""
        return self._store.options.is_always

    # --- adding -------------------------------------------------------------------------------------------------------

    @overload
    def add(
        self, fields: Fields, id: IDLike = "*", *, nomkstream: Literal[False] = False, **options: Unpack[EntryOptions]
    ) -> EntryID: ...

    @overload
    def add(
        self, fields: Fields, id: IDLike = "*", *, nomkstream: bool, **options: Unpack[EntryOptions]
    ) -> EntryID | None: ...

    def add(
        self,
        fields: Fields,
        id: IDLike = "*",
        *,
        nomkstream: bool = False,
        maxlen: int | None = None,
        minid: IDLike | None = None,
        approximate: bool = False,
        limit: int | None = None,
        ref: str = "KEEPREF",
        producer: str | bytes | None = None,
        message_id: str | bytes | None = None,
        durable: bool = False,
    ) -> EntryID | None:
        """Adds one entry, as XADD.

        Args:
            fields: names and values, in order; a sequence of pairs may repeat a name.
            id: ``*`` for an automatic ID, ``ms-*`` for an automatic sequence, or the whole ID.
            nomkstream: do not make the stream where there is none.
            maxlen, minid, approximate, limit, ref: trim afterwards, as `trim`.
            producer, message_id: who adds, and its own ID of the message (IDMP): one that was added before is not
                added again, and its ID is returned. Without `message_id` the fields tell (IDMPAUTO).
            durable: return when the entry is on disk, whatever the store's policy.

        Returns:
            The ID; None where `nomkstream` kept the entry from being added.

        Raises:
            IDOrderError, ZeroIDError, IDExhaustedError, InvalidIDError: the ID cannot be used.
            ArgumentError: no fields, or options that contradict each other.
            LimitError: the entry is too large.
            StorageError: the disk said no. `DiskFullError`: nothing was added; else reopen the store to know.
        """
        plain = maxlen is None and minid is None and limit is None and producer is None and message_id is None
        if id == "*" and plain and not durable:
            add = self._direct[0]
            if add is not None and ref == "KEEPREF":
                if type(fields) is not dict:
                    fields = _rereadable(fields)
                try:
                    return add(fields)
                except StreamMoved:
                    self._direct = _NONE
        trim = Trim.parse(maxlen, minid, approximate, limit, ref)
        entry_id, within = parse_add_id(id)
        fields = _rereadable(fields)
        message = message_of(producer, message_id, fields, automatic=entry_id is None and within is None)
        if entry_id == MIN_ID:
            raise ZeroIDError  # before anything else is looked at, as Redis does

        def append(log: StreamLog) -> EntryID:
            if log.options.clock is None and not log.read_only:
                self._direct = log.direct
            if trim is None and message is None:
                return log.native.add(fields, entry_id, within, bool(durable), False, log.now())
            if trim is not None:
                trim.fetch_ahead(log)
            with log.locked():
                log.prepare()
                added = _add_once(log, fields, (entry_id, within), message, trim)
            if durable or log.options.is_always:
                log.flush()
            return added

        if not nomkstream and not self.exists():
            check_rows([fields], None if entry_id is None else [entry_id])
        return self._write(append, create=not nomkstream)

    @overload
    def add_many(
        self, rows: Iterable[Fields], *, commit: None = None, **options: Unpack[AddOptions]
    ) -> list[EntryID]: ...

    @overload
    def add_many(
        self, rows: Iterable[Fields], *, commit: Commit | None, **options: Unpack[AddOptions]
    ) -> list[EntryID] | None: ...

    def add_many(
        self,
        rows: Iterable[Fields],
        *,
        ids: Iterable[IDLike] | None = None,
        nomkstream: bool = False,
        maxlen: int | None = None,
        minid: IDLike | None = None,
        approximate: bool = False,
        limit: int | None = None,
        ref: str = "KEEPREF",
        commit: Commit | None = None,
        durable: bool = False,
    ) -> list[EntryID] | None:
        """Adds entries as one frame: all of them or, after a crash, none.

        Args:
            rows: the fields of each entry.
            ids: the whole ID of each entry, in order; None makes them automatic.
            nomkstream, maxlen, minid, approximate, limit, ref, durable: as `add`.
            commit: the part of a writer's work that the entries are, remembered in the same frame. One that was
                committed before is not added again, and nothing is trimmed.

        Returns:
            The IDs in order; none where `nomkstream` kept the entries from being added; None where the part was
            committed before. No rows are no entries, and commit nothing.

        Raises:
            As `add`; nothing is added then.
        """
        trim = Trim.parse(maxlen, minid, approximate, limit, ref)
        listed = rows if isinstance(rows, list | tuple) else list(items_of("rows", rows))
        given = None if ids is None else list(items_of("ids", ids))
        if not listed and not given:
            return []
        if not are_plain(listed):
            listed = [_rereadable(row) for row in listed]
        if not nomkstream and not self.exists():
            check_rows(listed, given)
        record = None if commit is None else record_of(commit)

        def append(log: StreamLog) -> tuple[list[EntryID] | None]:
            if trim is None:
                return (log.native.add_many(listed, given, bool(durable), False, log.now(), record),)
            trim.fetch_ahead(log)
            with log.locked():
                log.prepare()
                added = log.native.add_many(listed, given, False, True, log.now(), record)
                if added is not None:
                    trim.apply_behind(log)
            if durable or log.options.is_always:
                log.flush()
            return (added,)

        done = self._write(append, create=not nomkstream)
        return [] if done is None else done[0]

    # --- reading ------------------------------------------------------------------------------------------------------

    def _following(self, read: Callable[[StreamLog], Iterator[_T]]) -> Iterator[_T]:
        """What `read` yields. A stream that had gone before is looked up again; going meanwhile is an error."""
        while True:
            log = self._log(create=False)
            if log is None:
                return
            begun = False
            try:
                for item in read(log):
                    begun = True
                    yield item
                return
            except StreamMoved:
                self._store._check_open()
                self._store._forget(self._name, log)
                if begun:
                    raise cut_short(self) from None

    def _blocks(self, start: EntryID, end: EntryID, *, reverse: bool, enough: int = 1 << 20) -> Iterator[Block]:
        return self._following(lambda log: reader.blocks(log, start, end, reverse=reverse, enough=enough))

    def range(self, start: IDLike = "-", end: IDLike = "+", count: int | None = None) -> Iterator[Entry]:
        """Entries from `start` to `end`, both included, as XRANGE; `(` before an ID leaves it out.

        Nothing is read before the iterator is used. It ends with the last entry there was when it began. Objects that
        nobody holds any more are used again for later entries; an entry, or an ID, that is held never changes.

        Raises:
            InvalidIDError, ArgumentError: malformed ends.
            CorruptionError: something within the range cannot be read; what came before was right.
            ChangedError: the stream was removed or renamed on the way; so too.
        """
        return self._ranged(parse_start(start), parse_end(end), count, reverse=False)

    def revrange(self, start: IDLike = "+", end: IDLike = "-", count: int | None = None) -> Iterator[Entry]:
        """The same from the newest to the oldest, as XREVRANGE: `start` is the greater end."""
        return self._ranged(parse_start(end), parse_end(start), count, reverse=True)

    def _ranged(self, low: EntryID, high: EntryID, count: int | None, *, reverse: bool) -> Iterator[Entry]:
        if count is None:
            return chain.from_iterable(entry_lists(self._blocks(low, high, reverse=reverse), reverse))
        left = max(0, check_count("count", count))
        blocks = self._blocks(low, high, reverse=reverse, enough=left) if left else iter(())
        return chain.from_iterable(entry_lists(blocks, reverse, left))

    def get(self, id: IDLike) -> Entry | None:
        """The entry with this ID, or None."""
        wanted = parse_id(id)
        return self._use(lambda log: reader.find(log, wanted), None)

    def read(
        self, after: IDLike = "$", *, count: int | None = None, max_bytes: int | None = None, block: float | None = None
    ) -> list[Entry]:
        """Entries behind `after`, as XREAD: see `Store.read`."""
        found = self._store.read({self._name: after}, count=count, max_bytes=max_bytes, block=block)
        return found.get(self._name, [])

    def tail(self, after: IDLike = "$", *, block: float | None = None) -> Iterator[Entry]:
        """Entries behind `after` as they come. Ends when none came for `block` seconds; 0 and None wait for ever.

        ``$`` is the stream's end as of the call, not of the iterator's first use.
        """
        return self._tail(self.last_id() if after in ("$", b"$") else after, block)

    def _tail(self, position: IDLike, block: float | None) -> Iterator[Entry]:
        while True:
            entries = self.read(position, count=1000, block=0 if block is None else block)
            if not entries:
                return
            yield from entries
            position = entries[-1].id

    def __iter__(self) -> Iterator[Entry]:
        return self.range()

    def __contains__(self, item: Entry | IDLike) -> bool:
        """Whether there is an entry with this ID, or this very entry.

        Without this it would be looked for among all entries, of which none equals an ID.
        """
        if isinstance(item, Entry):
            return self.get(item.id) == item
        return self.get(item) is not None

    def __len__(self) -> int:
        return self._use(reader.length, 0)  # of a damaged log nobody knows it: a CorruptionError

    def __bool__(self) -> bool:
        return True

    # --- removing -----------------------------------------------------------------------------------------------------

    def delete(self, *ids: IDLike) -> int:
        """Deletes entries, as XDEL. Returns how many there were.

        Raises:
            InvalidIDError: a malformed ID; none was deleted.
        """
        wanted = [parse_id(given) for given in ids]
        if not wanted:
            return 0

        def remove(log: StreamLog) -> int:
            fetch_ahead(log, wanted)
            with log.locked():
                log.prepare()
                removed = trimming.delete(log, wanted)
            # Where there was none, that rests on what another removed.
            (log.flush if removed and log.options.is_always else log.settle)()
            return removed

        return self._use(remove, 0)

    def trim(
        self,
        *,
        maxlen: int | None = None,
        minid: IDLike | None = None,
        approximate: bool = False,
        limit: int | None = None,
        ref: str = "KEEPREF",
    ) -> int:
        """Removes the oldest entries, as XTRIM: all but `maxlen`, or those below `minid`. Returns how many went.

        With `approximate`, only whole runs of 100 entries go, and at most `limit` entries (10,000; 0 is no limit).
        With `ref` DELREF they are no longer pending in any group either; with ACKED only those go that every group was
        given and has acknowledged. Both trim exactly.

        Raises:
            ArgumentError: neither is given, or both, or they are malformed, in the words of Redis.
            NewerFormatError, CorruptionError: the stream's rule of retention cannot be read; nothing went.
        """
        trim = Trim.parse(maxlen, minid, approximate, limit, ref)
        if trim is None:
            raise ArgumentError("syntax error, XTRIM must be called with a trimming strategy")

        def remove(log: StreamLog) -> int:
            trim.fetch_ahead(log)
            with log.locked():
                log.prepare()
                removed = trim.apply(log)
            # Where there was none, that rests on what another removed.
            (log.flush if removed and log.options.is_always else log.settle)()
            return removed

        return self._use(remove, 0)

    def set_id(self, id: IDLike, *, entries_added: int | None = None, max_deleted_id: IDLike | None = None) -> None:
        """Sets the last ID, as XSETID.

        Raises:
            NoSuchStreamError: there is no stream.
            ArgumentError: the numbers contradict what the stream holds, in the words of Redis.
        """
        last = parse_id(id)
        greatest = MIN_ID if max_deleted_id is None else parse_id(max_deleted_id)
        if entries_added is not None:
            entries_added = whole_of("entries_added", entries_added)
        if entries_added is not None and entries_added < 0:
            raise ArgumentError("entries_added must be positive")
        if entries_added is not None and entries_added >= 1 << 64:
            raise ArgumentError(f"value is not an integer or out of range: entries_added is {entries_added}")
        if last < greatest:
            raise ArgumentError("The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
        done = self._use(lambda log: set_last_id(log, last, entries_added, greatest), None)
        if done is None:
            raise NoSuchStreamError(self._name)

    # --- about --------------------------------------------------------------------------------------------------------

    def wait_durable(self, id: IDLike, timeout: float | None = None) -> bool:
        """Returns once the entry with this ID is durable.

        One that was not added yet is waited for. Returns False after `timeout` seconds; None waits for ever.

        Raises:
            ArgumentError: `timeout` is no number of seconds.
            ReadOnlyError: the store is open for reading only: it cannot flush what others have added.
            StorageError: a flush failed, or the files were removed.
        """
        wanted, wait = parse_id(id), block_of(timeout)
        if self._store.read_only:
            raise ReadOnlyError(str(self._store.path), "make durable")
        if not wait_for_last(self._store, self._name, wanted, wait):
            return False

        def flush(log: StreamLog) -> None:
            log.flush()
            check_removed(log)

        self._use(flush, None)
        return True

    def seal(self) -> int:
        """Rolls and seals: what was appended so far becomes packed. Returns segments sealed; 0 for no stream."""
        try:
            return self._store.seal(self._name)
        except NoSuchStreamError:
            return 0

    def compact(self) -> CompactReport | None:
        """Merges small sealed segments and drops the bytes of deleted entries; None where there is no stream."""
        return self._use(seal.compact, None)


def _add_once(
    log: StreamLog, fields: Fields, id: tuple[EntryID | None, int | None], message: Message | None, trim: Trim | None
) -> EntryID:
    """Adds an entry unless its message was added before, then trims; under the append lock."""
    found = None if message is None else remembered(log, message)
    if found is not None:
        return found
    added = log.native.add(fields, *id, False, True, log.now(), message)
    if trim is not None:
        trim.apply_behind(log)
    return added


def _rereadable(fields: Fields) -> Fields:
    """The fields, read once, before any lock: an add may take several attempts. What is none stays, to be refused."""
    if type(fields) in _PLAIN:
        return fields
    pairs: Any = fields.items() if hasattr(fields, "items") else fields
    return list(islice(pairs, _MOST_FIELDS + 1)) if isinstance(pairs, Iterable) else fields
