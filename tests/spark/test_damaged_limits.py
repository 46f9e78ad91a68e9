"""Limits of a streaming read over damage that is to be passed over: where a batch ends is found without reading it."""

import random
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import CorruptionError
from diskstream.spark.kept_stores import STORES
from tests.spark.test_stream_units import Query

pytest.importorskip("pyarrow")

ENTRIES = 400


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store with a stream of many sealed segments, of which one in the middle has a node that is damaged."""
    padding = random.Random(7)  # which does not compress
    with diskstream.open(tmp_path / "store", segment_bytes=8192) as store:
        for number in range(1, ENTRIES + 1):
            store.stream("x").add({"n": number, "pad": padding.randbytes(100)}, f"{number}-0")
        store.seal()
    segments = sorted((tmp_path / "store" / "streams").rglob("*.seg"))
    middle = segments[len(segments) // 2]
    found = bytearray(middle.read_bytes())
    found[len(found) // 3] ^= 0xFF
    middle.write_bytes(found)
    return tmp_path / "store"


def drained(query: Query) -> list[list[int]]:
    batches = []
    while (end := query.latest()) != query.offset:
        batches.append([number for _, number in query.read(query.offset, end)])
        query.offset = end
    return batches


@pytest.mark.parametrize("limits", [{"maxentriespertrigger": 30}, {"maxbytespertrigger": "5k"}])
def test_limits_get_past_damage_that_is_skipped(damaged: Path, limits: dict[str, Any]) -> None:
    """The query ended there, each time it was started: the ID at which a batch ends was looked for in the damage."""
    whole = Query(damaged, oncorruption="skip").numbers()
    assert 0 < ENTRIES - len(whole) < ENTRIES // 4
    STORES.forget()
    batches = drained(Query(damaged, oncorruption="skip", **limits))
    assert [number for batch in batches for number in batch] == whole
    assert len(batches) > 5
    assert max(map(len, batches)) <= ENTRIES // 4


def test_limits_get_past_damage_in_which_a_query_begins(damaged: Path) -> None:
    whole = set(Query(damaged, oncorruption="skip").numbers())
    lost = next(number for number in range(1, ENTRIES) if number not in whole)
    STORES.forget()
    begun = Query(damaged, oncorruption="skip", maxentriespertrigger=30, startingids=f"{lost + 1}-0")
    assert [number for batch in drained(begun) for number in batch] == sorted(n for n in whole if n > lost)


def test_damage_that_is_not_to_be_skipped_ends_it_as_ever(damaged: Path) -> None:
    with pytest.raises(CorruptionError):
        drained(Query(damaged, maxentriespertrigger=30))
