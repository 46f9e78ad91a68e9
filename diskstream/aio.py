"""The same for asyncio: `Store` and `Stream` whose waiting calls are awaited.

::

    async with await diskstream.aio.open("data") as store:
        race = store.stream("race:france")
        await race.add({"rider": "Castilla"})
        async for entry in race.tail("0"):
            ...

Appends and looks at what is in memory cost microseconds and are made at once, except where they wait for a flush
(``fsync="always"``, ``durable=True``): what many tasks `Stream.add` or `Group.ack` then shares flushes. What reads a
disk runs in a thread; all reads of a store that wait have one more, which watches its streams, and all consumers that
wait another one. What is not here (columns, tables, scans, the audit) is a method of ``store.sync_store`` and its
streams, for `asyncio.to_thread`.
"""

import asyncio
import functools
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar, Unpack, overload
from weakref import WeakValueDictionary

from diskstream import store as _store
from diskstream._native import Delivery, Entry, EntryID
from diskstream.aio_groups import Consumer, Group, as_of_asyncio
from diskstream.aio_opening import opened
from diskstream.aio_readers import Readers
from diskstream.aio_rows import as_of_now, rows_as_of_now
from diskstream.aio_sharing import Sharing
from diskstream.aio_threads import in_thread
from diskstream.aio_waits import waited
from diskstream.commits import AddOptions, Commit, EntryOptions
from diskstream.counts import block_of
from diskstream.engine.names import as_name
from diskstream.errors import DiskstreamError
from diskstream.group_calls import begin_call
from diskstream.group_info import FullInfo, GroupInfo
from diskstream.ids import IDLike
from diskstream.info import StreamInfo, StreamSummary
from diskstream.options import OpenOptions
from diskstream.reading import Name, positions_of
from diskstream.retention_rule import RetentionRule
from diskstream.stream import Fields
from diskstream.stream import Stream as _Stream
from diskstream.wanted import Wanted

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Consumer", "Group", "Store", "Stream", "open"]

_T = TypeVar("_T")
# One blocked read is cut into waits of this length, so that a task that is cancelled leaves no thread behind for long.
_SLICE_S = 0.25
_PAGE = 1000


async def open(  # as `diskstream.open`
    path: str | os.PathLike[str], *, read_only: bool = False, create: bool = True, **options: Unpack[OpenOptions]
) -> "Store":
    """Opens the store at `path`: see `diskstream.open`. What a cancelled task was opening is closed again."""
    return Store(await opened(lambda: _store.open(path, read_only=read_only, create=create, **options)))


