"""Reads of a stream of which objects are gone from cold storage: with `onCorruption=skip` a query ended at the first of
them, at each start anew, as the batch that was planned needs it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")
pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")

from pyspark.sql import types as st

from diskstream.cold import move_out
from diskstream.cold.transfer import Moved
from diskstream.errors import DataLossError, LostObjectError, RemoteError
from diskstream.ids import MIN_ID
from diskstream.spark.jobs import archive
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.kept_stores import STORES
from diskstream.spark.options import ReadOptions
from diskstream.spark.source import EntriesReader
from tests.cold.world import ENTRIES, filled, opened, spoilt
from tests.spark.archives import no_spark
from tests.spark.test_stream_units import Query

__all__ = ["no_spark"]

SCHEMA = st.StructType([st.StructField("n", st.LongType())])
Within = tuple[int, int]


@pytest.fixture(autouse=True)
def _tasks_keep_no_store() -> Iterator[None]:
    STORES.forget()
    yield
    STORES.forget()


@pytest.fixture
def moved(tmp_path: Path) -> list[Moved]:
    """The segments of a stream that are in cold storage; the newer half of its entries is here."""
    with opened(tmp_path / "store") as store:
        return list(move_out(filled(store), f"file://{tmp_path}/place", keep_entries=ENTRIES // 2).segments)


def object_of(tmp_path: Path, segment: Moved) -> Path:
    (found,) = (tmp_path / "place").rglob(f"{segment.number:08d}.*.seg")
    return found


def lost(tmp_path: Path, segment: Moved) -> Within:
    """Takes a segment's object away, and what was fetched of it; the IDs that are gone with it."""
    object_of(tmp_path, segment).unlink()
    STORES.forget()
    shutil.rmtree(tmp_path / "store" / "cold-cache", ignore_errors=True)
    return segment.first.ms, segment.last.ms


def told(report: Path) -> list[Within]:
    found = [json.loads(file.read_text()) for file in report.iterdir()]
    assert all("is not there any more" in each["error"] for each in found)
    return sorted((int(each["first"].split("-")[0]), int(each["last"].split("-")[0])) for each in found)


def left(*gone: Within) -> list[int]:
    return [n for n in range(1, ENTRIES + 1) if not any(low <= n <= high for low, high in gone)]


def all_of(query: Query) -> tuple[list[int], int]:
    """What is read until there is no more, and in how many batches; one of them may have no rows."""
    read, batches = list[int](), 0
    while (end := query.latest()) != query.offset:
        start, query.offset, batches = query.offset, end, batches + 1
        read += [n for _, n in query.read(start, end)]
    return read, batches


def test_a_batch_that_was_planned_passes_over_an_object_that_is_gone(tmp_path: Path, moved: list[Moved]) -> None:
    query = Query(tmp_path / "store", maxentriespertrigger=150)
    start, end = query.offset, query.latest()
    gone = lost(tmp_path, moved[1])
    with pytest.raises(LostObjectError, match=r"is not there any more: it holds entries \d+-0 to \d+-0"):
        query.read(start, end)
    again = Query(
        tmp_path / "store", start, maxentriespertrigger=150, oncorruption="skip", corruptionpath=tmp_path / "r"
    )
    assert [n for _, n in again.read(start, end)] == [n for n in left(gone) if n <= 150]
    assert told(tmp_path / "r") == [gone]
    again.offset = end
    assert again.numbers() == list(range(151, ENTRIES + 1))


@pytest.mark.parametrize("limit", [{"maxentriespertrigger": 15}, {"maxbytespertrigger": "4k"}])
def test_batches_end_in_what_is_gone_and_go_on_behind_it(
    tmp_path: Path, moved: list[Moved], limit: dict[str, Any]
) -> None:
    gone = [lost(tmp_path, moved[0]), lost(tmp_path, moved[2])]
    query = Query(tmp_path / "store", oncorruption="skip", corruptionpath=tmp_path / "r", **limit)
    read, batches = all_of(query)
    assert read == left(*gone)
    assert told(tmp_path / "r") == sorted(gone)
    assert batches > 4


def test_a_group_waits_where_its_query_stands_in_what_is_gone(
    tmp_path: Path, moved: list[Moved], caplog: pytest.LogCaptureFixture
) -> None:
    """How many entries are before that nobody can say; the query ended where the group was to be told."""
    query = Query(tmp_path / "store", group="g", oncorruption="skip", maxentriespertrigger=moved[0].entries + 3)
    query.batch()
    query.reader.stop()
    gone = lost(tmp_path, moved[1])
    strict = Query(tmp_path / "store", query.offset, group="g")
    with pytest.raises(LostObjectError):
        strict.reader.commit(query.offset)
    strict.reader.stop()
    again = Query(tmp_path / "store", query.offset, group="g", oncorruption="skip")
    again.reader.commit(query.offset)
    assert "a group did not follow its query" in caplog.text
    assert again.numbers() == [n for n in left(gone) if n > gone[1]]
    again.reader.commit(again.offset)
    again.reader.stop()
    with opened(tmp_path / "store") as store:
        assert str(store.stream("x").group("g").info().last_delivered_id) == f"{ENTRIES}-0"


