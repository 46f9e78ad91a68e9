"""Whether each entry was given to each group once, again only where it was pending, and never after its end."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.crowd.journal import NEVER, Op, as_number, ids_of
from tests.crowd.record import ACKS, DELIVERIES, Record

__all__ = ["GroupRecord", "group_backup_faults", "group_faults"]


@dataclass(frozen=True)
class _Given:
    """An entry, given to a consumer."""

    op: Op
    end: int
    deliveries: int | None  # before, where a reply said it


@dataclass
class GroupRecord:
    """What is known of one group.

    Attributes:
        given: by ID, in the order in which the operations began.
        cut: operations of which nobody knows what they gave.
        ended: when an ID had been acknowledged for certain.
        begun: when somebody began to acknowledge it.
        nacked: by ID, when it was given back for certain.
    """

    record: Record
    name: str
    given: dict[int, list[_Given]] = field(default_factory=dict)
    cut: list[Op] = field(default_factory=list)
    ended: dict[int, Op] = field(default_factory=dict)
    nacked: dict[int, list[Op]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for op in self.record.ops:
            if op.about.get("group") != self.name:
                continue
            if op.word in DELIVERIES:
                self._delivered(op)
            elif op.word in ACKS and not op.cut:
                self._acknowledged(op)
            elif op.word == "nack" and not op.cut:
                ids = ids_of(op.about["ids"])
                for number in ids if op.result["count"] == len(ids) else []:
                    self.nacked.setdefault(number, []).append(op)

    @property
    def begun(self) -> dict[int, int]:
        """When somebody began to acknowledge an ID."""
        return self.record.acks_begun[self.name]

    def told(self, number: int) -> str:
        """The group and an entry, for a line of text."""
        return f"{self.record.stream}/{self.name}: {self.record.shown(number)}"

    def _delivered(self, op: Op) -> None:
        if op.end is None:
            self.cut.append(op)
            return
        for number, deliveries in zip(ids_of(op.result["ids"]), op.result["deliveries"], strict=True):
            self.given.setdefault(number, []).append(_Given(op, op.end, deliveries))

    def _acknowledged(self, op: Op) -> None:
        ids = ids_of(op.about["ids"])
        if op.word == "ackdel":
            sure = [number for number, answer in zip(ids, op.result["answers"], strict=True) if answer > 0]
        else:
            sure = ids if op.result["count"] == len(ids) else []
            if op.result["count"] > len(ids):
                self.faults.append(f"{self.record.stream}/{self.name}: acknowledged more than was asked: {op}")
        for number in sure:
            if number in self.ended:
                self.faults.append(f"{self.told(number)} was acknowledged twice: {op} and {self.ended[number]}")
            self.ended[number] = op

    def over_at(self, number: int) -> int:
        """When its acknowledgement had returned."""
        op = self.ended.get(number)
        return NEVER if op is None or op.end is None else op.end


def group_faults(group: GroupRecord) -> Iterator[str]:
    """What is wrong with what a group was given, and with what is left of it."""
    yield from group.faults
    for number, given in group.given.items():
        yield from _delivery_faults(group, number, given)
    yield from _gone_faults(group)
    yield from _state_faults(group, group.record.survey["groups"][group.name], group.record.live)
    yield from _end_faults(group)


def _delivery_faults(group: GroupRecord, number: int, given: Sequence[_Given]) -> Iterator[str]:
    told = group.told(number)
    new = [each for each in given if each.deliveries == 0]
    if len(new) > 1:
        yield f"{told} was new twice: {new[0].op} and {new[1].op}"
    over = group.over_at(number)
    for each in given:
        op = each.op
        if op.begin > over:
            yield f"{told} was acknowledged, and given out again: {op}, {group.ended[number]}"
        if (each.deliveries == 0) != (op.word == "new" or (op.word == "ripe" and each.deliveries == 0)):
            yield f"{told} was delivered {each.deliveries} times before: {op}"
        before = sum(1 for other in given if other.end < op.begin)
        maybe = sum(1 for other in given if other is not each and other.op.begin < each.end)
        unknown = bisect_left(group.cut, each.end, key=lambda cut: cut.begin)
        if each.deliveries is not None and not before <= each.deliveries <= maybe + unknown:
            yield f"{told} was delivered {each.deliveries} times before, it says; {before} to {maybe + unknown}: {op}"
        if op.word == "backlog":
            yield from _owner_faults(group, number, each, given)


def _owner_faults(group: GroupRecord, number: int, each: _Given, given: Sequence[_Given]) -> Iterator[str]:
    """One's own backlog holds what one was given, and nobody has taken it over since."""
    op = each.op
    own = [other.end for other in given if other.op.role == op.role and other.op.begin < op.begin]
    own += [cut.latest for cut in group.cut if cut.role == op.role and cut.begin < op.begin]
    if not own:
        yield f"{group.told(number)} is in the backlog of somebody who was never given it: {op}"
        return
    since = max(own)
    for other in given:
        if other.op.role != op.role and other.op.begin > since and other.end < op.begin:
            yield f"{group.told(number)} is in the backlog of {op}, and was taken over: {other.op}"
    for nack in group.nacked.get(number, []):
        if nack.begin > since and nack.latest < op.begin:
            yield f"{group.told(number)} is in the backlog of {op}, and was given back: {nack}"


