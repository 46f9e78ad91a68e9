"""What a store promises: the states that its streams went through, and which of them a power cut may leave."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from diskstream import RetentionRule
from tests.crash.groups import ID, Group, Groups, Windows

__all__ = ["EMPTY", "ID", "Pairs", "Promises", "State", "Timeline"]

Pairs = tuple[tuple[bytes, bytes], ...]
Names = dict[bytes, "Timeline"]


@dataclass(frozen=True, slots=True)
class State:
    """A stream, as its callers see it.

    Attributes:
        entries: ID and pairs of each live entry, in order.
        last: the last ID.
        added: entries ever added.
        deleted: the greatest ID ever deleted.
        groups: the consumer groups by name.
        windows: the idempotent messages that are remembered.
        commits: version and part that each writer committed last.
        rule: of retention.
    """

    entries: tuple[tuple[ID, Pairs], ...] = ()
    last: ID = (0, 0)
    added: int = 0
    deleted: ID = (0, 0)
    groups: Groups = field(default_factory=dict)
    windows: Windows = field(default_factory=Windows)
    commits: Mapping[bytes, tuple[int, int]] = field(default_factory=dict)
    rule: RetentionRule | None = None

    def with_added(self, ids: Sequence[ID], rows: Sequence[Pairs]) -> "State":
        """With further entries."""
        assert len(ids) == len(rows), (ids, len(rows))
        assert all(low < high for low, high in zip((self.last, *ids), ids, strict=False)), (
            f"IDs rise: {self.last}, then {ids}"
        )
        entries = (*self.entries, *zip(ids, rows, strict=True))
        return replace(self, entries=entries, last=ids[-1], added=self.added + len(ids))

    def without(self, ids: Iterable[ID]) -> "State":
        """With entries deleted."""
        wanted = set(ids)
        gone = [entry_id for entry_id, _ in self.entries if entry_id in wanted]
        if not gone:
            return self
        entries = tuple(entry for entry in self.entries if entry[0] not in wanted)
        return replace(self, entries=entries, deleted=max(self.deleted, gone[-1]))

    def without_first(self, count: int) -> "State":
        """With the oldest entries trimmed away."""
        return replace(self, entries=self.entries[count:])

    def with_group(self, name: bytes, group: Group) -> "State":
        """With a group, new or changed."""
        return replace(self, groups={**self.groups, name: group})

    def __str__(self) -> str:
        ids = [f"{ms}-{seq}" for (ms, seq), _ in self.entries]
        shown = ids if len(ids) <= 12 else [*ids[:5], "...", *ids[-5:]]
        text = f"{len(ids)} entries [{' '.join(shown)}] last={self.last} added={self.added} deleted={self.deleted}"
        groups = [f"\n         {name!r}: {group}" for name, group in sorted(self.groups.items())]
        windows = "" if self.windows == Windows() else f"\n         messages: {self.windows}"
        commits = f"\n         commits: {self.commits}" if self.commits else ""
        rule = f"\n         rule: {self.rule}" if self.rule else ""
        return text + "".join(groups) + windows + commits + rule


EMPTY = State()


@dataclass(eq=False)
class Timeline:
    """One stream from its making on, whatever its name is.

    Attributes:
        states: what it went through, one operation after the other.
        began: for each state, the length of the trace when the operation that led to it began.
        durable: (length of the trace, index of a state): from there on nothing before that state may be left.
        issued: (length of the trace, greatest automatic ID returned by then).
    """

    states: list[State] = field(default_factory=lambda: [EMPTY])
    began: list[int] = field(default_factory=lambda: [-1])
    durable: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    issued: list[tuple[int, ID]] = field(default_factory=lambda: [(0, (0, 0))])

    @property
    def now(self) -> State:
        """The present state."""
        return self.states[-1]

    def went(self, state: State, began: int) -> None:
        """Goes on to a state."""
        if state != self.now:
            self.states.append(state)
            self.began.append(began)

    def allowed(self, position: int) -> list[State]:
        """The states that a cut at a moment of the trace may leave, the oldest first."""
        low = max(index for at, index in self.durable if at <= position)
        high = max(index for index, began in enumerate(self.began) if began < position)
        return self.states[low : max(high, low) + 1]

    def issued_by(self, position: int) -> ID:
        """The greatest automatic ID that was returned by then."""
        return max(entry_id for at, entry_id in self.issued if at <= position)


@dataclass
class Promises:
    """A store: which streams have which names, and what is durable of it all.

    Attributes:
        versions: the names that there were, one change after the other.
        began: for each version, the length of the trace when the operation that led to it began.
        durable: (length of the trace, index of a version): from there on no version before that may be left.
        pinned: (length of the trace, stream, name): from there on, as long as no later change of names is durable, the
            stream has that name, since something of it was promised to be durable.
        was_full: whether the disk was full once: a log may then have gone without its audit.
    """

    versions: list[Names] = field(default_factory=lambda: [{}])
    began: list[int] = field(default_factory=lambda: [-1])
    durable: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    pinned: list[tuple[int, int, Timeline, bytes]] = field(default_factory=list)
    was_full: bool = False

    @property
    def now(self) -> Names:
        """The present names."""
        return self.versions[-1]

    def named(self, names: Names, began: int) -> None:
        """Goes on to other names."""
        if names != self.now:
            self.versions.append(names)
            self.began.append(began)

    def names_kept(self, position: int) -> None:
        """The present names are durable from now on."""
        self.durable.append((position, len(self.versions) - 1))

    def kept(self, name: bytes, position: int, upto: int | None = None) -> None:
        """All of a stream, or all up to a state by its number, is durable from now on, and so is its name."""
        timeline = self.now[name]
        timeline.durable.append((position, len(timeline.states) - 1 if upto is None else upto))
        self.pinned.append((position, len(self.versions) - 1, timeline, name))

    def all_kept(self, position: int) -> None:
        """Everything is durable from now on."""
        for name in self.now:
            self.kept(name, position)

    def allowed(self, position: int) -> list[Names]:
        """The names that a cut at a moment of the trace may leave, the oldest first."""
        low = max(index for at, index in self.durable if at <= position)
        high = max(index for index, began in enumerate(self.began) if began < position)
        pinned = {
            timeline: (index, name) for at, index, timeline, name in self.pinned if at <= position and index > low
        }
        return [
            self.versions[index]
            for index in range(low, max(high, low) + 1)
            if all(
                index >= since or self.versions[index].get(name) is timeline
                for timeline, (since, name) in pinned.items()
            )
        ]
