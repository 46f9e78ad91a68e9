"""What may be added: ordered pairs of names and values, of any bytes, text and numbers."""

import enum
from collections import OrderedDict, UserDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diskstream import ArgumentError, ArgumentTypeError, LimitError, Store
from tests.streams.layers import Pairs

MIB = 1 << 20


def added(store: Store, fields: Any) -> Pairs:
    """Adds an entry, and gives back what is read of it."""
    stream = store.stream("x")
    entry_id = stream.add(fields)
    assert entry_id is not None
    entry = stream.get(entry_id)
    assert entry is not None
    pairs: Pairs = entry.pairs
    return pairs


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=300)), min_size=1, max_size=12))
def test_pairs_of_any_bytes_come_back_in_order_with_repeated_names(store: Store, pairs: Pairs) -> None:
    assert added(store, pairs) == pairs


def test_names_and_values_may_be_empty_and_hold_every_byte(store: Store) -> None:
    every = bytes(range(256))
    assert added(store, [(b"", b""), (every, every), (b"", every), (every, b"")]) == [
        (b"", b""),
        (every, every),
        (b"", every),
        (every, b""),
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(), st.integers(), st.floats())
def test_text_and_numbers_are_stored_as_python_writes_them(store: Store, text: str, number: int, real: float) -> None:
    assert added(store, {"text": text, "number": number, "real": real}) == [
        (b"text", text.encode()),
        (b"number", str(number).encode()),
        (b"real", repr(real).encode()),
    ]


class Level(enum.IntEnum):
    HIGH = 3


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (bytearray(b"\x00a"), b"\x00a"),
        pytest.param(memoryview(b"abcd")[1:3], b"bc", id="memoryview"),
        (Loud("quiet"), b"quiet"),
        (Level.HIGH, b"3"),
        (np.float64(1.5), b"1.5"),
        (float("inf"), b"inf"),
        (-0.0, b"-0.0"),
        (10**40, b"1" + b"0" * 40),
        (5, b"5"),
    ],
    ids=repr,
)
def test_kin_of_bytes_text_and_numbers_are_stored_by_their_value(store: Store, value: object, stored: bytes) -> None:
    assert added(store, {"a": value}) == [(b"a", stored)]


def test_names_may_be_numbers_too(store: Store) -> None:
    assert added(store, [(1, 2), (2.5, 3)]) == [(b"1", b"2"), (b"2.5", b"3")]


