"""A consumer group of a stream: Redis's verbs."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from diskstream._native import Delivery, EntryID, delivery
from diskstream.acknowledging import acknowledge_held
from diskstream.claiming import Claimed, nack
from diskstream.consumer import Consumer
from diskstream.counts import check_count
from diskstream.delivering import has_more
from diskstream.engine import positions, reader
from diskstream.engine.log import StreamLog
from diskstream.engine.pending import Row
from diskstream.engine.view_rows import BY_CONSUMER, BY_ID, BY_TIME, OWNED
from diskstream.errors import (
    XGROUP_NEEDS_STREAM,
    ArgumentError,
    GroupExistsError,
    NoGroupError,
    NoSuchStreamError,
    ReadOnlyError,
)
from diskstream.group_info import ConsumerInfo, GroupInfo, PendingEntry, PendingSummary
from diskstream.ids import MAX_ID, MIN_ID, IDLike, parse_end, parse_id, parse_start
from diskstream.membership import (
    as_member_name,
    consumer_number,
    group_number,
    locked,
    looked,
    make_consumer,
    make_group,
    now_ms,
)
from diskstream.references import ack_delete, check_ref
from diskstream.taking import finish
from diskstream.wire_delivering import WireGroup

if TYPE_CHECKING:
    from diskstream.stream import Stream

__all__ = ["Group", "check_entries_read", "create_group", "group_infos"]

_T = TypeVar("_T")
_AT_ONCE = 1 << 20


def _start(log: StreamLog, given: IDLike, *, loose: bool) -> EntryID:
    """Where a group begins: ``$`` is the stream's last ID."""
    if given in ("$", b"$"):
        return log.native.counters()[1]
    if loose and given in ("-", b"-"):
        return MIN_ID
    if loose and given in ("+", b"+"):
        return MAX_ID
    return parse_id(given)


def check_entries_read(given: int | None) -> int | None:
    """What is said of the entries that a group has read, checked; None where it is not known, which -1 says too.

    Raises:
        ArgumentError: it is less, or no number.
    """
    if given is None or given == -1:
        return None
    if check_count("ENTRIESREAD", given) < 0:
        raise ArgumentError("value for ENTRIESREAD must be positive or -1")
    return given


def _entries_read(log: StreamLog, given: int | None) -> int | None:
    checked = check_entries_read(given)
    return None if checked is None else min(checked, log.native.counters()[2])


def create_group(
    log: StreamLog, stream: bytes, name: bytes, start: IDLike, entries_read: int | None, *, strict: bool
) -> None:
    """Makes a group, under the append lock.

    Raises:
        GroupExistsError: there is one of that name, and `strict`.
    """
    if log.native.group_number(name) is not None:
        if strict:
            raise GroupExistsError(stream, name)
        return
    make_group(log, ("create", name, _start(log, start, loose=False), _entries_read(log, entries_read)))


def group_infos(log: StreamLog, only: int | None = None) -> list[GroupInfo]:
    """All groups of a stream, in byte order of their names; or `only` the one of this number."""
    (first, is_live), most = reader.first_known(log), None
    if not is_live:
        # What was trimmed from there on is nobody's lag. Whether a group stands before the oldest entry is not known:
        # if so, its lag is all there is, and else it is no more than that.
        first, most = first.next() or first, log.native.counters()[0]
    found = []
    for number, name, last, _, consumers, pending, refused in log.native.groups(only):
        read, lag = log.native.progress(number, first)
        if lag is not None and most is not None:
            lag = min(lag, most)
        found.append(GroupInfo(name, consumers, pending, last, read, lag, refused))
    return found


