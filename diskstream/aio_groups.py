"""Consumer groups for asyncio: what waits, or may read a disk, runs in a thread; of acknowledgements many in one."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from diskstream._native import Delivery
from diskstream.aio_readers import Readers
from diskstream.aio_sharing import Sharing
from diskstream.aio_threads import in_thread
from diskstream.consumer import Consumer as _Consumer
from diskstream.group import Group as _Group
from diskstream.group_calls import begin_call
from diskstream.group_info import AutoClaim, AutoClaimIDs, ConsumerInfo, GroupInfo, PendingSummary
from diskstream.ids import MIN_ID, IDLike
from diskstream.wanted import Wanted

__all__ = ["Consumer", "Group", "as_of_asyncio"]


def as_of_asyncio(behind: object) -> str:
    """How what stands before a store, a stream, a group or a consumer is shown: as that one, but of this module."""
    return repr(behind).replace("<diskstream.", "<diskstream.aio.", 1)


class Group:
    """A consumer group, for asyncio. `sync_group` is the one behind it."""

    def __init__(self, sync_group: _Group, sharing: Sharing | None = None, readers: Readers | None = None) -> None:
        self.sync_group = sync_group
        self._sharing = sharing or Sharing(sync_group.stream)
        self._readers = readers or Readers(sync_group.stream._store)

    def __repr__(self) -> str:
        return as_of_asyncio(self.sync_group)

    @property
    def name(self) -> bytes:
        """The group's name."""
        return self.sync_group.name

    def consumer(self, name: str | bytes) -> "Consumer":
        """The consumer of that name."""
        return Consumer(self.sync_group.consumer(name), self._sharing, self._readers)

    async def exists(self) -> bool:
        """Whether it is there."""
        return await asyncio.to_thread(self.sync_group.exists)

    async def create_consumer(self, name: str | bytes) -> bool:
        """Makes a consumer. Returns whether there was none."""
        return await asyncio.to_thread(self.sync_group.create_consumer, name)

    async def info(self) -> GroupInfo:
        """What XINFO GROUPS says of it."""
        return await asyncio.to_thread(self.sync_group.info)

    async def consumers(self) -> list[ConsumerInfo]:
        """What XINFO CONSUMERS says."""
        return await asyncio.to_thread(self.sync_group.consumers)

    async def set_id(self, start: IDLike, *, entries_read: int | None = None) -> None:
        """Sets the last delivered ID: see `diskstream.Group.set_id`."""
        await asyncio.to_thread(lambda: self.sync_group.set_id(start, entries_read=entries_read))

    advance = in_thread("sync_group", _Group.advance)

    async def destroy(self) -> bool:
        """Removes the group. Returns whether it was there."""
        return await asyncio.to_thread(self.sync_group.destroy)

    async def delete_consumer(self, name: str | bytes) -> int:
        """Removes a consumer. Returns how many pending entries it had."""
        return await asyncio.to_thread(self.sync_group.delete_consumer, name)

    async def ack(self, *ids: IDLike) -> int:
        """Acknowledges entries. Returns how many were pending.

        At once, unless it must wait for a flush or look at a disk: what tasks acknowledge meanwhile shares a thread
        then, and the flush. What is cancelled may have been acknowledged all the same.
        """
        return await self._sharing.ack(self.sync_group.name, ids)

    async def ack_delete(self, *ids: IDLike, ref: str = "KEEPREF") -> list[int]:
        """Acknowledges and deletes: see `diskstream.Group.ack_delete`."""
        return await asyncio.to_thread(lambda: self.sync_group.ack_delete(*ids, ref=ref))

    nack = in_thread("sync_group", _Group.nack)

    async def pending(self) -> PendingSummary:
        """How much is pending."""
        return await asyncio.to_thread(self.sync_group.pending)

    pending_range = in_thread("sync_group", _Group.pending_range)


class Consumer:
    """A consumer, for asyncio. `sync_consumer` is the one behind it."""

    def __init__(
        self, sync_consumer: _Consumer, sharing: Sharing | None = None, readers: Readers | None = None
    ) -> None:
        self.sync_consumer = sync_consumer
        self._sharing = sharing or Sharing(sync_consumer.group.stream)
        self._readers = readers or Readers(sync_consumer.group.stream._store)

    def __repr__(self) -> str:
        return as_of_asyncio(self.sync_consumer)

    @property
    def name(self) -> bytes:
        """The consumer's name."""
        return self.sync_consumer.name

    async def read(
        self,
        after: IDLike = ">",
        *,
        count: int | None = None,
        block: float | None = None,
        noack: bool = False,
        claim_ms: int | None = None,
        max_count: int | None = None,
        max_bytes: int | None = None,
    ) -> list[Delivery]:
        """Reads: see `diskstream.Consumer.read`.

        A read that is cancelled while it waits may have been given entries all the same: they are pending then.
        """
        group, wanted = self.sync_consumer.group, Wanted(count, block, noack, claim_ms, max_count, max_bytes)
        stream = group.stream
        call = begin_call(stream._store, group.name, self.sync_consumer.name, {stream.name: after}, wanted)
        return (await self._readers.read_group(call)).get(stream.name, [])

    claim = in_thread("sync_consumer", _Consumer.claim)

    async def autoclaim(
        self, min_idle_ms: int, start: IDLike = "-", *, count: int = 100, max_bytes: int | None = None
    ) -> AutoClaim:
        """Takes over what is idle: see `diskstream.Consumer.autoclaim`."""
        claim = partial(self.sync_consumer.autoclaim, min_idle_ms, start, count=count, max_bytes=max_bytes)
        return await asyncio.to_thread(claim)

    claim_ids = in_thread("sync_consumer", _Consumer.claim_ids)

    async def autoclaim_ids(self, min_idle_ms: int, start: IDLike = "-", *, count: int = 100) -> AutoClaimIDs:
        """The same for the IDs alone: see `diskstream.Consumer.autoclaim_ids`."""
        return await asyncio.to_thread(lambda: self.sync_consumer.autoclaim_ids(min_idle_ms, start, count=count))

    nack = in_thread("sync_consumer", _Consumer.nack)

    pending_range = in_thread("sync_consumer", _Consumer.pending_range)

    async def ack(self, *ids: IDLike) -> int:
        """Acknowledges entries of the group: see `Group.ack`."""
        return await self._sharing.ack(self.sync_consumer.group.name, ids)

    async def entries(
        self, *, ack: bool = False, count: int = 100, block: float | None = 0, claim_ms: int | None = None
    ) -> AsyncIterator[Delivery]:
        """Entries for a worker: see `diskstream.Consumer.entries`."""
        Wanted(count, block, False, claim_ms, None, None)  # what is wrong is told now, not behind a long backlog
        position: IDLike = MIN_ID
        while True:
            if position == ">":
                found = await self.read(">", count=count, block=block, claim_ms=claim_ms)
                if not found:
                    return
            else:
                found = await self.read(position, count=count)
            for entry in found:
                if not entry.gone:
                    yield entry
                if ack:
                    await self._sharing.ack(self.sync_consumer.group.name, (entry.id,), self.name)
            if position != ">":
                position = found[-1].id if found else ">"

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self.entries()
