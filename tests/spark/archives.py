"""Stores to archive, and jobs without a JVM: the tasks run in this process, one after another."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import diskstream
from diskstream.spark.jobs import archive, compact, reconcile, replay, rollup
from diskstream.spark.jobs.manifest import latest
from diskstream.spark.jobs.part_reading import read_part
from diskstream.spark.jobs.place import Place

DAY = 86_400_000
BASE = 20_000 * DAY  # 2024-10-04
NO_SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))

Fields = list[tuple[bytes, bytes]]


def in_process(
    spark: object,
    what: str,
    tasks: Sequence[Any],
    work: Callable[[Any], Any],
    *,
    quiet: bool = False,
    sizes: Sequence[int] | None = None,
) -> Any:
    """Stands in for `run_tasks`: as there, tasks and results travel as pickles."""
    assert sizes is None or len(sizes) == len(tasks)
    return [pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(task))))) for task in tasks]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the jobs take for a session; whatever they run runs here."""
    for job in (archive, compact, reconcile, replay, rollup):
        monkeypatch.setattr(job, "run_tasks", in_process)
    return NO_SPARK


def fill(store: Path, stream: str | bytes, entries: Sequence[tuple[str, Any]]) -> None:
    """Adds entries."""
    with diskstream.open(store, fsync="os") as opened:
        ids = [entry_id for entry_id, _ in entries]
        opened.stream(stream).add_many([fields for _, fields in entries], ids=ids)


def days(count: int, each: int, first: int = 0) -> list[tuple[str, dict[str, str]]]:
    """Entries of some days, a second apart."""
    return [
        (f"{BASE + day * DAY + number * 1000}-{number % 2}", {"n": str(number), "day": str(day)})
        for day in range(first, first + count)
        for number in range(each)
    ]


def stored(store: Path, stream: str | bytes) -> list[tuple[str, Fields]]:
    """What the store has."""
    with diskstream.open(store, read_only=True) as opened:
        return [(str(entry.id), list(entry.pairs)) for entry in opened.stream(stream).range()]


def rows(root: Path, stream: str) -> Iterator[dict[str, Any]]:
    """The archive's rows of a stream, in order."""
    place = Place(root)
    made = latest(place)
    for file in made.files:
        if file.stream == stream.encode():
            for batch in read_part(place, file.path, made.shape):
                yield from batch.to_pylist()


def kept(root: Path, stream: str) -> list[tuple[str, Fields]]:
    """What the archive has, in the way of `stored`."""
    mask = (1 << 64) - 1
    return [
        (f"{row['id_ms'] & mask}-{row['id_seq'] & mask}", [(each["name"], each["value"]) for each in row["fields"]])
        for row in rows(root, stream)
    ]


def parts(root: Path) -> list[str]:
    """All files of rows that lie in an archive, whole or not."""
    return [each.path for each in Place(root).list() if not each.path.startswith("_")]