class Group(WireGroup):
    """A consumer group, by name: it may come and go."""

    def __init__(self, stream: "Stream", name: bytes) -> None:
        self.stream, self.name = stream, name

    def __repr__(self) -> str:
        return f"<diskstream.Group {self.name!r} of {self.stream.name!r}>"

    # --- the log behind the names -------------------------------------------------------------------------------------

    def _change(self, action: Callable[[StreamLog, int], _T], command: str = "") -> _T:
        """Changes the group; `command` is whose words it says where there is none.

        Raises:
            NoGroupError: there is no such group.
        """
        if self.stream._store.read_only:
            raise ReadOnlyError(str(self.stream._store.path))
        return self._found(lambda log: locked(log, lambda log: action(log, group_number(log, self))), command)

    def _look(self, look: Callable[[StreamLog, int], _T], command: str = "") -> _T:
        """Looks at the group.

        Raises:
            NoGroupError: there is no such group.
            CorruptionError: the log is damaged, so nobody knows what became of it.
        """

        def look_whole(log: StreamLog) -> _T:
            reader.refuse_damaged(log)  # first: what is behind the damage may have made the group
            return look(log, group_number(log, self))

        return self._found(lambda log: looked(log, look_whole), command)

    def _found(self, action: Callable[[StreamLog], _T], command: str) -> _T:
        try:
            found: list[_T] | None = self.stream._use(lambda log: [action(log)], None)
        except NoGroupError:
            raise NoGroupError(self.stream.name, self.name, command) from None
        if found is None:
            raise NoGroupError(self.stream.name, self.name, command, no_stream=True)
        return found[0]

    def exists(self) -> bool:
        """Whether there is such a group."""
        return self.stream._use(
            lambda log: looked(log, lambda log: log.native.group_number(self.name) is not None), False
        )

    def info(self) -> GroupInfo:
        """What XINFO GROUPS says of it.

        Raises:
            NoGroupError: there is no such group.
        """
        return self._look(lambda log, group: group_infos(log, group)[0], "XINFO")

    # --- the group itself ---------------------------------------------------------------------------------------------

    def set_id(self, start: IDLike, *, entries_read: int | None = None) -> None:
        """Sets the last delivered ID, as XGROUP SETID: what comes after it is new.

        Args:
            start: an ID, ``$`` for the stream's last one, ``-`` or ``+`` for the least or greatest possible.
            entries_read: how many entries there were up to there, where that is known.

        Raises:
            NoGroupError: there is no such group.
        """

        def move(log: StreamLog, group: int) -> None:
            record = ("position", group, _start(log, start, loose=True), _entries_read(log, entries_read))
            log.retry(lambda: log.native.change([record], now_ms(log)), held=True)
            if has_more(log, group):
                log.ctl.ring()  # a server's clients, who stand in no queue, are given what lies behind it

        self._change(move, "XGROUP")

    def advance(self, to: IDLike) -> bool:
        """Moves the last delivered ID forward to `to`, as if a consumer had been given and acknowledged all up to it.

        Returns:
            Whether it moved; it never moves back. For a reader that keeps its own position, as a Spark query does.

        Raises:
            NoGroupError: there is no such group.
        """
        target = parse_id(to)

        def move(log: StreamLog, group: int) -> bool:
            last = log.native.last_delivered(group)
            if last is not None and last >= target:
                return False
            following = target.next()
            # Of what a trim with ACKED took from the middle nothing is left to read, and no deleted ID tells of it.
            read = log.native.counters()[2] - (0 if following is None else positions.live_from(log, following))
            record = ("position", group, target, max(0, read))
            log.retry(lambda: log.native.change([record], now_ms(log)), held=True)
            return True

        return self._change(move)

    def destroy(self) -> bool:
        """Removes the group with its consumers and pending entries, as XGROUP DESTROY. Returns whether it was there.

        Raises:
            NoSuchStreamError: there is no stream.
        """

        def remove(log: StreamLog) -> bool:
            group = log.native.group_number(self.name)
            if group is None:
                return False
            log.retry(lambda: log.native.change([("destroy", group)], now_ms(log)), held=True)
            log.ctl.wake_queue(1 << 20, group)  # whoever waits for its entries learns that it is gone
            log.ctl.ring()  # a server's clients stand in no queue
            return True

        done: bool | None = self.stream._use(lambda log: locked(log, remove), None)
        if done is None:
            raise NoSuchStreamError(self.stream.name, words=XGROUP_NEEDS_STREAM)
        return done

    # --- consumers ----------------------------------------------------------------------------------------------------

    def consumer(self, name: str | bytes) -> Consumer:
        """The consumer of that name. It is made when it first reads or claims."""
        return Consumer(self, as_member_name("consumer", name))

    def create_consumer(self, name: str | bytes) -> bool:
        """Makes a consumer. Returns False where there is one of that name.

        Raises:
            NoGroupError: there is no such group.
        """
        key = as_member_name("consumer", name)
        return self._change(lambda log, group: make_consumer(log, group, key), "XGROUP")

    def delete_consumer(self, name: str | bytes) -> int:
        """Removes a consumer with its pending entries, which nobody can claim then. Returns how many these were.

        Raises:
            NoGroupError: there is no such group.
        """
        key = as_member_name("consumer", name)

        def remove(log: StreamLog, group: int) -> int:
            consumer = log.native.consumer_number(group, key)
            if consumer is None:
                return 0
            rows = log.pending.rows(group, BY_CONSUMER, (consumer, 0, 0), (consumer + 1, 0, 0))
            ids = [row[0] for row in rows]
            # A list too long for one frame goes first, in parts: cut short, the consumer is still there with the rest.
            for at in range(0, len(ids), _AT_ONCE):
                part = ("end", group, ids[at : at + _AT_ONCE])
                last = at + _AT_ONCE >= len(ids)
                records: list[tuple[object, ...]] = [part, ("dismiss", group, consumer)] if last else [part]
                log.pending.change(records, now_ms(log))
            if not ids:
                log.pending.change([("dismiss", group, consumer)], now_ms(log))
            return len(ids)

        return self._change(remove, "XGROUP")

    def consumers(self) -> list[ConsumerInfo]:
        """What XINFO CONSUMERS says, in byte order of names.

        Raises:
            NoGroupError: there is no such group.
        """

        def look(log: StreamLog, group: int) -> list[ConsumerInfo]:
            now = now_ms(log)
            return [
                ConsumerInfo(
                    name, pending, seen, active, max(0, now - seen), None if active is None else max(0, now - active)
                )
                for _, name, seen, active, pending in log.native.consumers(group)
            ]

        return self._look(look, "XINFO")

    # --- pending entries ----------------------------------------------------------------------------------------------

    def ack(self, *ids: IDLike) -> int:
        """Acknowledges entries, as XACK. Returns how many were pending; 0 where there is no such group."""
        wanted = [given if type(given) is EntryID else parse_id(given) for given in ids]
        done = finish(self, wanted)
        return acknowledge_held(self, [(wanted, None)])[0] if done is None else done

    def _ack_own(self, consumer: bytes, entry_id: EntryID) -> None:
        """Acknowledges an entry if that consumer still has it: not what was given back, or claimed by another."""
        if finish(self, [entry_id], consumer) is None:
            acknowledge_held(self, [([entry_id], consumer)])

    def ack_delete(self, *ids: IDLike, ref: str = "KEEPREF") -> list[int]:
        """Acknowledges entries and deletes them in the same step, as XACKDEL.

        Returns:
            For each ID -1 where it was not pending here, 1 where it is deleted, 2 where it is acknowledged only, since
            another group still needs it (`ref` ACKED).
        """
        wanted, how = [parse_id(given) for given in ids], check_ref(ref)

        def both(log: StreamLog) -> list[int]:
            group = log.native.group_number(self.name)
            return [-1] * len(wanted) if group is None else ack_delete(log, group, wanted, how)

        return self.stream._use(lambda log: locked(log, both), [-1] * len(wanted))

    def nack(self, *ids: IDLike, mode: str = "FAIL", retry_count: int | None = None, force: bool = False) -> int:
        """Gives entries back, as XNACK: nobody has them, and the next reader with `claim_ms` gets them first.

        Args:
            ids: the entries.
            mode: ``FAIL`` leaves the count of deliveries as it is, ``SILENT`` takes one back, ``FATAL`` makes it the
                greatest there is.
            retry_count: sets the count.
            force: also entries that are not pending, if they exist.

        Returns:
            How many were given back.

        Raises:
            NoGroupError: there is no such group.
        """
        wanted = [parse_id(given) for given in ids]
        return self._change(lambda log, group: nack(log, group, wanted, mode, retry_count, force=force))

    def pending(self) -> PendingSummary:
        """How much is pending, as the short form of XPENDING.

        Raises:
            NoGroupError: there is no such group.
        """

        def look(log: StreamLog, group: int) -> PendingSummary:
            consumers = {name: pending for _, name, _, _, pending in log.native.consumers(group) if pending}
            total = log.native.groups(group)[0][5]
            if not total:
                return PendingSummary(0, None, None, {})
            first = log.pending.first(group, BY_ID, (0, 0, 0))
            return PendingSummary(total, None if first is None else first[0], log.pending.last_id(group), consumers)

        return self._look(look)

    def pending_range(
        self,
        start: IDLike = "-",
        end: IDLike = "+",
        count: int = 10,
        *,
        consumer: str | bytes | None = None,
        idle_ms: int | None = None,
    ) -> list[PendingEntry]:
        """Pending entries from `start` to `end`, as the long form of XPENDING.

        Args:
            start, end: IDs, both included; ``(`` before one leaves it out.
            count: at most so many.
            consumer: only this consumer's.
            idle_ms: only those delivered at least so long ago, and those that nobody has.

        Raises:
            NoGroupError: there is no such group.
        """
        low, high = parse_start(start), parse_end(end)
        limit = check_count("count", count)
        least_idle = 0 if idle_ms is None else check_count("IDLE", idle_ms)
        key = None if consumer is None else as_member_name("consumer", consumer)

        def look(log: StreamLog, group: int) -> list[PendingEntry]:
            first = 0
            order = BY_ID
            if key is not None:
                number = log.native.consumer_number(group, key)
                if number is None:
                    return []
                first, order = number, BY_CONSUMER
            after = high.next()
            until = (first + 1, 0, 0) if after is None else (first, after.ms, after.seq)
            rows = log.pending.rows(group, order, (first, low.ms, low.seq), until)
            shown = self.shown(log, group, rows)
            idle = (row for row in shown if least_idle <= 0 or row.idle_ms == -1 or row.idle_ms >= least_idle)
            return list(islice(idle, max(0, limit)))

        return self._look(look)

    def ripens_in_s(self, min_idle_ms: int) -> float | None:
        """Seconds until the next pending entry may be claimed by age; 0 where one may now, None where none is owned.

        Those that a read has found to be gone are passed over.
        """

        def look(log: StreamLog, group: int) -> float | None:
            nobodys, owned = log.native.gone_before(group)
            row = log.pending.first(group, BY_TIME, nobodys, (OWNED, 0, 0))
            row = row or log.pending.first(group, BY_TIME, max(owned, (OWNED, 0, 0)))
            if row is None:
                return None
            # Entries that nobody has come first in this order, and may be claimed at once.
            return max(0.0, (row[2] + min_idle_ms - now_ms(log)) / 1000) if row[1] else 0.0

        return self._look(look)

    def has_undelivered(self) -> bool:
        """Whether there is an entry that no consumer was given, as of the last look at the stream."""

        def look(log: StreamLog) -> bool:
            number = log.native.group_number(self.name)
            return number is not None and has_more(log, number)

        return self.stream._use(look, False)

    def is_read_out(self) -> bool:
        """Whether the group is there, and each entry was given to a consumer, as of the last look at the stream."""

        def look(log: StreamLog) -> bool:
            number = log.native.group_number(self.name)
            return number is not None and not has_more(log, number)

        return self.stream._use(look, False)

    @staticmethod
    def shown(log: StreamLog, group: int, rows: Iterator[Row]) -> Iterator[PendingEntry]:
        """Rows of the pending entries list with the names of consumers."""
        now, native = now_ms(log), log.native
        for entry_id, consumer, time_ms, deliveries in rows:
            if consumer == 0:
                yield PendingEntry(entry_id, b"", -1, deliveries, 0)
            else:
                name = native.consumer_name(group, consumer) or b""  # of thousands, most own nothing that is shown
                yield PendingEntry(entry_id, name, max(0, now - time_ms), deliveries, time_ms)

    def _as_consumer(self, name: bytes, action: Callable[[StreamLog, int, int], _T]) -> _T:
        """Does something in a consumer's name, which is made where there is none."""
        return self._change(lambda log, group: action(log, group, consumer_number(log, group, name)))

    def _deliveries(self, claimed: Sequence[Claimed]) -> list[Delivery]:
        text = self.stream._store.options.decode_responses
        return [
            delivery(entry, entry_id, self, idle, deliveries, text) for entry_id, entry, idle, deliveries in claimed
        ]
