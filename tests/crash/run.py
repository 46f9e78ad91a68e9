"""From a seed to a verdict: a trace is made, cut at many moments, and each cut is checked."""

import os
import random
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diskstream import DiskstreamError
from tests.crash import ops
from tests.crash.check import Cut, check
from tests.crash.disk import Disk
from tests.crash.events import Event, NameChange, Tree
from tests.crash.image import control_page
from tests.crash.model import Promises, State, Timeline
from tests.crash.observe import Violation
from tests.crash.recorder import RecordingFiles
from tests.crash.view import after_a_cut, leave_view, put_view
from tests.crash.workload import Workload
from tests.crash.world import World

__all__ = ["Job", "Outcome", "run"]

MakeFiles = Callable[[Path, Tree | None], RecordingFiles]


@dataclass(frozen=True)
class Job:
    """One trace and the cuts of it.

    Attributes:
        policy: `Options.fsync`.
        seed: of everything random.
        cuts: how many states to check.
        only: the one to check, for a replay; None checks all.
        rates: how likely an operation is killed, and how likely the disk begins to fail in it; None is by chance.
    """

    policy: str
    seed: int
    cuts: int
    only: int | None = None
    rates: tuple[float, float] | None = None

    def __str__(self) -> str:
        return f"{self.policy}:{self.seed}:{self.cuts}"


