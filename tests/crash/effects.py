"""What an operation does to a stream, step by step: a cut or a kill may come between any two."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tests.crash.groups import Groups, agreed
from tests.crash.model import ID, Pairs, State

__all__ = ["Added", "Effect", "Foretold", "Grouped", "Outcome", "Removed", "SetTo", "Trimmed", "paths"]

# What only the store knows: the IDs that it chose, the number of entries that an approximate trim took, what became of
# the groups.
Outcome = Sequence[ID] | int | Groups | None


class Effect(Protocol):
    """One step."""

    def apply(self, state: State, outcome: Outcome) -> State:
        """The state after it."""

    def outcome(self, before: State, found: State) -> Outcome:
        """The outcome, as far as it can be seen from a state that was found after this step or a later one."""


@dataclass(frozen=True)
class Added:
    """Entries came, with IDs that were given or chosen; a message, or a commit, may be remembered with them."""

    rows: Sequence[Pairs]
    ids: Sequence[ID] | None
    message: tuple[bytes, bytes, int] | None = None
    commit: tuple[bytes, int, int] | None = None

    def apply(self, state: State, outcome: Outcome) -> State:
        """The state after it."""
        assert isinstance(outcome, Sequence)
        assert self.ids is None or list(self.ids) == list(outcome), f"given {self.ids}, added as {outcome}"
        after = state.with_added(outcome, self.rows)
        if self.commit is not None:
            writer, version, part = self.commit
            after = replace(after, commits={**after.commits, writer: (version, part)})
        if self.message is None:
            return after
        producer, message, now = self.message
        return replace(after, windows=state.windows.noted(producer, message, outcome[0], now))

    def outcome(self, before: State, found: State) -> Outcome:
        """IDs that are chosen follow each other, and the last of them is the stream's last."""
        if self.ids is not None:
            return self.ids
        ms, seq = found.last
        return [(ms, seq - len(self.rows) + 1 + index) for index in range(len(self.rows))]


@dataclass(frozen=True)
class Trimmed:
    """The oldest entries went: all but `maxlen`, or those below `minid`; not more than that if approximately."""

    maxlen: int | None
    minid: ID | None
    approximate: bool

    def most(self, state: State) -> int:
        """How many may go."""
        if self.minid is not None:
            return sum(entry_id < self.minid for entry_id, _ in state.entries)
        return max(len(state.entries) - (self.maxlen or 0), 0)

    def apply(self, state: State, outcome: Outcome) -> State:
        """The state after it."""
        assert isinstance(outcome, int)
        most = self.most(state)
        assert 0 <= outcome <= most, f"{outcome} went, at most {most} may"
        assert self.approximate or outcome == most, f"{outcome} went, exactly {most} had to"
        return state.without_first(outcome)

    def outcome(self, before: State, found: State) -> Outcome:
        """What is missing went."""
        return len(before.entries) - len(found.entries)


@dataclass(frozen=True)
class Removed:
    """Entries were deleted one by one."""

    ids: Sequence[ID]

    def apply(self, state: State, outcome: Outcome) -> State:
        """The state after it."""
        after = state.without(self.ids)
        gone = len(state.entries) - len(after.entries)
        assert outcome in (None, gone), f"{outcome} were deleted, there were {gone}"
        return after

    def outcome(self, before: State, found: State) -> Outcome:
        """Nothing that the store chose."""
        return None


@dataclass(frozen=True)
class SetTo:
    """The last ID was set, and perhaps the counters."""

    last: ID
    added: int | None
    deleted: ID

    def apply(self, state: State, outcome: Outcome) -> State:
        """The state after it."""
        return replace(
            state,
            last=self.last,
            added=state.added if self.added is None else self.added,
            deleted=state.deleted if self.deleted == (0, 0) else self.deleted,
        )

    def outcome(self, before: State, found: State) -> Outcome:
        """Nothing that the store chose."""
        return None


# --- groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Foretold:
    """A step of which everything is known beforehand."""

    change: Callable[[State], State]

    def apply(self, state: State, outcome: Outcome) -> State:
        """The state after it."""
        return self.change(state)

    def outcome(self, before: State, found: State) -> Outcome:
        """Nothing that the store chose."""
        return None


@dataclass(frozen=True)
class Grouped:
    """Groups changed, perhaps entries in the same step: as foretold, but for what only the store knows of them."""

    change: Callable[[State], State]

    def apply(self, state: State, outcome: Outcome) -> State:
        """The state after it."""
        assert isinstance(outcome, Mapping)
        after = self.change(state)
        return replace(after, groups=agreed(after.groups, outcome))

    def outcome(self, before: State, found: State) -> Outcome:
        """The groups as they are."""
        return found.groups


def paths(before: State, effects: Sequence[Effect], found: State) -> list[State]:
    """The states that an interrupted operation may have reached, given what was found after it."""
    states = [before]
    for effect in effects:
        try:
            states.append(effect.apply(states[-1], effect.outcome(states[-1], found)))
        except AssertionError:
            break  # this step did not happen, or what was found would be another
    return states
