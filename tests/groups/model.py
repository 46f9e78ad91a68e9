"""Streams with consumer groups in plain Python, after the reference (Redis 8.x): slow, simple, and hard to get wrong.

Nothing of diskstream is used here. Each rule says once what it does; `model_commands.py` puts Redis's words around it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["FOREVER", "ID", "LAST", "ZERO", "Budget", "Claim", "Consumer", "Group", "Pairs", "Pending", "Stream"]

ID = tuple[int, int]
Pairs = list[tuple[bytes, bytes]]

ZERO: ID = (0, 0)
LAST: ID = (2**64 - 1, 2**64 - 1)
FOREVER = 2**63 - 1  # where a count of deliveries stays


@dataclass
class Pending:
    """An entry that was delivered and is not acknowledged. Nobody's (`owner` is None) after an XNACK.

    Attributes:
        refused: its place among those that are nobody's.
    """

    owner: bytes | None
    time: int
    deliveries: int
    refused: int = 0

    def idle(self, now: int) -> int:
        return -1 if self.owner is None else max(0, now - self.time)

    def is_ripe(self, now: int, min_idle: int) -> bool:
        """Whether it may be claimed: what is nobody's always."""
        return self.owner is None or min_idle <= 0 or now - self.time >= min_idle

    def raise_deliveries(self) -> None:
        self.deliveries = min(self.deliveries + 1, FOREVER)


@dataclass
class Consumer:
    """When it was last heard of, and when it was last given something."""

    seen: int
    active: int | None = None


@dataclass
class Group:
    """A group: how far it has read, who reads, and what is out with whom."""

    last: ID
    read: int | None
    consumers: dict[bytes, Consumer] = field(default_factory=dict)
    pending: dict[ID, Pending] = field(default_factory=dict)
    refusals: int = 0  # a number, not an iterator: the model is copied

    def hear_of(self, name: bytes, now: int) -> Consumer:
        """The consumer of that name, who makes an attempt now."""
        consumer = self.consumers.setdefault(name, Consumer(now))
        consumer.seen = now
        return consumer

    def owned(self, name: bytes) -> dict[ID, Pending]:
        return {id: self.pending[id] for id in sorted(self.pending) if self.pending[id].owner == name}

    def in_order(self) -> list[tuple[ID, Pending]]:
        return sorted(self.pending.items())

    def by_time(self) -> list[tuple[ID, Pending]]:
        """As CLAIM takes them: what is nobody's, first refused first; then what was delivered longest ago."""
        return sorted(
            self.pending.items(),
            key=lambda item: (item[1].owner is not None, item[1].refused, item[1].time, item[0]),
        )

    def give(self, id: ID, name: bytes, now: int, time: int | None = None) -> Pending:
        """Delivers or claims: the entry is with that consumer now."""
        entry = self.pending.setdefault(id, Pending(None, 0, 1))
        entry.owner, entry.time, entry.refused = name, now if time is None else time, 0
        self.consumers[name].active = now
        return entry

    def acknowledge(self, ids: Iterable[ID]) -> int:
        return sum(self.pending.pop(id, None) is not None for id in ids)

    def refuse(self, id: ID, deliveries: int) -> None:
        self.refusals += 1
        self.pending[id] = Pending(None, 0, deliveries, self.refusals)

    def dismiss(self, name: bytes) -> int:
        """The consumer goes, and what it had with it."""
        if self.consumers.pop(name, None) is None:
            return 0
        return self.acknowledge(self.owned(name))


@dataclass
class Budget:
    """What one XREADGROUP may still give out, over all its streams."""

    entries: int
    size: int
    given: int = 0

    @property
    def is_spent(self) -> bool:
        return self.entries <= 0 or (self.given > 0 and self.size <= 0)

    def spend(self, pairs: Pairs) -> None:
        self.given += 1
        self.entries -= 1
        self.size -= sum(len(name) + len(value) for name, value in pairs)


@dataclass(frozen=True)
class Claim:
    """The options of XCLAIM."""

    min_idle: int
    time: int
    retry: int | None
    force: bool
    justid: bool


