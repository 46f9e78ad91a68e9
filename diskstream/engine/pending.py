"""The pending entries of a stream's groups: the overlay in memory over the view, kept together. Under the append lock.

The log is the truth. A process follows its frames and holds what they change in an overlay. When that has grown, it is
merged into the view, and a frame says so: each process then begins its overlay anew. A crash between the two leaves the
view ahead of that frame; whoever needs the view next sees that it stands elsewhere, and replays the log from there.
"""

import contextlib
import errno
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

from diskstream._native import EntryID, Unknown
from diskstream.engine import names, spare, view_rows
from diskstream.engine.searched import Searched
from diskstream.engine.state import View, ViewDamaged
from diskstream.engine.view_rows import BY_ID, OWNED
from diskstream.engine.whereabouts import StreamMoved
from diskstream.errors import CorruptionError, LimitError, StorageError

if TYPE_CHECKING:
    import lmdb

    from diskstream.engine.log import StreamLog

__all__ = ["Key", "Row", "StreamPending", "key_beyond"]

Row = tuple[EntryID, int, int, int]  # ID, consumer's number (0: nobody), time in ms (nobody's: refusal), deliveries
Key = tuple[int, int, int]
Record = tuple[Any, ...]  # a word and its arguments: see native/python/src/groups.rs
_ROWS_AT_ONCE = 4096
_ORDERS = (0, 1, 2)
# How often a view that somebody replaces under us is made to agree, before that is an error.
_ATTEMPTS = 8
_T = TypeVar("_T")


def _key(raw: bytes) -> Key:
    return (int.from_bytes(raw[:8]), int.from_bytes(raw[8:16]), int.from_bytes(raw[16:24]))


def _raw(key: Key) -> bytes:
    return b"".join(part.to_bytes(8) for part in key)


class _LetGo:
    """What stands in the place of a view that was let go of: whatever is asked of it, the log is closed."""

    def __getattr__(self, _name: str) -> NoReturn:
        raise StreamMoved


_LET_GO: Final = _LetGo()