WAYS: dict[str, Callable[[list[tuple[str, str]]], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "UserDict": UserDict,
    "MappingProxyType": lambda pairs: MappingProxyType(dict(pairs)),
    "list of tuples": list,
    "tuple of tuples": tuple,
    "items": lambda pairs: dict(pairs).items(),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_fields_are_a_mapping_or_pairs(store: Store, way: Callable[[list[tuple[str, str]]], Any]) -> None:
    assert added(store, way([("b", "1"), ("a", "2")])) == [(b"b", b"1"), (b"a", b"2")]


def test_an_iterator_of_pairs_is_stored_whole_or_refused_each_time_alike(small: Store) -> None:
    """It can be read only once, but a write may need several attempts: room, a new segment, IDs to be reserved."""
    stream = small.stream("x")
    outcomes = set()
    for number in range(300):
        try:
            stream.add(zip(["n", "pad"], [str(number), "." * 90], strict=True))  # type: ignore[call-overload]  # iterators are taken, and used up
            outcomes.add("stored")
        except ArgumentTypeError:
            outcomes.add("refused")
    assert len(outcomes) == 1
    assert all(len(entry.pairs) == 2 for entry in stream)
    assert len(stream) == (300 if outcomes == {"stored"} else 0)


@pytest.mark.parametrize(
    "add",
    [
        lambda stream, fields: stream.add(fields),
        lambda stream, fields: stream.add(fields, maxlen=10),
        lambda stream, fields: stream.add(fields, producer="p", message_id="m"),
        lambda stream, fields: stream.add_many([fields], minid="0-1"),
    ],
    ids=["plain", "trimming", "idempotent", "several, trimming"],
)
def test_a_mapping_that_makes_its_values_when_asked_may_use_the_stream_for_it(
    store: Store, add: Callable[[Any, Any], object]
) -> None:
    """An add that trims asked with the append lock in its hands: who adds in another thread would wait for that one."""
    stream = store.stream("x")
    stream.add({"n": "first"})

    class Row(UserDict[str, str]):
        def items(self) -> Any:
            stream.add({"n": "looked up"})
            return super().items()

    add(stream, Row(n="row"))
    assert [entry["n"] for entry in stream] == [b"first", b"looked up", b"row"]


@pytest.mark.parametrize(
    "value",
    [None, True, False, pytest.param(object(), id="object()"), [1], (1, 2), {"a": 1}, 1j, {1}, np.int64(1), Ellipsis],
    ids=repr,
)
def test_other_kinds_of_values_are_refused_by_name(store: Store, value: object) -> None:
    for fields in ({"a": value}, [(value, "a")] if not isinstance(value, list | dict | set) else [("a", value)]):
        with pytest.raises(ArgumentTypeError, match=f"not {type(value).__name__}: convert it first"):
            store.stream("x").add(fields)


@pytest.mark.parametrize("fields", [5, None, pytest.param(object(), id="object()")], ids=repr)
def test_what_is_neither_a_mapping_nor_pairs_is_refused(store: Store, fields: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="a mapping or a sequence of"):
        store.stream("x").add(fields)


@pytest.mark.parametrize(
    "fields", [[("a",)], [("a", "b", "c")], ["a", "b"], "ab", b"ab", [("a", "b"), ()], [5]], ids=repr
)
def test_odd_pairs_are_refused(store: Store, fields: Any) -> None:
    with pytest.raises(ArgumentError, match="wrong number of arguments"):
        store.stream("x").add(fields)


@pytest.mark.parametrize("fields", [{}, [], ()], ids=repr)
def test_an_entry_has_at_least_one_field(store: Store, fields: Any) -> None:
    with pytest.raises(ArgumentError, match="needs at least one field"):
        store.stream("x").add(fields)


@pytest.mark.parametrize("text", ["\udc80", "a\ud800b"], ids=ascii)
def test_text_that_is_no_utf8_is_refused_as_such(store: Store, text: str) -> None:
    for fields in ({"a": text}, {text: "a"}):
        with pytest.raises((ArgumentError, UnicodeEncodeError)):
            store.stream("x").add(fields)
    assert len(store.stream("x")) == 0


def test_an_entry_of_32_mib_is_stored_and_a_larger_one_refused(store: Store) -> None:
    stream = store.stream("x")
    value = b"0123456789abcdef" * (2 * MIB)
    assert len(value) == 32 * MIB
    entry_id = stream.add({"a": value[:-64]})
    assert entry_id is not None
    found = stream.get(entry_id)
    assert found is not None
    assert found["a"] == value[:-64]
    with pytest.raises(LimitError, match=r"^Elements are too large to be stored") as caught:
        stream.add({"a": value})
    assert (caught.value.what, caught.value.limit) == ("entry", 32 * MIB)
    assert caught.value.found > 32 * MIB
    assert len(stream) == 1
    stream.seal()
    assert stream.to_arrow()["a"].to_pylist() == [value[:-64]]


def test_an_entry_has_at_most_65536_fields(store: Store) -> None:
    stream = store.stream("x")
    pairs = [(b"%d" % (number % 1000), b"") for number in range(65_536)]
    assert added(store, pairs) == pairs
    with pytest.raises(LimitError) as caught:
        stream.add([*pairs, (b"a", b"")])
    assert (caught.value.what, caught.value.limit, caught.value.found) == ("fields of an entry", 65_536, 65_537)
    stream.seal()
    assert [entry.pairs for entry in stream] == [pairs]


class _Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("first", "again"),
    [(np.float64(1.5), 1.5), (np.float64(1.5), "1.5"), (_Level.HIGH, 3), (memoryview(b"x"), "x"), (2, b"2")],
)
def test_a_message_is_known_by_what_is_stored(store: Store, first: Any, again: Any) -> None:
    """What a subclass of a number prints is not what is stored: sent again as it was read, it was added twice."""
    stream = store.stream("x")
    assert stream.add({"v": first}, producer="p") == stream.add({"v": again}, producer="p")
    assert len(stream) == 1


@pytest.mark.parametrize("value", ["\ud800", pytest.param(10**5000, id="long"), True, None])
def test_a_message_that_cannot_be_stored_is_refused_as_an_entry_is(store: Store, value: Any) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError)) as plain:
        store.stream("x").add({"v": value})
    with pytest.raises(type(plain.value)) as message:
        store.stream("x").add({"v": value}, producer="p")
    assert str(message.value) == str(plain.value)
    assert not store.exists("x")
