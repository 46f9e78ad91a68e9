"""`add`: IDs of every form, the errors of XADD, NOMKSTREAM, and what trims along the way."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import (
    ArgumentError,
    DiskstreamError,
    EntryID,
    IDExhaustedError,
    IDOrderError,
    InvalidIDError,
    LimitError,
    Store,
    Stream,
    ZeroIDError,
)
from tests.streams.layers import MAX, MAX_ID, ids

SMALLER = "The ID specified in XADD is equal or smaller than the target stream top item"
ZERO = "The ID specified in XADD must be greater than 0-0"
EXHAUSTED = "The stream has exhausted the last possible ID, unable to add more items"
NO_ID = "Invalid stream ID specified as stream command argument"


@pytest.fixture
def stream(store: Store) -> Stream:
    return store.stream("x")


def test_an_automatic_id_is_the_clocks_milliseconds(stream: Stream) -> None:
    before = time.time_ns() // 1_000_000
    added = stream.add({"a": 1})
    after = time.time_ns() // 1_000_000
    assert isinstance(added, EntryID)
    assert before <= added.ms <= after
    assert ids(stream.range()) == [str(added)]


def test_automatic_ids_rise(stream: Stream) -> None:
    added = [stream.add({"a": number}) for number in range(2000)]
    assert added == sorted(set(added))
    assert [entry.id for entry in stream] == added


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ("5-3", "5-3"),
        (b"5-3", "5-3"),
        ("5", "5-0"),
        (5, "5-0"),
        ((5, 3), "5-3"),
        (EntryID(5, 3), "5-3"),
        ("5-*", "5-0"),
        (b"5-*", "5-0"),
        ("0-*", "0-1"),
        ("0-1", "0-1"),
        (f"{MAX}-{MAX}", f"{MAX}-{MAX}"),
    ],
)
def test_an_id_may_be_given_whole_or_in_part(stream: Stream, given: Any, added: str) -> None:
    assert str(stream.add({"a": 1}, given)) == added
    assert ids(stream) == [added]


def test_an_open_sequence_is_the_next_free_one_of_its_millisecond(stream: Stream) -> None:
    given = ["5-3", "5-*", "5-*", "6-*", "6-*", f"9-{MAX - 1}", "9-*"]
    added = ["5-3", "5-4", "5-5", "6-0", "6-1", f"9-{MAX - 1}", f"9-{MAX}"]
    assert [str(stream.add({"a": 1}, each)) for each in given] == added
    with pytest.raises(IDOrderError, match=f"^{SMALLER}$"):
        stream.add({"a": 1}, "9-*")
    assert stream.info().last_generated_id == EntryID(9, MAX)


@pytest.mark.parametrize("given", ["5-3", "5-2", "5-0", "5", "4-9", "4-*", "0-1", "0-*", 4])
def test_an_id_that_is_not_above_the_last_one_is_refused(stream: Stream, given: Any) -> None:
    stream.add({"a": 1}, "5-3")
    with pytest.raises(IDOrderError, match=f"^{SMALLER}$"):
        stream.add({"a": 2}, given)
    assert ids(stream) == ["5-3"]


def test_an_id_stays_taken_when_its_entry_is_gone(stream: Stream) -> None:
    stream.add({"a": 1}, "5-3")
    stream.delete("5-3")
    with pytest.raises(IDOrderError):
        stream.add({"a": 1}, "5-3")
    stream.add({"a": 1}, "5-4")
    stream.trim(maxlen=0)
    with pytest.raises(IDOrderError):
        stream.add({"a": 1}, "5-4")


@pytest.mark.parametrize("given", ["0-0", "0", 0, EntryID(0, 0)])
def test_zero_is_no_id(stream: Stream, given: Any) -> None:
    for _ in range(2):
        with pytest.raises(ZeroIDError, match=f"^{ZERO}$"):
            stream.add({"a": 1}, given)
        with pytest.raises(ZeroIDError):
            stream.add({"a": 1}, given, nomkstream=True)
        with pytest.raises(ZeroIDError):
            stream.add_many([{"a": 1}, {"a": 2}], ids=[given, "1-1"])
        stream.add({"a": 1}, "*")


@pytest.mark.parametrize(
    "given", ["", "x", "5-", "-5", "5-x", "5-**", "*-5", "*-*", "**", "-*", "5-1-*", "+", "-", "$", ">", 1.5]
)
def test_a_malformed_id_is_refused(store: Store, stream: Stream, given: Any) -> None:
    with pytest.raises(InvalidIDError, match=f"^{NO_ID}"):
        stream.add({"a": 1}, given)
    assert not store.exists("x")


@pytest.mark.parametrize("given", ["*", f"{MAX}-*", "5-*", "5-3", f"{MAX}-{MAX}"])
def test_behind_the_last_possible_id_nothing_can_be_added(stream: Stream, given: str) -> None:
    stream.add({"a": 1}, MAX_ID)
    for _ in range(2):
        with pytest.raises(IDExhaustedError, match=f"^{EXHAUSTED}$"):
            stream.add({"a": 2}, given)
    with pytest.raises(IDExhaustedError):
        stream.add_many([{"a": 2}])
    assert ids(stream) == [str(MAX_ID)]
    stream.delete(MAX_ID)
    with pytest.raises(IDExhaustedError):
        stream.add({"a": 2}, given)


def test_a_stream_is_made_with_its_first_entry_unless_told_not_to(store: Store, stream: Stream) -> None:
    assert stream.add({"a": 1}, nomkstream=True) is None
    assert stream.add({"a": 1}, nomkstream=True, maxlen=5) is None
    assert stream.add_many([{"a": 1}], nomkstream=True) == []
    assert not store.exists("x")
    assert stream.add({"a": 1}, "5-1") == EntryID(5, 1)
    assert stream.add({"a": 1}, "5-2", nomkstream=True) == EntryID(5, 2)
    store.delete("x")
    assert stream.add({"a": 1}, nomkstream=True) is None
    assert not store.exists("x")


FAILING: dict[str, tuple[type[DiskstreamError], Callable[[Stream], object]]] = {
    "zero": (ZeroIDError, lambda stream: stream.add({"a": 1}, "0-0")),
    "no fields": (ArgumentError, lambda stream: stream.add({})),
    "odd pairs": (ArgumentError, lambda stream: stream.add([("a",)])),  # type: ignore[list-item]  # refused: of a wrong kind
    "wrong type": (ArgumentError, lambda stream: stream.add({"a": None})),
    "too large": (LimitError, lambda stream: stream.add({"a": bytes(33 << 20)})),
    "no ID": (InvalidIDError, lambda stream: stream.add({"a": 1}, "x")),
    "bad trim": (ArgumentError, lambda stream: stream.add({"a": 1}, maxlen=-1)),
    "many, zero": (ZeroIDError, lambda stream: stream.add_many([{"a": 1}], ids=["0-0"])),
    "many, no ID": (InvalidIDError, lambda stream: stream.add_many([{"a": 1}], ids=["x"])),
    "many, no fields": (ArgumentError, lambda stream: stream.add_many([{"a": 1}, {}])),
    "many, fewer ids": (ArgumentError, lambda stream: stream.add_many([{"a": 1}, {"a": 2}], ids=["1-1"])),
    "many, out of order": (IDOrderError, lambda stream: stream.add_many([{"a": 1}] * 2, ids=["2-0", "1-0"])),
}


@pytest.mark.parametrize(("error", "call"), FAILING.values(), ids=FAILING)
def test_a_call_that_fails_makes_no_stream(
    store: Store, stream: Stream, error: type[DiskstreamError], call: Callable[[Stream], object]
) -> None:
    with pytest.raises(error):
        call(stream)
    assert not store.exists("x")
    assert store.streams() == []


def test_a_call_that_fails_changes_nothing(store: Store, stream: Stream) -> None:
    stream.add({"a": 1}, "5-3")
    before = stream.info()
    for error, call in FAILING.values():
        with pytest.raises(error):
            call(stream)
    after = stream.info()
    assert (after.length, after.last_generated_id, after.entries_added) == (1, EntryID(5, 3), 1)
    assert before.last_entry == after.last_entry


def test_adding_may_trim_to_a_length(stream: Stream) -> None:
    for number in range(1, 11):
        assert stream.add({"n": number}, (number, 0), maxlen=4) == EntryID(number, 0)
        assert ids(stream) == [f"{left}-0" for left in range(max(1, number - 3), number + 1)]
    assert stream.info().entries_added == 10


def test_adding_may_trim_by_id(stream: Stream) -> None:
    for number in range(1, 11):
        stream.add({"n": number}, (number, 0), minid=(max(0, number - 2), 0))
    assert ids(stream) == ["8-0", "9-0", "10-0"]
    stream.add({"n": 11}, "11-0", minid="99")
    assert ids(stream) == []


def test_an_entry_trimmed_at_once_has_its_id_all_the_same(store: Store, stream: Stream) -> None:
    assert stream.add({"a": 1}, "5-3", maxlen=0) == EntryID(5, 3)
    assert store.exists("x")
    assert len(stream) == 0
    assert stream.info().last_generated_id == EntryID(5, 3)


def test_adding_may_trim_approximately(stream: Stream) -> None:
    for number in range(1, 251):
        stream.add({"n": number}, (number, 0), maxlen=30, approximate=True)
        assert 30 <= len(stream) < 30 + 100 or len(stream) == number
    assert len(stream) == 50
    for number in range(251, 501):
        stream.add({"n": number}, (number, 0), maxlen=30, approximate=True, limit=99)
    assert len(stream) == 300
    stream.add({"n": 501}, "501-0", minid=450, approximate=True, limit=0)
    assert ids(stream)[0] == "401-0"


TRIM_ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"maxlen": 5, "minid": 5}, "syntax error, MAXLEN and MINID options at the same time are not compatible"),
    ({"maxlen": -1}, "The MAXLEN argument must be >= 0."),
    ({"maxlen": 5, "approximate": True, "limit": -1}, "The LIMIT argument must be >= 0."),
    ({"maxlen": 5, "limit": 10}, "syntax error, LIMIT cannot be used without the special ~ option"),
    ({"minid": 5, "limit": 10}, "syntax error, LIMIT cannot be used without the special ~ option"),
    ({"limit": 10}, "syntax error, LIMIT cannot be used without specifying a trimming strategy"),
    ({"minid": "x"}, NO_ID + ": 'x'"),
]


@pytest.mark.parametrize(("options", "text"), TRIM_ERRORS, ids=[text for _, text in TRIM_ERRORS])
def test_trims_that_contradict_themselves_are_refused_in_the_words_of_redis(
    stream: Stream, options: dict[str, Any], text: str
) -> None:
    stream.add({"a": 1}, "5-3")
    for call in (
        lambda: stream.add({"a": 2}, **options),
        lambda: stream.add_many([{"a": 2}], **options),
        lambda: stream.trim(**options),
    ):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert str(caught.value) == text
    assert ids(stream) == ["5-3"]


@pytest.mark.parametrize(
    "options", [{"maxlen": "5"}, {"maxlen": 1.5}, {"maxlen": 5, "approximate": True, "limit": "5"}]
)
def test_numbers_that_are_none_are_refused_and_nothing_is_added(stream: Stream, options: dict[str, Any]) -> None:
    stream.add({"a": 1}, "5-3")
    for call in (lambda: stream.add({"a": 2}, **options), lambda: stream.trim(**options)):
        with pytest.raises(TypeError):
            call()
    assert ids(stream) == ["5-3"]


def test_a_durable_entry_is_on_disk_when_the_call_returns(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "durable", fsync="os") as store:
        stream = store.stream("x")
        stream.add({"a": 1}, "1-1")
        assert not stream.info().durable
        stream.add({"a": 1}, "2-1", durable=True)
        assert stream.info().durable
        stream.add({"a": 1}, "3-1", maxlen=5, durable=True)
        assert stream.info().durable
        stream.add_many([{"a": 1}], durable=True)
        assert stream.info().durable
