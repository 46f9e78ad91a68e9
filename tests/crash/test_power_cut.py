"""Whatever a power cut leaves: what was promised is there, nothing is invented, and the store works on.

`DISKSTREAM_CRASH_STATES` says how many states are checked (20,000), `DISKSTREAM_CRASH_SEED` where the seeds begin, and
`DISKSTREAM_CRASH_REPLAY`, which each violation names, repeats one.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from diskstream.engine import seal
from diskstream.engine.log import StreamLog
from tests.crash.cold_ops import COLD_WEIGHTS
from tests.crash.events import Tree
from tests.crash.ops import WEIGHTS, rename
from tests.crash.planted import CAUGHT_AT, MISTAKES, PATCHES, left_unchecked
from tests.crash.planted_steps import BELIEVED, REPLACED, STEPS
from tests.crash.recorder import RecordingFiles
from tests.crash.run import Job, Outcome, run

POLICIES = ("always", "everysec", "interval=200", "os")
STATES = int(os.environ.get("DISKSTREAM_CRASH_STATES", "20000"))
SEED = int(os.environ.get("DISKSTREAM_CRASH_SEED", "1"))
CUTS = 100


def replayed() -> Job | None:
    words = os.environ.get("DISKSTREAM_CRASH_REPLAY", "").rsplit(":", 3)
    if len(words) < 4:
        return None
    return Job(words[0], int(words[1]), int(words[2]), int(words[3]))


@pytest.mark.timeout(1800)
def test_every_state_that_a_power_cut_may_leave_keeps_every_promise() -> None:
    if (job := replayed()) is not None:
        assert run(job).violations == []
        return
    states, violations = 0, list[str]()
    seed = SEED
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as workers:
        while states < STATES and not violations:
            jobs = [Job(policy, seed + step, CUTS) for step in range(10) for policy in POLICIES]
            for outcome in workers.map(run, jobs):
                states += outcome.states
                violations += outcome.violations
            seed += 10
    assert violations == []
    assert states >= STATES


def caught(
    make_files: type[RecordingFiles] | object, rates: tuple[float, float] | None = None, *, mistake: str = ""
) -> Outcome:
    """The first outcome with a violation."""
    all_of_them = ((policy, seed) for seed in range(1, 80) for policy in POLICIES)
    for policy, seed in [*filter(None, [CAUGHT_AT.get(mistake)]), *all_of_them]:
        outcome = run(Job(policy, seed, 60, rates=rates), make_files, stop_at=1)  # type: ignore[arg-type]  # a class of files, or what makes them
        if outcome.violations:
            return outcome
    pytest.fail("the mistake was not caught")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_caught(mistake: str) -> None:
    assert caught(MISTAKES[mistake]).violations


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", STEPS)
def test_a_step_left_out_is_missed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "stub" in mistake or "fetched" in mistake:
        for move in COLD_WEIGHTS:
            monkeypatch.setitem(WEIGHTS, move, 60)
    assert caught(STEPS[mistake], (0.0, 0.0), mistake=mistake).violations


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", BELIEVED)
def test_what_must_not_be_believed_is_not(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BELIEVED[mistake](monkeypatch)
    assert caught(RecordingFiles, (0.15, 0.3), mistake=mistake).violations


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", REPLACED)
def test_a_stream_that_is_replaced_too_early_is_missed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WEIGHTS, rename, 60)
    REPLACED[mistake](monkeypatch)
    assert caught(RecordingFiles).violations


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", PATCHES)
def test_a_planted_mistake_with_groups_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PATCHES[mistake](monkeypatch)
    assert caught(RecordingFiles, mistake=mistake).violations


@pytest.mark.timeout(600)
def test_what_a_process_left_that_died_beside_another_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    left_unchecked(monkeypatch)
    assert caught(RecordingFiles, (0.15, 0.0), mistake="left by a death").violations


@pytest.mark.timeout(600)
def test_files_removed_before_the_frame_that_dropped_them_is_durable_are_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def remove_at_once(log: StreamLog) -> int:
        with monkeypatch.context() as context:
            context.setattr(log, "flush", lambda: None)
            return whole(log)

    whole = StreamLog.remove_dropped
    monkeypatch.setattr(StreamLog, "remove_dropped", remove_at_once)

    def recording(root: Path, start: Tree | None) -> RecordingFiles:
        return RecordingFiles(root, start)

    assert callable(seal.reap)
    assert caught(recording).violations