def test_a_batch_read_passes_over_an_object_that_is_gone(tmp_path: Path, moved: list[Moved]) -> None:
    gone = lost(tmp_path, moved[1])
    given = {"path": str(tmp_path / "store"), "corruptionpath": str(tmp_path / "r")}

    def read(**more: str) -> list[int]:
        reader = EntriesReader(ReadOptions.parse(given | more).check(), SCHEMA)
        return [n for each in reader.partitions() for batch in reader.read(each) for n in batch["n"].to_pylist()]

    with pytest.raises(LostObjectError):
        read()
    assert read(oncorruption="skip") == left(gone)
    assert told(tmp_path / "r") == [gone]
    assert read(oncorruption="skip", startingids=f"{gone[0] + 2}-0") == [n for n in left(gone) if n > gone[1]]


def test_what_may_come_back_is_not_passed_over(tmp_path: Path, moved: list[Moved]) -> None:
    """A disk that is not mounted has no objects either, and a storage that refuses says nothing of them."""
    query = Query(tmp_path / "store", oncorruption="skip")
    start, end = query.offset, query.latest()
    folder = object_of(tmp_path, moved[0]).parent
    (tmp_path / "place").rename(tmp_path / "elsewhere")
    with pytest.raises(RemoteError, match="a disk may be missing") as raised:
        query.read(start, end)
    assert not isinstance(raised.value, LostObjectError)
    (tmp_path / "elsewhere").rename(tmp_path / "place")
    assert folder.is_dir()
    assert [n for _, n in query.read(start, end)] == left()


@pytest.fixture
def trimmed(tmp_path: Path, moved: list[Moved]) -> Within:
    """A trim has ended in the first segment that is left, and its object is gone."""
    with opened(tmp_path / "store") as store:
        store.stream("x").trim(minid=moved[1].first.ms + 5)
    return lost(tmp_path, moved[1])


@pytest.mark.parametrize("loss", ["true", "false"])
def test_what_is_gone_where_a_trim_ended_is_passed_over(tmp_path: Path, trimmed: Within, loss: str) -> None:
    """Up to which ID that was nobody can say: each look at the stream failed for it, that from `latest` on too."""
    query = Query(tmp_path / "store", oncorruption="skip", failondataloss=loss, maxentriespertrigger=40)
    assert all_of(query)[0] == list(range(trimmed[1] + 1, ENTRIES + 1))
    late = Query(tmp_path / "store", oncorruption="skip", failondataloss=loss, startingids="latest")
    assert late.numbers() == []


def test_where_a_trim_ended_is_not_looked_up_for_what_lies_behind_it(tmp_path: Path, trimmed: Within) -> None:
    """So much had to be fetched for each read of the newest entries, and where it is gone none could be had."""
    end = trimmed[1]
    late = Query(tmp_path / "store", startingids="latest")
    behind = Query(tmp_path / "store", startingids=f"{end + 1}-0")
    assert behind.numbers() == list(range(end + 1, ENTRIES + 1))
    with opened(tmp_path / "store") as store:
        assert (store.stream("x").trimmed_to(f"{end}-0") or MIN_ID).ms < trimmed[0]
        with pytest.raises(LostObjectError):
            store.stream("x").trimmed_to()
        assert str(store.stream("x").trimmed_to(damaged=True)) == f"{trimmed[0]}-0"
        store.stream("x").add({"n": ENTRIES + 1}, f"{ENTRIES + 1}-0")
    assert late.numbers() == [ENTRIES + 1]
    assert behind.numbers() == [ENTRIES + 1]
    with pytest.raises(DataLossError, match=f"entries up to {trimmed[0]}-0 were trimmed away"):
        Query(tmp_path / "store", startingids="2-0", oncorruption="skip").batch()


def test_new_entries_are_archived_where_a_trim_ended_in_what_is_gone(
    no_spark: Any, tmp_path: Path, moved: list[Moved]
) -> None:
    settings = ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive"))
    assert archive.run(no_spark, settings).entries == ENTRIES
    with opened(tmp_path / "store") as store:
        store.stream("x").trim(minid=moved[1].first.ms + 5)
        store.stream("x").add({"n": ENTRIES + 1}, f"{ENTRIES + 1}-0")
    lost(tmp_path, moved[1])
    assert archive.run(no_spark, settings).entries == 1


def test_an_object_of_other_bytes_or_another_size_is_passed_over_too(tmp_path: Path, moved: list[Moved]) -> None:
    other, short = (object_of(tmp_path, segment) for segment in moved[:2])
    other.write_bytes(spoilt(other.read_bytes()))
    short.write_bytes(short.read_bytes()[:-1])
    query = Query(tmp_path / "store", oncorruption="skip")
    assert query.numbers() == left(*((each.first.ms, each.last.ms) for each in moved[:2]))
