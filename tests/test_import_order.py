"""IDs made of times that repeat and go backwards, and the sort that puts rows in order."""

import random

import pytest

import diskstream
from diskstream.ingest.order import BackwardsError, IDMaker
from diskstream.ingest.rows import Pairs
from diskstream.ingest.sorting import sorted_by_time

MAX_SEQ = 2**64 - 1


def row(number: int) -> Pairs:
    return [(b"i", b"%d" % number), (b"empty", b""), (b"odd\xff", b"\x00\n")]


@pytest.mark.parametrize("memory_bytes", [1, 1_000, 50_000, 1 << 30])
def test_sorting_is_stable_and_loses_nothing_whether_or_not_it_fits_into_memory(memory_bytes: int) -> None:
    chance = random.Random(7)
    rows = [(chance.randrange(40), row(number)) for number in range(500)]
    assert list(sorted_by_time(iter(rows), memory_bytes=memory_bytes)) == sorted(rows, key=lambda each: each[0])


def test_sorting_nothing() -> None:
    assert list(sorted_by_time([], memory_bytes=1)) == []


def test_rows_of_one_millisecond_are_numbered_in_their_order() -> None:
    ids = IDMaker(diskstream.EntryID(0, 0))
    assert [str(ids(ms)) for ms in (5, 5, 5, 7, 7)] == ["5-0", "5-1", "5-2", "7-0", "7-1"]
    assert ids.repeated == 3


def test_ids_go_on_behind_the_newest_entry_of_the_stream() -> None:
    ids = IDMaker(diskstream.EntryID(5, 9))
    assert str(ids(5)) == "5-10"


def test_time_zero_has_an_id() -> None:
    assert str(IDMaker(diskstream.EntryID(0, 0))(0)) == "0-1"


def test_a_time_that_goes_backwards_is_refused_or_clamped() -> None:
    with pytest.raises(BackwardsError):
        IDMaker(diskstream.EntryID(5, 9))(4)
    clamping = IDMaker(diskstream.EntryID(5, 9), clamp=True)
    assert [str(clamping(ms)) for ms in (4, 3, 6, 1)] == ["5-10", "5-11", "6-0", "6-1"]
    assert clamping.clamped == 3


def test_a_full_sequence_goes_on_in_the_next_millisecond() -> None:
    assert str(IDMaker(diskstream.EntryID(5, MAX_SEQ))(5)) == "6-0"


def test_a_used_up_millisecond_does_not_move_the_times_of_the_rows_that_follow() -> None:
    """The second row of it was refused as older than the entry it followed, or counted as clamped."""
    ids = IDMaker(diskstream.EntryID(5, MAX_SEQ))
    assert [str(ids(ms)) for ms in (5, 5, 6, 7)] == ["6-0", "6-1", "6-2", "7-0"]
    assert (ids.repeated, ids.clamped) == (2, 0)


@pytest.mark.parametrize("clamp", [True, False])
def test_behind_the_greatest_id_there_is_none(clamp: bool) -> None:
    ids = IDMaker(diskstream.EntryID(MAX_SEQ, MAX_SEQ - 1), clamp=clamp)
    assert ids(MAX_SEQ) == diskstream.EntryID(MAX_SEQ, MAX_SEQ)
    with pytest.raises(diskstream.DiskstreamError, match="exhausted"):
        ids(MAX_SEQ)