@dataclass
class Stream:
    """A stream: its entries in the order of their IDs, its counters, its groups, what producers sent."""

    entries: dict[ID, Pairs] = field(default_factory=dict)
    last: ID = ZERO
    deleted: ID = ZERO
    added: int = 0
    groups: dict[bytes, Group] = field(default_factory=dict)
    producers: dict[bytes, dict[object, ID]] = field(default_factory=dict)
    duration_s: int = 100
    max_messages: int = 100
    messages: int = 0
    duplicates: int = 0

    # --- entries ------------------------------------------------------------------------------------------------------

    @property
    def first(self) -> ID:
        return min(self.entries, default=ZERO)

    @property
    def top(self) -> ID:
        return max(self.entries, default=ZERO)

    def add(self, id: ID, pairs: Pairs) -> None:
        self.entries[id] = pairs
        self.last = id
        self.added += 1

    def delete(self, id: ID) -> bool:
        """Only a delete leaves a trace behind: the greatest ID that was ever deleted."""
        if self.entries.pop(id, None) is None:
            return False
        self.deleted = max(self.deleted, id)
        return True

    def trim(self, maxlen: int | None, minid: ID | None, ref: str) -> int:
        """Trims exactly. ACKED skips what is still referred to, and goes on to what is newer.

        DELREF ends what is pending of the entries that go, and of those that were deleted before them (#15581).
        """
        gone = 0
        for id in list(self.entries):
            if (maxlen is not None and len(self.entries) <= maxlen) or (minid is not None and id >= minid):
                break
            if ref == "ACKED" and self.is_referenced(id):
                continue
            del self.entries[id]
            gone += 1
        if gone and ref == "DELREF":
            for id in {id for group in self.groups.values() for id in group.pending}:
                if id < self.first or not self.entries:
                    self.unreference(id)
        return gone

    def is_referenced(self, id: ID) -> bool:
        """Whether some group has not read so far yet, or has it pending."""
        return any(group.last < id or id in group.pending for group in self.groups.values())

    def unreference(self, id: ID) -> None:
        for group in self.groups.values():
            group.pending.pop(id, None)

    def delete_entry(self, id: ID, ref: str) -> int:
        """XDELEX of one ID: -1 not there, 1 deleted, 2 kept."""
        if ref == "ACKED" and self.is_referenced(id):
            return 2
        if ref == "DELREF":
            self.unreference(id)
        return 1 if self.delete(id) else -1

    def acknowledge_and_delete(self, group: Group, id: ID, ref: str) -> int:
        """XACKDEL of one ID: -1 not pending, 1 acknowledged and deleted, 2 acknowledged only."""
        if not group.acknowledge([id]):
            return -1
        return 2 if self.delete_entry(id, ref) == 2 else 1

    # --- how far a group has read -------------------------------------------------------------------------------------

    def estimate(self, id: ID) -> int | None:
        """How many entries were ever added up to `id`, where that can be told."""
        if self.added == 0:
            return 0
        if not self.entries and id <= self.last:
            return self.added
        if id != ZERO and id < self.deleted:
            return None
        if id >= self.last:
            return self.added if id == self.last else None
        if self.deleted == ZERO or self.deleted < self.first:
            if id < self.first:
                return self.added - len(self.entries)
            if id == self.first:
                return self.added - len(self.entries) + 1
        return None

    def lag(self, group: Group) -> int | None:
        """How many entries the group has yet to read, where that can be told."""
        if self.added == 0 or not self.entries:
            return 0
        if group.last < self.first and self.deleted < self.first:
            return len(self.entries)
        if group.read is not None and not (self.deleted != ZERO and group.last <= self.deleted):
            return self.added - group.read
        estimate = self.estimate(group.last)
        return None if estimate is None else self.added - estimate

    def move_on(self, group: Group, id: ID) -> None:
        """The group has read `id`, the next one."""
        if group.read is not None and self.first <= group.last and self.deleted < group.last:
            group.read += 1
        else:
            group.read = self.estimate(id)
        group.last = id

    # --- reading ------------------------------------------------------------------------------------------------------

    def read_new(self, group: Group, name: bytes, count: int, now: int, budget: Budget, *, noack: bool) -> list[ID]:
        found: list[ID] = []
        for id in [id for id in self.entries if id > group.last]:
            if len(found) >= count or budget.is_spent:
                break
            self.move_on(group, id)
            if not noack:
                group.give(id, name, now).deliveries = 1
            budget.spend(self.entries[id])
            found.append(id)
        return found

    def read_history(self, group: Group, name: bytes, after: ID, count: int, now: int, budget: Budget) -> list[ID]:
        """What the consumer has already. It counts as one more delivery where the entry is still there."""
        found: list[ID] = []
        for id, entry in group.owned(name).items():
            if id <= after:
                continue
            if len(found) >= count or budget.is_spent:
                break
            if id in self.entries:
                entry.time = now
                entry.raise_deliveries()
            budget.spend(self.entries.get(id, []))
            found.append(id)
        return found

    def read_claimed(
        self, group: Group, name: bytes, min_idle: int, count: int, now: int, budget: Budget
    ) -> list[tuple[ID, int, int]]:
        """What was out for too long, with how long and how often. Entries that are gone stay pending."""
        found: list[tuple[ID, int, int]] = []
        for id, entry in group.by_time():
            if len(found) >= count or budget.is_spent:
                break
            if id in self.entries and (entry.owner is None or now - entry.time >= min_idle):
                found.append((id, entry.idle(now), entry.deliveries))
                group.give(id, name, now).raise_deliveries()
                budget.spend(self.entries[id])
        return found

    # --- claiming -----------------------------------------------------------------------------------------------------

    def claim(self, group: Group, name: bytes, ids: Iterable[ID], options: Claim, now: int) -> list[ID]:
        claimed = []
        for id in ids:
            if id not in self.entries:
                group.pending.pop(id, None)
                continue
            entry = group.pending.get(id)
            if entry is None and not options.force:
                continue
            if entry is not None and not entry.is_ripe(now, options.min_idle):
                continue
            entry = group.give(id, name, now, options.time)
            if options.retry is not None:
                entry.deliveries = options.retry
            elif not options.justid:
                entry.raise_deliveries()
            claimed.append(id)
        return claimed

    def autoclaim(
        self, group: Group, name: bytes, start: ID, count: int, min_idle: int, now: int, *, justid: bool
    ) -> tuple[ID, list[ID], list[ID]]:
        """Where to go on, what was claimed, what was gone. Looks at ten times `count` entries at most."""
        claimed: list[ID] = []
        gone: list[ID] = []
        listed = [item for item in group.in_order() if item[0] >= start]
        for looked_at, (id, entry) in enumerate(listed):
            if looked_at == count * 10 or len(claimed) + len(gone) == count:
                return id, claimed, gone
            if id not in self.entries:
                del group.pending[id]
                gone.append(id)
            elif entry.is_ripe(now, min_idle):
                group.give(id, name, now)
                if not justid:
                    entry.raise_deliveries()
                claimed.append(id)
        return ZERO, claimed, gone

    # --- what producers sent ------------------------------------------------------------------------------------------

    def original(self, producer: bytes, message: object, now: int) -> ID | None:
        """The ID that a message was given when it came first, as long as it is remembered."""
        return self.remembered(now).get(producer, {}).get(message)

    def remembered(self, now: int) -> dict[bytes, dict[object, ID]]:
        """By producer and message. What was added too long ago, by the time in its ID, is forgotten."""
        return {
            producer: kept
            for producer, messages in self.producers.items()
            if (kept := {key: id for key, id in messages.items() if id[0] + self.duration_s * 1000 >= now})
        }

    def remember(self, producer: bytes, message: object, id: ID) -> None:
        """A producer has only so many messages remembered: the oldest goes."""
        messages = self.producers.setdefault(producer, {})
        messages[message] = id
        while len(messages) > self.max_messages:
            del messages[next(iter(messages))]
        self.messages += 1

    def configure(self, duration_s: int | None, max_messages: int | None) -> None:
        """A change forgets everything."""
        wanted = (
            self.duration_s if duration_s is None else duration_s,
            self.max_messages if max_messages is None else max_messages,
        )
        if wanted != (self.duration_s, self.max_messages):
            self.duration_s, self.max_messages = wanted
            self.producers.clear()
