"""The groups of a stream made equal to those of another, by what differs: nothing is taken away and put back.

Groups, consumers and pending entries that the other has not are removed. Each step is one frame of the log; a process
that is killed between two of them leaves a group that is partly new, which the next call completes.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

from diskstream.copying import ConsumerState, GroupState, PendingState, fill_group, state_of
from diskstream.engine.log import StreamLog
from diskstream.ids import EntryID
from diskstream.membership import consumer_number, locked, now_ms
from diskstream.stream import Stream

__all__ = ["mirror_groups"]

_AT_ONCE = 4096  # pending entries of one frame
# Times of a Redis come as an age and a clock, which are a moment apart.
_SAME_DELIVERY_MS = 10
_SAME_SEEN_MS = 1000
_T = TypeVar("_T")


def mirror_groups(stream: Stream, groups: Sequence[GroupState]) -> bool:
    """Makes the groups of a stream those given.

    Args:
        stream: the stream, which must exist.
        groups: what its groups are to be; times of delivery count as equal within 10 ms, times seen within a second.

    Returns:
        Whether anything changed.

    Raises:
        NoSuchStreamError: there is no stream.
        LimitError: too many groups, consumers or pending entries for a stream.
        StorageError: the disk said no; the groups may be partly new.
    """
    present = {group.name: group for group in state_of(stream).groups}
    wanted = {group.name for group in groups}
    changed = False
    for name in present.keys() - wanted:
        stream.group(name, create=False).destroy()
        changed = True
    for group in groups:
        before = present.get(group.name)
        if before is None:
            fill_group(stream, group)
            changed = True
        elif _mirror(stream, before, group):
            changed = True
    return changed


def _mirror(stream: Stream, before: GroupState, after: GroupState) -> bool:
    group = stream.group(after.name, create=False)
    changed = False
    if (before.last_delivered_id, before.entries_read) != (after.last_delivered_id, after.entries_read):
        _position(stream, after)
        changed = True
    held = {row.id: (_owner(before, row), row.delivered_ms, row.deliveries) for row in before.pending}
    kept = {row.id for row in after.pending}
    for part in _parts(iter([entry_id for entry_id in held if entry_id not in kept])):
        group.ack(*part)
        changed = True
    known = {consumer.name: consumer for consumer in before.consumers}
    news = _news(after, held)
    for consumer in after.consumers:
        rows = news.pop(consumer.name, [])
        if rows or not _same(known.get(consumer.name), consumer):
            for rows_at_once in _parts(iter(rows)) if rows else iter([[]]):
                _assign(stream, after.name, consumer, rows_at_once)
            changed = True
    for unowned in _parts(iter(sorted(news.get(None, []), key=lambda row: row.delivered_ms))):
        _refuse(stream, after.name, unowned)
        changed = True
    for name in known.keys() - {consumer.name for consumer in after.consumers}:
        group.delete_consumer(name)
        changed = True
    return changed


def _position(stream: Stream, after: GroupState) -> None:
    """Puts a group where the other is; what it has read may be more than was added, which `Group.set_id` would cut."""

    def put(log: StreamLog) -> None:
        group = log.native.group_number(after.name)
        if group is not None:  # else somebody has removed it
            record = ("position", group, after.last_delivered_id, after.entries_read)
            log.retry(lambda: log.native.change([record], now_ms(log)), held=True)

    stream._use(lambda log: locked(log, put), None)  # as `copying` does


def _owner(group: GroupState, row: PendingState) -> bytes | None:
    """Who has an entry: a consumer, which may be called b"", or nobody."""
    return group.consumers[row.consumer].name if row.consumer >= 0 else None


def _news(
    after: GroupState, held: dict[EntryID, tuple[bytes | None, int, int]]
) -> dict[bytes | None, list[PendingState]]:
    """The pending entries that are not held as they are, by who has them."""
    found: dict[bytes | None, list[PendingState]] = {}
    for row in after.pending:
        owner = _owner(after, row)
        was = held.get(row.id)
        if (
            was is not None
            and (was[0], was[2]) == (owner, row.deliveries)
            and (owner is None or abs(was[1] - row.delivered_ms) <= _SAME_DELIVERY_MS)
        ):
            continue
        found.setdefault(owner, []).append(row)
    return found


def _same(before: ConsumerState | None, after: ConsumerState) -> bool:
    if before is None or abs(before.seen_ms - after.seen_ms) > _SAME_SEEN_MS:
        return False
    if after.active_ms is None:  # if one of its name was given something once, that is not taken back
        return True
    return before.active_ms is not None and abs(before.active_ms - after.active_ms) <= _SAME_SEEN_MS


def _assign(stream: Stream, name: bytes, consumer: ConsumerState, rows: list[PendingState]) -> None:
    given = [(row.id, row.delivered_ms, row.deliveries) for row in rows]
    at = consumer.seen_ms if consumer.active_ms is None else consumer.active_ms

    def put(log: StreamLog) -> None:
        group = log.native.group_number(name)
        if group is None:
            return  # somebody has removed it
        number = consumer_number(log, group, consumer.name)
        log.pending.change([("assign", group, number, consumer.active_ms is not None, given)], at)
        log.retry(lambda: log.native.change([("seen", group, number)], consumer.seen_ms), held=True)

    stream._use(lambda log: locked(log, put), None)  # as `copying` does


def _refuse(stream: Stream, name: bytes, rows: list[PendingState]) -> None:
    given = [(row.id, row.deliveries) for row in rows]

    def put(log: StreamLog) -> None:
        group = log.native.group_number(name)
        if group is not None:
            log.pending.change([("refuse", group, given)], now_ms(log))

    stream._use(lambda log: locked(log, put), None)


def _parts(rows: Iterator[_T]) -> Iterator[list[_T]]:
    while part := list(islice(rows, _AT_ONCE)):
        yield part
