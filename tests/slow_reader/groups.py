"""Consumer groups, their pending entries, and what producers have added. docs/format/groups.md."""

import struct
from dataclasses import dataclass, field

from tests.slow_reader import layouts
from tests.slow_reader.wire import Cursor, Identifier

__all__ = ["Commits", "Consumer", "Group", "Groups", "Pending", "Settings", "Windows", "pending_rows"]

_TAGS = layouts.RECORD_TAGS


@dataclass(frozen=True)
class Pending:
    """A pending entry. Nobody has it where `consumer` is 0; `time` is the number of the refusal then."""

    consumer: int
    time: int
    deliveries: int

    def key(self, order: int, entry_id: Identifier) -> tuple[int, int, int]:
        first = (0, self.consumer, self.time | layouts.OWNED if self.consumer else self.time)[order]
        return (first, *entry_id)


def pending_rows(cursor: Cursor) -> list[tuple[Identifier, Pending]]:
    """Rows of pending entries, in whatever order."""
    found = []
    entry_id, time = (0, 0), 0
    for _ in range(cursor.varint(len(cursor.data))):
        entry_id = cursor.any_step(entry_id)
        consumer = cursor.varint(2**32 - 1)
        time = cursor.signed(time)
        found.append((entry_id, Pending(consumer, time, cursor.varint())))
    return found


@dataclass
class Consumer:
    """A consumer of a group."""

    name: bytes
    seen: int
    active: int | None = None


@dataclass
class Group:
    """A group, with all of its pending entries."""

    name: bytes
    last: Identifier
    read: int | None
    next_consumer: int = 1
    refusals: int = 0
    greatest: Identifier = (0, 0)
    consumers: dict[int, Consumer] = field(default_factory=dict)
    pending: dict[Identifier, Pending] = field(default_factory=dict)

    def count(self, consumer: int) -> int:
        """The pending entries of a consumer; those that nobody has, for 0."""
        return sum(row.consumer == consumer for row in self.pending.values())

    def consumer(self, cursor: Cursor) -> Consumer:
        number = cursor.varint(2**32 - 1)
        if number not in self.consumers:
            raise cursor.fault("a consumer", number)
        return self.consumers[number]

    def add(self, number: int, consumer: Consumer, cursor: Cursor) -> None:
        if number in (0, *self.consumers) or any(other.name == consumer.name for other in self.consumers.values()):
            raise cursor.fault("a new consumer", number)
        self.consumers[number] = consumer
        self.next_consumer = max(self.next_consumer, number + 1)

    def end(self, entry_id: Identifier, owner: int | None, cursor: Cursor) -> None:
        """Takes an entry out of the list, if it is there at all; `owner` says who must have it."""
        row = self.pending.pop(entry_id, None)
        cursor.same(owner, None if row is None else row.consumer)

    def put(self, entry_id: Identifier, row: Pending, cursor: Cursor) -> None:
        if row.consumer not in (0, *self.consumers):
            raise cursor.fault("a consumer", row.consumer)
        self.pending[entry_id] = row
        self.greatest = max(self.greatest, entry_id)

    def apply(self, tag: int, cursor: Cursor, time: int) -> None:
        """Makes the change of a record that begins with this group's number."""
        if tag == _TAGS["position"]:
            self.last, self.read = cursor.id(), cursor.optional()
        elif tag == _TAGS["consumer"]:
            self.add(cursor.varint(2**32 - 1), Consumer(cursor.name(), time), cursor)
        elif tag == _TAGS["dismiss"]:
            number = cursor.varint()
            cursor.same(0, self.count(number))
            if self.consumers.pop(number, None) is None:
                raise cursor.fault("a consumer", number)
        elif tag == _TAGS["end"]:
            entry_id = (0, 0)
            for _ in range(cursor.varint()):
                entry_id = cursor.any_step(entry_id)
                self.end(entry_id, cursor.optional(2**32 - 1), cursor)
        elif tag == _TAGS["refuse"]:
            self._refuse(cursor)
        else:
            at = cursor.at
            number = cursor.varint()
            cursor.at = at
            consumer = self.consumer(cursor)
            consumer.seen = time
            if tag == _TAGS["deliver"]:
                self._deliver(number, cursor, time)
                consumer.active = time
            elif tag == _TAGS["assign"] and self._assign(number, cursor):
                consumer.active = time

    def _deliver(self, consumer: int, cursor: Cursor, time: int) -> None:
        self.last, self.read = cursor.id(), cursor.optional()
        entry_id = (0, 0)
        for _ in range(cursor.varint()):
            entry_id = cursor.any_step(entry_id)
            self.end(entry_id, None, cursor)
            self.put(entry_id, Pending(consumer, time, 1), cursor)

    def _assign(self, consumer: int, cursor: Cursor) -> int:
        active = cursor.byte()
        rows = pending_rows(cursor)
        for entry_id, row in rows:
            cursor.same(consumer, row.consumer)
            self.end(entry_id, cursor.optional(2**32 - 1), cursor)
            self.put(entry_id, row, cursor)
        return active

    def _refuse(self, cursor: Cursor) -> None:
        first, entry_id = cursor.varint(), (0, 0)
        for number in range(first, first + cursor.varint()):
            entry_id = cursor.any_step(entry_id)
            self.end(entry_id, cursor.optional(2**32 - 1), cursor)
            self.put(entry_id, Pending(0, number, cursor.varint()), cursor)
            self.refusals = number


