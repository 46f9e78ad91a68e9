"""Whether the audit tells the same story: each delivery that somebody had, one after the other, to the end."""

from collections.abc import Iterator, Sequence
from typing import Any

from diskstream import Stream
from tests.crowd.check_groups import GroupRecord
from tests.crowd.journal import as_number, ids_of, shown

__all__ = ["audit_faults", "audited"]

_GIVEN = ("deliver", "redeliver", "claim")


def audited(stream: Stream) -> list[tuple[str, str, str, str, int, str | None]]:
    """What the audit of a stream says of entries, for a journal."""
    return [
        (
            record.action,
            (record.group or b"").decode(),
            (record.consumer or b"").decode(),
            str(record.id),
            record.deliveries or 0,
            None if record.owner_before is None else record.owner_before.decode(),
        )
        for record in stream.audit()
        if record.action in (*_GIVEN, "refuse", "ack")
    ]


class _Replay:
    """The group, as the audit tells it."""

    def __init__(self, group: GroupRecord) -> None:
        self.group = group
        self.where = f"the audit of {group.record.stream}/{group.name}"
        self.pending: dict[int, tuple[str, int]] = {}
        self.given: set[tuple[int, str, int]] = set()
        self.new: set[int] = set()
        self.acknowledged: set[int] = set()
        self._cut = {op.role for op in group.cut}

    def take(self, action: str, consumer: str, entry_id: str, deliveries: int, before: str | None) -> Iterator[str]:
        """Goes on by a record, and says what is wrong with it."""
        number = as_number(entry_id)
        owner, count = self.pending.get(number, (None, 0))
        if (action == "deliver") != (owner is None) or (action == "deliver" and number in self.new):
            yield f"{self.where}: {action} of {entry_id} to {consumer}, which {owner} has"
        if action != "deliver" and before != owner:
            yield f"{self.where}: {action} of {entry_id} says that {before} had it, which was {owner}"
        if action in _GIVEN:
            yield from self._give(action, number, consumer, (count, deliveries))
        elif action == "refuse":
            self.pending[number] = "", deliveries
        else:
            self.acknowledged.add(number)
            self.pending.pop(number, None)

    def _give(self, action: str, number: int, consumer: str, counts: tuple[int, int]) -> Iterator[str]:
        before, deliveries = counts
        told = f"{self.where}: {action} of {shown(number)}"
        if deliveries != before + 1:
            yield f"{told} is delivery {deliveries}, after {before}"
        some = self.group.given.get(number, [])
        noted = any(each.op.role == consumer and each.deliveries in (before, None) for each in some)
        if not noted and consumer not in self._cut:
            yield f"{told} to {consumer}, who was never given it"
        self.given.add((number, consumer, deliveries))
        self.pending[number] = consumer, deliveries
        self.new.add(number)


def audit_faults(group: GroupRecord, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """What cannot be in an audit that goes back to the beginning, or is not in it."""
    replay = _Replay(group)
    for action, name, consumer, entry_id, deliveries, before in rows:
        if name == group.name:
            yield from replay.take(action, consumer, entry_id, deliveries, before)
    surveyed = group.record.surveyed
    told = replay.given | {(number, consumer, None) for number, consumer, _ in replay.given}
    for number, each in ((number, each) for number, some in group.given.items() for each in some):
        deliveries = None if each.deliveries is None else each.deliveries + 1
        if each.op.begin < surveyed and (number, each.op.role, deliveries) not in told:
            yield f"{replay.where} does not know of {each.op}"
    for number in group.ended:
        if group.over_at(number) < surveyed and number not in replay.acknowledged:
            yield f"{replay.where} does not know of {group.ended[number]}"
    state = group.record.survey["groups"][group.name]
    left = zip(ids_of(state["pending"]), zip(state["owners"], state["deliveries"], strict=True), strict=True)
    if replay.pending != dict(left):
        yield f"{replay.where} ends with {len(replay.pending)} pending entries, not the {state['count']} that there are"
