"""Operations of writers that try again: parts of a version, which are added once, and notes that it is complete."""

from collections.abc import Callable
from dataclasses import replace

from diskstream import Commit
from diskstream.commits import COMPLETE
from tests.crash.effects import Added, Effect, Foretold, Outcome
from tests.crash.model import EMPTY, ID, Pairs, State
from tests.crash.observe import WRITERS, as_id
from tests.crash.workload import Workload

__all__ = ["COMMIT_WEIGHTS"]


def _chosen(w: Workload) -> tuple[bytes, State, Commit]:
    """A stream, and the next part of a writer's version there, one that it had before, or the next version."""
    name = w.rng.choice(sorted({*w.promises.now, b"a"}))
    timeline = w.promises.now.get(name)
    state = EMPTY if timeline is None else timeline.now
    writer = w.rng.choice(WRITERS)
    version, part = state.commits.get(writer, (1, -1))
    if part == COMPLETE or w.rng.random() < 0.2:
        version, part = version + 1, -1
    return name, state, Commit(writer, version, max(part + w.rng.choice((1, 1, 1, 0, 2)), 0))


def _is_new(state: State, commit: Commit) -> bool:
    return state.commits.get(commit.writer, (-1, -1)) < (commit.version, commit.part)


def add_part(w: Workload) -> None:
    """Some entries, if they were not added before."""
    name, state, commit = _chosen(w)
    is_new, durable = _is_new(state, commit), w.rng.random() < 0.2
    rows: list[Pairs] = [((b"part", b"%d" % commit.part),)] * w.rng.randint(1, 4)
    stream = w.store.stream(name)
    effects: list[Effect] = [Added(rows, None, commit=commit.record)] if is_new else []

    def action() -> list[Outcome]:
        added = stream.add_many(rows, commit=commit, durable=durable)
        assert (added is not None) == is_new, f"{commit} over {state.commits}: {added}"
        return [] if added is None else [[as_id(entry_id) for entry_id in added]]

    def issued(outcomes: list[Outcome]) -> ID:
        assert isinstance(outcomes[0], list)
        last: ID = outcomes[0][-1]
        return last

    w.note(f"add part {name[:9]!r} {commit} new={is_new} durable={durable}")
    w.change(name, effects, action, durable=durable, issued=issued if is_new else None)


def complete(w: Workload) -> None:
    """A version is complete, if that was not noted before."""
    name, state, some = _chosen(w)
    commit = Commit.complete(some.writer, some.version)
    durable = w.rng.random() < 0.5

    def note(before: State) -> State:
        return replace(before, commits={**before.commits, commit.writer: (commit.version, commit.part)})

    def action() -> list[Outcome]:
        assert w.store.stream(name).note_commit(commit, durable=durable) == _is_new(state, commit)
        return [None]

    w.note(f"complete {name[:9]!r} {commit} durable={durable}")
    w.change(name, [Foretold(note)], action, durable=durable)


COMMIT_WEIGHTS: dict[Callable[[Workload], None], int] = {add_part: 9, complete: 2}
