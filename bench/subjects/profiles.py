"""Where the time goes.

Callgrind counts the instructions of each operation by the file of machine code and the function that they are in, in
the fixed workloads of `python -m bench.counts` (fsync os, so that nothing waits for the disk). The same workloads are
then timed without it, each round anew. *The kernel* is the processor time in system calls that callgrind saw; the rest
of the operation's processor time is divided as the instructions are; *waiting* is what elapsed beyond it. A part below
1 % is left out. Beside them stand the floors of this machine, taken in the same rounds: the copy of the bytes of an
entry, one system call that does nothing, one write of 96 bytes and its flush, and making the Python objects of an entry
(a dict of two names and values, and an ID).
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import diskstream
from bench.context import Context
from bench.counts import measuring
from bench.counts.dump import Dump
from bench.counts.workloads import WORKLOADS
from bench.model import Figure, Result, Row
from bench.peers import bare
from bench.rounds import settle

NAME = "profiles"
UNIT = "µs"
# Starting Python under callgrind takes longer than a turn that only shows that the suite runs.
LEAST_SECONDS = 0.2
# An entry's names and values, its lengths and its share of a frame.
ENTRY_BYTES = 96
COPIED_BYTES = 96_000
CORE, BYTECODE, OBJECTS, LIBRARY = (
    "native core",
    "CPython, bytecode and frames",
    "CPython, objects and the rest",
    "C library",
)
KERNEL, WAITING = "the kernel", "waiting"
COPY, CALL, FLUSH, BUILD = (
    f"copy of {ENTRY_BYTES} bytes",
    "one system call",
    f"write of {ENTRY_BYTES} bytes and flush",
    "Python objects of an entry",
)
# What is shown, and the floor beside the whole of it.
SHOWN = {
    "add": COPY,
    "add_many": COPY,
    "range": BUILD,
    "range_sealed": BUILD,
    "read_1": BUILD,
    "read_100": BUILD,
    "server_xadd": CALL,
    "server_xrange": CALL,
    "server_xreadgroup": CALL,
}
_FRAMES = ("_PyEval", "_PyFrame", "_PyEvalFrame", "initialize_locals", "_PyThreadState_PopFrame", "clear_thread_frame")


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    if context.seconds < LEAST_SECONDS:
        result.skipped.append("profiles: the turns are too short for them")
        return
    without = measuring.missing()
    if without:
        result.skipped.append(f"profiles: {without}")
        return
    context.say("instructions under callgrind")
    with context.fresh("profiles") as path:
        dumps = _dumps(path, list(SHOWN))
    floors: dict[str, list[float]] = {name: [] for name in (COPY, CALL, FLUSH, BUILD)}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in SHOWN}
    for turn in range(context.rounds):
        context.say(f"round {turn + 1} of {context.rounds}")
        settle(context)
        for name, measure in _floors(context).items():
            floors[name].append(measure())
        for name, found in times.items():
            found.append(timed(context, name))
    report(result, dumps, times, floors)


def _dumps(path: Path, names: list[str]) -> dict[str, Dump]:
    """Of all workloads, by two processes side by side: what is counted does not depend on what else runs."""

    def of(half: int) -> dict[str, Dump]:
        scratch = path / str(half)
        scratch.mkdir(parents=True)
        return measuring.dumps(scratch, names[half::2])

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(of, range(2))
    both = first | second
    return {name: both[name] for name in names}


def timed(context: Context, name: str) -> tuple[float, float]:
    """µs that one operation of a workload takes, and those of the processor."""
    workload = WORKLOADS[name]
    with context.fresh("profile") as path:
        workload.prepare(path)
        with workload.opened(path) as operate:
            operate(workload.warm)
            gc.collect()
            wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
            operate(workload.operations)
            cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
    return wall / workload.operations / 1000, cpu / workload.operations / 1000


def part_of(place: str, function: str) -> str:
    """Which part an instruction belongs to, by its object and function."""
    if place == measuring.NATIVE:
        return CORE
    if place.startswith(("libpython", "python")):
        return BYTECODE if function.startswith(_FRAMES) else OBJECTS
    if place.startswith(("libc.", "ld-", "libm.", "libpthread", "libgcc")):
        return LIBRARY
    return OBJECTS


def parts(dump: Dump, operations: int, wall_us: float, cpu_us: float) -> dict[str, float]:
    """The µs of each part of one operation."""
    kernel = min(dump.system_ns / operations / 1000, cpu_us)
    instructions: Counter[str] = Counter()
    for (place, function), count in dump.functions.items():
        instructions[part_of(place, function)] += count
    found = {
        name: (cpu_us - kernel) * instructions[name] / dump.instructions for name in (BYTECODE, OBJECTS, CORE, LIBRARY)
    }
    return found | {KERNEL: kernel, WAITING: max(0.0, wall_us - cpu_us)}


def report(
    result: Result,
    dumps: dict[str, Dump],
    times: dict[str, list[tuple[float, float]]],
    floors: dict[str, list[float]],
) -> None:
    """A row for the whole of each workload, and one for each part of it."""
    against = {name: Figure(UNIT, tuple(samples)) for name, samples in floors.items()}
    for name, dump in dumps.items():
        workload = WORKLOADS[name]
        what = workload.what.replace("`", "")
        whole = Figure(UNIT, tuple(wall for wall, _ in times[name]))
        result.rows.append(Row(what, whole, SHOWN[name], against[SHOWN[name]]))
        divided = [parts(dump, workload.operations, wall, cpu) for wall, cpu in times[name]]
        for part in divided[0]:
            samples = tuple(each[part] for each in divided)
            if min(samples) > 0 and statistics.median(samples) >= 0.01 * whole.median:
                floor = CALL if part == KERNEL else None
                peer = against[floor] if floor else None
                result.rows.append(Row(f"{what}: {part}", Figure(UNIT, samples), floor, peer))
        calls = dump.system_calls / workload.operations
        result.notes.append(
            f"{what}: {dump.instructions / workload.operations:,.0f} instructions, {calls:.3g} system calls."
        )
    for name, figure in against.items():
        result.rows.append(Row(f"floor: {name}", figure))


def _floors(context: Context) -> dict[str, Callable[[], float]]:
    return {COPY: _copy, CALL: _call, FLUSH: lambda: _flush(context), BUILD: _build}


def _per_call(call: Callable[[], object], repeats: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(repeats):
        call()
    return (time.perf_counter_ns() - begin) / repeats / 1000


def _copy() -> float:
    source, target = memoryview(bytes(COPIED_BYTES)), memoryview(bytearray(COPIED_BYTES))

    def copy() -> None:
        target[:] = source

    return _per_call(copy, 2000) * ENTRY_BYTES / COPIED_BYTES


def _call() -> float:
    # A call from Python into C costs something too, and is no part of the floor.
    return max(_per_call(os.getppid, 50_000) - _per_call(gc.isenabled, 50_000), 0.001)


def _flush(context: Context) -> float:
    with context.fresh("bare") as path, bare.zero_filled(path / "zeros") as descriptor:
        return _per_call(bare.flush_step(descriptor, 1), 200)


def _build() -> float:
    stored, made = b"1692632086370-0 4711 19.8", diskstream.EntryID

    def build() -> None:
        _id = made(1692632086370, 0)
        _fields = {b"sensor-id": stored[16:20], b"temperature": stored[21:]}

    return _per_call(build, 50_000)