@dataclass
class Windows:
    """Which messages of which producers are remembered, first in, first out."""

    duration: int = layouts.WINDOW_S
    messages: int = layouts.WINDOW_MESSAGES
    added: int = 0
    producers: dict[bytes, dict[bytes, Identifier]] = field(default_factory=dict)

    def is_past(self, entry_id: Identifier, now: int) -> bool:
        return entry_id[0] + 1000 * self.duration < now - 60_000  # the grace of docs/format/groups.md

    def note(self, producer: bytes, message: bytes, entry_id: Identifier, now: int) -> None:
        for known in self.producers.values():
            while known and self.is_past(next(iter(known.values())), now):
                del known[next(iter(known))]
        self.producers = {name: known for name, known in self.producers.items() if known}
        known = self.producers.setdefault(producer, {})
        known.pop(message, None)
        known[message] = entry_id
        while len(known) > self.messages:
            del known[next(iter(known))]
        self.added += 1
        if len(self.producers) > layouts.MAX_PRODUCERS:
            newest = ((next(reversed(known.values())), name) for name, known in self.producers.items())
            del self.producers[min(newest)[1]]

    def configure(self, duration: int, messages: int) -> None:
        if (duration, messages) != (self.duration, self.messages):
            self.duration, self.messages, self.producers = duration, messages, {}

    @classmethod
    def read(cls, cursor: Cursor) -> "Windows":
        duration, messages = cursor.varint(), cursor.varint()
        (added,) = cursor.fixed(struct.Struct("<Q"))
        windows = cls(duration, messages, added)
        for _ in range(cursor.varint(layouts.MAX_PRODUCERS)):
            name = cursor.name()
            windows.producers[name] = {cursor.name(): cursor.id() for _ in range(cursor.varint())}
        return windows


@dataclass
class Commits:
    """What writers committed last: version, part and time."""

    writers: dict[bytes, tuple[int, int, int]] = field(default_factory=dict)

    def note(self, cursor: Cursor) -> None:
        writer, version, part = cursor.name(), cursor.varint(), cursor.varint(2**32 - 1)
        (time,) = cursor.fixed(struct.Struct("<Q"))
        if writer not in self.writers and len(self.writers) == layouts.MAX_WRITERS:
            del self.writers[min((known[2], name) for name, known in self.writers.items())[1]]
        self.writers[writer] = version, part, time

    @classmethod
    def read(cls, cursor: Cursor) -> "Commits":
        """Section 18."""
        commits = cls()
        count = cursor.varint(layouts.MAX_WRITERS)
        for _ in range(count):
            commits.note(cursor)
        if count == 0 or len(commits.writers) < count or list(commits.writers) != sorted(commits.writers):
            raise cursor.fault("writers by ascending names", list(commits.writers))
        return commits


