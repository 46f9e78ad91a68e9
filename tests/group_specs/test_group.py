"""A group: made, found, moved and removed; how far it has read, and what is left to read."""

from typing import Any

import pytest

from diskstream import EntryID, Group, GroupExistsError, NoGroupError, NoSuchStreamError, Store, Stream
from tests.group_specs.shown import fill, held
from tests.streams.layers import MAX_ID, ids


def progress(group: Group) -> tuple[str, int | None, int | None]:
    info = group.info()
    return str(info.last_delivered_id), info.entries_read, info.lag


# --- making -----------------------------------------------------------------------------------------------------------


def test_a_group_is_made_with_its_stream_where_there_is_none(store: Store) -> None:
    group = store.stream("new").group("g")
    assert group.exists()
    assert store.streams() == [b"new"]
    assert len(store.stream("new")) == 0
    assert progress(group) == ("0-0", None, 0)
    store.stream("new").add({"n": 1}, "1-0")
    assert ids(group.consumer("c").read()) == ["1-0"]


def test_one_that_is_there_stays_as_it_is(stream: Stream) -> None:
    stream.group("g", start="2-0", entries_read=2)
    assert progress(stream.group("g")) == ("2-0", 2, 3)
    assert progress(stream.group("g", start="0", entries_read=0)) == ("2-0", 2, 3)


def test_with_create_false_nothing_is_made(store: Store, stream: Stream) -> None:
    group = stream.group("g", create=False)
    assert not group.exists()
    assert stream.groups() == []
    with pytest.raises(NoGroupError):
        group.info()
    assert not store.stream("none").group("g", create=False).exists()
    assert store.streams() == [b"s"]


def test_a_group_that_is_made_later_is_found_by_who_looked_for_it_before(stream: Stream) -> None:
    group = stream.group("g", create=False)
    stream.create_group("g", "0")
    assert ids(group.consumer("c").read(count=1)) == ["1-0"]


@pytest.mark.parametrize("name", ["s", "none"])
def test_with_create_new_it_must_be_new(store: Store, stream: Stream, name: str) -> None:
    made = store.stream(name).group("g", start="1-0", create="new")
    assert progress(made)[0] == "1-0"
    with pytest.raises(GroupExistsError, match="BUSYGROUP Consumer Group name already exists"):
        store.stream(name).group("g", start="3-0", create="new")
    assert progress(made)[0] == "1-0"


def test_create_group_wants_a_stream_unless_told_to_make_it(store: Store, stream: Stream) -> None:
    with pytest.raises(NoSuchStreamError, match="The XGROUP subcommand requires the key to exist") as caught:
        store.stream("none").create_group("g")
    assert caught.value.name == b"none"
    assert not store.exists("none")
    assert store.stream("none").create_group("g", mkstream=True).exists()
    assert progress(stream.create_group("g")) == ("5-0", None, 0)
    with pytest.raises(GroupExistsError):
        stream.create_group("g", mkstream=True)


@pytest.mark.parametrize(
    ("start", "last", "left"),
    [
        ("$", "5-0", []),
        (b"$", "5-0", []),
        ("0", "0-0", ["1-0", "2-0", "3-0", "4-0", "5-0"]),
        ("3", "3-0", ["4-0", "5-0"]),
        (3, "3-0", ["4-0", "5-0"]),
        ((2, 7), "2-7", ["3-0", "4-0", "5-0"]),
        (b"4-0", "4-0", ["5-0"]),
        (EntryID(4, 1), "4-1", ["5-0"]),
        ("9-9", "9-9", []),
    ],
)
def test_what_comes_after_its_start_is_new_to_it(stream: Stream, start: Any, last: str, left: list[str]) -> None:
    group = stream.group("g", start=start)
    assert progress(group)[0] == last
    assert ids(group.consumer("c").read()) == left


def test_a_start_ahead_of_the_stream_passes_over_what_comes_before(stream: Stream) -> None:
    group = stream.group("g", start="7-0")
    fill(stream, 6, 8)
    assert ids(group.consumer("c").read()) == ["8-0"]


def test_names_are_bytes(stream: Stream) -> None:
    for name in (b"", b"\x00\xff\n", "Zoë", "g" * 1000):
        group = stream.group(name)
        key = name.encode() if isinstance(name, str) else name
        assert group.name == key
        assert stream.group(key, create=False).exists()
    assert [info.name for info in stream.groups()] == [b"", b"\x00\xff\n", "Zoë".encode(), b"g" * 1000]


