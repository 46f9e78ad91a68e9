"""Consumer groups in the model: what a group is, and what each change makes of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

__all__ = ["ID", "NOBODY", "Group", "Groups", "Member", "Row", "Windows", "agreed"]

ID = tuple[int, int]
NOBODY = None

# How often an attempt to read that found nothing is noted: `diskstream.membership` says why.
_SEEN_EVERY_MS = 100


@dataclass(frozen=True, slots=True)
class Row:
    """A pending entry: whose it is, when it was delivered (of nobody's: the number of the refusal), how often."""

    consumer: bytes | None
    time_ms: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer."""

    seen_ms: int
    active_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A group, as its callers see it."""

    last: ID
    read: int | None = None
    members: Mapping[bytes, Member] = field(default_factory=dict)
    pending: Mapping[ID, Row] = field(default_factory=dict)

    def joined(self, consumer: bytes, now: int) -> "Group":
        """With a consumer, if it was not there."""
        if consumer in self.members:
            return self
        return replace(self, members={**self.members, consumer: Member(now)})

    def noted(self, consumer: bytes, now: int) -> "Group":
        """With the time of an attempt to read."""
        member = self.members[consumer]
        if member.seen_ms <= now < member.seen_ms + _SEEN_EVERY_MS:
            return self
        return replace(self, members={**self.members, consumer: replace(member, seen_ms=now)})

    def with_rows(self, rows: Mapping[ID, Row]) -> "Group":
        """With further pending entries, or changed ones."""
        return replace(self, pending={**self.pending, **rows})

    def without(self, ids: Iterable[ID]) -> "Group":
        """With entries that are pending no more."""
        gone = set(ids)
        return replace(self, pending={key: row for key, row in self.pending.items() if key not in gone})

    def dismissed(self, consumer: bytes) -> "Group":
        """Without a consumer, nor what it had."""
        members = {name: member for name, member in self.members.items() if name != consumer}
        return replace(self.without(self.of(consumer)), members=members)

    def of(self, consumer: bytes | None) -> list[ID]:
        """A consumer's pending entries in order; nobody's, in the order in which they were given back."""
        ids = sorted(key for key, row in self.pending.items() if row.consumer == consumer)
        return ids if consumer is not NOBODY else sorted(ids, key=lambda key: self.pending[key].time_ms)

    def refused(self, rows: Sequence[tuple[ID, int]]) -> "Group":
        """With entries given back, in this order."""
        first = 1 + max((row.time_ms for row in self.pending.values() if row.consumer is NOBODY), default=0)
        return self.with_rows({key: Row(NOBODY, first + at, count) for at, (key, count) in enumerate(rows)})

    def __str__(self) -> str:
        rows = [
            f"{ms}-{seq}:{(row.consumer or b'').decode('latin-1')}@{row.time_ms}x{row.deliveries}"
            for (ms, seq), row in sorted(self.pending.items())
        ]
        members = [
            f"{name.decode('latin-1')}({it.seen_ms},{it.active_ms})" for name, it in sorted(self.members.items())
        ]
        return f"last={self.last} read={self.read} {' '.join(members)} pending[{' '.join(rows)}]"


Groups = Mapping[bytes, Group]


def agreed(foretold: Groups, found: Groups) -> Groups:
    """What was found, which must be as foretold but for what only the store knows: times of consumers, entries read,
    numbers of refusals.

    Raises:
        AssertionError: it is something else.
    """
    assert set(foretold) == set(found), f"groups {sorted(found)}, foretold {sorted(foretold)}"
    for name, group in foretold.items():
        there = found[name]
        assert there.last == group.last, f"{name!r} stands at {there.last}, foretold {group.last}"
        assert set(there.members) == set(group.members), f"{name!r} has {sorted(there.members)}"
        assert there.of(NOBODY) == group.of(NOBODY), f"{name!r}: nobody has {there.of(NOBODY)}, not {group.of(NOBODY)}"
        owned = [{key: row for key, row in one.pending.items() if row.consumer is not NOBODY} for one in (there, group)]
        assert owned[0] == owned[1], f"{name!r} is\n  {there}\nforetold\n  {group}"
        counts = [{key: one.pending[key].deliveries for key in one.of(NOBODY)} for one in (there, group)]
        assert counts[0] == counts[1], f"{name!r}: nobody's were delivered {counts[0]}, foretold {counts[1]}"
    return found


# What is too old is forgotten for good only after a while, should the clock step back.
GRACE_MS = 60_000


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """What is remembered of idempotent messages: for how long, how many of each producer, how many ever, and which."""

    duration_s: int = 100
    limit: int = 100
    added: int = 0
    producers: Mapping[bytes, tuple[tuple[bytes, ID], ...]] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Windows) and self._shown() == other._shown()

    def __hash__(self) -> int:
        return hash(self.added)

    def _shown(self) -> object:
        """What can be asked for: the order of messages cannot."""
        return self.duration_s, self.limit, self.added, {name: dict(known) for name, known in self.producers.items()}

    def _is_past(self, entry_id: ID, now: int) -> bool:
        return entry_id[0] + self.duration_s * 1000 < now

    def find(self, producer: bytes, message: bytes, now: int) -> ID | None:
        """The ID under which a message was added, as long as it is remembered."""
        entry_id = dict(self.producers.get(producer, ())).get(message)
        return None if entry_id is None or self._is_past(entry_id, now) else entry_id

    def noted(self, producer: bytes, message: bytes, entry_id: ID, now: int) -> "Windows":
        """With a message more, and without those that are too old or one too many."""
        left: dict[bytes, tuple[tuple[bytes, ID], ...]] = {}
        for name, known in self.producers.items():
            at = next((at for at, (_, old) in enumerate(known) if not self._is_past(old, now - GRACE_MS)), len(known))
            left[name] = known[at:]
        others = [one for one in left.get(producer, ()) if one[0] != message]
        left[producer] = (*others, (message, entry_id))[-self.limit :]
        return replace(self, added=self.added + 1, producers={name: known for name, known in left.items() if known})

    def configured(self, duration_s: int, limit: int) -> "Windows":
        """With other limits, which forgets everything."""
        if (duration_s, limit) == (self.duration_s, self.limit):
            return self
        return replace(self, duration_s=duration_s, limit=limit, producers={})

    def __str__(self) -> str:
        return f"{self.duration_s}s/{self.limit} added={self.added} {dict(self.producers)}"
