"""What is pending: the summary, the list, and acknowledging."""

from typing import Any

import pytest

from diskstream import Consumer, EntryID, Group, Store, Stream
from tests.group_specs.clock import Clock
from tests.group_specs.shown import fill, held, owners, table
from tests.streams.layers import log_of


def pending_ids(group: Group, *args: Any, **options: Any) -> list[str]:
    return [str(entry.id) for entry in group.pending_range(*args, **options)]


# --- looking ----------------------------------------------------------------------------------------------------------


def test_the_summary_of_nothing(group: Group) -> None:
    group.create_consumer("alice")
    summary = group.pending()
    assert (summary.total, summary.first, summary.last, summary.consumers) == (0, None, None, {})
    assert group.pending_range() == []


def test_the_summary_tells_the_ends_and_who_has_how_many(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=3)
    bob.read(count=1)
    group.create_consumer("carol")
    summary = group.pending()
    assert (summary.total, summary.first, summary.last) == (4, EntryID(1, 0), EntryID(4, 0))
    assert list(summary.consumers.items()) == [(b"alice", 3), (b"bob", 1)]
    group.ack("1-0", "4-0")
    summary = group.pending()
    assert (summary.total, summary.first, summary.last) == (2, EntryID(2, 0), EntryID(3, 0))
    assert summary.consumers == {b"alice": 2}


