"""`read`: what lies behind a position, in one stream or several, without waiting."""

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream import ArgumentError, EntryID, InvalidIDError, Store
from diskstream.ids import IDLike
from tests.streams.layers import MAX, MAX_ID, Layered, ids, layered, nth_id, rows, small_store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with small_store(tmp_path_factory.mktemp("read") / "store") as store:
        yield layered(store)


@pytest.fixture
def three(store: Store) -> Store:
    """Streams a, b and c with three entries each; `1-n`, `2-n` and `3-n`, values of 9 bytes beside names of 1."""
    for number, name in enumerate("abc"):
        for seq in range(1, 4):
            store.stream(name).add({"v": f"{name}{seq}" + "." * 7}, (number + 1, seq))
    return store


def found(read: dict[bytes, list[diskstream.Entry]]) -> dict[str, list[str]]:
    return {name.decode(): ids(entries) for name, entries in read.items()}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(after=st.integers(0, 480), count=st.none() | st.integers(0, 60))
def test_it_gives_what_lies_behind_an_id(made: Layered, after: int, count: int | None) -> None:
    position = nth_id(after)
    expected = [row for row in made.live if row[0] > position]
    assert rows(made.stream.read(position, count=count)) == expected[: count or None]
    assert rows(made.stream.read(str(position), count=count)) == expected[: count or None]


def test_following_by_counts_meets_every_entry_once(made: Layered) -> None:
    position, seen = "0-0", []
    while entries := made.stream.read(position, count=7):
        seen += rows(entries)
        position = str(entries[-1].id)
    assert seen == made.live


def test_an_incomplete_id_leaves_its_millisecond_behind_from_zero(three: Store) -> None:
    assert ids(three.stream("a").read("1")) == ["1-1", "1-2", "1-3"]
    assert ids(three.stream("a").read(0)) == ["1-1", "1-2", "1-3"]
    assert ids(three.stream("a").read((1, 2))) == ["1-3"]


def test_behind_the_end_there_is_nothing(three: Store) -> None:
    ends: list[IDLike] = ["$", b"$", "1-3", "2", MAX_ID, f"{MAX}-{MAX}"]
    for after in ends:
        assert three.stream("a").read(after) == []
    assert three.read({"a": "$", "b": "9", "missing": "0"}) == {}
    assert not three.exists("missing")


def test_plus_is_the_last_entry(three: Store) -> None:
    assert ids(three.stream("a").read("+")) == ["1-3"]
    asked: dict[str, IDLike] = {"a": b"+", "b": "2-2", "missing": "+"}
    assert found(three.read(asked, count=5)) == {"a": ["1-3"], "b": ["2-3"]}
    three.stream("a").delete("1-3")
    assert ids(three.stream("a").read("+")) == ["1-2"]
    three.stream("a").trim(maxlen=0)
    assert three.stream("a").read("+") == []


def test_plus_finds_the_last_entry_behind_many_deleted_ones(small: Store) -> None:
    stream = small.stream("x")
    for number in range(1, 301):
        stream.add({"n": number, "pad": "." * 80}, (number, 0))
    stream.delete(*((number, 0) for number in range(12, 301)))
    assert ids(stream.read("+")) == ["11-0"]
    stream.seal()
    assert ids(stream.read("+")) == ["11-0"]


def test_several_streams_come_in_the_order_asked_for_without_those_that_have_nothing(three: Store) -> None:
    asked: dict[str | bytes, IDLike] = {"c": "0", b"a": "1-2", "b": "$"}
    read = three.read(asked)
    assert list(read) == [b"c", b"a"]
    assert found(read) == {"c": ["3-1", "3-2", "3-3"], "a": ["1-3"]}


def test_count_holds_for_each_stream(three: Store) -> None:
    assert found(three.read({"a": "0", "b": "2-1"}, count=1)) == {"a": ["1-1"], "b": ["2-2"]}
    for unlimited in (0, -1, None):
        assert found(three.read({"a": "0"}, count=unlimited)) == {"a": ["1-1", "1-2", "1-3"]}


@pytest.mark.parametrize(
    ("max_count", "expected"),
    [
        (1, {"a": ["1-1"]}),
        (3, {"a": ["1-1", "1-2", "1-3"]}),
        (4, {"a": ["1-1", "1-2", "1-3"], "b": ["2-1"]}),
        (8, {"a": ["1-1", "1-2", "1-3"], "b": ["2-1", "2-2", "2-3"], "c": ["3-1", "3-2"]}),
        (99, {"a": ["1-1", "1-2", "1-3"], "b": ["2-1", "2-2", "2-3"], "c": ["3-1", "3-2", "3-3"]}),
    ],
)
def test_max_count_holds_for_all_streams_together(three: Store, max_count: int, expected: dict[str, list[str]]) -> None:
    assert found(three.read({"a": "0", "b": "0", "c": "0"}, max_count=max_count)) == expected


