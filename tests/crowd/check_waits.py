"""Whether anybody waited for an entry that was there, or hung."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from tests.crowd.check_groups import GroupRecord
from tests.crowd.journal import NEVER, Op, as_number
from tests.crowd.looking import MANY
from tests.crowd.record import Record, stopped_ns

__all__ = ["hung_faults", "longest_wait_ms", "stops_of", "wait_faults"]

Stops = list[tuple[int, int]]
_MS = 1_000_000
# Even on a machine that is busy with much else nobody who is woken takes so long.
_LOST_NS = 10_000 * _MS
_HUNG_NS = 30_000 * _MS
_KEEPERS = frozenset({"backup", "verifier", "sealer", "mover", "trimmer"})
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


def hung_faults(ops: Sequence[Op], stops: Stops, beside: int = 1) -> Iterator[str]:
    """Operations that took far too long, though nobody was stopped.

    What goes over a whole store may take as much longer as there are crowds beside that share the machine.
    """
    for op in ops:
        if op.role in ("supervisor", "last") or op.latest == NEVER:
            continue
        took = op.latest - op.begin
        is_whole = op.role in _KEEPERS or op.about.get("count", 0) >= MANY
        limit = _HUNG_NS * beside if is_whole else _HUNG_NS
        if took > limit and took - stopped_ns(stops, op.begin, op.latest) > limit:
            yield f"took {took // _MS} ms: {op}"


class _There:
    """From when to when each entry could have been given to somebody who waited."""

    def __init__(self, spans: Sequence[tuple[int, int, int]]) -> None:
        self.ids = [number for _, _, number in spans]
        self._starts = np.array([start for start, _, _ in spans], dtype=np.int64)
        self._ends = np.array([end for _, end, _ in spans], dtype=np.int64)

    def longest(self, begin: int, end: int, first: int = 0) -> tuple[int, int, int] | None:
        """The entry that was there longest between two moments: from when, to when, its ID."""
        if first >= len(self.ids):
            return None
        starts = np.maximum(self._starts[first:], begin)
        lay = np.minimum(self._ends[first:], end) - starts
        at = int(lay.argmax())
        return int(starts[at]), int(starts[at] + lay[at]), self.ids[first + at]


def _ungiven(record: Record, group: GroupRecord) -> _There:
    spans = []
    cut = min((op.begin for op in group.cut if op.word in ("new", "ripe")), default=NEVER)
    for number in record.ids:
        given = group.given.get(number)
        until = given[0].end if given else min(record.gone_from(number), record.surveyed)
        start = record.how(number).end
        # One that nobody noted may have been given to somebody who was killed.
        if start < until - _LEAST_NS and (given or cut > until):
            spans.append((start, until, number))
    return _There(spans)


def _waits(record: Record, group: GroupRecord, stops: Stops) -> Iterator[tuple[int, int, Op]]:
    """How long each waited in vain, in ns, with an ID for which it could have been woken."""
    ungiven = _ungiven(record, group)
    ids = record.ids
    added = _There([(record.how(number).end, record.gone_from(number), number) for number in ids])
    for op in record.ops:
        if op.latest == NEVER or op.latest - op.begin < _LEAST_NS:
            continue
        if op.word == "follow":
            found = added.longest(op.begin, op.latest, bisect_right(ids, as_number(op.about["low"])))
        elif op.word == "new" and op.about.get("block") and op.about["group"] == group.name:
            found = ungiven.longest(op.begin, op.latest)
        else:
            continue
        if found is not None and found[1] - found[0] > _LEAST_NS:
            yield found[1] - found[0] - stopped_ns(stops, found[0], found[1]), found[2], op


def longest_wait_ms(record: Record, group: GroupRecord, stops: Stops) -> int:
    """The longest of them."""
    return max((waited for waited, _, _ in _waits(record, group, stops)), default=0) // _MS


def wait_faults(record: Record, group: GroupRecord, stops: Stops) -> Iterator[str]:
    """Who waited for what was there for longer than any wake-up takes."""
    for waited, number, op in _waits(record, group, stops):
        if waited > _LOST_NS:
            yield f"waited for {waited // _MS} ms for {record.shown(number)}: {op}"
