"""Two runs of one replay at once: each would plan it, and cut its rounds where the other does not."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from diskstream.errors import ArgumentError, ChangedError
from diskstream.spark.jobs import replay as job
from diskstream.spark.jobs.replay import ReplaySettings
from diskstream.system_calls import lock_now
from tests.spark.archives import days, fill, in_process, no_spark, stored

__all__ = ["no_spark"]


class KilledError(Exception):
    """A driver is gone."""


def values(store: Path, stream: str) -> list[Any]:
    return [pairs for _, pairs in stored(store, stream)]


def test_a_second_run_of_a_replay_is_refused_while_the_first_is_at_work(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name in "ab":
        fill(source, name, days(1, 20))
    settings = ReplaySettings(str(source), str(target), ids="new", max_entries=8, tasks_per_round=1)
    plan, rounds, refused = job._planned, list[int](), list[object]()

    def killed_after_three(*given: Any, **options: Any) -> Any:
        rounds.append(1)
        if len(rounds) > 3:
            raise KilledError
        return in_process(*given, **options)

    def planned(given: ReplaySettings) -> Any:
        made = plan(given)
        if not given.dry_run and not refused:
            refused.append(None)
            # Between the plan of the first run and its being kept: the source grows, and a second run is quicker.
            fill(source, "a", days(1, 5, 1))
            monkeypatch.setattr(job, "run_tasks", killed_after_three)
            with pytest.raises((ChangedError, KilledError)) as caught:
                job.run(no_spark, settings)
            refused.append(caught.value)
            monkeypatch.setattr(job, "run_tasks", in_process)
        return made

    monkeypatch.setattr(job, "_planned", planned)
    job.run(no_spark, settings)
    assert values(target, "a") in (values(source, "a"), values(source, "a")[:20])
    assert values(target, "b") == values(source, "b")
    assert isinstance(refused[1], ChangedError)
    assert "another run of this replay is at work" in str(refused[1])
    assert "let it end" in str(refused[1].hint)
    assert job.run(no_spark, settings).complete_before


def test_of_a_replay_that_planned_nothing_no_folder_is_left(no_spark: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    fill(source, "a", days(1, 5))
    fill(target, "a", days(1, 5))
    later = ReplaySettings(str(source), str(target), start="9999999999999")
    assert job.run(no_spark, later).rounds == 0
    with pytest.raises(ArgumentError, match="must be above the last"):
        job.run(no_spark, ReplaySettings(str(source), str(target)))
    assert not (target / "replays").exists()


def test_a_folder_that_the_first_run_takes_away_is_not_taken_for_locked(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    fill(source, "a", days(1, 5))
    fill(target, "b", days(1, 5))
    lock = lock_now

    def later(fd: int, path: Path) -> bool:
        path.rmdir()
        return lock(fd, path)

    monkeypatch.setattr(job, "lock_now", later)
    with pytest.raises(ChangedError, match="at work"):
        job.run(no_spark, ReplaySettings(str(source), str(target)))
    monkeypatch.setattr(job, "lock_now", lock)
    assert job.run(no_spark, ReplaySettings(str(source), str(target))).entries == 5
