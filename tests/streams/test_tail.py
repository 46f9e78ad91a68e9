"""`tail`: entries as they come, for as long as they come."""

import itertools

import pytest

from diskstream import InvalidIDError, Store
from tests.streams.background import Background, until_ended
from tests.streams.layers import ids, layered, rows


def test_it_gives_what_is_there_and_ends_when_nothing_came_for_its_time(small: Store) -> None:
    made = layered(small)
    assert rows(made.stream.tail("0", block=0.01)) == made.live
    assert rows(made.stream.tail(made.live[100][0], block=0.01)) == made.live[101:]
    assert list(made.stream.tail(block=0.01)) == []


def test_of_a_stream_that_does_not_exist_it_ends_too(store: Store) -> None:
    assert list(store.stream("x").tail(block=0.01)) == []
    assert list(store.stream("x").tail("0", block=0.01)) == []
    assert not store.exists("x")


def test_it_is_nothing_before_it_is_used(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"n": 1}, "1-0")
    entries = stream.tail("0", block=0.01)
    stream.add({"n": 2}, "2-0")
    assert ids(entries) == ["1-0", "2-0"]


def test_it_goes_on_with_what_another_thread_adds(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"n": 0}, "1-0")
    tailing = Background(lambda: ids(itertools.islice(stream.tail("0"), 500)))
    for number in range(2, 501):
        stream.add({"n": number}, (number, 0))
    assert tailing.result() == [f"{number}-0" for number in range(1, 501)]


def test_from_the_end_on_it_gives_only_what_comes_later(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"n": 0}, "1-0")
    tailing = Background(lambda: ids(itertools.islice(stream.tail(), 3)))
    numbers = itertools.count(2)
    found = until_ended(tailing, lambda: stream.add({"n": 1}, (next(numbers), 0)))
    first = int(found[0].removesuffix("-0"))
    assert found == [f"{first + step}-0" for step in range(3)]
    assert first >= 2


def test_the_end_is_that_of_the_call(store: Store) -> None:
    """What was added before the iterator was first used was passed over."""
    stream = store.stream("x")
    stream.add({"n": 0}, "1-0")
    entries = stream.tail(block=0.01)
    stream.add({"n": 1}, "2-0")
    assert ids(entries) == ["2-0"]


def test_nothing_is_missed_between_two_looks(small: Store) -> None:
    stream = small.stream("x")
    entries = stream.tail("0", block=5)
    seen = []
    for number in range(1, 400):
        stream.add({"n": number, "pad": "." * 60}, (number, 0))
        seen.append(str(next(entries).id))
        if number % 100 == 0:
            stream.seal()
            stream.trim(maxlen=3)
    assert seen == [f"{number}-0" for number in range(1, 400)]


def test_from_plus_it_gives_the_last_entry_and_then_what_comes(store: Store) -> None:
    stream = store.stream("x")
    for number in range(1, 4):
        stream.add({"n": number}, (number, 0))
    entries = stream.tail("+", block=0.01)
    assert str(next(entries).id) == "3-0"
    stream.add({"n": 4}, "4-0")
    assert ids(entries) == ["4-0"]


def test_what_is_no_id_is_refused(store: Store) -> None:
    with pytest.raises(InvalidIDError):
        next(store.stream("x").tail("x"))
