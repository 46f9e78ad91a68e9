"""`EntryID`: two 64-bit numbers, ordered as a pair."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diskstream import EntryID, InvalidIDError
from diskstream.ids import parse_add_id, parse_end, parse_id, parse_start
from tests.streams.layers import MAX, MAX_ID

words = st.integers(0, MAX) | st.sampled_from([0, 1, 2**63 - 1, 2**63, MAX - 1, MAX])
pairs = st.tuples(words, words)


@given(pairs)
def test_it_is_made_of_numbers_text_bytes_or_a_pair(pair: tuple[int, int]) -> None:
    ms, seq = pair
    made = EntryID(ms, seq)
    assert (made.ms, made.seq) == pair
    assert str(made) == f"{ms}-{seq}"
    assert bytes(made) == str(made).encode()
    assert repr(made) == f"EntryID('{ms}-{seq}')"
    assert made == EntryID(str(made)) == EntryID(bytes(made)) == EntryID(pair) == EntryID(made)
    assert EntryID(str(ms)) == EntryID(ms) == EntryID(ms, 0)


@given(pairs, pairs)
def test_it_is_ordered_and_hashed_as_the_pair_of_its_numbers(one: tuple[int, int], other: tuple[int, int]) -> None:
    left, right = EntryID(*one), EntryID(*other)
    assert (left < right, left <= right, left == right, left != right, left >= right, left > right) == (
        one < other,
        one <= other,
        one == other,
        one != other,
        one >= other,
        one > other,
    )
    assert (hash(left) == hash(right)) or left != right
    assert len({left, right, EntryID(*one)}) == len({one, other})


@given(pairs)
def test_it_survives_pickling_and_copying(pair: tuple[int, int]) -> None:
    made = EntryID(*pair)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(made, protocol)) == made
    assert copy.copy(made) == copy.deepcopy(made) == made


@given(pairs)
def test_next_and_prev_carry_between_its_numbers(pair: tuple[int, int]) -> None:
    def number(entry_id: EntryID) -> int:
        return entry_id.ms << 64 | entry_id.seq

    made = EntryID(*pair)
    following, before = made.next(), made.prev()
    assert (following is None) == (made == MAX_ID)
    assert (before is None) == (made == EntryID(0, 0))
    assert following is None or number(following) == number(made) + 1
    assert before is None or number(before) == number(made) - 1


def test_it_cannot_be_changed() -> None:
    made = EntryID(5, 3)
    for name in ("ms", "seq", "other"):
        with pytest.raises(AttributeError):
            setattr(made, name, 4)


def test_it_is_equal_to_nothing_but_an_id_and_ordered_with_nothing_else() -> None:
    made = EntryID(5, 3)
    assert made != "5-3"
    assert made != (5, 3)
    with pytest.raises(TypeError):
        assert made < "6-0"  # type: ignore[operator]  # refused: of a wrong kind


NO_IDS = ["", "5-", "-5", "x", "5-x", "5-1-1", "+5", " 5", "5 ", "5_0", "0x5", "5.0", "٣", "\udc80", b"\xff"]
OUT_OF_RANGE = [str(MAX + 1), f"0-{MAX + 1}", -1, MAX + 1, (-1, 0), (0, MAX + 1)]


@pytest.mark.parametrize("bad", [*NO_IDS, *OUT_OF_RANGE, None, 1.5, object(), (1,), (1, 2, 3), ("1", "2"), [1, 2]])
def test_what_is_no_id_is_refused_in_the_words_of_redis(bad: object) -> None:
    readers: list[Callable[[Any], object]] = [EntryID, parse_id, parse_add_id, parse_start, parse_end]
    for read in readers:
        with pytest.raises(InvalidIDError) as caught:
            read(bad)
        assert str(caught.value).startswith("Invalid stream ID specified as stream command argument: ")


@pytest.mark.parametrize(("ms", "seq"), [(-1, 5), (5, -1), (MAX + 1, 0), (0, MAX + 1), ("5", 3), (1.5, 0), (5, "3")])
def test_two_numbers_out_of_range_are_no_id(ms: object, seq: object) -> None:
    with pytest.raises(InvalidIDError):
        EntryID(ms, seq)  # type: ignore[arg-type]  # refused: of a wrong kind


def test_a_missing_sequence_is_the_least_at_a_start_and_the_greatest_at_an_end() -> None:
    assert parse_start("5") == parse_start(b"5") == parse_start(5) == EntryID(5, 0)
    assert parse_end("5") == parse_end(b"5") == parse_end(5) == EntryID(5, MAX)
    assert parse_start("(5") == EntryID(5, 1)
    assert parse_end("(5") == EntryID(5, MAX - 1)
    assert parse_start(f"(5-{MAX}") == EntryID(6, 0)
    assert parse_end("(5-0") == EntryID(4, MAX)
    assert parse_id("5") == EntryID(5, 0)


def test_the_special_ids_of_a_range() -> None:
    assert parse_start("-") == parse_end(b"-") == EntryID(0, 0)
    assert parse_start("+") == parse_end(b"+") == MAX_ID


def test_the_id_of_a_new_entry_may_leave_parts_open() -> None:
    assert parse_add_id("*") == parse_add_id(b"*") == (None, None)
    assert parse_add_id("5-*") == parse_add_id(b"5-*") == (None, 5)
    assert parse_add_id("5") == (EntryID(5, 0), None)
    assert parse_add_id("5-3") == (EntryID(5, 3), None)
