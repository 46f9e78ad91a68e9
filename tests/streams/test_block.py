"""Reads that wait: woken by an append in another thread, by nothing, by the stream's end, by the store's."""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, ClosedError, Entry, EntryID, Store
from diskstream.engine import reader as engine_reader
from diskstream.engine.log import StreamLog
from tests.streams.background import LIMIT_S, Background, until_ended
from tests.streams.layers import ids, small_store

Read = dict[bytes, list[Entry]]


@pytest.fixture
def numbers() -> Iterator[int]:
    return itertools.count(1)


def test_a_waiting_read_is_woken_by_an_add_of_another_thread(store: Store) -> None:
    store.stream("x").add({"n": 1}, "5-1")
    waiting = Background(lambda: store.stream("x").read("5-1", block=0))
    store.stream("x").add({"n": 2}, "5-2")
    assert ids(waiting.result()) == ["5-2"]


def test_it_is_woken_by_add_many(store: Store) -> None:
    store.stream("x").add({"n": 1}, "5-1")
    waiting = Background(lambda: store.stream("x").read("5-1", block=60))
    store.stream("x").add_many([{"n": 2}, {"n": 3}], ids=["6-1", "6-2"])
    assert ids(waiting.result()) == ["6-1", "6-2"]


def test_it_waits_for_what_comes_behind_its_id_and_sleeps_through_the_rest(store: Store) -> None:
    stream = store.stream("x")
    waiting = Background(lambda: stream.read("100-0", block=0))
    for number in range(1, 101):
        stream.add({"n": number}, (number, 0))
    assert not waiting.ended(within_s=0.01)
    stream.add({"n": 101}, "101-0")
    assert ids(waiting.result()) == ["101-0"]


def test_from_the_end_on_it_gives_the_first_that_comes_after_the_call(store: Store, numbers: Iterator[int]) -> None:
    stream = store.stream("x")
    stream.add({"n": 0}, "1-0")
    waiting = Background(lambda: stream.read("$", block=0))
    found = until_ended(waiting, lambda: stream.add({"n": 0}, (2, next(numbers))))
    assert len(found) >= 1
    assert found[0].id.ms == 2


def test_it_gives_up_after_its_time(store: Store) -> None:
    store.stream("x").add({"n": 1}, "5-1")
    assert store.stream("x").read("$", block=0.01) == []
    assert store.stream("x").read("5-1", block=0.001) == []
    assert store.stream("missing").read("$", block=0.01) == []
    assert store.read({"x": "$", "missing": "0", "other": "+"}, block=0.01) == {}
    assert not store.exists("missing")


@pytest.mark.parametrize("position", ["$", "0", "+"])
def test_it_waits_for_a_stream_that_does_not_exist_yet(store: Store, position: str) -> None:
    waiting = Background(lambda: store.read({"x": position}, block=0))
    store.stream("x").add({"n": 1}, "5-1")
    # `$` may have been looked up after the stream was made.
    found = until_ended(waiting, lambda: store.stream("x").add({"n": 2}))
    assert list(found) == [b"x"]


def test_plus_waits_for_any_entry_of_an_empty_stream(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"n": 1}, "5-1", maxlen=0)
    waiting = Background(lambda: stream.read("+", block=0))
    assert not waiting.ended(within_s=0.01)
    stream.add({"n": 2}, "5-2")
    assert ids(waiting.result()) == ["5-2"]


@pytest.mark.parametrize("woken_by", ["a", "b", "missing"])
def test_waiting_for_several_streams_ends_with_the_first_that_has_something(store: Store, woken_by: str) -> None:
    store.stream("a").add({"n": 1}, "5-1")
    store.stream("b").add({"n": 1}, "9-1")
    waiting = Background(lambda: store.read({"a": "5-1", "b": "9-1", "missing": "0"}, block=0))
    store.stream(woken_by).add({"n": 2}, "10-1")
    found: Read = waiting.result()
    assert {name: ids(entries) for name, entries in found.items()} == {woken_by.encode(): ["10-1"]}


