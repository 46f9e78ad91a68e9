"""Consumers: when they come to be, when they were seen and active, what goes with them."""

from collections.abc import Callable, Sequence

import pytest

from diskstream import Consumer, Group, Stream
from tests.group_specs.clock import Clock
from tests.group_specs.shown import fill, held
from tests.streams.layers import ids


def times(group: Group) -> dict[bytes, tuple[int, int | None]]:
    return {each.name: (each.seen_ms, each.active_ms) for each in group.consumers()}


def test_naming_one_makes_nothing(group: Group) -> None:
    consumer = group.consumer("alice")
    assert consumer.name == b"alice"
    assert group.consumers() == []
    assert consumer.pending_range() == []
    assert consumer.ack("1-0") == 0
    assert group.consumers() == []


def test_it_is_made_once(group: Group) -> None:
    assert group.create_consumer("alice")
    assert not group.create_consumer(b"alice")
    assert [(each.name, each.pending) for each in group.consumers()] == [(b"alice", 0)]
    assert group.info().consumers == 1


@pytest.mark.parametrize("how", ["read", "noack", "history", "claim", "claim_ids", "autoclaim", "autoclaim_ids"])
def test_the_first_attempt_makes_it_even_in_vain(stream: Stream, how: str) -> None:
    group = stream.group("g")
    alice = group.consumer("alice")
    attempts: dict[str, Callable[[], Sequence[object]]] = {
        "read": alice.read,
        "noack": lambda: alice.read(noack=True),
        "history": lambda: alice.read("0"),
        "claim": lambda: alice.claim("1-0"),
        "claim_ids": lambda: alice.claim_ids("1-0"),
        "autoclaim": lambda: alice.autoclaim(0).entries,
        "autoclaim_ids": lambda: alice.autoclaim_ids(0).ids,
    }
    assert attempts[how]() == []
    assert [each.name for each in group.consumers()] == [b"alice"]


def test_they_are_listed_in_byte_order(group: Group) -> None:
    for name in (b"b", b"", b"a\xff", b"a"):
        group.create_consumer(name)
    assert [each.name for each in group.consumers()] == [b"", b"a", b"a\xff", b"b"]


def test_being_made_is_being_seen_but_not_active(group: Group, clock: Clock) -> None:
    group.create_consumer("alice")
    clock.go_on(700)
    (alice,) = group.consumers()
    assert (alice.seen_ms, alice.idle_ms, alice.active_ms, alice.inactive_ms) == (clock.now - 700, 700, None, None)


def test_attempts_are_seen_and_what_is_given_is_active(group: Group, alice: Consumer, clock: Clock) -> None:
    start = clock.now
    alice.read(count=2)
    assert times(group) == {b"alice": (start, start)}
    seen = clock.go_on(1000)
    alice.read("0")  # one's own history is nothing new
    assert times(group) == {b"alice": (seen, start)}
    seen = active = clock.go_on(1000)
    alice.read()
    assert times(group) == {b"alice": (seen, active)}
    seen = clock.go_on(1000)
    alice.read()  # there is nothing
    assert times(group) == {b"alice": (seen, active)}
    clock.go_on(1000)
    group.ack("1-0")
    assert times(group) == {b"alice": (seen, active)}


def test_a_read_with_noack_is_no_activity(group: Group, alice: Consumer, clock: Clock) -> None:
    group.create_consumer("alice")
    clock.go_on(500)
    assert len(alice.read(noack=True)) == 5
    assert times(group) == {b"alice": (clock.now, None)}


