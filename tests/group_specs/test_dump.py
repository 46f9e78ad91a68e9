"""All of a stream's state at once: info_full."""

import dataclasses

import pytest

from diskstream import Consumer, EntryID, Group, NoSuchStreamError, Store, Stream
from tests.group_specs.clock import Clock
from tests.group_specs.shown import fill, table
from tests.streams.layers import ids


def test_a_stream_without_groups(stream: Stream) -> None:
    stream.delete("2-0")
    stream.trim(maxlen=3)
    full = stream.info_full()
    assert (full.length, full.last_generated_id, full.max_deleted_entry_id) == (3, EntryID(5, 0), EntryID(2, 0))
    assert (full.entries_added, full.recorded_first_entry_id) == (5, EntryID(3, 0))
    assert ids(full.entries) == ["3-0", "4-0", "5-0"]
    assert full.entries[0].fields == {b"n": b"3"}
    assert full.groups == []


def test_what_is_remembered_of_producers_is_in_it_as_in_info(stream: Stream) -> None:
    stream.configure_idempotence(duration_s=50, max_size=7)
    for producer, message in (("p", "1"), ("p", "2"), ("q", "1"), ("q", "1")):
        stream.add({"n": "1"}, producer=producer, message_id=message)
    full, info = stream.info_full(), stream.info()
    assert (full.idmp_duration_s, full.idmp_max_size) == (50, 7)
    assert (full.producers_tracked, full.messages_tracked) == (2, 3)
    assert (full.messages_added, full.messages_duplicate) == (3, 1)
    same = [field.name for field in dataclasses.fields(full) if field.name not in ("entries", "groups")]
    assert {name: getattr(full, name) for name in same} == {name: getattr(info, name) for name in same}


def test_an_empty_stream(store: Store) -> None:
    store.stream("new").group("g")
    full = store.stream("new").info_full()
    assert (full.length, full.entries_added, full.entries) == (0, 0, [])
    assert (full.last_generated_id, full.recorded_first_entry_id) == (EntryID(0, 0), EntryID(0, 0))
    assert [group.name for group in full.groups] == [b"g"]


def test_groups_with_their_consumers_and_who_has_what(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer, clock: Clock
) -> None:
    start = clock.now
    bob.read(count=1)
    clock.go_on(10)
    alice.read(count=2)
    clock.go_on(10)
    group.create_consumer("carol")
    group.nack("3-0", mode="SILENT")
    stream.group("before", start="4-0", entries_read=4)
    full = stream.info_full()
    assert [each.name for each in full.groups] == [b"before", b"g"]
    before, g = full.groups
    assert (before.last_delivered_id, before.entries_read, before.lag) == (EntryID(4, 0), 4, 1)
    assert (before.pel_count, before.nacked_count, before.pending, before.consumers) == (0, 0, [], [])
    assert (g.last_delivered_id, g.entries_read, g.lag, g.pel_count, g.nacked_count) == (EntryID(3, 0), 3, 2, 3, 1)
    assert table(g.pending) == [("1-0", b"bob", 20, 1), ("2-0", b"alice", 10, 1), ("3-0", b"", -1, 0)]
    assert [entry.delivered_ms for entry in g.pending] == [start, start + 10, 0]
    assert [(each.name, each.seen_ms, each.active_ms, each.pel_count) for each in g.consumers] == [
        (b"alice", start + 10, start + 10, 1),
        (b"bob", start, start, 1),
        (b"carol", start + 20, None, 0),
    ]
    assert [table(each.pending) for each in g.consumers] == [[("2-0", b"alice", 10, 1)], [("1-0", b"bob", 20, 1)], []]


@pytest.mark.parametrize(("count", "expected"), [(None, 10), (-1, 10), (3, 3), (0, 25), (1000, 25)])
def test_ten_of_each_unless_told_otherwise(
    stream: Stream, group: Group, alice: Consumer, count: int | None, expected: int
) -> None:
    fill(stream, 6, 25)
    alice.read()
    full = stream.info_full() if count is None else stream.info_full(count)
    assert len(full.entries) == expected
    assert full.entries[0].id == EntryID(1, 0)
    (g,) = full.groups
    assert (len(g.pending), g.pel_count) == (expected, 25)
    assert [(len(each.pending), each.pel_count) for each in g.consumers] == [(expected, 25)]


def test_it_agrees_with_the_single_questions(stream: Stream, group: Group, alice: Consumer, bob: Consumer) -> None:
    fill(stream, 6, 300)
    while alice.read(count=17):
        bob.read(count=5)
    group.ack(*range(4, 300, 7))
    group.nack(*range(5, 300, 11))
    full = stream.info_full(0)
    (g,) = full.groups
    info = group.info()
    assert g.pending == group.pending_range(count=1000)
    assert (g.pel_count, g.nacked_count) == (len(g.pending), sum(not entry.consumer for entry in g.pending))
    assert (g.pel_count, g.nacked_count, g.lag, g.entries_read) == (
        info.pending,
        info.refused,
        info.lag,
        info.entries_read,
    )
    for each, consumer in zip(g.consumers, (alice, bob), strict=True):
        assert each.pending == consumer.pending_range(count=1000)
        assert each.pel_count == len(each.pending)
    assert [(each.name, each.pel_count, each.seen_ms, each.active_ms) for each in g.consumers] == [
        (each.name, each.pending, each.seen_ms, each.active_ms) for each in group.consumers()
    ]


def test_there_must_be_a_stream(store: Store) -> None:
    with pytest.raises(NoSuchStreamError, match="no such key"):
        store.stream("none").info_full()


def test_what_is_shown_cannot_be_changed(stream: Stream, group: Group, alice: Consumer) -> None:
    alice.read()
    full = stream.info_full()
    for shown, name in (
        (full, "length"),
        (full.groups[0], "lag"),
        (full.groups[0].consumers[0], "pel_count"),
        (group.info(), "lag"),
        (group.consumers()[0], "pending"),
        (group.pending(), "total"),
        (group.pending_range()[0], "deliveries"),
        (alice.autoclaim(0), "cursor"),
        (alice.autoclaim_ids(0), "cursor"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shown, name, 7)
