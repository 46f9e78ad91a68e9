"""Consumers that wait: in the order in which they came, until their time is over or their group is gone."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import diskstream
from diskstream import ClosedError, Consumer, Delivery, Group, NoGroupError, ReadOnlyError, Store, Stream
from tests.group_specs.clock import Clock
from tests.group_specs.shown import fill, given, held, joined, owners
from tests.streams.background import Background
from tests.streams.layers import ids


@pytest.fixture
def group(stream: Stream) -> Group:
    """To which there is nothing new yet."""
    return stream.group("g")


def wait_as(group: Group, name: str, **options: Any) -> Background[list[Delivery]]:
    """A consumer that waits; it stands in the queue when this returns."""
    consumer = group.consumer(name)
    waiting = Background(lambda: consumer.read(block=options.pop("block", 0), **options))
    joined(group, name.encode())
    return waiting


def test_a_waiting_consumer_is_given_what_is_added(stream: Stream, group: Group) -> None:
    waiting = wait_as(group, "alice")
    assert not waiting.ended(within_s=0.01)
    stream.add({"n": 6}, "6-0")
    assert given(waiting.result()) == [("6-0", 0, 0)]
    assert held(group) == [("6-0", b"alice", 0, 1)]


def test_what_is_added_at_once_comes_at_once(stream: Stream, group: Group) -> None:
    waiting = wait_as(group, "alice", block=60)
    stream.add_many([{"n": 6}, {"n": 7}], ids=["6-0", "7-0"])
    assert ids(waiting.result()) == ["6-0", "7-0"]


def test_first_come_first_served(stream: Stream, group: Group) -> None:
    names = [f"c{number}" for number in (3, 1, 4, 0, 2)]
    waiting = [wait_as(group, name, count=1) for name in names]
    for number, each in enumerate(waiting):
        stream.add({"n": 1}, (6 + number, 0))
        assert ids(each.result()) == [f"{6 + number}-0"]
    assert list(owners(group).values()) == [name.encode() for name in names]


def test_several_entries_are_shared_in_that_order(stream: Stream, group: Group) -> None:
    waiting = [wait_as(group, name, count=2) for name in ("b", "a", "c")]
    fill(stream, 6, 10)
    assert [ids(each.result()) for each in waiting] == [["6-0", "7-0"], ["8-0", "9-0"], ["10-0"]]


def test_one_that_takes_all_leaves_the_others_waiting(stream: Stream, group: Group) -> None:
    first, second = wait_as(group, "first"), wait_as(group, "second")
    fill(stream, 6, 8)
    assert ids(first.result()) == ["6-0", "7-0", "8-0"]
    assert not second.ended(within_s=0.01)
    fill(stream, 9, 9)
    assert ids(second.result()) == ["9-0"]


def test_groups_queue_apart_and_plain_readers_get_everything(stream: Stream, group: Group) -> None:
    other = stream.group("other")
    waiting = [wait_as(group, "a"), wait_as(other, "a")]
    reading = Background(lambda: stream.read("5-0", block=0))
    stream.add({"n": 6}, "6-0")
    assert [ids(each.result()) for each in waiting] == [["6-0"]] * 2
    assert ids(reading.result()) == ["6-0"]


def test_who_gave_up_is_not_served(stream: Stream, group: Group) -> None:
    first = wait_as(group, "first", block=0.01)
    assert first.result() == []
    second = wait_as(group, "second")
    stream.add({"n": 6}, "6-0")
    assert ids(second.result()) == ["6-0"]
    assert held(group) == [("6-0", b"second", 0, 1)]


def test_waiting_ends_with_its_time(group: Group) -> None:
    alice = group.consumer("alice")
    assert alice.read() == []
    assert alice.read(block=0.001) == []
    assert alice.read(block=0.01, count=3, claim_ms=10**6) == []
    assert [each.name for each in group.consumers()] == [b"alice"]


def test_waiting_does_not_hinder_a_read_that_finds_something(stream: Stream, group: Group) -> None:
    stream.add({"n": 6}, "6-0")
    assert ids(group.consumer("alice").read(block=0)) == ["6-0"]


def test_a_history_never_waits(store: Store, group: Group) -> None:
    alice = group.consumer("alice")
    assert alice.read("0", block=0) == []
    fill(store.stream("t"), 1, 1)
    store.stream("t").group("g")
    assert store.read_group("g", "alice", {"t": ">", "s": "0"}, block=0) == {b"s": []}


def test_noack_waits_too(stream: Stream, group: Group) -> None:
    waiting = wait_as(group, "alice", noack=True)
    stream.add({"n": 6}, "6-0")
    assert ids(waiting.result()) == ["6-0"]
    assert held(group) == []


def test_a_waiting_consumer_is_there_and_was_seen(group: Group, clock: Clock) -> None:
    waiting = wait_as(group, "alice")
    (alice,) = group.consumers()
    assert (alice.seen_ms, alice.active_ms, alice.pending) == (clock.now, None, 0)
    group.destroy()
    with pytest.raises(NoGroupError):
        waiting.result()


def test_what_is_deleted_at_once_wakes_nobody_for_nothing(stream: Stream, group: Group) -> None:
    waiting = wait_as(group, "alice")
    stream.add({"n": 6}, "6-0", maxlen=0)
    stream.add({"n": 7}, "7-0")
    # It may have been given 6-0 before that was trimmed: not here, where both was one step.
    assert ids(waiting.result()) == ["7-0"]


# --- several streams --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["s", "t", "u"])
def test_waiting_for_several_ends_with_the_first_that_has_something(store: Store, group: Group, name: str) -> None:
    for each in ("t", "u"):
        store.stream(each).group("g")
    waiting = Background(lambda: store.read_group("g", "alice", {"s": ">", "t": ">", "u": ">"}, block=0))
    joined(store.stream("u").group("g"), b"alice")
    store.stream(name).add({"n": 1}, "100-0")
    assert {key: ids(entries) for key, entries in waiting.result().items()} == {name.encode(): ["100-0"]}
    for each in ("s", "t", "u"):
        assert list(owners(store.stream(each).group("g"))) == (["100-0"] if each == name else [])


def test_who_got_something_elsewhere_leaves_the_other_queues(store: Store, group: Group) -> None:
    store.stream("t").group("g")
    first = Background(lambda: store.read_group("g", "first", {"s": ">", "t": ">"}, block=0))
    joined(store.stream("t").group("g"), b"first")
    second = wait_as(group, "second")
    store.stream("t").add({"n": 1}, "1-0")
    assert list(first.result()) == [b"t"]
    store.stream("s").add({"n": 6}, "6-0")
    assert ids(second.result()) == ["6-0"]


# --- what others have -------------------------------------------------------------------------------------------------


def test_what_ripens_wakes_who_waits_for_it(stream: Stream, group: Group, clock: Clock) -> None:
    stream.add({"n": 6}, "6-0")
    group.consumer("alice").read()
    waiting = wait_as(group, "bob", claim_ms=1000)
    clock.go_on(999)
    assert not waiting.ended(within_s=0.01)
    clock.go_on(1)
    assert given(waiting.result()) == [("6-0", 1000, 1)]
    assert held(group) == [("6-0", b"bob", 0, 2)]


def test_what_is_given_back_wakes_who_claims(stream: Stream, group: Group) -> None:
    stream.add({"n": 6}, "6-0")
    (entry,) = group.consumer("alice").read()
    waiting = wait_as(group, "bob", claim_ms=100_000)
    assert not waiting.ended(within_s=0.01)
    entry.nack()
    assert given(waiting.result()) == [("6-0", -1, 1)]


def test_who_does_not_claim_waits_on(stream: Stream, group: Group) -> None:
    stream.add({"n": 6}, "6-0")
    (entry,) = group.consumer("alice").read()
    plain, claiming = wait_as(group, "plain"), wait_as(group, "claiming", claim_ms=100_000)
    entry.nack()
    assert ids(claiming.result()) == ["6-0"]
    assert not plain.ended(within_s=0.01)
    stream.add({"n": 7}, "7-0")
    assert ids(plain.result()) == ["7-0"]


# --- ends -------------------------------------------------------------------------------------------------------------


def replace(store: Store, group: Group) -> None:
    fill(store.stream("t"), 9, 9)
    store.rename("t", "s")


def make_again(store: Store, group: Group) -> None:
    store.delete("s")
    fill(store.stream("s"), 9, 9)


Remove = Callable[[Store, Group], object]
REMOVALS: dict[str, Remove] = {
    "destroyed": lambda store, group: group.destroy(),
    "deleted": lambda store, group: store.delete("s"),
    "renamed": lambda store, group: store.rename("s", "t"),
    "replaced": replace,
    "deleted and made again": make_again,
}


@pytest.mark.parametrize("how", list(REMOVALS))
def test_waiting_ends_when_the_group_is_gone(store: Store, group: Group, how: str) -> None:
    waiting = [wait_as(group, name) for name in ("alice", "bob")]
    REMOVALS[how](store, group)
    for each in waiting:
        with pytest.raises(NoGroupError, match="NOGROUP No such ") as caught:
            each.result()
        assert (caught.value.stream, caught.value.group) == (b"s", b"g")


def test_it_ends_for_one_of_several_streams_too(store: Store, group: Group) -> None:
    other = store.stream("t").group("g")
    waiting = Background(lambda: store.read_group("g", "alice", {"s": ">", "t": ">"}, block=0))
    joined(other, b"alice")
    other.destroy()
    with pytest.raises(NoGroupError) as caught:
        waiting.result()
    assert caught.value.stream == b"t"


def test_another_group_that_goes_ends_nothing(stream: Stream, group: Group) -> None:
    other = stream.group("other")
    waiting = wait_as(group, "alice")
    other.destroy()
    assert not waiting.ended(within_s=0.01)
    stream.add({"n": 6}, "6-0")
    assert ids(waiting.result()) == ["6-0"]


def test_an_event_ends_it(store: Store, group: Group) -> None:
    stop = threading.Event()
    waiting = Background(lambda: store.read_group("g", "alice", {"s": ">"}, block=0, stop=stop))
    joined(group, b"alice")
    stop.set()
    assert waiting.result() == {}
    store.stream("s").add({"n": 6}, "6-0")
    assert ids(store.read_group("g", "alice", {"s": ">"}, block=0, stop=stop)[b"s"]) == ["6-0"]


def test_closing_the_store_ends_it(store: Store, group: Group) -> None:
    waiting = wait_as(group, "alice")
    store.close()
    with pytest.raises(ClosedError):
        waiting.result()


def test_another_opening_of_the_store_serves_and_ends_it(store: Store, group: Group, clock: Clock) -> None:
    with diskstream.open(store.path, clock=clock) as other:
        waiting = wait_as(group, "alice")
        other.stream("s").add({"n": 6}, "6-0")
        assert ids(waiting.result()) == ["6-0"]
        waiting = wait_as(other.stream("s").group("g", create=False), "bob")
        group.destroy()
        with pytest.raises(NoGroupError):
            waiting.result()


def test_a_removed_consumer_that_waits_comes_back_with_what_it_is_given(stream: Stream, group: Group) -> None:
    waiting = wait_as(group, "alice")
    assert group.delete_consumer("alice") == 0
    stream.add({"n": 6}, "6-0")
    assert ids(waiting.result()) == ["6-0"]
    assert held(group) == [("6-0", b"alice", 0, 1)]


def test_where_nothing_may_be_written_nobody_waits_but_all_can_be_seen(
    store: Store, stream: Stream, group: Group, clock: Clock
) -> None:
    fill(stream, 6, 7)
    group.consumer("alice").read()
    group.nack("7-0")
    store.sync()
    with diskstream.open(store.path, read_only=True, clock=clock) as reader:
        seen = reader.stream("s").group("g")
        alice: Consumer = seen.consumer("alice")
        for change in (
            lambda: alice.read(block=0),
            lambda: alice.read("0"),
            lambda: alice.claim("6-0"),
            lambda: alice.autoclaim(0),
            lambda: seen.ack("6-0"),
            lambda: seen.ack_delete("6-0"),
            lambda: seen.nack("6-0"),
            lambda: seen.set_id("0"),
            lambda: seen.create_consumer("bob"),
            lambda: seen.delete_consumer("alice"),
            seen.destroy,
            lambda: reader.stream("s").create_group("h"),
            lambda: reader.stream("s").group("h", create="new"),
            lambda: reader.stream("s").delete_entries("6-0"),
            lambda: reader.stream("s").configure_idempotence(max_size=7),
            lambda: reader.stream("s").record_idempotent("p", "m", "6-0"),
        ):
            with pytest.raises(ReadOnlyError):
                change()
        assert seen.exists()
        assert held(seen) == held(group) == [("6-0", b"alice", 0, 1), ("7-0", b"", -1, 1)]
        assert (seen.info(), seen.pending(), seen.consumers()) == (group.info(), group.pending(), group.consumers())
        assert reader.stream("s").groups() == stream.groups()
        assert reader.stream("s").info_full(0).groups == stream.info_full(0).groups
        assert not reader.stream("s").group("h").exists()