@pytest.mark.parametrize("how", ["claim", "claim_ids", "autoclaim", "autoclaim_ids", "read"])
def test_a_claim_is_activity_of_the_one_who_claims(
    group: Group, alice: Consumer, bob: Consumer, clock: Clock, how: str
) -> None:
    alice.read()
    start, now = clock.now, clock.go_on(500)
    claimed = {
        "claim": lambda: len(bob.claim("1-0")),
        "claim_ids": lambda: len(bob.claim_ids("1-0")),
        "autoclaim": lambda: len(bob.autoclaim(0, count=1).entries),
        "autoclaim_ids": lambda: len(bob.autoclaim_ids(0, count=1).ids),
        "read": lambda: len(bob.read(claim_ms=1, count=1)),
    }[how]()
    assert claimed == 1
    assert times(group) == {b"alice": (start, start), b"bob": (now, now)}


def test_a_claim_in_vain_is_seen_only(group: Group, alice: Consumer, bob: Consumer, clock: Clock) -> None:
    alice.read()
    group.create_consumer("bob")
    seen = clock.go_on(1000)
    assert bob.claim("1-0", min_idle_ms=5000) == []
    assert times(group)[b"bob"] == (seen, None)
    seen = clock.go_on(1000)
    assert bob.autoclaim(5000).entries == []
    assert times(group)[b"bob"] == (seen, None)


def test_idle_times_are_never_negative(group: Group, alice: Consumer, clock: Clock) -> None:
    alice.read()
    clock.now -= 5000
    (seen,) = group.consumers()
    assert (seen.idle_ms, seen.inactive_ms) == (0, 0)
    assert held(group)[0] == ("1-0", b"alice", 0, 1)
    assert [entry.idle_ms for entry in group.pending_range()] == [0] * 5


# --- removing ---------------------------------------------------------------------------------------------------------


def test_what_a_removed_consumer_had_is_pending_no_more(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=3)
    bob.read()
    assert group.delete_consumer("alice") == 3
    assert [each.name for each in group.consumers()] == [b"bob"]
    assert held(group) == [("4-0", b"bob", 0, 1), ("5-0", b"bob", 0, 1)]
    assert (group.info().pending, group.info().consumers) == (2, 1)
    assert bob.claim("1-0") == []
    assert group.ack("1-0") == 0
    assert bob.read(claim_ms=0) != []
    assert len(held(group)) == 2


def test_removing_one_that_is_not_there_removes_nothing(group: Group, alice: Consumer) -> None:
    alice.read()
    assert group.delete_consumer("nobody") == 0
    assert len(held(group)) == 5


def test_one_without_pending_entries_goes_too(group: Group) -> None:
    group.create_consumer("alice")
    assert group.delete_consumer("alice") == 0
    assert group.consumers() == []


def test_one_of_the_same_name_begins_with_nothing(stream: Stream, group: Group, alice: Consumer) -> None:
    alice.read()
    group.delete_consumer("alice")
    assert alice.read("0") == []
    fill(stream, 6, 6)
    assert ids(alice.read()) == ["6-0"]
    assert held(group) == [("6-0", b"alice", 0, 1)]


def test_consumers_of_one_name_in_two_groups_are_two(stream: Stream, group: Group, alice: Consumer) -> None:
    other = stream.group("other", start="3-0")
    alice.read()
    other.consumer("alice").read()
    assert group.delete_consumer("alice") == 5
    assert held(other) == [("4-0", b"alice", 0, 1), ("5-0", b"alice", 0, 1)]


def test_what_many_consumers_have_is_kept_apart(stream: Stream, group: Group) -> None:
    fill(stream, 6, 200)
    consumers = [group.consumer(f"c{number:02}") for number in range(20)]
    for turn in range(10):
        for consumer in consumers:
            assert len(consumer.read(count=1)) == 1, turn
    for number, consumer in enumerate(consumers):
        mine = [f"{number + 1 + 20 * turn}-0" for turn in range(10)]
        assert [str(entry.id) for entry in consumer.pending_range(count=100)] == mine
    assert sum(group.delete_consumer(consumer.name) for consumer in consumers[::2]) == 100
    assert {each.name: each.pending for each in group.consumers()} == {each.name: 10 for each in consumers[1::2]}
    assert group.info().pending == 100