class StreamPending:
    """What one opening of a stream does with the view. The caller holds the append lock, and is up to date."""

    def __init__(self, log: "StreamLog", view: View) -> None:
        self._log: StreamLog = weakref.proxy(log)  # which holds this
        self._view = view
        self._later_rows = 0
        self.searched = Searched()
        self._agreements = 0  # how often the overlays may have begun anew
        self.last_error: StorageError | LimitError | CorruptionError | None = None

    def close(self) -> None:
        """Lets go of the view, which closes when nobody holds it: whoever keeps an error may keep the log it is of."""
        self._view = cast("View", _LET_GO)
        self.last_error = None  # which holds the view too

    @property
    def _native(self) -> Any:
        return self._log.native

    @property
    def _uuid(self) -> bytes:
        return bytes(self._native.uuid)

    # --- keeping the view where the log is ----------------------------------------------------------------------------

    def _agree(self) -> None:
        """Makes sure that the view stands where the overlays begin: moves them, or makes the view anew."""
        self._agreements += 1
        uuid = self._uuid
        place = self._view.read(lambda txn: view_rows.read_place(txn, uuid))
        if place is not None:
            lsn, offset, segment, link = place
            if (lsn, link) == self._native.base:
                return
            if segment == self._native.tail[0] and self._native.rebase(lsn, offset, link):
                return
            if (lsn, link) == self._native.link_before:
                self._native.rebase_to_snapshot()
                return
        self._rebuild()

    def _stands(self, txn: "lmdb.Transaction") -> bool:
        """Whether the view, as this transaction sees it, stands where the overlays begin."""
        place = view_rows.read_place(txn, self._uuid)
        return place is not None and (place[0], place[3]) == self._native.base

    def _read(self, look: "Callable[[lmdb.Transaction], _T]") -> _T:
        """What `look` finds in a view that stands where the overlays begin: both are checked in one transaction."""
        for _ in range(_ATTEMPTS):
            with self._healing():
                found: list[_T] = self._view.read(lambda txn: [look(txn)] if self._stands(txn) else [])
                if found:
                    return found[0]
                self._agree()
        raise StorageError(str(self._view.path), "follow the view in", 5, "others keep replacing it")

    def _rebuild(self) -> None:
        """The view from the snapshot; what came since stands in the overlays then.

        Raises:
            CorruptionError: it, or what came since, cannot be read any more.
        """
        self._begin_at_snapshot()
        uuid = self._uuid
        lsn, link = self._native.link_before
        chunks = self._native.snapshot_view()

        def write(txn: "lmdb.Transaction") -> None:
            view_rows.delete_rows(txn, uuid)
            for group, order, rows in chunks:
                view_rows.put_chunks(txn, view_rows.prefix(uuid, order, group), rows)
            txn.put(uuid, view_rows.pack_place((lsn, 0, self._native.tail[0], link)))

        self._view.write(write)

    def _begin_at_snapshot(self) -> None:
        """Begins the overlays behind the snapshot, of which the pending entries are then taken.

        It was sound when the log was opened; a disk may have damaged it since, and nothing else checks what it has. Of
        one that was damaged then, the copy was taken.
        """
        path = names.log_path(self._log.directory, self._native.tail[0])
        try:
            if self._log.fault is None:
                spare.sound_frame(path)
        except FileNotFoundError as error:
            raise StorageError(str(path), "read", errno.ENOENT, "it was removed while it was open") from error
        self._native.rebase_to_snapshot()

    @contextlib.contextmanager
    def _healing(self) -> Iterator[None]:
        """A view that turns out to be damaged is thrown away: the next attempt makes it anew."""
        try:
            yield
        except ViewDamaged:
            self._view.discard()
        except CorruptionError as error:
            if error.path != "view":
                raise
            self._view.discard()

    def checkpoint(self, *, announce: bool = True) -> None:
        """Merges the overlays into the view; `announce` says so in the log."""
        uuid = self._uuid
        segment = self._native.tail[0]
        alive = {number for number, *_ in self._native.groups()}

        def write(txn: "lmdb.Transaction") -> bool:
            if self._native.base is None:
                view_rows.delete_rows(txn, uuid)
            elif self._stands(txn):
                _drop_others(txn, uuid, alive)
            else:
                return False
            for group, changes in self._native.changes():
                for order in _ORDERS:
                    _merge(txn, view_rows.prefix(uuid, order, group), order, changes)
            lsn, offset, link = self._native.link
            txn.put(uuid, view_rows.pack_place((lsn, offset, segment, link)))
            return True

        for _ in range(_ATTEMPTS):
            with self._healing():
                if self._view.write(write):
                    break
                self._agree()
        else:
            raise StorageError(str(self._view.path), "follow the view in", 5, "others keep replacing it")
        self._later_rows = 0
        if announce:
            self._log.retry(self._native.viewed, held=True)

    @property
    def most_rows(self) -> int:
        """Rows that the overlays may hold: with more, they are to be merged."""
        return max(self._log.options.pending_rows, self._later_rows)

    def relieve(self) -> None:
        """Merges once the overlays have grown over their limit.

        What was done stands in the log already, so a view that cannot be written, or made anew, is no error: the
        overlays are kept, and it is tried again when they have grown by as much again.
        """
        rows = self._native.overlay_rows
        if rows <= self.most_rows:
            return
        try:
            self.checkpoint()
        except (StorageError, LimitError, CorruptionError) as error:
            self.last_error = error
            self._later_rows = rows + self._log.options.pending_rows

    def for_roll(self) -> list[tuple[int, bytes]] | None:
        """The chunks by ID for the next snapshot, up to date; None where the overlays are whole.

        From here on they are the log's, so they are counted first. A view that misses some is made anew from the log,
        and one that cannot be used is done without: no append is refused for what may be thrown away.
        """
        if not self._native.group_count[1] or self._native.base is None:
            return None
        try:
            return self._all_viewed()
        except (StorageError, LimitError) as error:
            self.last_error = error
            return self._all_logged()

    def _all_viewed(self) -> list[tuple[int, bytes]]:
        start = self._uuid + bytes([BY_ID])

        def collect(txn: "lmdb.Transaction") -> list[tuple[int, bytes]]:
            rows = view_rows.stream_rows(txn, start)
            return [(int.from_bytes(key[17:21]), chunk) for key, chunk in rows]

        for _ in range(_ATTEMPTS):
            self.checkpoint(announce=False)
            with self._healing():
                chunks = self._view.read(collect)
                if self._native.is_complete(chunks):
                    return chunks
            self._rebuild()
        raise StorageError(str(self._view.path), "read back the view in", 5, "rows are missing from it")

    def _all_logged(self) -> list[tuple[int, bytes]]:
        """The same out of the log alone, in memory: what the snapshot has, and what came since."""
        self._begin_at_snapshot()
        stored = {group: chunks for group, order, chunks in self._native.snapshot_view() if order == BY_ID}
        changes = dict(self._native.changes())
        found: list[tuple[int, bytes]] = []
        for group, *_ in sorted(self._native.groups()):
            chunks = stored.get(group) or [(b"", None)]
            if group not in changes:
                found += [(group, chunk) for _, chunk in chunks if chunk is not None]
                continue
            nexts = [key for key, _ in chunks[1:]]
            for (_, chunk), following in zip(chunks, [*nexts, None], strict=True):
                found += [(group, merged) for _, merged in changes[group].merge(BY_ID, chunk, following)]
        if not self._native.is_complete(found):
            raise StorageError(str(self._log.directory), "count what is pending in", 5, "it is not what groups count")
        return found

    def forget(self) -> None:
        """Removes the stream's rows: it is gone."""
        uuid = self._uuid
        if self._view.exists():
            self._view.write(lambda txn: view_rows.delete_rows(txn, uuid))

    # --- looking ------------------------------------------------------------------------------------------------------

    def learn(self, group: int, ids: list[EntryID]) -> None:
        """Brings what the view knows of these IDs into the overlay.

        Where the overlays begin anew meanwhile, what they knew before may be known to the view alone: once more then.
        """
        self._learn([(group, ids)])

    def _learn(self, asked: list[tuple[int, list[EntryID]]]) -> None:
        for _ in range(_ATTEMPTS):
            agreements = self._agreements
            for group, ids in asked:
                unknown = self._native.unknown(group, ids)
                if unknown:
                    self._adopt(group, unknown)
            if agreements == self._agreements:
                return
        raise StorageError(str(self._view.path), "follow the view in", 5, "others keep replacing it")

    def _adopt(self, group: int, unknown: Unknown) -> None:
        index = view_rows.prefix(self._uuid, BY_ID, group)

        def adopt(txn: "lmdb.Transaction") -> None:
            chunks, at = view_rows.Chunks(txn, index), 0
            while (key := unknown.key(at)) is not None:
                _, chunk, following = chunks.at(key)
                at = self._native.adopt(unknown, at, chunk, following)

        self._read(adopt)

    def change(self, records: Sequence[Record], now_ms: int) -> None:
        """Appends one frame with these records: see `Log.change`. What they say of pending entries is known by then.

        Each attempt asks anew: a roll in between begins the overlays anew.
        """
        touched = [(group, ids) for record in records for group, ids in _touched(record)]
        while True:
            self._learn(touched)
            reason = self._native.change(list(records), now_ms)
            if not reason:
                return
            self._log.resolve(reason, held=True)

    def rows(self, group: int, order: int, start: Key, until: Key | None = None) -> Iterator[Row]:
        """Pending entries of a group in an order, from key `start` on and before `until`, read as they are asked for.

        What is changed meanwhile by the same caller, of the rows it has seen, does not disturb it.
        """
        at: Key | None = start
        while at is not None:
            found, at = self._some(group, order, at, until)
            yield from found

    def _some(self, group: int, order: int, start: Key, until: Key | None) -> tuple[list[Row], Key | None]:
        """Some rows from `start` on, and where to go on; None at the end."""
        if self._native.is_viewed(group):
            return self._read(lambda txn: self._some_of(txn, group, order, start, until))
        return self._some_of(None, group, order, start, until)

    def _some_of(
        self, txn: "lmdb.Transaction | None", group: int, order: int, start: Key, until: Key | None
    ) -> tuple[list[Row], Key | None]:
        chunk, following = None, None
        if txn is not None:
            _, chunk, raw = view_rows.chunk_at(txn, view_rows.prefix(self._uuid, order, group), _raw(start))
            following = None if raw is None else _key(raw)
        bound = until if following is None or (until is not None and until < following) else following
        rows = self._native.pending_rows(group, order, start, bound, chunk, _ROWS_AT_ONCE)
        if len(rows) >= _ROWS_AT_ONCE:
            return rows, key_beyond(rows[-1], order)
        return rows, None if bound is None or bound == until else bound

    def first(self, group: int, order: int, start: Key, until: Key | None = None) -> Row | None:
        """The first of them."""
        return next(self.rows(group, order, start, until), None)

    def last_id(self, group: int) -> EntryID | None:
        """The greatest pending ID of a group."""
        native, best = self._native, None
        if native.is_viewed(group):
            index = view_rows.prefix(self._uuid, BY_ID, group)
            top = 2**64 - 1
            key: bytes | None = _raw((0, top, top))
            while key is not None:
                found, chunk, _ = self._read(lambda txn, key=key: view_rows.chunk_at(txn, index, key))  # type: ignore[misc]  # the key is bound now
                if found is None:
                    break
                rows = native.pending_rows(group, BY_ID, _key(found), None, chunk, 1 << 62)
                if rows:
                    best = rows[-1][0]
                    break
                before = EntryID(_key(found)[1], _key(found)[2]).prev()
                key = None if before is None else _raw((0, before.ms, before.seq))
        newest = native.last_in_overlay(group)
        return max((each for each in (best, newest) if each is not None), default=None)