def _gone_faults(group: GroupRecord) -> Iterator[str]:
    """What is shown as gone was removed, and was not acknowledged."""
    for op in group.record.ops:
        if op.about.get("group") != group.name or op.end is None:
            continue
        for number in ids_of(op.result.get("gone", "")):
            if number in group.record.keys and group.record.gone_from(number) > op.end:
                yield f"{group.told(number)} is shown as gone, and nobody had removed it: {op}"
            if group.over_at(number) < op.begin:
                yield f"{group.told(number)} was acknowledged, and is shown as pending: {op}"


def _state_faults(group: GroupRecord, state: dict[str, Any], live: set[int]) -> Iterator[str]:
    """Each entry up to the last one given is pending or was acknowledged; none behind it was given."""
    where, surveyed = f"{group.record.stream}/{group.name}", group.record.surveyed
    last, pending = as_number(state["last"]), set(ids_of(state["pending"]))
    if state["count"] != len(pending) or len(pending) != len(state["owners"]):
        yield f"{where}: {state['count']} are pending, it says, and {len(pending)} are listed"
    for number in group.record.ids:
        if number > last:
            if number in pending or any(each.op.begin < surveyed for each in group.given.get(number, [])):
                yield f"{group.told(number)} was given, and the group is before it: {state['last']}"
        elif number in live and number not in pending and group.begun.get(number, NEVER) > surveyed:
            yield f"{group.told(number)} is lost: nobody acknowledged it, and it is not pending"
        elif number in pending and group.over_at(number) < surveyed:
            yield f"{group.told(number)} was acknowledged, and is pending: {group.ended[number]}"
    cut = {op.role for op in group.cut}
    for number, owner in zip(ids_of(state["pending"]), state["owners"], strict=True):
        roles = {each.op.role for each in group.given.get(number, [])}
        if owner and owner not in roles | cut:
            yield f"{group.told(number)} is pending with {owner}, who was never given it"
        if number not in group.record.keys and not cut:
            yield f"{group.told(number)} is pending, and nobody ever saw it"
    behind = sum(1 for number in live if number > last)
    yield from _lag_faults(group, state, behind, group.record.survey["added"], where)


def _lag_faults(group: GroupRecord, state: dict[str, Any], behind: int, added: int, where: str) -> Iterator[str]:
    if state["lag"] is None:
        if len(group.record.live) == added:
            yield f"{where}: the lag is unknown, though nothing was removed"
    elif state["lag"] != behind:
        yield f"{where}: the lag is {state['lag']}, and {behind} entries are behind {state['last']}"
    if state["read"] is not None and state["lag"] is not None and state["read"] + state["lag"] > added:
        yield f"{where}: {state['read']} entries read and {state['lag']} left of {added}"
    if len(group.record.live) == added and (state["read"] or 0) + behind != added:
        yield f"{where}: {state['read']} entries read, {behind} left, and {added} were added"


def _end_faults(group: GroupRecord) -> Iterator[str]:
    """When everything was given to the last one, nothing is left."""
    state = group.record.drained["groups"][group.name]
    if state["count"] or state["pending"] or state["lag"] not in (0, None):
        yield f"{group.record.stream}/{group.name}: drained, {state['count']} are pending, the lag is {state['lag']}"
    live = ids_of(group.record.drained["ids"])
    for number in live:
        if number not in group.ended and number not in group.begun:
            yield f"{group.told(number)} was never acknowledged, and nothing is pending"
    never = [number for number in live if number not in group.given and not group.cut]
    for number in never:
        yield f"{group.told(number)} was never given to anybody"


def group_backup_faults(group: GroupRecord, made: Op | None, read: Op) -> Iterator[str]:
    """Whether the group in a backup is as it was at a moment while that was made."""
    if made is None or made.end is None:
        return
    found = read.result["streams"][group.record.stream]
    state, live = found["groups"][group.name], set(ids_of(found["ids"]))
    where = f"backup {read.about['name']}"
    last, pending = as_number(state["last"]), set(ids_of(state["pending"]))
    if state["count"] != len(pending):
        yield f"{where}: {state['count']} are pending in {group.name}, it says, and {len(pending)} are listed"
    for number in pending:
        if group.over_at(number) < made.begin:
            yield f"{where}: {group.told(number)} is pending, and had been acknowledged"
    for number in live:
        if number <= last and number not in pending and group.begun.get(number, NEVER) > made.end:
            yield f"{where}: {group.told(number)} is lost: not pending, and nobody had acknowledged it"
    for number, given in group.given.items():
        first = given[0]
        if number > last and first.end < made.begin:
            yield f"{where}: {group.told(number)} had been given, and the group is before it"
        if number <= last and first.deliveries == 0 and first.op.begin > made.end:
            yield f"{where}: {group.told(number)} was given later, and the group is behind it"
