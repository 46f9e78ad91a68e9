"""A consumer group with very much pending, against one with little.

Stores are built from the same entries; one consumer of a group has read all of them and acknowledged none, or, in the
store held against it, the last hundred and ten of as many entries. In one store the pending entries are in the snapshot
that begins the newest segment (the stream was sealed), in one they are in the frames of a segment that is never full.
In turn for each, three times a round, a new process opens the store and asks for `Group.pending()`, the first look;
then 50 times more; then it claims a hundred neighbours at a time with their entries (`Consumer.claim`), the first,
others at random places, and the first ones again, by two consumers in turn; a hundred IDs from all over; and by
`autoclaim` from a cursor on. To make the view anew, `view/` is removed; a new process opens the store, asks for ten
entries in the middle of what is pending (`pending_range`), and claims one: the rate is what is pending over the time
from the open to the end of the claim. Summaries and claims are medians of a process's calls, unless it says otherwise.
The files are in the page cache.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.context import Context
from bench.model import Figure, Result, Row, Target
from bench.procs import ask
from bench.rounds import settle
from bench.subjects.pending_store import IN_FRAMES, IN_SNAPSHOT

NAME = "pending"
FEW = 110
# A process may be on a processor whose twin is busy, and then all that it does takes half as long again: of three, two.
PROCESSES = 3
CLOSE_TO = Target("ratio", at_most=1.5)
PATIENCE = 1200.0

Answers = list[dict[str, Any]]


def run(context: Context, result: Result) -> None:
    """Builds the stores, measures in turn, and puts the rows into `result`."""
    many = context.scale.pending
    cases = {"many": (many, IN_SNAPSHOT), "few": (FEW, IN_SNAPSHOT), "frames": (many, IN_FRAMES)}
    probes: dict[str, Answers] = {case: [] for case in cases}
    rebuilds: dict[str, Answers] = {"many": [], "frames": []}
    with ExitStack() as stack:
        paths: dict[str, Path] = {}
        built: dict[str, dict[str, Any]] = {}
        for case, (pending, place) in cases.items():
            context.say(f"building a store with {pending:,} pending, {place}")
            paths[case] = stack.enter_context(context.fresh("store"))
            built[case] = ask("pending_build", str(paths[case]), many, pending, place, patience=PATIENCE)
        for number in range(PROCESSES * context.rounds):
            for case in cases:
                context.say(f"round {number + 1} of {PROCESSES * context.rounds}: a new process, {case}")
                settle(context)
                probes[case].append(ask("pending_probe", str(paths[case]), built[case]))
        for number in range(context.rounds):
            for case, answers in rebuilds.items():
                context.say(f"round {number + 1} of {context.rounds}: the view anew, {case}")
                settle(context)
                answers.append(ask("pending_rebuild", str(paths[case]), built[case], number, patience=PATIENCE))
    _rows(result, many, probes)
    _rebuild_rows(result, many, rebuilds)
    for case, (pending, place) in cases.items():
        weights = f"{built[case]['bytes']:,} bytes of log, {built[case]['view_bytes']:,} of view"
        result.notes.append(
            f"The store with {pending:,} pending, {place}: {weights}; in {built[case]['seconds']:.1f} s."
        )


def _figure(answers: Answers, name: str, of: Callable[[list[float]], float], unit: str = "ms") -> Figure:
    found = (answer[name] for answer in answers)
    return Figure(unit, tuple(of(value) if isinstance(value, list) else value for value in found))


def _rows(result: Result, many: int, probes: dict[str, Answers]) -> None:
    at, peer = f"{many:,} pending", f"the same, {FEW} pending"

    def add(
        case: str,
        name: str,
        *,
        limit: float | None = None,
        close: Target | None = None,
        of: Callable[[list[float]], float] = statistics.median,
    ) -> None:
        ours, theirs = (_figure(probes[which], name, of) for which in ("many", "few"))
        if limit is not None:
            result.rows.append(Row(f"{case}, {at}", ours, target=Target("figure", at_most=limit)))
        result.rows.append(Row(f"{case}, {at}", ours, peer, theirs, close))

    add("open and first look", "open", limit=1000)
    frames = _figure(probes["frames"], "open", statistics.median)
    result.rows.append(Row(f"open and first look, {at}, in frames", frames, target=Target("figure", at_most=1000)))
    add("summary", "summary", limit=1)
    add("summary, the slowest call", "summary", of=max)
    add("summary after claims", "summary_after", limit=1)
    add("claim of 100 neighbours", "claim", close=CLOSE_TO)
    add("claim of 100 neighbours, mean", "claim", of=statistics.fmean)
    add("claim of the same 100 again", "again")
    add("first claim of 100 after the open", "first_claim")
    add("claim of 100 from all over", "scattered")
    add("autoclaim of 100", "autoclaim")


def _rebuild_rows(result: Result, many: int, rebuilds: dict[str, Answers]) -> None:
    for case, words in (("many", "from a snapshot"), ("frames", "from frames")):
        rates = Figure("entries/s", tuple(many / answer["seconds"] for answer in rebuilds[case]))
        result.rows.append(Row(f"the view anew, {words}", rates, target=Target("figure", at_least=500_000)))
    for case, words in (("many", "from a snapshot"), ("frames", "from frames")):
        for name, what in (("opened", "opening alone"), ("looked", "until the first pending_range")):
            figure = Figure("ms", tuple(answer[name] * 1000 for answer in rebuilds[case]))
            result.rows.append(Row(f"the view anew, {words}: {what}", figure))
        resident = Figure("MiB", tuple(answer["resident"] / 1024 for answer in rebuilds[case]))
        result.rows.append(Row(f"the view anew, {words}: resident memory at most", resident))
