"""Whether anybody waited for an entry that was there, or hung."""

from collections.abc import Iterator, Sequence

from tests.crowd.check_groups import GroupRecord
from tests.crowd.journal import NEVER, Op, as_number
from tests.crowd.record import Record, stopped_ns

__all__ = ["hung_faults", "longest_wait_ms", "stops_of", "wait_faults"]

Stops = list[tuple[int, int]]
_MS = 1_000_000
# Even on a machine that is busy with much else nobody who is woken takes so long.
_LOST_NS = 10_000 * _MS
_HUNG_NS = 30_000 * _MS
# Shorter waits are not looked at one by one.
_LEAST_NS = 100 * _MS


def stops_of(ops: Sequence[Op]) -> Stops:
    """From when to when somebody was stopped, in order."""
    began: dict[tuple[str, int], int] = {}
    found: Stops = []
    for op in ops:
        if op.role != "supervisor" or "role" not in op.about:
            continue
        who = op.about["role"], op.about["life"]
        if op.word == "stop":
            began[who] = op.begin
        elif op.word in ("go on", "dead") and who in began:
            found.append((began.pop(who), op.begin))
    return sorted(found)


def hung_faults(ops: Sequence[Op], stops: Stops) -> Iterator[str]:
    """Operations that took far too long, though nobody was stopped."""
    for op in ops:
        if op.role in ("supervisor", "last") or op.latest == NEVER:
            continue
        took = op.latest - op.begin
        if took > _HUNG_NS and took - stopped_ns(stops, op.begin, op.latest) > _HUNG_NS:
            yield f"took {took // _MS} ms: {op}"


def _available(record: Record, group: GroupRecord) -> list[tuple[int, int, int]]:
    """For each entry from when to when it could have been given to somebody: (from, to, ID)."""
    found = []
    for number in record.ids:
        given = group.given.get(number)
        until = given[0].end if given else min(record.gone_from(number), record.surveyed)
        start = record.how(number).latest
        if any(op.word in ("new", "ripe") and op.begin < until for op in group.cut) and not given:
            continue  # it may have been given to one who was killed
        if start < until - _LEAST_NS:
            found.append((start, until, number))
    return found


def _waits(record: Record, group: GroupRecord, stops: Stops) -> Iterator[tuple[int, int, Op]]:
    """How long each waited in vain, in ns, with an ID for which it could have been woken."""
    available = _available(record, group)
    for op in record.ops:
        if op.latest == NEVER or op.latest - op.begin < _LEAST_NS:
            continue
        if op.word == "follow":
            low = as_number(op.about["low"])
            later = [number for number in record.ids if number > low]
            some = ((record.how(number).latest, op.latest, number) for number in later)
        elif op.word == "new" and op.about.get("block") and op.about["group"] == group.name:
            some = iter(available)
        else:
            continue
        for start, until, number in some:
            begin, end = max(start, op.begin), min(until, op.latest)
            if end - begin > _LEAST_NS:
                yield end - begin - stopped_ns(stops, begin, end), number, op


def longest_wait_ms(record: Record, group: GroupRecord, stops: Stops) -> int:
    """The longest of them."""
    return max((waited for waited, _, _ in _waits(record, group, stops)), default=0) // _MS


def wait_faults(record: Record, group: GroupRecord, stops: Stops) -> Iterator[str]:
    """Who waited for what was there for longer than any wake-up takes."""
    for waited, number, op in _waits(record, group, stops):
        if waited > _LOST_NS:
            yield f"waited for {waited // _MS} ms for {record.shown(number)}: {op}"