def test_groups_are_listed_in_byte_order_and_counted(store: Store, stream: Stream) -> None:
    for name in ("b", "a", "ab", "B"):
        stream.group(name)
    assert [info.name for info in stream.groups()] == [b"B", b"a", b"ab", b"b"]
    assert stream.info().groups == 4
    with pytest.raises(NoSuchStreamError):
        store.stream("none").groups()


def test_each_group_is_given_everything(stream: Stream) -> None:
    for name in ("a", "b"):
        assert len(stream.group(name, start="0").consumer("c").read()) == 5
    assert [(info.name, info.pending, info.lag) for info in stream.groups()] == [(b"a", 5, 0), (b"b", 5, 0)]


# --- how far it has read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "entries_read", "read", "lag"),
    [
        ("0", None, None, 5),
        ("1-0", None, None, 4),  # the first entry: its number follows from the length
        ("3-0", None, None, None),  # somewhere within: nobody knows how many came before
        ("$", None, None, 0),
        ("3-0", 3, 3, 2),
        ("3-0", -1, None, None),
        ("3-0", 99, 5, 0),  # never more than were added
        ("0", 0, 0, 5),
        ("7-0", None, None, None),
    ],
)
def test_entries_read_and_lag_of_a_new_group(
    stream: Stream, start: str, entries_read: int | None, read: int | None, lag: int | None
) -> None:
    group = stream.group("g", start=start, entries_read=entries_read)
    assert progress(group)[1:] == (read, lag)


def test_both_follow_the_reads(stream: Stream, group: Group) -> None:
    seen = []
    for count in (1, 3, 1, 1):
        group.consumer("c").read(count=count)
        seen.append(progress(group))
    assert seen == [("1-0", 1, 4), ("4-0", 4, 1), ("5-0", 5, 0), ("5-0", 5, 0)]
    fill(stream, 6, 7)
    assert progress(group) == ("5-0", 5, 2)


def test_a_start_within_is_unknown_until_the_end_is_reached(stream: Stream) -> None:
    group = stream.group("g", start="2-0")
    group.consumer("c").read(count=2)
    assert progress(group) == ("4-0", None, None)
    group.consumer("c").read()
    assert progress(group) == ("5-0", 5, 0)


def test_a_deletion_ahead_makes_the_lag_unknown_until_it_is_passed(stream: Stream, group: Group) -> None:
    group.consumer("c").read(count=2)
    stream.delete("4-0")
    assert progress(group) == ("2-0", 2, None)
    group.consumer("c").read(count=1)
    assert progress(group) == ("3-0", None, None)
    group.consumer("c").read(count=1)
    assert progress(group) == ("5-0", 5, 0)


def test_a_deletion_behind_changes_nothing(stream: Stream, group: Group) -> None:
    group.consumer("c").read(count=2)
    stream.delete("1-0")
    assert progress(group) == ("2-0", 2, 3)
    group.consumer("c").read(count=1)
    assert progress(group) == ("3-0", 3, 2)


def test_a_trim_past_it_leaves_what_is_there_as_lag(stream: Stream, group: Group) -> None:
    group.consumer("c").read(count=2)
    stream.trim(maxlen=2)
    assert progress(group) == ("2-0", 2, 2)
    group.consumer("c").read(count=1)
    assert progress(group) == ("4-0", 4, 1)
    stream.trim(maxlen=0)
    assert progress(group) == ("4-0", 4, 0)


def test_deleting_everything_leaves_no_lag(stream: Stream, group: Group) -> None:
    group.consumer("c").read(count=2)
    stream.delete("1-0", "2-0", "3-0", "4-0", "5-0")
    assert progress(group)[2] == 0
    fill(stream, 6, 6)
    assert ids(group.consumer("c").read()) == ["6-0"]
    assert progress(group) == ("6-0", 6, 0)


# --- moving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "last", "lag"),
    [
        ("$", "5-0", 0),
        ("0", "0-0", 5),
        ("-", "0-0", 5),
        ("+", str(MAX_ID), None),
        ("2-0", "2-0", None),
        (b"1", "1-0", 4),
    ],
)
def test_set_id_moves_it_anywhere(group: Group, start: Any, last: str, lag: int | None) -> None:
    group.consumer("c").read(count=3)
    group.set_id(start)
    assert progress(group) == (last, None, lag)
    assert group.info().pending == 3


def test_set_id_says_how_many_came_before(group: Group) -> None:
    group.set_id("3-0", entries_read=3)
    assert progress(group) == ("3-0", 3, 2)
    group.set_id("3-0", entries_read=77)
    assert progress(group) == ("3-0", 5, 0)
    group.set_id("3-0", entries_read=-1)
    assert progress(group) == ("3-0", None, None)


