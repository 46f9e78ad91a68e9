"""A consumer of a group: reading, claiming, and the iterator for workers."""

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from diskstream._native import Delivery, EntryID, Turn
from diskstream.claiming import Claimed, ClaimOptions, autoclaim, claim
from diskstream.counts import check_block, check_count
from diskstream.ending_signals import ending_at
from diskstream.engine.flags import Flag
from diskstream.engine.log import StreamLog
from diskstream.errors import ArgumentError
from diskstream.group_calls import GroupCall
from diskstream.group_info import AutoClaim, AutoClaimIDs, PendingEntry
from diskstream.ids import MIN_ID, IDLike, parse_id, parse_start
from diskstream.membership import seen
from diskstream.taking import take
from diskstream.wanted import Wanted

if TYPE_CHECKING:
    from diskstream.group import Group

__all__ = ["Consumer"]

_MAX_CLAIM_COUNT = 2**63 // 24  # Redis's own limit: what it would allocate for them


class Consumer:
    """A consumer of a group, by name. It is made when it first reads or claims."""

    def __init__(self, group: "Group", name: bytes) -> None:
        self.group, self.name = group, name
        self._stopped = Flag()  # a handler may be called within another one

    def __repr__(self) -> str:
        return f"<diskstream.Consumer {self.name!r} of {self.group.name!r} of {self.group.stream.name!r}>"

    def read(
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
        """Reads, as XREADGROUP with one stream; see `Store.read_group` for the arguments.

        Args:
            after: ``>`` for entries that no consumer of the group was given yet; an ID for this consumer's own pending
                entries behind it.

        Raises:
            NoGroupError: there is no such group.
        """
        if type(after) is str and after == ">" and not noack and claim_ms is max_count is max_bytes is None:
            return self._new(count, block)
        return self._read(after, Wanted(count, block, noack, claim_ms, max_count, max_bytes))

    def _new(self, count: int | None, block: float | None, stop: threading.Event | None = None) -> list[Delivery]:
        """New entries, the short way where it can be gone."""
        began = time.monotonic()
        entries, turn = take(self.group, self.name, count, block, stop)
        if entries is not None:
            return entries
        check_block(block)
        if block:
            block = max(block - (time.monotonic() - began), 1e-6)  # 0 would be for ever
        return self._read(">", Wanted(count, block, False, None, None, None, stop), turn)

    def _read(self, after: IDLike, wanted: Wanted, turn: Turn | None = None) -> list[Delivery]:
        stream = self.group.stream
        owners, looked = {stream.name: (self.group, after)}, turn is not None  # who stands in the queue has looked
        with GroupCall(stream._store, owners, self.name, wanted, turn, looked=looked) as call:
            return call.run().get(stream.name, [])

    # --- claiming -----------------------------------------------------------------------------------------------------

    def claim(
        self,
        *ids: IDLike,
        min_idle_ms: int = 0,
        idle_ms: int | None = None,
        time_ms: int | None = None,
        retry_count: int | None = None,
        force: bool = False,
        last_id: IDLike | None = None,
    ) -> list[Delivery]:
        """Takes over pending entries of others, as XCLAIM.

        Args:
            ids: the entries.
            min_idle_ms: only those delivered at least so long ago.
            idle_ms: they count as delivered so long ago; at once where None.
            time_ms: they count as delivered at this time, in ms since 1970.
            retry_count: they count as delivered so often; once more than before where None.
            force: also entries that are not pending, if they exist.
            last_id: the group's last delivered ID becomes this, if it is greater.

        Returns:
            What was claimed, in the order of `ids`. Of pending entries that are gone from the stream nothing is left.

        Raises:
            NoGroupError: there is no such group.
        """
        wanted = ClaimOptions(
            min_idle_ms=min_idle_ms,
            idle_ms=idle_ms,
            time_ms=time_ms,
            retry_count=retry_count,
            force=force,
            last_id=None if last_id is None else parse_id(last_id),
        )
        return self.group._deliveries(self._claim(ids, wanted))

    def claim_ids(
        self,
        *ids: IDLike,
        min_idle_ms: int = 0,
        idle_ms: int | None = None,
        time_ms: int | None = None,
        retry_count: int | None = None,
        force: bool = False,
        last_id: IDLike | None = None,
    ) -> list[EntryID]:
        """The same with JUSTID, see `Consumer.claim`: returns IDs, and does not count as a delivery."""
        wanted = ClaimOptions(
            min_idle_ms=min_idle_ms,
            idle_ms=idle_ms,
            time_ms=time_ms,
            retry_count=retry_count,
            force=force,
            last_id=None if last_id is None else parse_id(last_id),
            count_up=False,
        )
        return [entry_id for entry_id, *_ in self._claim(ids, wanted)]

    def _claim(self, ids: tuple[IDLike, ...], options: ClaimOptions) -> list[Claimed]:
        wanted = [parse_id(given) for given in ids]

        def take(log: StreamLog, group: int, consumer: int) -> list[Claimed]:
            seen(log, group, consumer)
            return claim(log, group, consumer, wanted, options)

        return self.group._as_consumer(self.name, take)

    def autoclaim(
        self, min_idle_ms: int, start: IDLike = "-", *, count: int = 100, max_bytes: int | None = None
    ) -> AutoClaim:
        """Goes through the group's pending entries from `start` on and takes over what is idle, as XAUTOCLAIM.

        With `max_bytes` it ends before an entry with which names and values would be more, but for the first.

        Raises:
            ArgumentError: an argument is out of range, in the words of Redis where it has it.
            NoGroupError: there is no such group.
        """
        cursor, claimed, deleted = self._autoclaim(min_idle_ms, start, count, max_bytes, count_up=True)
        return AutoClaim(cursor, self.group._deliveries(claimed), deleted)

    def autoclaim_ids(self, min_idle_ms: int, start: IDLike = "-", *, count: int = 100) -> AutoClaimIDs:
        """The same with JUSTID, see `Consumer.autoclaim`: gives IDs, and does not count as a delivery."""
        cursor, claimed, deleted = self._autoclaim(min_idle_ms, start, count, None, count_up=False)
        return AutoClaimIDs(cursor, [entry_id for entry_id, *_ in claimed], deleted)

    def _autoclaim(
        self, min_idle_ms: int, start: IDLike, count: int, max_bytes: int | None, *, count_up: bool
    ) -> tuple[EntryID, list[Claimed], list[EntryID]]:
        low = parse_start(start)
        if check_count("COUNT", count) <= 0:
            raise ArgumentError("COUNT must be > 0")
        if count > _MAX_CLAIM_COUNT:
            raise ArgumentError("Insufficient memory, failed allocating transient memory, COUNT too high.")
        if max_bytes is not None and check_count("max_bytes", max_bytes) <= 0:
            raise ArgumentError("max_bytes must be > 0")
        options = ClaimOptions(
            min_idle_ms=min_idle_ms, count_up=count_up, count=count, max_bytes=max_bytes, command="XAUTOCLAIM"
        )

        def take(log: StreamLog, group: int, consumer: int) -> tuple[EntryID, list[Claimed], list[EntryID]]:
            seen(log, group, consumer)
            return autoclaim(log, group, consumer, low, options)

        return self.group._as_consumer(self.name, take)

    # --- its pending entries ------------------------------------------------------------------------------------------

    def ack(self, *ids: IDLike) -> int:
        """Acknowledges entries of the group, whosever they are. Returns how many were pending."""
        return self.group.ack(*ids)

    def nack(self, *ids: IDLike, mode: str = "FAIL", retry_count: int | None = None, force: bool = False) -> int:
        """Gives entries back: see `Group.nack`."""
        return self.group.nack(*ids, mode=mode, retry_count=retry_count, force=force)

    def pending_range(
        self, start: IDLike = "-", end: IDLike = "+", count: int = 10, *, idle_ms: int | None = None
    ) -> list[PendingEntry]:
        """This consumer's pending entries: see `Group.pending_range`."""
        return self.group.pending_range(start, end, count, consumer=self.name, idle_ms=idle_ms)

    # --- for workers --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends this consumer's iterators after the entry under way; from a signal handler, or another thread.

        Those that it begins later end at once: to go on, take the consumer anew, by `Group.consumer`.
        """
        self._stopped.set()

    def entries(
        self,
        *,
        ack: bool = False,
        count: int = 100,
        block: float | None = 0,
        claim_ms: int | None = None,
        signals: tuple[int, ...] = (),
    ) -> Iterator[Delivery]:
        """Entries for a worker: first its own backlog, then new ones as they come.

        Args:
            ack: acknowledge each entry when the next one is asked for, that is, when the loop's body came to its end;
                not what it gave back, or what another has claimed meanwhile.
            count: entries fetched at a time.
            block: end when nothing came for so many seconds; 0 waits for ever, None ends when there is nothing.
            claim_ms: also take over what others have had for so long, or have given back.
            signals: end at one of these signals after the entry under way, as ``(signal.SIGTERM,)``; main thread only.

        Entries that are gone from the stream are passed over, and acknowledged where `ack` is asked for.

        Raises:
            ArgumentError: an argument is out of range; there is no such signal, it cannot be handled, or not from this
                thread.
            NoGroupError: there is no such group; also where it is removed meanwhile.
        """
        Wanted(count, block, False, claim_ms, None, None)  # what is wrong is told now, not behind a long backlog
        with ending_at(signals, self.stop):
            yield from self._backlog(ack=ack, count=count)
            while not self._stopped.is_set():
                entries = self._wait(count, block, claim_ms)
                if not entries:
                    return
                yield from self._each(entries, ack=ack)

    def __iter__(self) -> Iterator[Delivery]:
        return self.entries()

    def _backlog(self, *, ack: bool, count: int) -> Iterator[Delivery]:
        position: IDLike = MIN_ID
        while not self._stopped.is_set():
            entries = self.read(position, count=count)
            if not entries:
                return
            yield from self._each(entries, ack=ack)
            position = entries[-1].id

    def _wait(self, count: int, block: float | None, claim_ms: int | None) -> list[Delivery]:
        """New entries; `stop` ends the wait within a moment."""
        if claim_ms is None:
            return self._new(count, block, self._stopped)
        return self._read(">", Wanted(count, block, False, claim_ms, None, None, self._stopped))

    def _each(self, entries: list[Delivery], *, ack: bool) -> Iterator[Delivery]:
        for entry in entries:
            if self._stopped.is_set():
                return
            if not entry.gone:
                yield entry
            if ack:
                self.group._ack_own(self.name, entry.id)
