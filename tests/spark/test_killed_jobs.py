"""Jobs that are killed and started again: nothing lost, nothing twice, and nothing half done is taken for done.

The job `archive` is in `test_archive`; queries, whose drivers and workers are killed, are in `test_kills`.
"""

import os
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

import diskstream
from diskstream.spark.jobs import archive, rollup_stream
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.garbage import collect
from diskstream.spark.jobs.manifest import latest
from diskstream.spark.jobs.place import Place
from tests.spark.archives import BASE, days, fill, kept, no_spark, parts, stored
from tests.spark.killed_jobs import POINTS, Jobs, jobs

__all__ = ["jobs", "no_spark"]

Contents = dict[bytes, list[Any]]


def aged(root: Path) -> None:
    """Lets the grace time of all that lies in an archive be over."""
    long_ago = time.time() - 3601
    for each in Place(root).list():
        os.utime(root / each.path, (long_ago, long_ago))


# --- compact ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS["compact"])
def test_wherever_compacting_is_killed_the_rows_stay(no_spark: Any, jobs: Jobs, tmp_path: Path, point: str) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    for number in range(2):
        fill(store, "s", [(f"{BASE + number * 100_000 + at}-0", {"n": str(at)}) for at in range(50)])
        fill(store, "t", days(1, 20, first=number))
        archive.run(no_spark, ArchiveSettings(str(store), str(root)))
    if point == "some garbage removed":
        jobs.done("compact", root)
        aged(root)
    jobs.killed("compact", point, root)
    for name in ("s", "t"):  # whichever version counts, all of it is there
        assert kept(root, name) == stored(store, name)
    jobs.done("compact", root)
    aged(root)
    collect(Place(root), 3600)
    for name in ("s", "t"):
        assert kept(root, name) == stored(store, name)
    assert sorted(parts(root)) == sorted(each.path for each in latest(Place(root)).files)
    assert len(parts(root)) == 1 + 2
    assert not [each for each in Place(root).list() if each.path.startswith("_jobs/") or each.path.endswith(".tmp")]


# --- replay -----------------------------------------------------------------------------------------------------------

NAMES = (b"a", b"b%\xff")


def contents(path: Path) -> Contents:
    with diskstream.open(path, read_only=True) as store:
        return {name: [(entry.id, entry.pairs) for entry in store.stream(name)] for name in store.streams()}


@pytest.mark.parametrize(
    ("point", "ids"),
    [*((point, "original") for point in POINTS["replay"]), ("amid a round", "new"), ("a round done", "new")],
)
def test_wherever_a_replay_is_killed_each_entry_comes_once(jobs: Jobs, tmp_path: Path, point: str, ids: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with diskstream.open(source, segment_bytes=8192) as store:
        for name in NAMES:
            for first in range(0, 2000, 500):
                store.stream(name).add_many([[("n", str(n)), ("n", b"\xff")] for n in range(first, first + 500)])
            store.stream(name).delete(*[entry.id for entry in store.stream(name).range(count=5)])
    wanted = contents(source)
    jobs.killed("replay", point, source, target, ids)
    with diskstream.open(source) as store:  # what comes later is not in the plan, once there is one
        planned = point != "leased, not planned"
        added = store.stream(NAMES[1]).add({"later": "1"})
    if not planned:
        wanted[NAMES[1]].append((added, [(b"later", b"1")]))
    for _ in range(2):
        jobs.done("replay", source, target, ids)
        found = contents(target)
        assert found.keys() == wanted.keys()
        for name, entries in wanted.items():
            assert [pairs for _, pairs in found[name]] == [pairs for _, pairs in entries]
            assert ids == "new" or found[name] == entries
    assert not [path for path in (target / "commits").glob("*/*.json") if path.name != "done.json"]


@pytest.mark.parametrize("tasks_per_round", [1, 8])
def test_a_replay_goes_on_in_the_rounds_that_it_was_begun_with(
    jobs: Jobs, tmp_path: Path, tasks_per_round: int
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with diskstream.open(source) as store:
        store.stream("s").add_many([{"n": str(n)} for n in range(4000)])
    jobs.killed("replay", "a round done", source, target, "new")
    jobs.done("replay", source, target, "new", tasks_per_round)
    assert [pairs for _, pairs in contents(target)[b"s"]] == [pairs for _, pairs in contents(source)[b"s"]]


# --- rollup -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS["rollup"])
def test_wherever_a_rollup_is_killed_each_window_is_there_once(jobs: Jobs, tmp_path: Path, point: str) -> None:
    readings = [(f"{BASE + at * 100}-0", {"n": str(at)}) for at in range(100)]
    for name in ("whole", "store"):
        fill(tmp_path / name, "s", readings)
    jobs.done("rollup", tmp_path / "whole", tmp_path / "whole.parquet")
    output = tmp_path / "windows.parquet"
    jobs.killed("rollup", point, tmp_path / "store", output)
    if output.exists():  # then all of it is
        assert pq.read_table(output).num_rows == 10
    jobs.done("rollup", tmp_path / "store", output)
    assert contents(tmp_path / "store") == contents(tmp_path / "whole")
    assert len(contents(tmp_path / "store")[b"windows"]) == 10
    assert pq.read_table(output).equals(pq.read_table(tmp_path / "whole.parquet"))


@pytest.mark.parametrize("point", POINTS["windows"])
def test_wherever_a_batch_of_windows_is_killed_it_is_there_once(jobs: Jobs, tmp_path: Path, point: str) -> None:
    """A batch of the query that goes on: Spark makes it again, with the same number."""
    fill(tmp_path / "store", "s", [(f"{BASE + at * 100}-0", {"n": str(at)}) for at in range(100)])
    table, output = tmp_path / "table.parquet", tmp_path / "output"
    jobs.done("rollup", tmp_path / "store", table)
    output.mkdir()
    jobs.killed("windows", point, table, output)
    for folder in output.glob("batch=*"):
        assert pq.read_table(folder / "windows.parquet").equals(pq.read_table(table))
    jobs.done("windows", table, output)
    assert sorted(path.name for path in output.iterdir()) == ["_query", "batch=3"]
    assert pq.read_table(output / "batch=3" / "windows.parquet").equals(pq.read_table(table))
    with pytest.raises(diskstream.ArgumentError, match="has windows of the query q"):
        rollup_stream.write_batch(None, 4, output, query="another")  # type: ignore[arg-type]  # it is not asked
