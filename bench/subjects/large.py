"""A stream of very many entries, against the same stream at one million.

Two stores are built by `add_many` from the same hundred thousand different entries, sealed and closed. Then, in turn
for the one and the other and three times a round, a new process opens the store (`open`, `stream`, `len`), reads the
entry in the middle (the first touch after the open), and then 500 entries at random places all over the stream: the
first read of each finds its node not yet decoded (cold), the second at once after it decoded (warm); all by
`Stream.get`, with an ID that was noted while building. A figure is the median of a process's reads, or its 99th
percentile. Then the kernel is asked to forget the segments and other nodes are read (from the disk), then by a new
opening twenty entries far apart (of the large stream each is the first of its segment; the small one has few), and a
range is read. Resident memory is the process's high-water mark (VmHWM). For the open after a crash, a process that
appends without pause is killed with SIGKILL after 0.1 to 1.5 s at random, and a new process opens the store. The files
are in the page cache but for *from the disk*.
"""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path
from typing import Any

from bench.context import Context
from bench.model import Figure, Result, Row, Series, Target, percentile
from bench.procs import ask, child
from bench.rounds import settle

NAME = "large"
PATIENCE = 6 * 3600.0
# A process may be on a processor whose twin is busy, and then all that it does takes half as long again: of three, two.
PROCESSES = 3
# Pictures have one unit of time.
US = {"ms": 1000.0, "µs": 1.0, "MiB": 1.0}
CLOSE_TO = Target("ratio", at_most=1.5)


def baseline(entries: int) -> int:
    """What the large stream is held against: a million entries, or a tenth where it is not that large itself."""
    return min(1_000_000, entries // 10)


def run(context: Context, result: Result, entries: int) -> None:
    """Builds both stores, measures in turn, and puts the rows into `result`."""
    sizes = (baseline(entries), entries)
    probes: dict[int, list[dict[str, Any]]] = {size: [] for size in sizes}
    crashes: dict[int, list[dict[str, Any]]] = {size: [] for size in sizes}
    built: dict[int, dict[str, Any]] = {}
    with context.fresh("small") as small, context.fresh("large") as large:
        paths = dict(zip(sizes, (small, large), strict=True))
        for size, path in paths.items():
            context.say(f"building a store of {size:,} entries")
            built[size] = ask("build_large", str(path), size, patience=PATIENCE)
        processes = PROCESSES * context.rounds
        for number in range(processes):
            for size, path in paths.items():
                context.say(f"round {number + 1} of {processes}: a new process, {size:,} entries")
                settle(context)
                probes[size].append(_probe(path, built[size], size, number))
        for number in range(context.rounds):
            for size, path in paths.items():
                context.say(f"round {number + 1} of {context.rounds}: killing a writer, {size:,} entries")
                settle(context)
                crashes[size].append(_crash(context, path, built[size], number))
    _rows(result, sizes, probes, crashes)
    for size in sizes:
        speed, weight = size / built[size]["seconds"], built[size]["bytes"] / size
        result.notes.append(
            f"Building {size:,} entries, sealing included: {speed:,.0f} entries/s; {weight:.2f} bytes an entry."
        )
    recovered = sum(answer["recoveries"] for answer in crashes[sizes[0]] + crashes[sizes[1]])
    result.notes.append(f"Of {2 * context.rounds} opens after a kill, {recovered} reported a recovery.")


def _probe(path: Path, built: dict[str, Any], entries: int, number: int) -> dict[str, Any]:
    answer: dict[str, Any] = ask("probe_large", str(path), built["known"], number)
    if answer["count"] != entries:
        raise RuntimeError(f"the store holds {answer['count']} entries and {entries} were added")
    return answer


def _crash(context: Context, path: Path, built: dict[str, Any], number: int) -> dict[str, Any]:
    with child("append_for_ever", str(path)) as writer:
        writer.wait_ready()
        writer.go()
        time.sleep(random.Random(number).uniform(0.1, 1.5) * min(1.0, context.seconds))
        writer.kill()
    answer: dict[str, Any] = ask("probe_large", str(path), built["known"], number)
    return answer


def _figure(answers: list[dict[str, Any]], name: str, unit: str, share: float | None = None) -> Figure:
    scale = {"ms": 1e3, "MiB": 1024.0, "µs": 1.0}[unit]
    found = []
    for answer in answers:
        value = answer[name]
        if isinstance(value, list):
            value = statistics.median(value) if share is None else percentile(value, share)
        found.append(value / scale)
    return Figure(unit, tuple(found))


def _rows(
    result: Result,
    sizes: tuple[int, int],
    probes: dict[int, list[dict[str, Any]]],
    crashes: dict[int, list[dict[str, Any]]],
) -> None:
    small, large = sizes
    peer = f"the same at {small:,}"

    def add(
        case: str, name: str, unit: str, limit: float | None, *, worst: bool = False, share: float | None = None
    ) -> None:
        answers = crashes if name == "crash" else probes
        name = "open" if name == "crash" else name
        ours, theirs = (_figure(answers[size], name, unit, share) for size in (large, small))
        if limit is not None:
            result.rows.append(Row(case, ours, target=Target("figure", at_most=limit, worst=worst)))
        if share is None:
            points = tuple((float(size), _figure(answers[size], name, unit).median * US[unit]) for size in sizes)
            chart = "memory" if unit == "MiB" else "growth"
            line = case.removesuffix(f" at {large:,}").rstrip(",")
            result.series.append(Series(chart, line, "entries in the store", "MiB" if unit == "MiB" else "µs", points))
        close = CLOSE_TO if name in ("first", "cold", "warm") and share is None else None
        result.rows.append(Row(case, ours, peer, theirs, close))

    at = f"at {large:,}"
    add(f"open {at}", "open", "ms", 50)
    add(f"open after a crash {at}", "crash", "ms", 500, worst=True)
    add(f"first point read after open, in the middle, {at}", "first", "µs", 50)
    add(f"point read, node cold, {at}", "cold", "µs", 50)
    add(f"point read, node cold, 99th percentile, {at}", "cold", "µs", None, share=0.99)
    add(f"point read, node warm, {at}", "warm", "µs", 10)
    add(f"point read, from the disk, {at}", "disk", "µs", None)
    add(f"first point read of a segment, from the disk, {at}", "disk_first", "µs", None)
    add(f"resident memory after point reads {at}", "resident_points", "MiB", 200)
    add(f"resident memory after a range of a million {at}", "resident_range", "MiB", 200)
