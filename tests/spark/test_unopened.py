"""A streaming read of several streams, one of which does not open: it ended the query, and no batch read."""

import json
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import CorruptionError
from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine.layouts import FRAME_HEADER, padded
from diskstream.ids import MAX_ID
from diskstream.spark.kept_stores import STORES
from tests.spark.test_stream_units import Query, Rows, fill

pytest.importorskip("pyarrow")


@pytest.fixture
def at(tmp_path: Path) -> Path:
    with diskstream.open(tmp_path / "store") as store:
        for name in ("a", "x", "z"):
            fill(store, range(1, 4), name)
    return tmp_path / "store"


def flip(at: Path) -> None:
    """Damages the header of the log of stream `x`, or mends it."""
    (log,) = (at / "streams" / "x").glob("*.log")
    data = bytearray(log.read_bytes())
    data[20] ^= 0xFF
    log.write_bytes(data)
    STORES.forget()


def rows(streams: str, numbers: range) -> Rows:
    return [(name, number) for name in streams for number in numbers]


def add(at: Path, streams: str, numbers: range) -> None:
    with diskstream.open(at) as store:
        for name in streams:
            fill(store, numbers, name)


def begun(at: Path, **options: Any) -> Query:
    query = Query(at, streams="a,x,z", **options)
    assert query.batch() == rows("axz", range(1, 4))
    query.reader.stop()
    return query


@pytest.mark.parametrize("more", [{}, {"failondataloss": "false"}, {"maxentriespertrigger": 100}, {"group": "g"}])
def test_a_stream_that_does_not_open_is_passed_over_and_read_on_once_it_is_mended(
    at: Path, tmp_path: Path, more: dict[str, Any]
) -> None:
    offset = begun(at, **more).offset
    add(at, "axz", range(4, 6))
    flip(at)
    report = tmp_path / "report"
    query = Query(at, offset, streams="a,x,z", oncorruption="skip", corruptionpath=report, **more)
    assert query.batch() == rows("az", range(4, 6))
    query.reader.commit(query.offset)
    assert query.batch() == []
    (told,) = (json.loads(file.read_text()) for file in report.iterdir())
    assert (told["stream"], told["first"], told["last"]) == ("x", "3-1", str(MAX_ID))
    assert "log header" in told["error"]
    flip(at)
    assert query.batch() == rows("x", range(4, 6))
    query.reader.commit(query.offset)
    if "group" in more:
        with diskstream.open(at) as store:
            followed = [store.stream(name).group("g").info() for name in ("a", "x", "z")]
        assert {(str(each.last_delivered_id), each.lag) for each in followed} == {("5-0", 0)}


def test_a_query_begins_without_a_stream_that_does_not_open(at: Path) -> None:
    flip(at)
    query = Query(at, streams="a,x,z", oncorruption="skip")
    query.reader.prepareForTriggerAvailableNow()
    assert query.reader.reportLatestOffset() is not None
    assert query.batch() == rows("az", range(1, 4))


def test_a_planned_batch_passes_over_a_stream_that_does_not_open_any_more(at: Path, tmp_path: Path) -> None:
    query = begun(at)
    add(at, "axz", range(4, 6))
    end = query.latest()
    flip(at)
    report = tmp_path / "report"
    again = Query(at, query.offset, streams="a,x,z", oncorruption="skip", corruptionpath=report)
    assert again.read(query.offset, end) == rows("az", range(4, 6))
    told = {(each["first"], each["last"]) for each in (json.loads(file.read_text()) for file in report.iterdir())}
    assert ("3-1", "5-0") in told


def test_where_damage_is_an_error_it_ends_the_query(at: Path) -> None:
    offset = begun(at).offset
    flip(at)
    with pytest.raises(CorruptionError, match="log header"):
        Query(at, offset, streams="a,x,z", failondataloss="false").batch()


def test_a_group_follows_in_the_streams_that_are_whole(at: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A stream that is damaged in its midst is read, but not written to: that ended the query after its first batch."""
    (log,) = (at / "streams" / "x").glob("*.log")
    data = bytearray(log.read_bytes())
    snapshot = FRAME_HEADER.read(bytes(data), LOG_HEADER_BYTES)
    assert snapshot is not None  # with this frame damaged, it would not open
    first = LOG_HEADER_BYTES + FRAME_HEADER.size + padded(snapshot["length"])
    data[first + FRAME_HEADER.size] ^= 0xFF
    log.write_bytes(data)
    query = Query(at, streams="a,x,z", oncorruption="skip", group="g")
    assert set(query.batch()) >= {*rows("az", range(1, 4))}
    query.reader.commit(query.offset)
    assert "a group did not follow its query" in caplog.text
    query.reader.stop()
    with diskstream.open(at) as store:
        assert [str(store.stream(name).group("g").info().last_delivered_id) for name in "az"] == ["3-0", "3-0"]
    with pytest.raises(CorruptionError):
        Query(at, query.offset, streams="a,x,z", group="g").reader.commit(query.offset)
    STORES.forget()
