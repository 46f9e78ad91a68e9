"""From a script to a verdict: it is run once to count its system calls, then killed at some of them, or at each."""

import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import diskstream
from diskstream import DiskstreamError
from tests.crash.observe import Violation
from tests.crash.run import scratch
from tests.kills.archives import Source
from tests.kills.living import Ended, fresh, live
from tests.kills.strace import Call, calls, last_call
from tests.kills.tour import NEEDED
from tests.kills.workload import Careful, Doomed, Judge, Script, checked

__all__ = ["KINDS", "Job", "Outcome", "find_tour", "run"]

KINDS = ("kill", "error", "archive")
_AGAIN = 3  # for a kill that came too late


@dataclass(frozen=True)
class Job:
    """One script, and what is done to it.

    Attributes:
        kind: "kill", "error" or "archive".
        script: what is done.
        places: at how many of its calls; None is each of them.
        until: when (of the monotonic clock) no other one is begun; one always is.
        only: the call to take, for a replay.
        calls: the system calls to strike at, by name; none means any of them.
    """

    kind: str
    script: Script
    places: int | None
    until: float = float("inf")
    only: int | None = None
    calls: frozenset[str] = frozenset()


@dataclass
class Outcome:
    """What came of a job."""

    tried: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def _places(job: Job, found: Sequence[Call]) -> list[int]:
    """Which calls to take, in an order by chance, so that a job that is cut short has been everywhere."""
    if job.only is not None:
        return [job.only]
    all_of_them = [nth for nth, call in enumerate(found) if not job.calls or call.name in job.calls]
    wanted = len(all_of_them) if job.places is None else min(len(all_of_them), job.places)
    return random.Random(f"places/{job.script}").sample(all_of_them, wanted)


# --- killed -----------------------------------------------------------------------------------------------------------


def _killed(job: Job, directory: Path, at: Call | None, *, joined: bool) -> tuple[Ended, Judge | None]:
    """A script killed at one of its calls, and who judges it; nobody where it was not killed."""
    root = fresh(directory / "killed")

    def work(said: int) -> None:
        Doomed(job.script, root, world, said).run()

    world = job.script.world()
    with world:
        options = {**job.script.options(), "clock": world.clock, "retention_interval_ms": 0}
        others: list[diskstream.Store] = []

        def beside() -> None:
            if joined:
                others.append(diskstream.open(root / "store", **options))

        inject = [] if at is None else [f"--inject={at.name}:signal=SIGKILL:when={at.nth}"]
        ended = live(directory, work, inject, beside)
        if ended.code != -signal.SIGKILL:
            for other in others:
                other.close()
            return ended, None
        take_over = others.pop if joined else lambda: diskstream.open(root / "store", **options)
        judge = Judge(job.script, fresh(directory / "judge"), world, ended.said.count(b"."), take_over)
        judge.run()
        return ended, judge


def _kill(job: Job, directory: Path, outcome: Outcome) -> None:
    counted, _ = _killed(job, directory, None, joined=False)
    if counted.code != 0:
        outcome.violations.append(f"{job.script} does not run: {counted.code}, {counted.said.decode()}")
        return
    found = calls(counted.log)
    for turn, nth in enumerate(_places(job, found)):
        if turn and time.monotonic() > job.until:
            return
        joined = random.Random(f"{job.script}/{nth}").random() < 0.3
        try:
            ended, judge = _killed(job, directory, found[nth], joined=joined)
            for _ in range(_AGAIN):
                if judge is not None or ended.code != 0:
                    break
                # Not every run makes as many calls; and who joins others has others to make, perhaps fewer.
                joined = False
                ended, judge = _killed(job, directory, found[nth], joined=joined)
        except (Violation, DiskstreamError, AssertionError) as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            outcome.violations.append(
                f"killed at call {nth} ({last_call(directory / 'strace.log')}), {'joined' if joined else 'alone'}: "
                f"{type(error).__name__}: {error} in {at.name}: {at.line}\n"
                f"replay with python -m tests.kills kill:{job.script}:{nth}"
            )
            return
        if judge is None:
            if ended.code != 0:
                outcome.violations.append(
                    f"python -m tests.kills kill:{job.script}:{nth} ended with {ended.code}: {ended.said.decode()}"
                )
            outcome.tried["kills that came too late"] += 1
            continue
        outcome.tried["kills at a system call"] += 1
        outcome.tried["with another process at the same store"] += joined
        outcome.outcomes[f"killed at {_class(last_call(ended.log))}"] += 1
    outcome.tried[f"tours of all operations killed at each of their calls, {job.script.policy}"] += (
        job.places is None and job.script.tour
    )
    outcome.tried["workloads by chance killed at each of their calls"] += job.places is None and not job.script.tour
    outcome.tried["workloads"] += 1


