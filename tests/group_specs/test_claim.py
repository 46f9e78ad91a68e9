"""Taking over what others have: claim."""

from typing import Any

import pytest

from diskstream import Consumer, EntryID, Group, Stream
from tests.group_specs.clock import Clock
from tests.group_specs.shown import given, held, owners
from tests.streams.layers import ids

MOST = 2**63 - 1  # a count of deliveries goes no further


@pytest.fixture
def out(alice: Consumer) -> Consumer:
    """Alice has 1-0 to 3-0."""
    alice.read(count=3)
    return alice


def test_a_claimed_entry_changes_hands_and_counts_once_more(
    group: Group, out: Consumer, bob: Consumer, clock: Clock
) -> None:
    clock.go_on(300)
    (entry,) = bob.claim("2-0")
    assert (str(entry.id), entry.fields, entry.idle_ms, entry.deliveries) == ("2-0", {b"n": b"2"}, 300, 1)
    assert held(group) == [("1-0", b"alice", 300, 1), ("2-0", b"bob", 0, 2), ("3-0", b"alice", 300, 1)]
    assert entry.ack()
    assert list(owners(group)) == ["1-0", "3-0"]


def test_entries_come_in_the_order_asked_for(out: Consumer, bob: Consumer) -> None:
    assert ids(bob.claim("3-0", b"1", (2, 0), "9-9")) == ["3-0", "1-0", "2-0"]


def test_one_named_twice_is_claimed_twice_unless_it_is_not_idle_any_more(
    group: Group, out: Consumer, bob: Consumer, clock: Clock
) -> None:
    clock.go_on(10)
    assert given(bob.claim("1-0", "1-0")) == [("1-0", 10, 1), ("1-0", 0, 2)]
    assert held(group)[0] == ("1-0", b"bob", 0, 3)
    clock.go_on(10)
    assert given(bob.claim("1-0", "1-0", min_idle_ms=10)) == [("1-0", 10, 3)]


def test_the_ids_only_do_not_count(group: Group, out: Consumer, bob: Consumer, clock: Clock) -> None:
    clock.go_on(10)
    claimed = bob.claim_ids("2-0", "1-0")
    assert claimed == [EntryID(2, 0), EntryID(1, 0)]
    assert held(group)[:2] == [("1-0", b"bob", 0, 1), ("2-0", b"bob", 0, 1)]


@pytest.mark.parametrize(("min_idle", "claimed"), [(0, True), (-5, True), (99, True), (100, True), (101, False)])
def test_only_what_is_idle_long_enough(
    group: Group, out: Consumer, bob: Consumer, clock: Clock, min_idle: int, claimed: bool
) -> None:
    clock.go_on(100)
    assert bool(bob.claim_ids("1-0", min_idle_ms=min_idle)) == claimed
    assert (owners(group)["1-0"] == b"bob") == claimed


def test_ones_own_begin_anew(group: Group, out: Consumer, clock: Clock) -> None:
    clock.go_on(100)
    assert len(out.claim("1-0", min_idle_ms=50)) == 1
    assert out.claim("1-0", min_idle_ms=50) == []
    assert held(group)[0] == ("1-0", b"alice", 0, 2)


@pytest.mark.parametrize(
    ("options", "idle"),
    [
        ({"idle_ms": 0}, 0),
        ({"idle_ms": 250}, 250),
        ({"idle_ms": -7}, 0),
        ({"idle_ms": 10**15}, 0),  # before 1970
        ({"time_ms": 999_000}, 1000 + 100),
        ({"time_ms": 0}, 1_000_100),
        ({"time_ms": 10**12}, 0),  # in the future
        ({"time_ms": -1}, 0),
    ],
)
def test_the_time_of_delivery_can_be_said_but_is_never_ahead(
    group: Group, out: Consumer, bob: Consumer, clock: Clock, options: dict[str, Any], idle: int
) -> None:
    clock.go_on(100)
    assert len(bob.claim("1-0", **options)) == 1
    assert held(group)[0] == ("1-0", b"bob", idle, 2)
    assert group.pending_range()[0].delivered_ms == clock.now - idle


@pytest.mark.parametrize("count", [0, 1, 17, MOST])
def test_the_count_can_be_said(group: Group, out: Consumer, bob: Consumer, count: int) -> None:
    assert given(bob.claim("1-0", retry_count=count)) == [("1-0", 0, 1)]
    assert bob.claim_ids("2-0", retry_count=count) == [EntryID(2, 0)]
    assert held(group)[:2] == [("1-0", b"bob", 0, count), ("2-0", b"bob", 0, count)]