def test_what_is_listed_does_not_ask_for_all_consumers(
    group: Group, alice: Consumer, bob: Consumer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands that came and went under names of their own, most own nothing of what is shown."""
    alice.read(count=2)
    bob.read(count=1)
    log = log_of(store, group.stream.name)

    class Native:
        def __init__(self, whole: Any) -> None:
            self.whole = whole

        def __getattr__(self, name: str) -> Any:
            assert name != "consumers"
            return getattr(self.whole, name)

    monkeypatch.setattr(log, "native", Native(log.native))
    assert [(row.id.ms, row.consumer) for row in group.pending_range()] == [(1, b"alice"), (2, b"alice"), (3, b"bob")]
    assert [(row.id.ms, row.consumer) for row in bob.pending_range()] == [(3, b"bob")]


def test_when_the_next_may_be_claimed_by_age(group: Group, alice: Consumer, bob: Consumer, clock: Clock) -> None:
    assert group.ripens_in_s(1000) is None
    alice.read(count=1)
    clock.now += 400
    bob.read(count=1)
    assert group.ripens_in_s(1000) == 0.6
    clock.now += 5000
    assert group.ripens_in_s(1000) == 0
    group.ack("1-0")
    assert group.ripens_in_s(10_000) == 5
    group.nack("2-0")
    assert group.ripens_in_s(2**62) == 0, "what nobody has is not a matter of age"


def test_the_list_tells_who_has_what_since_when(group: Group, alice: Consumer, bob: Consumer, clock: Clock) -> None:
    start = clock.now
    alice.read(count=2)
    clock.go_on(40)
    bob.read(count=1)
    clock.go_on(2)
    entries = group.pending_range()
    assert table(entries) == [("1-0", b"alice", 42, 1), ("2-0", b"alice", 42, 1), ("3-0", b"bob", 2, 1)]
    assert [entry.delivered_ms for entry in entries] == [start, start, start + 40]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("-", "+", [1, 2, 3, 4, 5]),
        ("2", "4", [2, 3, 4]),
        ("2-0", "4-0", [2, 3, 4]),
        ("2-1", "4", [3, 4]),
        ("(2-0", "(4-0", [3]),
        ("(2", "+", [3, 4, 5]),
        ("-", "(2", [1, 2]),  # a missing sequence at the end is the greatest one
        (3, 3, [3]),
        ((3, 0), EntryID(9, 9), [3, 4, 5]),
        (b"-", b"1", [1]),
        ("4", "2", []),
        ("+", "-", []),
        ("6", "+", []),
    ],
)
def test_a_range_of_it(group: Group, alice: Consumer, start: Any, end: Any, expected: list[int]) -> None:
    alice.read()
    assert pending_ids(group, start, end) == [f"{number}-0" for number in expected]
    assert [str(entry.id) for entry in alice.pending_range(start, end)] == [f"{number}-0" for number in expected]


def test_ten_of_it_unless_told_otherwise(stream: Stream, group: Group, alice: Consumer) -> None:
    fill(stream, 6, 30)
    alice.read()
    assert len(pending_ids(group)) == 10
    assert len(pending_ids(group, "-", "+", 25)) == 25
    assert pending_ids(group, "-", "+", 1) == ["1-0"]
    assert pending_ids(group, "-", "+", 0) == []
    assert pending_ids(group, "-", "+", -3) == []


def test_one_consumers(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=1)
    bob.read(count=2)
    alice.read(count=1)
    assert pending_ids(group, consumer="alice") == ["1-0", "4-0"]
    assert pending_ids(group, consumer=b"bob") == ["2-0", "3-0"]
    assert pending_ids(group, "(2-0", "+", 1, consumer="bob") == ["3-0"]
    assert [str(entry.id) for entry in bob.pending_range(count=1)] == ["2-0"]
    assert pending_ids(group, consumer="nobody") == []
    assert [each.name for each in group.consumers()] == [b"alice", b"bob"]


@pytest.mark.parametrize(
    ("idle", "expected"), [(0, [1, 2, 3]), (10, [1, 2, 3]), (11, [1, 2]), (30, [1, 2]), (31, [1]), (61, [])]
)
def test_only_what_is_idle(group: Group, alice: Consumer, clock: Clock, idle: int, expected: list[int]) -> None:
    for ms in (30, 20, 10):
        alice.read(count=1)
        clock.go_on(ms)
    assert pending_ids(group, idle_ms=idle) == [f"{number}-0" for number in expected]
    assert pending_ids(group, idle_ms=idle, consumer="alice", count=1) == [f"{n}-0" for n in expected[:1]]


def test_the_idle_filter_goes_before_the_count(group: Group, alice: Consumer, clock: Clock) -> None:
    alice.read()
    clock.go_on(100)
    alice.claim("1-0", "2-0", "3-0")
    assert pending_ids(group, "-", "+", 1, idle_ms=100) == ["4-0"]


def test_what_is_gone_from_the_stream_is_pending_still(stream: Stream, group: Group, alice: Consumer) -> None:
    alice.read()
    stream.delete("5-0")
    stream.trim(maxlen=0)
    assert pending_ids(group) == ["1-0", "2-0", "3-0", "4-0", "5-0"]
    assert group.pending().total == 5


def test_looking_changes_nothing(group: Group, alice: Consumer, clock: Clock) -> None:
    alice.read(count=2)
    clock.go_on(10)
    for _ in range(2):
        group.pending()
        assert held(group) == [("1-0", b"alice", 10, 1), ("2-0", b"alice", 10, 1)]
        assert [each.idle_ms for each in group.consumers()] == [10]


# --- acknowledging ----------------------------------------------------------------------------------------------------


def test_what_is_acknowledged_is_pending_no_more(group: Group, alice: Consumer) -> None:
    alice.read()
    assert group.ack("2-0", b"4", (5, 0)) == 3
    assert pending_ids(group) == ["1-0", "3-0"]
    assert [str(entry.id) for entry in alice.read("0")] == ["1-0", "3-0"]
    assert group.ack(EntryID(1, 0), 3) == 2
    assert (group.pending().total, group.info().pending) == (0, 0)
    assert [each.pending for each in group.consumers()] == [0]


def test_only_what_was_pending_counts_and_once(group: Group, alice: Consumer) -> None:
    alice.read(count=2)
    assert group.ack("1-0", "1-0", "3-0", "9-9", "0-0") == 1
    assert group.ack("1-0") == 0
    assert group.ack() == 0
    assert pending_ids(group) == ["2-0"]


def test_ids_below_and_above_all_others_are_not_pending(group: Group, alice: Consumer) -> None:
    alice.read()
    assert group.ack("0-1") == 0
    assert group.ack("0-0", str(EntryID(2**64 - 1, 2**64 - 1))) == 0
    assert group.ack("1-1", "4-9", "5-1") == 0
    assert len(held(group)) == 5


def test_any_consumer_acknowledges_for_the_group(stream: Stream, group: Group, alice: Consumer, bob: Consumer) -> None:
    other = stream.group("other", start="0")
    other.consumer("alice").read()
    alice.read()
    assert bob.ack("1-0") == 1
    assert "1-0" not in owners(group)
    assert "1-0" in owners(other)
    assert [each.name for each in group.consumers()] == [b"alice"]


def test_nothing_is_pending_where_there_is_no_group(store: Store, stream: Stream) -> None:
    assert stream.group("none", create=False).ack("1-0") == 0
    assert store.stream("none").group("g", create=False).ack("1-0") == 0
    assert store.streams() == [b"s"]


def test_what_is_gone_can_be_acknowledged(stream: Stream, group: Group, alice: Consumer) -> None:
    alice.read()
    stream.trim(maxlen=0)
    assert group.ack("1-0", "5-0") == 2
    assert pending_ids(group) == ["2-0", "3-0", "4-0"]


def test_a_long_list_shrinks_from_both_ends_and_from_within(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer
) -> None:
    fill(stream, 6, 1200)
    left = list(range(1, 1201))
    for number in range(0, 1200, 100):
        (alice, bob)[number // 100 % 2].read(count=100)
    for part in (
        [*range(1, 150)],
        [*range(1100, 1201)],
        [*range(150, 1100, 3)],
        [*range(400, 900)],
        [*range(150, 1100)],
    ):
        wanted = [number for number in part if number in set(left)]
        assert group.ack(*part) == len(wanted)
        left = [number for number in left if number not in set(wanted)]
        assert pending_ids(group, count=2000) == [f"{number}-0" for number in left]
        summary = group.pending()
        assert summary.total == len(left)
        assert summary.first == (EntryID(left[0], 0) if left else None)
        assert summary.last == (EntryID(left[-1], 0) if left else None)
        assert sum(summary.consumers.values()) == len(left)
        assert summary.total == group.info().pending


def test_thousands_are_listed_in_order(stream: Stream, group: Group, alice: Consumer, bob: Consumer) -> None:
    """More than are looked up at once."""
    fill(stream, 6, 9000)
    alice.read(count=8999)
    bob.read()
    assert pending_ids(group, count=10_000) == [f"{number}-0" for number in range(1, 9001)]
    assert pending_ids(group, consumer="bob") == ["9000-0"]
    assert len(alice.pending_range(count=10_000)) == 8999
    assert pending_ids(group, "4000", "4200", 500) == [f"{number}-0" for number in range(4000, 4201)]
    assert group.ack(*range(2, 9001)) == 8999
    assert held(group) == [("1-0", b"alice", 0, 1)]
    assert group.pending().last == EntryID(1, 0)