class Store:
    """An open store, for asyncio. `sync_store` is the one behind it."""

    def __init__(self, sync_store: _store.Store) -> None:
        self.sync_store = sync_store
        self._readers = Readers(sync_store)
        self._sharing: WeakValueDictionary[bytes, Sharing] = WeakValueDictionary()

    def __repr__(self) -> str:
        return as_of_asyncio(self.sync_store)

    async def __aenter__(self) -> Self:
        self.sync_store.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self.sync_store.closed

    async def close(self) -> None:
        """Makes everything durable and lets go of the directory: also where the task that waits for it is cancelled."""
        try:
            await waited(self.sync_store.close, must_be_done=True)  # a thread of `to_thread` may never begin it then
        finally:
            self._readers.interrupt()

    def stream(self, name: str | bytes) -> "Stream":
        """The stream of that name."""
        stream = self.sync_store.stream(name)
        sharing = self._sharing.get(stream.name)
        if sharing is None:
            sharing = self._sharing[stream.name] = Sharing(stream)
        return Stream(stream, sharing, self._readers)

    async def streams(self, pattern: str | bytes | None = None, *, unfinished: bool = False) -> list[bytes]:
        """The names of all streams: see `diskstream.Store.streams`."""
        return await asyncio.to_thread(lambda: self.sync_store.streams(pattern, unfinished=unfinished))

    async def exists(self, name: str | bytes) -> bool:
        """Whether there is a stream of that name."""
        return await asyncio.to_thread(self.sync_store.exists, name)

    async def delete(self, name: str | bytes) -> bool:
        """Removes a stream. Returns whether there was one."""
        return await asyncio.to_thread(self.sync_store.delete, name)

    async def rename(self, old: str | bytes, new: str | bytes, *, replace: bool = True) -> None:
        """Gives a stream another name: see `diskstream.Store.rename`."""
        await asyncio.to_thread(lambda: self.sync_store.rename(old, new, replace=replace))

    async def read(
        self,
        positions: Mapping[Name, IDLike],
        *,
        count: int | None = None,
        max_count: int | None = None,
        max_bytes: int | None = None,
        block: float | None = None,
    ) -> dict[bytes, list[Entry]]:
        """Entries behind a position in each of several streams: see `diskstream.Store.read`."""
        fixed = {as_name(name): self._fix(name, after) for name, after in positions_of(positions, block)}
        read = functools.partial(self.sync_store.read, count=count, max_count=max_count, max_bytes=max_bytes)
        return await self._readers.read(fixed.keys(), lambda names: read({name: fixed[name] for name in names}), block)

    async def read_group(
        self,
        group: str | bytes,
        consumer: str | bytes,
        positions: Mapping[Name, IDLike],
        *,
        count: int | None = None,
        max_count: int | None = None,
        max_bytes: int | None = None,
        block: float | None = None,
        noack: bool = False,
        claim_ms: int | None = None,
    ) -> dict[bytes, list[Delivery]]:
        """Reads as a consumer: see `diskstream.Store.read_group`.

        A read that is cancelled while it waits may have been given entries all the same: they are pending then.
        """
        wanted = Wanted(count, block, noack, claim_ms, max_count, max_bytes)
        return await self._readers.read_group(begin_call(self.sync_store, group, consumer, positions, wanted))

    def _fix(self, name: str | bytes, after: IDLike) -> IDLike:
        """``$`` is the end as of the call, not of each slice of its wait."""
        return self.sync_store.stream(name).last_id() if after in ("$", b"$") else after

    async def sync(self) -> None:
        """Returns once all that was appended so far is durable."""
        await asyncio.to_thread(self.sync_store.sync)

    lease = in_thread("sync_store", _store.Store.lease)

    seal = in_thread("sync_store", _store.Store.seal)

    compact = in_thread("sync_store", _store.Store.compact)

    verify = in_thread("sync_store", _store.Store.verify)


async def _blocking(read: Callable[[float | None], _T], block: float | None) -> _T:
    """What may wait, in slices, so that cancelling it takes effect."""
    if block is None:
        return await asyncio.to_thread(read, None)
    loop = asyncio.get_running_loop()
    until = None if block == 0 else loop.time() + block
    while True:
        left = _SLICE_S if until is None else min(_SLICE_S, until - loop.time())
        found = await waited(functools.partial(read, left if left > 0 else None))
        if found or left <= 0:
            return found


