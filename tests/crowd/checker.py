"""Reads what everybody noted in a round, and what was left, and says what cannot be."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tests.crowd.check_audit import audit_faults
from tests.crowd.check_entries import backup_faults, entry_faults, read_faults
from tests.crowd.check_groups import GroupRecord, group_backup_faults, group_faults
from tests.crowd.check_waits import hung_faults, longest_wait_ms, stops_of, wait_faults
from tests.crowd.journal import SERVED, Op, ids_of
from tests.crowd.record import DELIVERIES, READS, Record
from tests.crowd.scene import GROUPS

__all__ = ["Verdict", "check"]

# A broken promise is often broken a thousand times over: so many are told.
_TOLD = 20
_WORK = {
    "verify": "verifications",
    "read backup": "backups",
    "trim": "trims",
    "delete": "deletions",
    "seal": "seals",
    "compact": "compactions",
    "move out": "moves to object storage",
    "bring back": "moves back",
    "make": "other streams made",
    "rename": "other streams renamed",
    "remove": "other streams removed",
    SERVED: "lives of clients of a server, or of asyncio",
}
_SIGNALS = {"kill": "SIGKILL", "end": "SIGTERM", "stop": "SIGSTOP", "interrupt": "SIGINT"}
_CROWD = {
    "p": "producer",
    "q": "producer",
    "c": "consumer",
    "w": "consumer",
    "r": "reader",
    "f": "reader",
    "s": "server",
}


@dataclass
class Verdict:
    """What came of a round.

    Attributes:
        faults: promises that were broken, some of them.
        tried: how often each thing was done.
        outcomes: what came of it.
        longest_ms: how long an entry lay there, at the most, while somebody waited for one.
    """

    faults: list[str] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    longest_ms: int = 0


def check(ops: Sequence[Op], told: int = _TOLD, *, beside: int = 1) -> Verdict:
    """Checks a round, from all that was noted; of each kind of fault at most `told` are listed.

    `beside` is how many rounds shared the machine.
    """
    verdict = Verdict()
    verdict.faults += islice(_keeper_faults(ops), told)
    stops = stops_of(ops)
    verdict.faults += islice(hung_faults(ops, stops, beside), told)
    backups = list(_backups(ops))
    audits = next(op for op in ops if op.word == "survey").result.get("audit")
    for name in GROUPS:
        record = Record(name, ops)
        verdict.faults += islice(entry_faults(record), told)
        verdict.faults += islice(read_faults(record), told)
        for made, read in backups:
            verdict.faults += islice(backup_faults(record, made, read), told)
        for group_name in GROUPS[name]:
            group = GroupRecord(record, group_name)
            verdict.faults += islice(group_faults(group), told)
            if audits is not None:
                verdict.faults += islice(audit_faults(group, audits[name]), told)
            verdict.faults += islice(wait_faults(record, group, stops), told)
            verdict.longest_ms = max(verdict.longest_ms, longest_wait_ms(record, group, stops))
            for made, read in backups:
                verdict.faults += islice(group_backup_faults(group, made, read), told)
        verdict.tried["entries"] += len(record.ids)
        verdict.outcomes["entries left in the end"] += len(record.live)
    _count(ops, verdict)
    return verdict


def _keeper_faults(ops: Sequence[Op]) -> Iterator[str]:
    for op in ops:
        if op.word == "failed":
            yield f"{op.role}.{op.life}: {op.about['how']}"
        found = op.result.get("problems") or op.result.get("findings") or op.result.get("faults")
        if found:
            yield f"{op}: {found}"


def _backups(ops: Sequence[Op]) -> Iterator[tuple[Op | None, Op]]:
    """Backups that were read, each with its making, where that is known."""
    made = {op.result["name"]: op for op in ops if op.word == "back up" and not op.cut}
    for op in ops:
        if op.word == "read backup" and not op.cut:
            yield made.get(op.about["name"]), op


def _count(ops: Sequence[Op], verdict: Verdict) -> None:
    tried, outcomes = verdict.tried, verdict.outcomes
    for op in ops:
        cut = op.cut
        if op.role == "supervisor":
            if op.word in _SIGNALS:
                role = op.about["role"]
                tried[f"{_SIGNALS[op.word]} to a {_CROWD.get(role[0], role) if role[1:].isdigit() else role}"] += 1
        elif cut:
            outcomes["operations cut off by one of them"] += 1
        elif op.word in DELIVERIES:
            again = sum(1 for deliveries in op.result["deliveries"] if deliveries)
            tried["deliveries"] += len(op.result["deliveries"])
            outcomes["redeliveries, each of what was pending"] += again
        elif op.word in READS:
            tried["reads"] += 1
            outcomes["entries that readers saw"] += len(ids_of(op.result["ids"]))
        elif op.word in _WORK:
            tried[_WORK[op.word]] += 1
        elif op.word == "ack":
            outcomes["acknowledgements"] += op.result["count"]
    sent = Counter(op.about["keys"] for op in ops if op.word == "send")
    tried["messages sent more than once"] += sum(1 for count in sent.values() if count > 1)