def _touched(record: Record) -> Iterator[tuple[int, list[EntryID]]]:
    """The pending entries that a record changes."""
    word, *rest = record
    if word == "end":
        yield rest[0], list(rest[1])
    elif word == "refuse":
        yield rest[0], [row[0] for row in rest[1]]
    elif word == "assign":
        yield rest[0], [row[0] for row in rest[3]]


def key_beyond(row: Row, order: int) -> Key:
    """The key right behind a row's, in an order."""
    entry_id, consumer, time_ms, _ = row
    first = (0, consumer, time_ms if consumer == 0 else time_ms | OWNED)[order]
    following = entry_id.next()
    return (first + 1, 0, 0) if following is None else (first, following.ms, following.seq)


def _drop_others(txn: "lmdb.Transaction", uuid: bytes, alive: set[int]) -> None:
    """Removes the rows of groups that are gone."""
    for order in _ORDERS:
        cursor, start = txn.cursor(), uuid + bytes([order])
        at = start
        while cursor.set_range(at) and bytes(cursor.key()).startswith(start):
            group = int.from_bytes(bytes(cursor.key())[17:21])
            if group not in alive:
                view_rows.delete_rows(txn, view_rows.prefix(uuid, order, group))
            at = view_rows.prefix(uuid, order, group + 1)


def _merge(txn: "lmdb.Transaction", index: bytes, order: int, changes: Any) -> None:
    """Brings a group's changes into one index, chunk by chunk."""
    while (key := changes.next_key(order)) is not None:
        found, chunk, following = view_rows.chunk_at(txn, index, key)
        merged = changes.merge(order, chunk, following)
        if found is not None:
            txn.delete(index + found)
        view_rows.put_chunks(txn, index, merged)