def test_many_readers_all_get_what_comes(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"n": 1}, "5-1")
    waiting = [Background(lambda: stream.read("5-1", block=0)) for _ in range(20)]
    stream.add({"n": 2}, "5-2")
    assert [ids(each.result()) for each in waiting] == [["5-2"]] * 20


def test_a_reader_follows_a_writer_over_rolls_seals_and_trims(small: Store) -> None:
    stream = small.stream("x")

    def follow() -> list[int]:
        seen: list[int] = []
        position = "0-0"
        while not seen or seen[-1] < 1500:
            entries = stream.read(position, count=100, block=20)
            if not entries:
                break
            seen += [int(entry["n"]) for entry in entries]
            position = str(entries[-1].id)
        return seen

    reading = Background(follow)
    for number in range(1, 1501):
        stream.add({"n": number, "pad": "." * 60}, (number, 0))
        if number % 400 == 0:
            stream.seal()
    assert reading.result() == list(range(1, 1501))
    assert stream.info().segments > 10


def test_a_stream_deleted_and_made_again_while_waited_for_is_waited_for_still(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"n": 1}, "5-1")
    waiting = Background(lambda: store.read({"x": "5-1"}, block=0))
    assert not waiting.ended(within_s=0.01)
    assert store.delete("x")
    stream.add({"n": 1}, "3-1")
    assert not waiting.ended(within_s=0.01)
    stream.add({"n": 2}, "6-1")
    assert {name: ids(entries) for name, entries in waiting.result().items()} == {b"x": ["6-1"]}


def test_a_stream_deleted_while_waited_for_ends_nothing_but_the_time_does(store: Store) -> None:
    store.stream("x").add({"n": 1}, "5-1")
    waiting = Background(lambda: store.stream("x").read("$", block=0.2))
    store.delete("x")
    assert waiting.result() == []
    assert not store.exists("x")


def test_a_stream_renamed_into_place_is_read(store: Store) -> None:
    store.stream("other").add({"n": 1}, "9-1")
    waiting = Background(lambda: store.stream("x").read("5-1", block=0))
    store.rename("other", "x")
    assert ids(waiting.result()) == ["9-1"]


def test_a_stream_renamed_over_the_one_waited_for_is_read(store: Store) -> None:
    store.stream("x").add({"n": 1}, "5-1")
    store.stream("other").add({"n": 1}, "9-1")
    waiting = Background(lambda: store.stream("x").read("5-1", block=0))
    assert not waiting.ended(within_s=0.01)
    store.rename("other", "x")
    assert ids(waiting.result()) == ["9-1"]


def test_what_is_added_and_deleted_again_may_wake_but_gives_nothing(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"n": 1}, "5-1")
    waiting = Background(lambda: stream.read("6-0", block=0))
    stream.add({"n": 2}, "5-2", maxlen=0)
    stream.delete("5-2")
    assert not waiting.ended(within_s=0.01)
    stream.add({"n": 3}, "7-0")
    assert ids(waiting.result()) == ["7-0"]


@pytest.mark.parametrize("name", ["x", "missing"])
def test_closing_the_store_ends_a_wait(store: Store, name: str) -> None:
    store.stream("x").add({"n": 1}, "5-1")
    waiting = Background(lambda: store.stream(name).read("5-1", block=0))
    assert not waiting.ended(within_s=0.01)
    store.close()
    with pytest.raises(ClosedError):
        waiting.result()


