"""`decode_responses=True`: text comes out, where it is text."""

from collections.abc import Iterator
from operator import attrgetter, itemgetter
from pathlib import Path

import pytest

import diskstream
from diskstream import Store
from tests.streams.layers import SMALL, nth_id, nth_pairs


@pytest.fixture
def text(tmp_path: Path) -> Iterator[Store]:
    with diskstream.open(tmp_path / "text", decode_responses=True, **SMALL) as store:
        yield store


def test_names_and_values_are_text_from_wherever_they_are_read(text: Store) -> None:
    stream = text.stream("x")
    for number in range(300):
        stream.add({"größe": f"{number} µm", "pad": "." * 80}, (number + 1, 0))
        if number == 150:
            stream.seal()
    expected = [[("größe", f"{number} µm"), ("pad", "." * 80)] for number in range(300)]
    assert [entry.pairs for entry in stream.range()] == expected
    assert [entry.pairs for entry in stream.revrange()] == expected[::-1]
    assert [entry.pairs for entry in stream.read("0")] == expected
    assert [entry.fields for entry in stream.tail("0", block=0.01)] == [dict(pairs) for pairs in expected]
    found = stream.get("7-0")
    assert found is not None
    assert found["größe"] == found["größe".encode()] == "6 µm"
    info = stream.info()
    assert info.first_entry is not None
    assert info.last_entry is not None
    assert (info.first_entry.fields["größe"], info.last_entry.fields["größe"]) == ("0 µm", "299 µm")


def test_the_same_store_gives_bytes_to_who_asks_for_bytes(text: Store) -> None:
    text.stream("x").add({"größe": 5}, "1-0")
    with diskstream.open(text.path) as plain:
        assert [entry.pairs for entry in plain.stream("x")] == [[("größe".encode(), b"5")]]
    assert [entry.pairs for entry in text.stream("x")] == [[("größe", "5")]]


def test_what_is_no_text_is_an_error_where_it_is_asked_for_and_nowhere_else(text: Store) -> None:
    stream = text.stream("x")
    stream.add([(b"good", b"yes"), (b"bad", b"\xff")], "1-0")
    stream.add({"good": "yes"}, "2-0")
    for sealed in (False, True):
        first, second = stream.range()
        assert first["good"] == second["good"] == "yes"
        assert str(first.id) == "1-0"
        for ask in (itemgetter("bad"), attrgetter("pairs"), attrgetter("fields")):
            with pytest.raises(UnicodeDecodeError):
                ask(first)
        assert second.pairs == [("good", "yes")]
        assert stream.seal() == (0 if sealed else 1)


def test_names_of_streams_stay_bytes(text: Store) -> None:
    text.stream("größe").add({"a": 1}, "1-0")
    assert text.streams() == list(text.read({"größe": "0"})) == ["größe".encode()]


def test_of_bytes_that_are_no_text_everything_else_still_works(small: Store) -> None:
    stream = small.stream("x")
    for number in range(200):
        stream.add(nth_pairs(number), nth_id(number))
    with diskstream.open(small.path, decode_responses=True, **SMALL) as text:
        entries = list(text.stream("x"))
        assert [entry.id for entry in entries] == [nth_id(number) for number in range(200)]
        assert [entry.size_bytes for entry in entries] == [
            sum(len(name) + len(value) for name, value in nth_pairs(number)) for number in range(200)
        ]
