"""All of a stream's state at once: to copy a stream, within a store or into another, and to dump and restore it.

Carried are the entries with their IDs, the last ID, entries added, the greatest deleted ID, the windows of idempotent
appends, the groups with their last delivered ID, entries read, consumers (seen and active time) and pending entries
(owner, time and number of deliveries; those that nobody has, in the order in which they were given back), and, last of
all, the rule of retention. Left behind are the messages that idempotent producers have sent, what writers have
committed (`add_many(commit=...)`), and the audit. Pending entries are in memory meanwhile, entries are not. What others
write to the source then is in the copy or not.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from diskstream import idempotence
from diskstream._native import Entry, EntryID
from diskstream.engine.log import StreamLog
from diskstream.engine.moved import cut_short
from diskstream.engine.names import UNFINISHED, is_unfinished
from diskstream.engine.view_rows import BY_ID
from diskstream.errors import GroupExistsError, NoSuchStreamError
from diskstream.ids import MAX_ID, MIN_ID
from diskstream.membership import locked, looked, make_consumer, make_group, now_ms
from diskstream.stream import Stream

__all__ = [
    "UNFINISHED",
    "ConsumerState",
    "GroupState",
    "PendingState",
    "StreamState",
    "add_entries",
    "check_whole",
    "copy_stream",
    "fill",
    "fill_group",
    "is_of_a_copy",
    "is_unfinished",
    "of_one_stream",
    "state_of",
    "temporary_name",
]

_DIGITS = 16

_AT_ONCE = 4096  # entries, or pending entries, of one frame
_AT_ONCE_BYTES = 4 << 20  # and of names and values: with the entry that passes it, a frame is within its limit
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PendingState:
    """A pending entry.

    Attributes:
        id: the entry's ID.
        consumer: a place in the group's list; -1 where it was given back and nobody has it.
        delivered_ms: when; where nobody has it, its place in the order in which they were given back.
        deliveries: how often.
    """

    id: EntryID
    consumer: int
    delivered_ms: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A consumer: see `ConsumerInfo`."""

    name: bytes
    seen_ms: int
    active_ms: int | None


@dataclass(frozen=True)
class GroupState:
    """A group: see `GroupInfo`."""

    name: bytes
    last_delivered_id: EntryID
    entries_read: int | None
    consumers: list[ConsumerState]
    pending: list[PendingState]


@dataclass(frozen=True)
class StreamState:
    """All of a stream but its entries; `windows` are seconds and messages of a producer, `settings` the log's own."""

    last_id: EntryID
    entries_added: int
    max_deleted_id: EntryID
    windows: tuple[int, int]
    groups: list[GroupState]
    settings: dict[bytes, bytes] = field(default_factory=dict)