@pytest.mark.parametrize("read_only", [False, True])
def test_closing_a_store_with_nothing_left_to_write_ends_a_wait(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "quiet"
    with small_store(path) as store:
        store.stream("x").add({"n": 1}, "5-1")
    store = small_store(path, read_only=read_only)
    waiting = Background(lambda: store.read({"x": "5-1"}, block=0))
    assert not waiting.ended(within_s=0.01)
    store.close()
    with pytest.raises(ClosedError):
        waiting.result()


def test_a_second_opening_of_the_same_store_wakes_the_first(store: Store) -> None:
    store.stream("x").add({"n": 1}, "5-1")
    with diskstream.open(store.path) as other:
        waiting = Background(lambda: store.read({"x": "5-1", "y": "0"}, block=0))
        other.stream("x").add({"n": 2}, "5-2")
        assert {name: ids(entries) for name, entries in waiting.result().items()} == {b"x": ["5-2"]}
        waiting = Background(lambda: store.read({"x": "5-2", "y": "0"}, block=0))
        other.stream("y").add({"n": 1}, "1-1")
        assert {name: ids(entries) for name, entries in waiting.result().items()} == {b"y": ["1-1"]}


def test_a_store_open_for_reading_only_waits_too(store: Store) -> None:
    store.stream("x").add({"n": 1}, "5-1")
    store.sync()
    with diskstream.open(store.path, read_only=True) as reader:
        waiting = Background(lambda: reader.read({"x": "5-1"}, block=0))
        store.stream("x").add({"n": 2}, "5-2")
        assert {name: ids(entries) for name, entries in waiting.result().items()} == {b"x": ["5-2"]}


def test_wait_durable_waits_for_an_entry_that_is_not_there_yet(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "durable", fsync="os") as store:
        stream = store.stream("x")
        assert not stream.wait_durable("5-2", timeout=0.01)
        stream.add({"n": 1}, "5-1")
        assert stream.wait_durable("5-1")
        assert stream.info().durable
        waiting = Background(lambda: stream.wait_durable("5-2"))
        stream.add({"n": 2}, "5-2")
        assert waiting.result()
        assert stream.info().durable


@pytest.mark.parametrize("last", ["5-2", "6-0"])
def test_wait_durable_ends_where_what_came_is_gone_before_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """A queue deletes what is acknowledged: who waited for such an entry without a timeout never returned."""
    with diskstream.open(tmp_path / "s", fsync="os") as store, diskstream.open(tmp_path / "s", fsync="os") as other:
        stream, queue = store.stream("x"), other.stream("x")
        stream.add({"n": 1}, "5-1")
        looks, look = itertools.count(), engine_reader.last_id

        def look_and_miss(log: StreamLog) -> EntryID:
            found = look(log)
            if next(looks) == 0:  # it has seen nothing, and is about to sleep
                queue.delete(queue.add({"n": 2}, last))
            return found

        monkeypatch.setattr(engine_reader, "last_id", look_and_miss)
        assert stream.wait_durable("5-2", timeout=LIMIT_S)
        assert stream.info().durable


def test_who_only_reads_is_not_told_that_an_entry_is_durable(tmp_path: Path) -> None:
    """It was told so at once, without any flush."""
    with (
        diskstream.open(tmp_path / "s", fsync="os") as store,
        diskstream.open(tmp_path / "s", read_only=True) as reader,
    ):
        store.stream("x").add({"n": 1}, "5-0")
        with pytest.raises(diskstream.ReadOnlyError, match="reading only"):
            reader.stream("x").wait_durable("5-0", 0)
        assert not reader.stream("x").info().durable
        assert not store.stream("x").info().durable


def test_waiting_for_no_time_until_an_entry_is_durable_ends_at_once(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": 1}, "5-0")
        assert store.stream("x").wait_durable("5-0", 0)
        assert not store.stream("x").wait_durable("5-1", 0)


@pytest.mark.parametrize("timeout", [float("nan"), "5", timedelta(seconds=5), pytest.param(10**400, id="no float")])
def test_what_is_no_time_is_refused(tmp_path: Path, timeout: Any) -> None:
    """NaN waited not at all, and the others raised what is none of ours, or nothing where the entry was there."""
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("x")
        last = stream.add({"n": 1}, "5-0")
        for entry_id in (last, "5-1"):
            with pytest.raises(ArgumentError, match="timeout is not"):
                stream.wait_durable(entry_id, timeout)
        with pytest.raises(ArgumentError, match="timeout is not"):
            stream.read("$", block=timeout)
        with pytest.raises(ArgumentError, match="timeout is not"):
            stream.group("g", start="0").consumer("c").read("5-0", block=timeout)
