"""Small tasks of a job share one of Spark's: which, and that each has its result."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from diskstream.spark.jobs.run import run_tasks, together

MB = 1 << 20


class InPlaceOfSpark:
    """What `run_tasks` asks a session for, done here; counts Spark's tasks."""

    def __init__(self, cores: int) -> None:
        tracker = SimpleNamespace(getActiveJobsIds=list)
        self.sparkContext = SimpleNamespace(
            defaultParallelism=cores,
            broadcast=lambda value: SimpleNamespace(value=value, destroy=lambda: None),
            statusTracker=lambda: tracker,
        )
        self.tasks: list[int] = []

    def range(self, first: int, last: int, step: int, parts: int) -> "InPlaceOfSpark":
        self.tasks.append(parts)
        assert range(first, last, step) == range(parts)
        return self

    def mapInArrow(self, work: Callable[..., Iterator[Any]], _: str) -> Any:  # noqa: N802  # Spark's name
        numbers = [pa.record_batch({"id": [number]}) for number in range(self.tasks[-1])]
        rows = [row for each in numbers for batch in work(iter([each])) for row in batch.to_pylist()]
        return SimpleNamespace(collect=lambda: rows[::-1])


def test_small_tasks_share_one_of_sparks_and_each_has_its_result() -> None:
    spark: Any = InPlaceOfSpark(2)
    tasks = list(range(-50, 50))
    assert run_tasks(spark, "counting", tasks, abs, quiet=True, sizes=[1] * 100) == [abs(each) for each in tasks]
    assert run_tasks(spark, "counting", tasks, abs, quiet=True) == [abs(each) for each in tasks]
    assert spark.tasks == [9, 100]


@pytest.mark.parametrize(
    ("sizes", "cores", "lengths"),
    [
        ([1] * 3, 2, [1, 1, 1]),  # fewer than the cores would like
        ([1] * 16, 2, [2] * 8),
        ([1] * 2000, 2, [250] * 8),
        ([10 * MB] * 40, 1, [3] * 13 + [1]),
        ([MB, 100 * MB, MB, MB, MB, MB, MB, MB], 1, [1, 1, 2, 2, 2]),
    ],
)
def test_large_tasks_stay_apart_and_no_core_waits_for_another(sizes: list[int], cores: int, lengths: list[int]) -> None:
    runs = together(sizes, cores)
    assert [len(run) for run in runs] == lengths
    assert [at for run in runs for at in run] == list(range(len(sizes)))