def temporary_name() -> bytes:
    """A name for a stream that is being made."""
    return UNFINISHED + secrets.token_hex(_DIGITS // 2).encode()


def is_of_a_copy(name: bytes) -> bool:
    """Whether `temporary_name` gave it: other names of unfinished streams are those of work that is gone on with."""
    digits = name.removeprefix(UNFINISHED)
    return digits != name and len(digits) == _DIGITS and digits.isalnum()


def check_whole(stream: Stream, until: EntryID = MAX_ID) -> None:
    """Makes sure that nothing is missing behind the last ID, and up to another one: a damaged log ends where it is so.

    Who takes all up to the last ID for all there is, and removes what he has copied, would lose what a repair saves.

    Raises:
        CorruptionError: the log is damaged, and more may have followed.
    """
    last = stream.last_id()
    if until > last:
        stream.count(last, until)


@contextmanager
def of_one_stream(stream: Stream) -> Iterator[None]:
    """Makes sure that all that is read within is of one stream: another may be given the name between two looks.

    Raises:
        ChangedError: at the end, where the name is another stream's by then, or nobody's.
    """
    before = stream.identity()
    yield
    if stream.identity() != before:
        raise cut_short(stream)


def state_of(stream: Stream) -> StreamState:
    """All of a stream's state but its entries.

    Raises:
        NoSuchStreamError: there is no stream.
    """
    found: StreamState | None = stream._use(lambda log: looked(log, _state), None)
    if found is None:
        raise NoSuchStreamError(stream.name)
    return found


def _state(log: StreamLog) -> StreamState:
    _, last, added, deleted = log.native.counters()
    duration, size, *_ = log.native.windows(now_ms(log))
    groups = []
    for number, name, delivered, read, *_ in log.native.groups():
        listed = log.native.consumers(number)
        places = {consumer: place for place, (consumer, *_) in enumerate(listed)}
        consumers = [ConsumerState(its_name, seen, active) for _, its_name, seen, active, _ in listed]
        rows = log.pending.rows(number, BY_ID, (0, 0, 0))
        pending = _ranked([PendingState(row[0], places.get(row[1], -1), row[2], row[3]) for row in rows])
        groups.append(GroupState(name, delivered, read, consumers, pending))
    return StreamState(last, added, deleted, (duration, size), groups, dict(log.native.settings()))


def _ranked(pending: list[PendingState]) -> list[PendingState]:
    """The same with a rank in the place of the time where nobody has an entry: in this order they were given back."""
    unowned = sorted((row for row in pending if row.consumer < 0), key=lambda row: row.delivered_ms)
    ranks = {row.id: rank for rank, row in enumerate(unowned, 1)}
    return [replace(row, delivered_ms=ranks[row.id]) if row.consumer < 0 else row for row in pending]


def fill(
    stream: Stream, state: StreamState, entries: Iterable[Entry | tuple[EntryID, list[tuple[bytes, bytes]]]]
) -> None:
    """Makes a stream that is not there yet.

    Raises:
        ArgumentError: the state contradicts itself, or the entries.
        StorageError: the disk said no; the stream may be there in part.
    """
    add_entries(stream, entries)
    if not stream.exists():
        stream.create_group(b"", "0", mkstream=True)
        stream.group(b"", create=False).destroy()
    stream.set_id(state.last_id, entries_added=state.entries_added, max_deleted_id=state.max_deleted_id)
    stream._use(lambda log: locked(log, lambda log: idempotence.configure(log, *state.windows)), None)
    for group in state.groups:
        fill_group(stream, group)
    if state.settings:
        stream._use(lambda log: locked(log, lambda log: _fill_settings(log, state.settings)), None)


def add_entries(stream: Stream, entries: Iterable[Entry | tuple[EntryID, list[tuple[bytes, bytes]]]]) -> None:
    """Adds entries with their IDs, so many in a frame that neither their number nor their bytes are too much for it.

    Raises:
        IDOrderError: the stream has passed one of the IDs.
        StorageError: the disk said no; some of them may be there.
    """
    part: list[tuple[EntryID, list[tuple[bytes, bytes]]]] = []
    size_bytes = 0
    for entry in entries:
        entry_id, pairs = entry if isinstance(entry, tuple) else (entry.id, entry.pairs)
        part.append((entry_id, pairs))
        size_bytes += sum(len(name) + len(value) for name, value in pairs)
        if len(part) >= _AT_ONCE or size_bytes >= _AT_ONCE_BYTES:
            _add_part(stream, part)
            part, size_bytes = [], 0
    if part:
        _add_part(stream, part)


def _add_part(stream: Stream, part: list[tuple[EntryID, list[tuple[bytes, bytes]]]]) -> None:
    stream.add_many([pairs for _, pairs in part], ids=[entry_id for entry_id, _ in part])


def _fill_settings(log: StreamLog, settings: dict[bytes, bytes]) -> None:
    now = now_ms(log)
    records = [("setting", name, value) for name, value in settings.items()]
    log.retry(lambda: log.native.change(records, now), held=True)


def fill_group(stream: Stream, state: GroupState) -> None:
    # As it is, and not through `create_group`, which takes no more than were added: reads may have gone beyond that.
    made = ("create", state.name, state.last_delivered_id, state.entries_read)

    def put_consumer(log: StreamLog, consumer: ConsumerState, rows: list[tuple[EntryID, int, int]]) -> None:
        group = log.native.group_number(state.name)
        if group is None:
            return  # somebody has removed it
        make_consumer(log, group, consumer.name)
        number = log.native.consumer_number(group, consumer.name)
        # An assignment counts as seen, and where it says so as active, at the time of its frame.
        active = consumer.active_ms is not None
        at = consumer.seen_ms if consumer.active_ms is None else consumer.active_ms
        log.pending.change([("assign", group, number, active, rows)], at)
        log.retry(lambda: log.native.change([("seen", group, number)], consumer.seen_ms), held=True)

    def refuse(log: StreamLog, rows: list[tuple[EntryID, int]]) -> None:
        group = log.native.group_number(state.name)
        if group is not None:
            log.pending.change([("refuse", group, rows)], now_ms(log))

    def change(action: Callable[[StreamLog], None]) -> None:
        stream._use(lambda log: locked(log, action), None)

    def make(log: StreamLog) -> None:
        if log.native.group_number(state.name) is not None:
            raise GroupExistsError(stream.name, state.name)
        make_group(log, made)

    change(make)
    for place, consumer in enumerate(state.consumers):
        owned = [(row.id, row.delivered_ms, row.deliveries) for row in state.pending if row.consumer == place]
        for part in _parts(owned) if owned else [[]]:
            change(partial(put_consumer, consumer=consumer, rows=part))
    unowned = sorted((row for row in state.pending if row.consumer < 0), key=lambda row: row.delivered_ms)
    for few in _parts((row.id, row.deliveries) for row in unowned):
        change(partial(refuse, rows=few))


def copy_stream(source: Stream, target: Stream) -> None:
    """Copies a stream under a name that is free, of the same store or another: see above for what is carried.

    Raises:
        NoSuchStreamError: there is no stream `source`.
        ChangedError: the source was removed or renamed on the way; the target may be there, but is no copy.
        CorruptionError: the source is damaged; nothing is there then, or a part.
        StorageError: the disk said no; the target may be there in part.
    """
    with of_one_stream(source):
        check_whole(source)
        state = state_of(source)
        fill(target, state, source.range(MIN_ID, state.last_id))


def _parts(rows: Iterable[_T]) -> Iterator[list[_T]]:
    iterator = iter(rows)
    while part := list(islice(iterator, _AT_ONCE)):
        yield part