@dataclass
class Outcome:
    """What came of a job.

    Attributes:
        states: how many were checked.
        nested: how many of these were cuts of a recovery.
        events: the length of the trace.
        counts: what was done in it, and what befell it; how often the disk failed, each way.
        violations: what was found, as text that says how to see it again.
    """

    job: Job
    states: int = 0
    nested: int = 0
    events: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory in memory, where there is one."""
    memory = Path("/dev/shm")  # flushes cost nothing there
    above = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="diskstream-crash-", dir=above))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _options(rng: random.Random, policy: str) -> dict[str, Any]:
    return {
        "fsync": policy,
        "segment_bytes": rng.choice((8 << 10, 8 << 10, 16 << 10, 32 << 10)),
        "node_max_entries": rng.choice((1, 4, 16)),
        "node_max_bytes": rng.choice((256, 4096)),
        "compression_level": rng.choice((0, 1)),
        "cache_bytes": rng.choice((0, 1 << 20)),
        "cold_cache_bytes": rng.choice((0, 1 << 20)),
        "seal": rng.choice(("manual", "background")),
        "pending_rows": rng.choice((1, 2, 4, 100)),
    }


class _Trace:
    """A recorded workload, ready to be cut."""

    def __init__(self, files: RecordingFiles, promises: Promises, closed_at: int) -> None:
        self.files, self.promises, self.closed_at = files, promises, closed_at
        self._disk, self._at = Disk(files.start), 0

    @property
    def events(self) -> list[Event]:
        return self.files.events

    def cut(self, position: int, rng: random.Random) -> Cut:
        """A state that a cut at a moment may leave; moments must come in order."""
        for event in self.events[self._at : position]:
            self._disk.apply(event)
        self._at = position
        tree, directories = self._disk.cut(rng)
        images: dict[int, bytes] = {}
        for noted, noted_pages in self.files.ctl_images:
            if noted <= position:
                images = noted_pages
        pages = {path: control_page(rng, images.get(inode)) for inode, path in directories.items()}
        present = {path: page for path, page in pages.items() if page is not None and _has_page(path)}
        view = after_a_cut(rng, [image for _, image in self.files.view_images])
        return Cut(tree, present, self.promises, position, clean=position >= self.closed_at, view=view)


def _has_page(directory: str) -> bool:
    parts = directory.split("/")
    return parts == ["store"] or (len(parts) == 3 and parts[1] == "streams")


def _record(
    files: RecordingFiles,
    world: World,
    rng: random.Random,
    options: dict[str, Any],
    promises: Promises,
    steps: int,
    kills: float,
    faults: float,
) -> tuple[_Trace, Workload]:
    files.note_ctl()
    work = Workload(files, world, rng, options, promises)
    work.kills, work.faults = kills, faults
    work.interrupts = rng.choice((0.0, 0.0, 0.1))
    if rng.random() < 0.6:
        work.open_beside(ops.AMONG, ops.IN_FLUSH)
        work.counts["traces of two processes"] += 1
    try:
        for _ in range(steps):
            ops.step(work)
        work.heal()
        work.compare()
        work.store.close()
    except (DiskstreamError, AssertionError) as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise Violation(
            f"{type(error).__name__}: {error} in {at.name}: {at.line}\n" + "\n".join(work.log[-12:])
        ) from error
    leave_view(work.view, cleanly=rng.random() < 0.5)
    promises.all_kept(files.position)
    promises.was_full |= files.faults.no_room > 0
    files.note_ctl()
    files.note_view()
    # Who dies beside another, or is interrupted, leaves half-made files: the next recovery finds them.
    is_clean = not work.counts["processes killed beside another"] and not work.counts["interrupted operations"]
    return _Trace(files, promises, files.position if is_clean else files.position + 1), work


def run(job: Job, make_files: MakeFiles = RecordingFiles, *, stop_at: int = 3) -> Outcome:
    """Does a job, up to a number of violations."""
    outcome = Outcome(job)
    rng = random.Random(f"{job.policy}/{job.seed}")
    options = _options(rng, job.policy)
    with scratch() as directory, World(f"world/{job.seed}") as world:
        root = directory / "trace"
        root.mkdir()
        files = make_files(root, None)
        try:
            steps, by_chance = rng.randint(25, 70), (rng.choice((0.0, 0.05)), rng.choice((0.0, 0.1)))
            kills, faults = job.rates or by_chance
            trace, work = _record(files, world, rng, options, Promises(), steps, kills, faults)
        except Violation as violation:
            outcome.violations.append(f"{job}: while recording: {violation}")
            return outcome
        outcome.events = len(trace.events)
        outcome.counts = work.counts + Counter({f"failing disks: {k}": n for k, n in files.faults.counts.items()})
        positions = _positions(trace.events, job.cuts, rng)
        for index, position in enumerate(positions):
            if len(outcome.violations) >= stop_at:
                break
            if job.only not in (None, index):
                continue
            _check_one(job, index, position, trace, work, directory, world, options, outcome, make_files)
    return outcome


def _positions(events: Sequence[Event], cuts: int, rng: random.Random) -> list[int]:
    """Where to cut, in order: anywhere, often just behind a change of names, and behind the last event."""
    end = len(events)
    names = [at for at, event in enumerate(events, 1) if isinstance(event, NameChange)] or [end]
    within = [rng.choice(names) if rng.random() < 0.3 else rng.randint(0, end) for _ in range(cuts - 2)]
    return sorted([*within, end, end])


def _check_one(
    job: Job,
    index: int,
    position: int,
    trace: _Trace,
    work: Workload,
    directory: Path,
    world: World,
    options: dict[str, Any],
    outcome: Outcome,
    make_files: MakeFiles,
) -> None:
    seed = f"{job.policy}/{job.seed}/{index}"
    rng = random.Random(seed)
    world.reseed(seed)
    cut = trace.cut(position, rng)
    outcome.states += 1
    now = world.now_ms
    try:
        found = check(cut, directory / "cut", world, rng, options)
        if rng.random() < 0.04:
            world.now_ms = now
            _check_nested(cut, found, seed, directory, world, options, outcome, make_files)
    except Violation as violation:
        lines = [line for line in work.log if int(line[:5]) <= position][-12:]
        outcome.violations.append(
            f"state {index} of {job}, cut after event {position} of {len(trace.events)}:\n{violation}\n"
            f"the last operations were\n" + "\n".join(lines) + f"\nreplay with DISKSTREAM_CRASH_REPLAY={job}:{index}"
        )
    finally:
        world.now_ms = now


def _check_nested(
    cut: Cut,
    found: dict[bytes, State],
    seed: str,
    directory: Path,
    world: World,
    options: dict[str, Any],
    outcome: Outcome,
    make_files: MakeFiles,
) -> None:
    """Cuts the recovery itself: what the first cut left is the start of a trace of its own."""
    rng = random.Random(f"{seed}/nested")
    from tests.crash.image import materialise

    root = directory / "nested"
    materialise(cut.tree, root, cut.pages)
    put_view(root / "store", cut.view)
    world.reboot()
    files = make_files(root, cut.tree)
    names = cut.explain(found)
    promises = Promises(versions=[{}], was_full=cut.promises.was_full)
    promises.versions = [
        {name: Timeline(states=[found[name]], issued=[(0, names[name].issued_by(cut.position))]) for name in names}
    ]
    trace, work = _record(
        files, world, rng, options, promises, rng.randint(0, 5), rng.choice((0.0, 0.5)), rng.choice((0.0, 0.0, 0.3))
    )
    end = len(trace.events)
    positions = [*sorted(rng.randint(0, end) for _ in range(8)), end]
    for index, position in enumerate(positions):
        world.reseed(f"{seed}/nested/{index}")
        outcome.states += 1
        outcome.nested += 1
        try:
            check(trace.cut(position, rng), directory / "again", world, rng, options)
        except Violation as violation:
            lines = [line for line in work.log if int(line[:5]) <= position][-12:]
            raise Violation(
                f"cut again after event {position} of {end} of the recovery:\n{violation}\n" + "\n".join(lines)
            ) from violation
