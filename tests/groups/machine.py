"""The same operations as a state machine of Hypothesis, which makes the least of a sequence that fails."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.groups.grammar import Drawn, Grammar, Times, options
from tests.groups.ops import Op
from tests.groups.our_side import OurSide
from tests.groups.their_side import TheirSide
from tests.groups.trials import MakeOurs, bout

__all__ = ["run_machine"]


@dataclass(frozen=True)
class _Setting:
    weights: dict[str, int]
    times: Times
    theirs: TheirSide | None
    make_ours: MakeOurs


class _Machine(RuleBasedStateMachine):
    """A bout. Its rules are added by `run_machine`: one for each operation."""

    setting: ClassVar[_Setting]

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        setting, chosen = self.setting, options(Drawn(data))
        note(f"options: {chosen}")
        self.open = ExitStack()
        self.bout = self.open.enter_context(bout(setting.theirs, chosen, setting.make_ours))
        self.failed = False
        self.grammar = Grammar(self.bout.model, setting.weights, setting.times)
        self.grammar.chance = Drawn(data)
        for op in self.grammar.begin():
            self.do(op)

    def do(self, op: Op) -> None:
        note(repr(op))
        self.failed = True
        self.bout.do(op)
        self.failed = False

    def teardown(self) -> None:
        if not hasattr(self, "bout"):
            return
        with self.open:
            if not self.failed:
                self.bout.end()


def _rule(name: str) -> Callable[..., None]:
    def step(self: _Machine, data: st.DataObject) -> None:
        self.grammar.chance = Drawn(data)
        self.do(self.grammar.make(name))

    step.__name__ = name
    made: Callable[..., None] = rule(data=st.data())(step)
    return made


def run_machine(
    weights: dict[str, int],
    times: Times,
    theirs: TheirSide | None = None,
    make_ours: MakeOurs = OurSide,
    *,
    examples: int = 100,
    shrink: bool = True,
) -> None:
    """Runs that many sequences of up to 50 operations."""
    body: dict[str, Any] = {name: _rule(name) for name in weights}
    machine = type("Groups", (_Machine,), {**body, "setting": _Setting(weights, times, theirs, make_ours)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=45,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            phases=[phase for phase in Phase if shrink or phase is Phase.generate],
        ),
    )
