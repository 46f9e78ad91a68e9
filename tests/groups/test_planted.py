"""The comparison catches mistakes: a model with one planted in it takes the place of the store."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.groups.bout import Clock
from tests.groups.grammar import EXACT, NEWER
from tests.groups.machine import run_machine
from tests.groups.model import LAST, ZERO, Group, Stream
from tests.groups.model_commands import Model
from tests.groups.ops import Op
from tests.groups.trials import Trials


class Impostor:
    """A model that passes itself off as a store."""

    def __init__(self, _directory: Path, _options: dict[str, Any], clock: Clock) -> None:
        self.model = Model(clock)

    def run(self, given: Op, opening: int) -> Any:
        reply = self.model.run(self.told(given))
        for key, stream in self.model.streams.items():
            for group in stream.groups.values():
                self.spoil(given, key, stream, group)
        return reply

    def told(self, given: Op) -> Op:
        return given

    def spoil(self, given: Op, key: str, stream: Stream, group: Group) -> None:
        """The mistake."""

    def close(self) -> None: ...

    def names(self) -> list[str]:
        return sorted(self.model.streams)

    def complaints(self) -> list[str]:
        return []

    problems = complaints


def without(name: str, *options: str) -> type[Impostor]:
    """Does not heed options of a command."""

    class Heedless(Impostor):
        def told(self, given: Op) -> Op:
            if given.name != name:
                return given
            return Op(given.name, {key: value for key, value in given.args.items() if key not in options})

    return Heedless


def after(names: str, spoil: Callable[[Stream, Group], None]) -> type[Impostor]:
    """Does something else beside what was asked for."""

    class Spoiling(Impostor):
        def spoil(self, given: Op, key: str, stream: Stream, group: Group) -> None:
            if given.name in names.split():
                spoil(stream, group)

    return Spoiling


class Stale(Impostor):
    """One opening sees what the other did only when it does something itself."""

    def __init__(self, directory: Path, options: dict[str, Any], clock: Clock) -> None:
        super().__init__(directory, options, clock)
        self.seen = self.model

    def run(self, given: Op, opening: int) -> Any:
        if opening == 1 and given.name.startswith(("xinfo", "xpending")):
            return self.seen.run(given)
        reply = super().run(given, opening)
        if opening == 1:
            self.seen = copy.copy(self.model)
            self.seen.streams = {key: copy.deepcopy(stream) for key, stream in self.model.streams.items()}
        return reply


def forget_deliveries(stream: Stream, group: Group) -> None:
    for entry in group.pending.values():
        entry.deliveries = 1


def forget_order(stream: Stream, group: Group) -> None:
    for id, entry in group.pending.items():
        entry.refused = id[0]


def forget_activity(stream: Stream, group: Group) -> None:
    for consumer in group.consumers.values():
        consumer.active = None


def forget_idle_consumers(stream: Stream, group: Group) -> None:
    group.consumers = {name: known for name, known in group.consumers.items() if group.owned(name)}


def drop_what_is_gone(stream: Stream, group: Group) -> None:
    group.pending = {id: entry for id, entry in group.pending.items() if id in stream.entries}


def lose_last(stream: Stream, group: Group) -> None:
    group.pending.pop(max(group.pending, default=ZERO), None)


def go_back(stream: Stream, group: Group) -> None:
    group.last = max(group.pending, default=group.last) if group.last != LAST else LAST


MISTAKES: dict[str, type[Impostor]] = {
    "a claim takes no notice of idle times": without("xclaim", "idle"),
    "a claim takes no notice of RETRYCOUNT": without("xclaim", "retry"),
    "a claim takes no notice of LASTID": without("xclaim", "last_id"),
    "ENTRIESREAD is not kept": without("xgroup_setid", "entries_read"),
    "a read without acknowledgement leaves something behind": without("xreadgroup", "noack"),
    "a read takes no notice of MAXSIZE": without("xreadgroup", "max_bytes"),
    "a filter by idle time lets all through": without("xpending_range", "idle"),
    "references are kept": without("xdelex", "ref"),
    "what was refused cannot be forced": without("xnack", "force"),
    "a view that is built anew has lost the deliveries": after("rebuild", forget_deliveries),
    "a view that is built anew has the refused ones in another order": after("rebuild", forget_order),
    "an opening has lost when consumers were active": after("reopen rebuild", forget_activity),
    "a snapshot leaves out consumers that have nothing": after("seal", forget_idle_consumers),
    "a compaction drops what is pending and gone": after("compact", drop_what_is_gone),
    "a deleted entry is not pending any more": after("xdel", drop_what_is_gone),
    "an acknowledgement takes one more with it": after("xack", lose_last),
    "a trim sets groups back": after("xtrim", go_back),
    "one opening is behind the other": Stale,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_caught(mistake: str) -> None:
    with pytest.raises(AssertionError, match="seed") as caught:
        Trials(NEWER, EXACT, make_ours=MISTAKES[mistake]).run(range(1, 400))
    assert len(str(caught.value).splitlines()) < 40, "the shortest sequence is shown"


def test_the_state_machine_catches_one_too() -> None:
    with pytest.raises(AssertionError):
        run_machine(NEWER, EXACT, make_ours=MISTAKES["an acknowledgement takes one more with it"], shrink=False)


def test_without_a_mistake_nothing_is_caught() -> None:
    Trials(NEWER, EXACT, make_ours=Impostor).run(range(1, 40))
    run_machine(NEWER, EXACT, make_ours=Impostor, examples=3)