def test_what_is_read_again_after_set_id_changes_hands_and_counts_from_one(group: Group) -> None:
    group.consumer("alice").read()
    group.consumer("alice").read("0")
    group.set_id("0")
    assert given_again(group) == ["1-0", "2-0", "3-0", "4-0", "5-0"]
    assert held(group) == [(f"{n}-0", b"bob", 0, 1) for n in range(1, 6)]
    assert group.info().pending == 5
    assert [(each.name, each.pending) for each in group.consumers()] == [(b"alice", 0), (b"bob", 5)]


def given_again(group: Group) -> list[str]:
    return ids(group.consumer("bob").read())


# --- removing ---------------------------------------------------------------------------------------------------------


def test_destroy_takes_consumers_and_pending_entries_along(store: Store, stream: Stream, group: Group) -> None:
    other = stream.group("other", start="0")
    for each in (group, other):
        each.consumer("c").read(count=3)
    assert group.destroy()
    assert not group.exists()
    assert not group.destroy()
    assert [info.name for info in stream.groups()] == [b"other"]
    assert len(held(other)) == 3
    anew = stream.group("g", start="0")
    assert (anew.consumers(), held(anew), progress(anew)) == ([], [], ("0-0", None, 5))
    assert len(anew.consumer("c").read()) == 5
    assert len(stream) == 5


def test_destroy_wants_a_stream(store: Store) -> None:
    with pytest.raises(NoSuchStreamError):
        store.stream("none").group("g", create=False).destroy()


@pytest.mark.parametrize("emptied_by", ["delete", "trim"])
def test_a_group_stays_with_an_empty_stream(stream: Stream, group: Group, emptied_by: str) -> None:
    group.consumer("c").read()
    if emptied_by == "delete":
        stream.delete(*range(1, 6))
    else:
        stream.trim(maxlen=0)
    assert len(stream) == 0
    assert progress(group) == ("5-0", 5, 0)
    assert len(held(group)) == 5


def test_a_group_goes_with_its_stream(store: Store, stream: Stream, group: Group) -> None:
    group.consumer("c").read()
    store.delete("s")
    assert not group.exists()
    fill(stream, 1, 2)
    assert stream.groups() == []
    anew = stream.group("g", start="0")
    assert (anew.consumers(), held(anew)) == ([], [])


def test_a_group_goes_along_when_its_stream_is_renamed(store: Store, stream: Stream, group: Group) -> None:
    group.consumer("c").read(count=2)
    store.rename("s", "t")
    moved = store.stream("t").group("g", create=False)
    assert held(moved) == [("1-0", b"c", 0, 1), ("2-0", b"c", 0, 1)]
    assert moved.ack("1-0") == 1
    assert ids(moved.consumer("c").read()) == ["3-0", "4-0", "5-0"]
    assert not group.exists()


def test_a_stream_renamed_over_another_brings_its_own_groups(store: Store, stream: Stream, group: Group) -> None:
    group.consumer("c").read()
    other = store.stream("t")
    fill(other, 1, 3)
    other.group("h", start="0").consumer("d").read(count=1)
    store.rename("t", "s")
    assert [(info.name, info.pending) for info in stream.groups()] == [(b"h", 1)]
    stream.group("g", start="0")
    assert held(group) == []


def test_it_says_what_it_is(group: Group) -> None:
    assert repr(group) == "<diskstream.Group b'g' of b's'>"
    assert repr(group.consumer("c")) == "<diskstream.Consumer b'c' of b'g' of b's'>"


# --- moving on without consumers --------------------------------------------------------------------------------------


def test_what_a_trim_took_from_the_middle_is_no_lag_of_who_moves_on_by_itself(store: Store) -> None:
    stream = store.stream("x")
    stream.add_many([{"n": number} for number in range(20)], ids=[f"{number}-0" for number in range(1, 21)])
    stuck = stream.group("stuck", start="0")
    assert len(stuck.consumer("c").read()) == 20
    stuck.ack(*(f"{number}-0" for number in range(2, 21)))
    assert stream.trim(maxlen=5, ref="ACKED") == 15
    assert ids(stream.range()) == ["1-0", "17-0", "18-0", "19-0", "20-0"]
    late = stream.group("late", start="0", entries_read=0)
    assert late.advance("1-0")
    assert progress(late) == ("1-0", 16, 4)
    assert late.advance("18-0")
    assert progress(late) == ("18-0", 18, 2)
    assert not late.advance("17-0")
    assert ids(late.consumer("c").read(count=1)) == ["19-0"]
    assert progress(late) == ("19-0", 19, 1)
    assert late.advance("20-0")
    assert progress(late) == ("20-0", 20, 0)