def test_the_count_ends_somewhere(group: Group, out: Consumer, bob: Consumer) -> None:
    bob.claim("1-0", retry_count=MOST)
    assert given(bob.claim("1-0")) == [("1-0", 0, MOST)]
    assert bob.autoclaim(0, count=1).entries[0].deliveries == MOST
    assert bob.read("0", count=1)[0].deliveries == MOST
    assert held(group)[0] == ("1-0", b"bob", 0, MOST)


def test_what_is_not_pending_is_not_claimed(group: Group, out: Consumer, bob: Consumer) -> None:
    group.ack("1-0")
    assert bob.claim("1-0", "4-0", "9-9") == []
    assert list(owners(group)) == ["2-0", "3-0"]


def test_unless_by_force_if_it_exists(stream: Stream, group: Group, out: Consumer, bob: Consumer) -> None:
    """Redis counts: made by force it was delivered once, and claimed once more."""
    group.ack("1-0")
    assert ids(bob.claim("1-0", "9-9", force=True)) == ["1-0"]
    assert bob.claim_ids("4-0", "0-1", force=True) == [EntryID(4, 0)]
    assert bob.claim_ids("5-0", force=True, retry_count=9) == [EntryID(5, 0)]
    assert held(group) == [
        ("1-0", b"bob", 0, 2),
        ("2-0", b"alice", 0, 1),
        ("3-0", b"alice", 0, 1),
        ("4-0", b"bob", 0, 1),
        ("5-0", b"bob", 0, 9),
    ]
    assert group.info().pending == 5
    assert str(group.info().last_delivered_id) == "3-0"


def test_what_is_gone_is_pending_no_more_idle_or_not(
    stream: Stream, group: Group, out: Consumer, bob: Consumer
) -> None:
    stream.delete("1-0")
    stream.trim(minid="3-0")
    assert bob.claim("1-0", "2-0", "3-0", min_idle_ms=10_000, force=True) == []
    assert held(group) == [("3-0", b"alice", 0, 1)]
    assert group.info().pending == 1


def test_nobodys_entries_are_always_idle(group: Group, out: Consumer, bob: Consumer) -> None:
    group.nack("1-0")
    assert given(bob.claim("1-0", "2-0", min_idle_ms=10_000)) == [("1-0", -1, 1)]
    assert held(group)[0] == ("1-0", b"bob", 0, 2)
    assert group.info().refused == 0


@pytest.mark.parametrize(("last_id", "expected"), [("2-0", "3-0"), ("4-0", "4-0"), ("9-0", "9-0"), ((3, 0), "3-0")])
def test_the_group_can_be_moved_forward_only(
    group: Group, out: Consumer, bob: Consumer, last_id: Any, expected: str
) -> None:
    assert len(bob.claim("1-0", last_id=last_id)) == 1
    assert str(group.info().last_delivered_id) == expected


def test_it_is_moved_even_if_nothing_is_claimed(group: Group, out: Consumer, bob: Consumer) -> None:
    assert bob.claim_ids("9-9", last_id="4-0") == []
    assert str(group.info().last_delivered_id) == "4-0"
    assert ids(bob.read()) == ["5-0"]


def test_other_groups_are_not_touched(stream: Stream, group: Group, out: Consumer, bob: Consumer) -> None:
    other = stream.group("other", start="0")
    other.consumer("carol").read()
    bob.claim("1-0", "2-0")
    assert set(owners(other).values()) == {b"carol"}


def test_hundreds_at_once(stream: Stream, group: Group, alice: Consumer, bob: Consumer) -> None:
    stream.add_many([{"n": number} for number in range(6, 801)], ids=[(number, 0) for number in range(6, 801)])
    alice.read()
    group.ack(*range(3, 801, 3))
    assert len(bob.claim(*range(800, 0, -1))) == 800 - 266
    assert set(owners(group).values()) == {b"bob"}
    assert {row[3] for row in held(group)} == {2}
    assert [(each.name, each.pending) for each in group.consumers()] == [(b"alice", 0), (b"bob", 534)]


def test_one_that_is_gone_and_named_twice_ends_once(stream: Stream, group: Group, out: Consumer, bob: Consumer) -> None:
    stream.delete("2-0")
    assert ids(bob.claim("2-0", "3-0", "2-0")) == ["3-0"]
    assert [row[:2] for row in held(group)] == [("1-0", b"alice"), ("3-0", b"bob")]
