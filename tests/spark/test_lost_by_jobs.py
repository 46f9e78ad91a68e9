"""What jobs say where a store that can have no lease loses what they were to read: they have no option for that."""

from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import DataLossError, Store

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from diskstream.spark.jobs.archive import archive_slices
from diskstream.spark.jobs.archive_plan import ArchiveTask
from diskstream.spark.jobs.comparing import DayTask, SideTask, compare_rows, sum_side
from diskstream.spark.jobs.manifest import Shape
from diskstream.spark.jobs.replay import Work, _of_store
from diskstream.spark.jobs.scanning import scanned
from diskstream.spark.partitions import EntriesPartition, Slice


def _slice(store: Store) -> Slice:
    return Slice(b"x", (1, 0), (99, 0), 99, 1000, store.stream("x").identity())


def _archive(store: Store, folder: Path) -> None:
    archive_slices(ArchiveTask(str(store.path), str(folder), (_slice(store),), Shape("fields", ()), "j", True, 1 << 20))


def _profile(store: Store, _: Path) -> None:
    list(scanned(EntriesPartition(str(store.path), str(store.path), (_slice(store),), leased=False), "fields"))


def _replay(store: Store, _: Path) -> None:
    list(_of_store(Work(str(store.path), False, (("y", "x", "1-0", "99-0"),), 99)))


def _reconcile(store: Store, folder: Path) -> None:
    sum_side(SideTask(str(store.path), str(folder), Shape("fields", ()), (_slice(store),)))


def _reconcile_rows(store: Store, folder: Path) -> None:
    compare_rows(DayTask(str(store.path), str(folder), Shape("fields", ()), b"x", (1, 0), (99, 0), ()))


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (_archive, "run it again"),
        (_profile, "run it again"),
        (_reconcile, "run it again"),
        (_reconcile_rows, "run it again"),
        (_replay, "under another name, with the option start"),
    ],
)
def test_a_job_without_a_lease_says_what_its_user_can_do(
    tmp_path: Path, job: Callable[[Store, Path], None], says: str
) -> None:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        ids = [f"{number}-0" for number in range(1, 100)]
        store.stream("x").add_many([{"n": each} for each in ids], ids=ids)
        store.stream("x").trim(minid="60-0")
        with pytest.raises(DataLossError, match="entries up to 59-0 were trimmed away") as caught:
            job(store, tmp_path / "out")
    told = str(caught.value)
    assert "failOnDataLoss" not in told
    assert "option lease" not in told
    assert says in told
    assert "ref=ACKED" in told