@dataclass
class Settings:
    """What was set for the stream, by name."""

    values: dict[bytes, bytes] = field(default_factory=dict)

    def note(self, cursor: Cursor) -> None:
        name = cursor.take(cursor.varint(layouts.MAX_SETTING_NAME_BYTES))
        value = cursor.take(cursor.varint(layouts.MAX_SETTING_BYTES))
        self.values.pop(name, None)
        if value:
            self.values[name] = value
        if len(self.values) > layouts.MAX_SETTINGS:
            raise cursor.fault(f"at most {layouts.MAX_SETTINGS} settings", len(self.values))

    @classmethod
    def read(cls, cursor: Cursor) -> "Settings":
        """Section 19."""
        settings = cls()
        count = cursor.varint(layouts.MAX_SETTINGS)
        for _ in range(count):
            settings.note(cursor)
        if count == 0 or len(settings.values) < count or list(settings.values) != sorted(settings.values):
            raise cursor.fault("settings by ascending names, none of them empty", list(settings.values))
        return settings


@dataclass
class Groups:
    """All groups of a stream, by number, the windows of its producers, the commits of its writers, what was set."""

    next_group: int = 0
    by_number: dict[int, Group] = field(default_factory=dict)
    windows: Windows = field(default_factory=Windows)
    commits: Commits = field(default_factory=Commits)
    settings: Settings = field(default_factory=Settings)
    counted: dict[tuple[int, int], int] = field(default_factory=dict, compare=False)

    def add(self, number: int, group: Group, cursor: Cursor) -> None:
        if number in self.by_number or any(other.name == group.name for other in self.by_number.values()):
            raise cursor.fault("a new group", number)
        self.by_number[number] = group
        self.next_group = max(self.next_group, number + 1)

    def group(self, cursor: Cursor) -> Group:
        number = cursor.varint(2**32 - 1)
        if number not in self.by_number:
            raise cursor.fault("a group", number)
        return self.by_number[number]

    def apply(self, tag: int, cursor: Cursor, time: int) -> None:
        """Makes the change of one record that is not of entries."""
        if tag == _TAGS["create"]:
            number, name = cursor.varint(2**32 - 1), cursor.name()
            self.add(number, Group(name, cursor.id(), cursor.optional()), cursor)
        elif tag == _TAGS["destroy"]:
            group = self.group(cursor)
            self.by_number = {number: other for number, other in self.by_number.items() if other is not group}
        elif tag == _TAGS["message"]:
            producer, message, entry_id = cursor.name(), cursor.name(), cursor.id()
            self.windows.note(producer, message, entry_id, *cursor.fixed(struct.Struct("<Q")))
        elif tag == _TAGS["windows"]:
            self.windows.configure(cursor.varint(), cursor.varint())
        elif tag == _TAGS["commit"]:
            self.commits.note(cursor)
        elif tag == _TAGS["setting"]:
            self.settings.note(cursor)
        else:
            self.group(cursor).apply(tag, cursor, time)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, cursor: Cursor) -> "Groups":
        """Section 16. How many pending entries there are is counted when section 17 is read."""
        groups = cls(0)
        next_group = cursor.varint(2**32 - 1)
        for _ in range(cursor.varint(layouts.MAX_GROUPS)):
            number = cursor.varint(2**32 - 1)
            group = Group(cursor.name(), cursor.id(), cursor.optional())
            group.greatest, next_consumer = cursor.id(), cursor.varint(2**32 - 1)
            total, groups.counted[number, 0], group.refusals = cursor.varint(), cursor.varint(), cursor.varint()
            for _ in range(cursor.varint(layouts.MAX_CONSUMERS)):
                consumer = cursor.varint(2**32 - 1)
                group.add(consumer, Consumer(cursor.name(), cursor.varint(), cursor.optional()), cursor)
                groups.counted[number, consumer] = cursor.varint()
            group.next_consumer = next_consumer
            groups.add(number, group, cursor)
            cursor.same(total, sum(count for (of, _), count in groups.counted.items() if of == number))
        groups.next_group = next_group
        groups.windows = Windows.read(cursor)
        return groups

    def read_pending(self, cursor: Cursor) -> None:
        """Section 17: chunks by ID."""
        last = (-1, (0, 0))
        while cursor.at < len(cursor.data):
            at = cursor.at
            number = cursor.varint()
            cursor.at = at
            group = self.group(cursor)
            size = cursor.varint()
            body = Cursor(cursor.path, cursor.take(size), cursor.base + cursor.at - size)
            for entry_id, row in pending_rows(body):
                if (number, entry_id) <= last or entry_id > group.greatest:
                    raise body.fault(f"an ID above {last}", (number, entry_id))
                last = number, entry_id
                group.put(entry_id, row, body)
            body.end()
        for (number, consumer), count in self.counted.items():
            cursor.same(count, self.by_number[number].count(consumer))