_CLASSES = {
    "a write": {"write", "pwrite64", "pwritev", "pwritev2", "writev", "ftruncate", "fallocate"},
    "a flush": {"fsync", "fdatasync", "msync"},
    "a change of names": {"rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "rmdir"},
    "a lock or a wait": {"flock", "futex", "fcntl"},
    "memory": {"mmap", "munmap", "mprotect", "madvise", "brk", "mremap"},
}


def _class(call: str) -> str:
    return next((name for name, names in _CLASSES.items() if call in names), "an opening, a read or a look")


# --- told that the disk fails -----------------------------------------------------------------------------------------

_NO_ROOM = {"openat", "write", "pwrite64", "pwritev2", "ftruncate", "fallocate", "rename", "link", "mkdir"} | {
    "fsync",
    "fdatasync",
}
_FAILS = _NO_ROOM | {"read", "pread64", "getdents64", "newfstatat", "fstat", "unlink", "rmdir", "stat"}


def _failing(job: Job, directory: Path, options: Sequence[str]) -> tuple[Ended, str]:
    """A script one of whose calls fails; and what is wrong with the store that it left, where it came to its end."""
    root = fresh(directory / "failing")

    def work(said: int) -> None:
        careful = Careful(job.script, root, world)
        careful.run()
        os.write(said, " ".join(type(error).__name__ for error in careful.told).encode())

    world = job.script.world()
    with world:
        ended = live(directory, work, options, lambda: None)
        if ended.code != 0:
            return ended, f"ended with {ended.code}: {ended.said.decode()}"
        try:
            with diskstream.open(root / "store", **job.script.options()) as store:
                for name in store.streams(unfinished=True):
                    len(store.stream(name))
                checked(store, recovered=True)
        except (Violation, DiskstreamError) as error:
            return ended, f"opened again: {error}"
        return ended, ""


def _is_name(call: Call) -> bool:
    return '/name"' in call.text or "/name>" in call.text


def _error(job: Job, directory: Path, outcome: Outcome) -> None:
    counted, wrong = _failing(job, directory, ["-y"])
    if wrong:
        outcome.violations.append(f"{job.script} does not run: {wrong}")
        return
    root = str(directory / "failing")
    # A stream's name is left out: while it cannot be read, the stream is one of those that verify calls unreadable.
    found = [call for call in calls(counted.log) if call.name in _FAILS and root in call.text and not _is_name(call)]
    for turn, place in enumerate(_places(job, found)):
        if turn and time.monotonic() > job.until:
            return
        call = found[place]
        codes = ("ENOSPC", "EIO") if call.name in _NO_ROOM else ("EIO",)
        code = random.Random(f"{job.script}/{place}").choice(codes)
        ended, wrong = _failing(job, directory, ["-y", f"--inject={call.name}:error={code}:when={call.nth}"])
        hit = [line for line in calls(ended.log) if "(INJECTED)" in line.text]
        if not hit or root not in hit[0].text:
            outcome.tried["errors that came elsewhere"] += 1
            continue
        outcome.tried["errors of a system call"] += 1
        if wrong:
            outcome.violations.append(
                f"{code} at {call.name}({hit[0].text[:200]}: {wrong}\n"
                f"replay with python -m tests.kills error:{job.script}:{place}"
            )
            return
        outcome.outcomes["told by a typed error" if ended.said else "got over without a word"] += 1
    outcome.tried["workloads"] += 1


# --- killed while it moves a stream out of a Redis --------------------------------------------------------------------


def _archive(job: Job, directory: Path, outcome: Outcome) -> None:
    with Source(directory, job.script.policy) as source:
        try:
            counted = source.killed(None)
            assert counted.code == 0, f"{counted.code}, {counted.said.decode()}"
        except (AssertionError, DiskstreamError) as error:
            outcome.violations.append(f"an archive that nobody kills: {error}")
            return
        found = calls(counted.log)
        for turn, nth in enumerate(_places(job, found)):
            if turn and time.monotonic() > job.until:
                return
            try:
                ended = source.killed(found[nth])
                for _ in range(_AGAIN):
                    if ended.code != 0:
                        break
                    ended = source.killed(found[nth])  # not every run makes as many calls
            except (AssertionError, DiskstreamError) as error:
                outcome.violations.append(
                    f"an archive killed at call {nth} ({last_call(directory / 'strace.log')}): {error}\n"
                    f"replay with python -m tests.kills archive:{job.script}:{nth}"
                )
                return
            if ended.code == -signal.SIGKILL:
                outcome.tried["kills of an archiver at a system call"] += 1
                outcome.outcomes[f"killed at {_class(last_call(ended.log))}"] += 1
            elif ended.code == 0:
                outcome.tried["kills that came too late"] += 1
            else:
                outcome.violations.append(
                    f"python -m tests.kills archive:{job.script}:{nth} ended with {ended.code}: {ended.said.decode()}"
                )
    outcome.tried["archives killed at each of their calls"] += job.places is None


def _rehearsed(script: Script, directory: Path) -> set[str]:
    """Done once here, so that no fork has anything to import, whose calls would come into the count.

    Returns which operations had an effect.
    """
    with script.world() as world:
        work = Careful(script, fresh(directory / "rehearsed"), world)
        work.looks = True
        work.run()
    return work.effects


def find_tour(policy: str, seed: int) -> Script:
    """The first tour from a seed on in which every operation that is needed has an effect."""
    with scratch() as directory:
        for number in count(seed):
            script = Script(policy, number, tour=True)
            if _rehearsed(script, directory) >= NEEDED:
                return script
    raise AssertionError("unreachable")


def run(job: Job) -> Outcome:
    """Does a job."""
    outcome = Outcome()
    with scratch() as directory:
        if job.kind == "archive":
            _archive(job, directory, outcome)
            return outcome
        _rehearsed(job.script, directory)
        (_kill if job.kind == "kill" else _error)(job, directory, outcome)
    return outcome
