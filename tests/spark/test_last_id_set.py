"""What reads on from where it ended, a query or an archive, where a last ID was set ahead and is set back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Store

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from diskstream.spark.jobs.archive import ArchiveSettings, run
from diskstream.spark.jobs.garbage import running
from diskstream.spark.jobs.manifest import commit, latest
from diskstream.spark.jobs.place import Place
from tests.spark.archives import fill as fill_at
from tests.spark.archives import kept, no_spark, stored
from tests.spark.test_stream_units import Query, fill

__all__ = ["no_spark"]


@pytest.mark.parametrize("begin", ["earliest", "latest"])
@pytest.mark.parametrize("change", [lambda _: None, lambda x: x.trim(maxlen=1), lambda x: x.delete("2-0", "3-0")])
def test_ids_below_a_last_id_that_was_set_ahead_are_not_passed_over(
    store: Store, begin: str, change: Callable[[diskstream.Stream], object]
) -> None:
    """A last ID that was set tells of no entry, and may be set back."""
    x = store.stream("x")
    fill(store, range(1, 4))
    x.set_id("1000-0")
    query = Query(store.path, startingids=begin)
    assert query.numbers() == ([1, 2, 3] if begin == "earliest" else [])
    change(x)
    assert query.batch() == []
    x.set_id("3-0")
    fill(store, range(4, 7))
    assert query.numbers() == [4, 5, 6]
    fill(store, range(1001, 1003))
    assert query.numbers() == [1001, 1002]


def test_without_the_tail_what_was_trimmed_before_a_query_began_is_not_missed(store: Store) -> None:
    """There is nothing sealed then that it could begin behind."""
    fill(store, range(1, 4))
    store.seal()
    store.stream("x").trim(maxlen=0)
    query = Query(store.path, includetail="false", startingids="latest")
    fill(store, range(4, 6))
    store.seal()
    assert query.numbers() == [4, 5]


def settings(tmp_path: Path, **given: Any) -> ArchiveSettings:
    return ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive"), **given)


def set_last_id(tmp_path: Path, stream: str, last: str) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream(stream).set_id(last)


def numbered(*numbers: int) -> list[tuple[str, dict[str, str]]]:
    return [(f"{number}-0", {"n": str(number)}) for number in numbers]


def test_ids_below_a_last_id_that_was_set_ahead_are_archived(no_spark: Any, tmp_path: Path) -> None:
    """A last ID that was set tells of no entry, and may be set back: what is said to be archived may be trimmed."""
    fill_at(tmp_path / "store", "s", numbered(1, 2, 3))
    set_last_id(tmp_path, "s", "1000-0")
    (found,) = run(no_spark, settings(tmp_path)).streams
    assert (found.entries, str(found.archived_to)) == (3, "3-0")
    set_last_id(tmp_path, "s", "3-0")
    fill_at(tmp_path / "store", "s", numbered(4, 5))
    assert run(no_spark, settings(tmp_path)).entries == 2
    fill_at(tmp_path / "store", "s", numbered(6, 1001))
    (found,) = run(no_spark, settings(tmp_path)).streams
    assert (found.entries, str(found.archived_to)) == (2, "1001-0")
    assert kept(tmp_path / "archive", "s") == stored(tmp_path / "store", "s")


@pytest.mark.parametrize("numbers", [(4, 5), (4, 5, 1001)])
def test_an_archive_that_took_a_last_id_for_an_entrys_has_what_came_below_it(
    no_spark: Any, tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    """As earlier versions did: its files tell how far they go."""
    fill_at(tmp_path / "store", "s", numbered(1, 2, 3))
    run(no_spark, settings(tmp_path))
    place = Place(tmp_path / "archive")
    base = latest(place)
    reach = replace(base.streams[b"s"], last=EntryID(1000, 0))
    with running(place) as marker:
        commit(place, base.next("archive", base.files, streams={b"s": reach}), marker.job)
    assert run(no_spark, settings(tmp_path)).entries == 0
    fill_at(tmp_path / "store", "s", numbered(*numbers))
    (found,) = run(no_spark, settings(tmp_path)).streams
    assert (found.entries, str(found.archived_to)) == (len(numbers), f"{numbers[-1]}-0")
    assert kept(tmp_path / "archive", "s") == stored(tmp_path / "store", "s")


def test_entries_that_were_deleted_at_the_end_are_not_looked_for_again(no_spark: Any, tmp_path: Path) -> None:
    fill_at(tmp_path / "store", "s", numbered(1, 2, 3, 4))
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").delete("3-0", "4-0")
    (found,) = run(no_spark, settings(tmp_path)).streams
    assert (found.entries, str(found.archived_to)) == (2, "4-0")
    again = run(None, settings(tmp_path)), run(no_spark, settings(tmp_path))
    assert [(each.entries, each.version) for each in again] == [(0, 1), (0, 1)]
