"""Going through a group's pending entries and taking over what is idle: autoclaim."""

from typing import Any

import pytest

from diskstream import Consumer, EntryID, Group, Stream
from tests.group_specs.clock import Clock
from tests.group_specs.shown import fill, given, held, owners
from tests.streams.layers import ids

END = EntryID(0, 0)


def test_everything_idle_changes_hands(group: Group, alice: Consumer, bob: Consumer, clock: Clock) -> None:
    alice.read(count=3)
    clock.go_on(500)
    found = bob.autoclaim(500)
    assert (found.cursor, found.deleted) == (END, [])
    assert given(found.entries) == [("1-0", 500, 1), ("2-0", 500, 1), ("3-0", 500, 1)]
    assert found.entries[0].fields == {b"n": b"1"}
    assert held(group) == [("1-0", b"bob", 0, 2), ("2-0", b"bob", 0, 2), ("3-0", b"bob", 0, 2)]
    assert found.entries[0].ack()


def test_the_ids_only_do_not_count(group: Group, alice: Consumer, bob: Consumer, clock: Clock) -> None:
    alice.read(count=2)
    clock.go_on(500)
    found = bob.autoclaim_ids(0)
    assert (found.cursor, found.ids, found.deleted) == (END, [EntryID(1, 0), EntryID(2, 0)], [])
    assert held(group) == [("1-0", b"bob", 0, 1), ("2-0", b"bob", 0, 1)]


@pytest.mark.parametrize(("min_idle", "claimed"), [(0, 2), (-9, 2), (100, 2), (101, 1), (150, 1), (151, 0)])
def test_what_is_not_idle_long_enough_is_passed_over(
    group: Group, alice: Consumer, bob: Consumer, clock: Clock, min_idle: int, claimed: int
) -> None:
    alice.read(count=1)
    clock.go_on(50)
    alice.read(count=1)
    clock.go_on(100)
    found = bob.autoclaim(min_idle)
    assert (len(found.entries), found.cursor) == (claimed, END)


def test_the_cursor_is_where_to_go_on(stream: Stream, group: Group, alice: Consumer, bob: Consumer) -> None:
    fill(stream, 6, 8)
    alice.read()
    seen, cursor = [], END
    for _ in range(3):
        found = bob.autoclaim(0, cursor, count=3)
        cursor = found.cursor
        seen.append((ids(found.entries), str(cursor)))
    assert seen == [
        (["1-0", "2-0", "3-0"], "4-0"),
        (["4-0", "5-0", "6-0"], "7-0"),
        (["7-0", "8-0"], "0-0"),
    ]


def test_a_count_that_ends_with_the_list_ends_it(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read()
    found = bob.autoclaim(0, count=5)
    assert (len(found.entries), found.cursor) == (5, END)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("-", ["1-0", "2-0", "3-0", "4-0", "5-0"]),
        ("0", ["1-0", "2-0", "3-0", "4-0", "5-0"]),
        ("3-0", ["3-0", "4-0", "5-0"]),
        (3, ["3-0", "4-0", "5-0"]),
        ("(3-0", ["4-0", "5-0"]),
        (EntryID(4, 1), ["5-0"]),
        ("+", []),
    ],
)
def test_it_begins_where_it_is_told(alice: Consumer, bob: Consumer, start: Any, expected: list[str]) -> None:
    alice.read()
    assert ids(bob.autoclaim(0, start).entries) == expected


def test_what_is_gone_is_named_and_pending_no_more(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer
) -> None:
    alice.read()
    stream.delete("2-0")
    stream.trim(minid="2-0")
    found = bob.autoclaim(0)
    assert found.deleted == [EntryID(1, 0), EntryID(2, 0)]
    assert ids(found.entries) == ["3-0", "4-0", "5-0"]
    assert list(owners(group)) == ["3-0", "4-0", "5-0"]
    assert bob.autoclaim(0).deleted == []


def test_it_counts_as_one_of_those_asked_for_idle_or_not(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer
) -> None:
    alice.read()
    stream.delete("1-0", "2-0", "4-0")
    found = bob.autoclaim(0, count=3)
    assert (ids(found.entries), found.deleted) == (["3-0"], [EntryID(1, 0), EntryID(2, 0)])
    assert found.cursor == EntryID(4, 0)
    ids_only = bob.autoclaim_ids(9999, "-")
    assert (ids_only.ids, ids_only.deleted, ids_only.cursor) == ([], [EntryID(4, 0)], END)
    assert list(owners(group)) == ["3-0", "5-0"]


def test_it_looks_at_ten_times_the_count_and_no_more(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer, clock: Clock
) -> None:
    fill(stream, 6, 30)
    alice.read(count=24)
    clock.go_on(1000)
    alice.claim(*range(1, 24))
    first = bob.autoclaim(500, count=2)
    assert (first.entries, first.cursor) == ([], EntryID(21, 0))
    second = bob.autoclaim(500, first.cursor, count=2)
    assert (ids(second.entries), second.cursor) == (["24-0"], END)


def test_ones_own_are_taken_too(group: Group, alice: Consumer) -> None:
    alice.read(count=2)
    assert given(alice.autoclaim(0).entries) == [("1-0", 0, 1), ("2-0", 0, 1)]
    assert held(group) == [("1-0", b"alice", 0, 2), ("2-0", b"alice", 0, 2)]


def test_nobodys_entries_are_always_idle(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=3)
    group.nack("2-0")
    assert given(bob.autoclaim(10_000).entries) == [("2-0", -1, 1)]
    assert owners(group)["2-0"] == b"bob"
    assert group.info().refused == 0


def test_nothing_pending_nothing_claimed(group: Group, bob: Consumer) -> None:
    found = bob.autoclaim(0)
    assert (found.cursor, found.entries, found.deleted) == (END, [], [])


@pytest.mark.parametrize("count", [1, 7, 100, 5000])
def test_a_long_list_is_gone_through_to_its_end(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer, count: int
) -> None:
    fill(stream, 6, 400)
    alice.read()
    gone = list(range(4, 400, 9))
    stream.delete(*gone)
    cursor, claimed, deleted = END, [], []
    for _ in range(1000):
        found = bob.autoclaim(0, cursor, count=count)
        claimed += ids(found.entries)
        deleted += [str(entry_id) for entry_id in found.deleted]
        cursor = found.cursor
        if cursor == END:
            break
    assert deleted == [f"{n}-0" for n in gone]
    assert claimed == [f"{n}-0" for n in range(1, 401) if n not in set(gone)]
    assert set(owners(group).values()) == {b"bob"}
    assert group.info().pending == len(claimed)
