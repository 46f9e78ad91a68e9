"""A store that is repaired between two batches of a query, whose tasks kept it open."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import repairing
from diskstream.spark.kept_stores import STORES

pytest.importorskip("pyspark.sql.streaming.datasource")

from tests.spark.test_stream_units import Query, fill

NAMES = ("a", "x")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store of which one log is damaged at about a fifth of it; tasks keep it open."""
    STORES.forget()
    at = tmp_path / "at"
    with diskstream.open(at) as store:
        for name in NAMES:
            fill(store, range(1, 100), name)
    log = at / "streams" / "x" / "00000001.log"
    held = bytearray(log.read_bytes())
    found = held.index(b"n", len(held.rstrip(b"\0")) // 2)
    held[found - 2 : found + 2] = bytes(byte ^ 0xFF for byte in held[found - 2 : found + 2])
    log.write_bytes(held)
    return at


@pytest.mark.parametrize("more", [{}, {"failondataloss": "false"}])
def test_a_query_that_is_started_again_reads_what_the_repair_has_saved(damaged: Path, more: dict[str, Any]) -> None:
    """The store that the tasks had open ended at the damage: what is behind it was taken for gone, or damaged still."""
    query = Query(damaged, streams="a,x", **more)
    start = query.offset
    before = len(query.batch())
    query.reader.stop()
    (told,) = (each for each in repairing.repair(damaged) if each.stream == b"x")
    assert told.losses
    again = Query(damaged, start, streams="a,x", **more)
    with diskstream.open(damaged, read_only=True) as store:
        saved = sum(len(store.stream(name)) for name in NAMES)
    assert before < saved
    assert len(again.batch()) == saved
    STORES.forget()
