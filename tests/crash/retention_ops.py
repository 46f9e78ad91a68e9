"""Operations of retention: a rule is set, cleared, and applied."""

import dataclasses
from collections.abc import Callable
from dataclasses import replace

from diskstream import RetentionRule
from tests.crash.effects import Effect, Foretold, Outcome, Trimmed
from tests.crash.model import State
from tests.crash.workload import Workload

__all__ = ["RETENTION_WEIGHTS"]


def _chosen(w: Workload) -> tuple[bytes, State] | None:
    if not w.promises.now:
        return None
    name = w.rng.choice(sorted(w.promises.now))
    return name, w.promises.now[name].now


def set_rule(w: Workload) -> None:
    """A rule, or none in its place; durable on return."""
    chosen = _chosen(w)
    if chosen is None:
        return
    name, _ = chosen
    stream = w.store.stream(name)
    rule = None
    if w.rng.random() < 0.8:
        rule = RetentionRule(max_entries=w.rng.choice((1, 10, 40)), max_bytes=w.rng.choice((None, 1 << 40)))

    def action() -> list[Outcome]:
        if rule is None:
            stream.clear_retention()
        else:
            stream.set_retention(**dataclasses.asdict(rule))
        return [None]

    w.note(f"set rule {name[:9]!r} {rule}")
    w.change(name, [Foretold(lambda state: replace(state, rule=rule))], action, durable=True)


def apply_rule(w: Workload) -> None:
    """A step of retention: some of the oldest go, never too many."""
    chosen = _chosen(w)
    if chosen is None:
        return
    name, state = chosen
    if state.rule is None:
        set_rule(w)
        return
    limit = w.rng.choice((None, 3, 30))
    stream = w.store.stream(name)
    effects: list[Effect] = [Trimmed(state.rule.max_entries, None, approximate=True)]

    def action() -> list[Outcome]:
        return [stream.apply_retention(limit=limit).removed]

    w.note(f"apply rule {name[:9]!r} {state.rule} limit={limit}")
    w.change(name, effects, action)


RETENTION_WEIGHTS: dict[Callable[[Workload], None], int] = {set_rule: 2, apply_rule: 5}