def test_count_and_max_count_hold_together(three: Store) -> None:
    asked = {"a": "0", "b": "0", "c": "0"}
    assert found(three.read(asked, count=2, max_count=3)) == {"a": ["1-1", "1-2"], "b": ["2-1"]}
    assert found(three.read(asked, count=2, max_count=2)) == {"a": ["1-1", "1-2"]}
    assert found(three.read({"a": "+", "b": "0"}, max_count=2)) == {"a": ["1-3"], "b": ["2-1"]}


def test_max_bytes_stops_once_it_is_reached_and_never_before_the_first_entry(three: Store) -> None:
    """Each entry has 10 bytes: whether there is room is asked before each, as Redis does."""
    asked = {"a": "0", "b": "0", "c": "0"}
    for max_bytes, entries in [(1, 1), (10, 1), (11, 2), (20, 2), (30, 3), (31, 4), (60, 6), (61, 7), (1000, 9)]:
        read = three.read(asked, max_bytes=max_bytes)
        assert [entry_id for entries_ in found(read).values() for entry_id in entries_] == [
            f"{1 + index // 3}-{1 + index % 3}" for index in range(entries)
        ]
    assert ids(three.stream("a").read("0", max_bytes=15)) == ["1-1", "1-2"]
    assert found(three.read({"a": "+", "b": "0"}, max_bytes=11)) == {"a": ["1-3"], "b": ["2-1"]}


def test_max_bytes_counts_over_segments(made: Layered) -> None:
    sizes = [sum(len(name) + len(value) for name, value in pairs) for _, pairs in made.live]
    for max_bytes in (1, 500, 4000, 12_345, sum(sizes), sum(sizes) + 1):
        entries = made.stream.read("0", max_bytes=max_bytes)
        expected = next((index for index in range(len(sizes)) if sum(sizes[:index]) >= max_bytes), len(sizes))
        assert rows(entries) == made.live[: max(1, expected)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_count": 0}, "MAXCOUNT must be a positive integer"),
        ({"max_count": -1}, "MAXCOUNT must be a positive integer"),
        ({"max_bytes": 0}, "MAXSIZE must be a positive integer"),
        ({"max_bytes": -5}, "MAXSIZE must be a positive integer"),
        ({"max_count": 1, "count": 2}, "MAXCOUNT must be greater than or equal to COUNT"),
        ({"block": -1}, "timeout is negative"),
        ({"block": -0.001}, "timeout is negative"),
    ],
)
def test_limits_that_make_no_sense_are_refused_in_the_words_of_redis(
    three: Store, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        three.read({"a": "0"}, **options)
    assert str(caught.value) == text


@pytest.mark.parametrize("bad", ["", "x", "-", ">", "(1-1", "5-", "*", None, 1.5])
def test_what_is_no_id_is_refused_wherever_it_stands(three: Store, bad: Any) -> None:
    for positions in ({"a": bad}, {"a": "0", "b": bad}, {"missing": bad}):
        with pytest.raises(InvalidIDError, match=r"^Invalid stream ID specified as stream command argument"):
            three.read(positions)


def test_reading_no_stream_is_reading_nothing(three: Store) -> None:
    assert three.read({}) == {}
    assert three.read({}, block=0.001) == {}


def test_a_wait_for_no_stream_is_refused_where_nothing_ends_it(three: Store) -> None:
    """Who works out which streams to read, and found none, was never heard of again."""
    with pytest.raises(diskstream.ArgumentError, match="no stream to read, and block=0 waits for ever"):
        three.read({}, block=0)
    with pytest.raises(diskstream.ArgumentError, match="no stream to read, and block=0 waits for ever"):
        three.read_group("g", "c", {}, block=0)
    stop = threading.Event()
    stop.set()
    assert three.read_group("g", "c", {}, block=0, stop=stop) == {}


def test_a_block_that_finds_something_does_not_wait(three: Store) -> None:
    assert ids(three.stream("a").read("1-2", block=0)) == ["1-3"]
    assert found(three.read({"a": "$", "b": "2-2"}, block=0)) == {"b": ["2-3"]}


@pytest.mark.parametrize("given", [[("a", "0")], "a", None])
def test_the_streams_to_read_are_a_mapping(three: Store, given: Any) -> None:
    """It was an AttributeError about `items`."""
    with pytest.raises(diskstream.ArgumentTypeError, match=r"a mapping of names to IDs, as \{'orders': '0'\}"):
        three.read(given)
    with pytest.raises(diskstream.ArgumentTypeError, match=f"not {type(given).__name__}"):
        three.read_group("g", "c", given)


def test_positions_of_several_kinds_are_typed(three: Store) -> None:
    """For mypy: it took the values of such a mapping for objects."""
    assert found(three.read({"a": EntryID(1, 2), "b": "2-2"})) == {"a": ["1-3"], "b": ["2-3"]}