class Stream:
    """A stream, for asyncio. `sync_stream` is the one behind it."""

    def __init__(self, sync_stream: _Stream, sharing: Sharing | None = None, readers: Readers | None = None) -> None:
        self.sync_stream = sync_stream
        self._sharing = sharing or Sharing(sync_stream)
        self._readers = readers or Readers(sync_stream._store)

    def __repr__(self) -> str:
        return as_of_asyncio(self.sync_stream)

    @property
    def name(self) -> bytes:
        """The stream's name."""
        return self.sync_stream.name

    async def _append(self, append: Callable[[], _T], *, durable: bool) -> _T:
        if durable or self.sync_stream.waits_for_disk:
            return await asyncio.to_thread(append)
        return append()

    @overload
    async def add(
        self, fields: Fields, id: IDLike = "*", *, nomkstream: Literal[False] = False, **options: Unpack[EntryOptions]
    ) -> EntryID: ...

    @overload
    async def add(
        self, fields: Fields, id: IDLike = "*", *, nomkstream: bool, **options: Unpack[EntryOptions]
    ) -> EntryID | None: ...

    async def add(
        self, fields: Fields, id: IDLike = "*", *, nomkstream: bool = False, **options: Unpack[EntryOptions]
    ) -> EntryID | None:
        """Adds one entry: see `diskstream.Stream.add`.

        Where it waits for the disk, and the ID is automatic, what tasks add meanwhile shares the next flush. An add
        that is cancelled while it waits for that to begin is not made; later it may have been made all the same.
        """
        durable = options.get("durable", False)
        waits = durable or self.sync_stream.waits_for_disk
        if waits and id == "*" and not nomkstream and not options.keys() - {"durable"}:
            return await self._sharing.add(fields)
        given = as_of_now(fields) if waits else fields
        return await self._append(
            lambda: self.sync_stream.add(given, id, nomkstream=nomkstream, **options), durable=durable
        )

    @overload
    async def add_many(
        self, rows: Iterable[Fields], *, commit: None = None, **options: Unpack[AddOptions]
    ) -> list[EntryID]: ...

    @overload
    async def add_many(
        self, rows: Iterable[Fields], *, commit: Commit | None, **options: Unpack[AddOptions]
    ) -> list[EntryID] | None: ...

    async def add_many(
        self, rows: Iterable[Fields], *, commit: Commit | None = None, **options: Unpack[AddOptions]
    ) -> list[EntryID] | None:
        """Adds entries as one frame: see `diskstream.Stream.add_many`."""
        durable = bool(options.get("durable"))
        given = rows_as_of_now(rows) if durable or self.sync_stream.waits_for_disk else rows
        return await self._append(lambda: self.sync_stream.add_many(given, commit=commit, **options), durable=durable)

    async def add_arrow(
        self, batch: "pa.RecordBatch", *, ids: str = "auto", commit: Commit | None = None, durable: bool = False
    ) -> tuple[EntryID, EntryID] | None:
        """Adds the rows of an Arrow record batch: see `diskstream.Stream.add_arrow`."""
        add = functools.partial(self.sync_stream.add_arrow, batch, ids=ids, commit=commit, durable=durable)
        return await asyncio.to_thread(add)

    async def committed(self, writer: bytes) -> tuple[int, int] | None:
        """Version and part that a writer committed last: see `diskstream.Stream.committed`."""
        return await asyncio.to_thread(self.sync_stream.committed, writer)

    async def note_commit(self, commit: Commit, *, durable: bool = False) -> bool:
        """Remembers a commit without any entry: see `diskstream.Stream.note_commit`."""
        return await asyncio.to_thread(functools.partial(self.sync_stream.note_commit, commit, durable=durable))

    async def range(self, start: IDLike = "-", end: IDLike = "+", count: int | None = None) -> AsyncIterator[Entry]:
        """Entries from `start` to `end`: see `diskstream.Stream.range`."""
        async for entry in _pages(self.sync_stream.range(start, end, count)):
            yield entry

    async def revrange(self, start: IDLike = "+", end: IDLike = "-", count: int | None = None) -> AsyncIterator[Entry]:
        """The same from the newest to the oldest."""
        async for entry in _pages(self.sync_stream.revrange(start, end, count)):
            yield entry

    async def get(self, id: IDLike) -> Entry | None:
        """The entry with this ID, or None."""
        return await asyncio.to_thread(self.sync_stream.get, id)

    async def read(
        self, after: IDLike = "$", *, count: int | None = None, max_bytes: int | None = None, block: float | None = None
    ) -> list[Entry]:
        """Entries behind `after`: see `diskstream.Store.read`."""
        fixed = self.sync_stream.last_id() if after in ("$", b"$") else after
        read = functools.partial(self.sync_stream.read, fixed, count=count, max_bytes=max_bytes)
        return await self._readers.read([self.name], lambda _: read(), block)

    def tail(self, after: IDLike = "$", *, block: float | None = None) -> AsyncIterator[Entry]:
        """Entries behind `after` as they come: see `diskstream.Stream.tail`."""
        return self._tail(self.sync_stream.last_id() if after in ("$", b"$") else after, block)

    async def _tail(self, position: IDLike, block: float | None) -> AsyncIterator[Entry]:
        while entries := await self.read(position, count=_PAGE, block=0 if block is None else block):
            for entry in entries:
                yield entry
            position = entries[-1].id

    exists = in_thread("sync_stream", _Stream.exists)

    last_id = in_thread("sync_stream", _Stream.last_id)

    durable_id = in_thread("sync_stream", _Stream.durable_id)

    async def length(self) -> int:
        """Live entries."""
        return await asyncio.to_thread(len, self.sync_stream)

    async def delete(self, *ids: IDLike) -> int:
        """Deletes entries. Returns how many there were."""
        return await asyncio.to_thread(self.sync_stream.delete, *ids)

    async def delete_entries(self, *ids: IDLike, ref: str = "KEEPREF") -> list[int]:
        """Deletes as XDELEX does: see `diskstream.Stream.delete_entries`."""
        return await asyncio.to_thread(lambda: self.sync_stream.delete_entries(*ids, ref=ref))

    async def count(self, start: IDLike = "-", end: IDLike = "+") -> int:
        """Live entries of a range."""
        return await asyncio.to_thread(self.sync_stream.count, start, end)

    digest = in_thread("sync_stream", _Stream.digest)

    trim = in_thread("sync_stream", _Stream.trim)

    set_id = in_thread("sync_stream", _Stream.set_id)

    configure_idempotence = in_thread("sync_stream", _Stream.configure_idempotence)

    record_idempotent = in_thread("sync_stream", _Stream.record_idempotent)

    async def groups(self) -> list[GroupInfo]:
        """What XINFO GROUPS says."""
        return await asyncio.to_thread(self.sync_stream.groups)

    async def info_full(self, count: int = 10) -> FullInfo:
        """What XINFO STREAM FULL says."""
        return await asyncio.to_thread(self.sync_stream.info_full, count)

    async def group(
        self, name: str | bytes, *, start: IDLike = "$", create: bool | str = True, entries_read: int | None = None
    ) -> Group:
        """The consumer group of that name: see `diskstream.Stream.group`."""
        found = functools.partial(self.sync_stream.group, name, start=start, create=create, entries_read=entries_read)
        return Group(await asyncio.to_thread(found), self._sharing, self._readers)

    async def retention(self) -> RetentionRule | None:
        """The rule by which the stream is kept: see `diskstream.Stream.retention`."""
        return await asyncio.to_thread(lambda: self.sync_stream.retention)

    preview_retention = in_thread("sync_stream", _Stream.preview_retention)

    set_retention = in_thread("sync_stream", _Stream.set_retention)

    async def clear_retention(self) -> bool:
        """Takes it away: see `diskstream.Stream.clear_retention`."""
        return await asyncio.to_thread(self.sync_stream.clear_retention)

    apply_retention = in_thread("sync_stream", _Stream.apply_retention)

    async def info(self) -> StreamInfo:
        """What XINFO STREAM says, and what is on disk."""
        return await asyncio.to_thread(self.sync_stream.info)

    async def summary(self) -> StreamSummary:
        """What XINFO STREAM says."""
        return await asyncio.to_thread(self.sync_stream.summary)

    async def wait_durable(
        self,
        id: IDLike,
        timeout: float | None = None,  # noqa: ASYNC109  # the same signature as the other Stream
    ) -> bool:
        """Returns once the entry with this ID is durable."""
        # To the other one None is for ever, and 0 not at all.
        return await _blocking(lambda wait: self.sync_stream.wait_durable(id, wait or 0), block_of(timeout))

    seal = in_thread("sync_stream", _Stream.seal)

    compact = in_thread("sync_stream", _Stream.compact)


async def _pages(entries: Iterator[Entry]) -> AsyncIterator[Entry]:
    fault: DiskstreamError | None = None

    def page() -> list[Entry]:
        nonlocal fault
        found: list[Entry] = []
        try:
            found.extend(itertools.islice(entries, _PAGE))  # keeps what came before an error
        except DiskstreamError as error:
            fault = error
        return found

    while found := await asyncio.to_thread(page):
        for entry in found:
            yield entry
        if fault is not None:
            break
    if fault is not None:
        raise fault
