"""Reading as a consumer: new entries, one's own history, what others have had for too long; several streams."""

from typing import Any

import pytest

import diskstream
from diskstream import Consumer, Delivery, Entry, Group, NoGroupError, Store, Stream, delivering
from tests.group_specs.clock import Clock
from tests.group_specs.shown import fill, given, held, owners
from tests.streams.layers import MAX_ID, SMALL, ids, layered, rows, small_store


def shown(found: dict[bytes, list[Delivery]]) -> dict[bytes, list[str]]:
    return {name: ids(entries) for name, entries in found.items()}


# --- new entries ------------------------------------------------------------------------------------------------------


def test_each_entry_is_given_to_one_consumer_in_order(group: Group, alice: Consumer, bob: Consumer) -> None:
    assert ids(alice.read(count=2)) == ["1-0", "2-0"]
    assert ids(bob.read(count=1)) == ["3-0"]
    assert ids(alice.read()) == ["4-0", "5-0"]
    assert (alice.read(), bob.read()) == ([], [])
    assert owners(group) == {"1-0": b"alice", "2-0": b"alice", "3-0": b"bob", "4-0": b"alice", "5-0": b"alice"}


def test_what_is_given_is_an_entry_and_more(group: Group, alice: Consumer) -> None:
    entry = alice.read()[2]
    assert isinstance(entry, Delivery)
    assert isinstance(entry, Entry)
    assert (str(entry.id), entry.fields, entry["n"], entry.pairs) == ("3-0", {b"n": b"3"}, b"3", [(b"n", b"3")])
    assert (entry.gone, entry.idle_ms, entry.deliveries) == (False, 0, 0)
    assert entry.ack()
    assert not entry.ack()
    assert "3-0" not in owners(group)


def test_what_was_given_can_be_given_back(group: Group, alice: Consumer) -> None:
    entry = alice.read()[2]
    assert entry.nack()
    assert owners(group)["3-0"] == b""
    assert entry.ack()
    assert not entry.nack()


def test_it_outlives_its_place_in_the_stream(stream: Stream, group: Group, alice: Consumer) -> None:
    entry = alice.read(count=1)[0]
    stream.delete("1-0")
    assert (entry["n"], entry.gone) == (b"1", False)
    assert entry.ack()


@pytest.mark.parametrize("count", [None, 0, -1, 5, 100])
def test_a_count_that_limits_nothing(alice: Consumer, count: int | None) -> None:
    assert len(alice.read(count=count)) == 5


def test_entries_added_later_are_new(stream: Stream, alice: Consumer) -> None:
    alice.read()
    stream.add({"n": 6}, "6-0")
    assert ids(alice.read()) == ["6-0"]
    fill(stream, 7, 20)
    assert ids(alice.read()) == [f"{n}-0" for n in range(7, 21)]


def test_deleted_and_trimmed_entries_are_passed_over(stream: Stream, alice: Consumer) -> None:
    stream.trim(maxlen=4)
    stream.delete("3-0")
    assert ids(alice.read(count=2)) == ["2-0", "4-0"]
    stream.delete("5-0")
    assert alice.read() == []


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (2, 2), (3, 3), (99, 5)])
def test_a_limit_of_bytes_is_passed_by_one_entry_at_most(alice: Consumer, limit: int, expected: int) -> None:
    """Each entry has two bytes. It stops before the next one when the limit is reached."""
    assert len(alice.read(max_bytes=limit * 2)) == expected
    assert len(alice.read(max_bytes=1)) == (1 if expected < 5 else 0)


def test_what_a_limit_keeps_back_is_not_pending(group: Group, alice: Consumer) -> None:
    assert ids(alice.read(max_bytes=1)) == ["1-0"]
    assert ids(alice.read(max_count=1)) == ["2-0"]
    assert list(owners(group)) == ["1-0", "2-0"]
    assert str(group.info().last_delivered_id) == "2-0"


def test_noack_gives_without_making_it_pending(group: Group, alice: Consumer) -> None:
    assert ids(alice.read(noack=True, count=2)) == ["1-0", "2-0"]
    assert held(group) == []
    info = group.info()
    assert (str(info.last_delivered_id), info.entries_read, info.lag, info.pending) == ("2-0", 2, 3, 0)
    assert alice.read("0") == []
    assert ids(alice.read()) == ["3-0", "4-0", "5-0"]


def test_noack_of_what_is_pending_already_leaves_it_with_whom_it_is(
    group: Group, alice: Consumer, bob: Consumer
) -> None:
    alice.read(count=2)
    group.set_id("0")
    assert len(bob.read(noack=True)) == 5
    assert owners(group) == {"1-0": b"alice", "2-0": b"alice"}


def test_the_greatest_id_stands_for_what_is_new(alice: Consumer) -> None:
    assert ids(alice.read(MAX_ID, count=1)) == ["1-0"]
    assert ids(alice.read(str(MAX_ID), count=1)) == ["2-0"]


def test_a_bytes_position(alice: Consumer) -> None:
    assert ids(alice.read(b">", count=1)) == ["1-0"]
    assert ids(alice.read(b"0")) == ["1-0"]


# --- one's own history ------------------------------------------------------------------------------------------------


def test_the_history_is_what_one_has_behind_the_id(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=2)
    bob.read(count=1)
    alice.read()
    group.ack("4-0")
    assert ids(alice.read("0")) == ["1-0", "2-0", "5-0"]
    assert ids(alice.read("1-0")) == ["2-0", "5-0"]
    assert ids(alice.read("1")) == ["2-0", "5-0"]
    assert ids(alice.read((2, 1))) == ["5-0"]
    assert alice.read("5-0") == []
    assert ids(alice.read("0", count=1)) == ["1-0"]
    assert ids(bob.read("0")) == ["3-0"]


def test_it_counts_as_one_more_delivery_now(group: Group, alice: Consumer, clock: Clock) -> None:
    alice.read(count=2)
    clock.go_on(500)
    assert given(alice.read("0", count=1)) == [("1-0", 500, 1)]
    clock.go_on(20)
    assert held(group) == [("1-0", b"alice", 20, 2), ("2-0", b"alice", 520, 1)]
    assert given(alice.read("0")) == [("1-0", 20, 2), ("2-0", 520, 1)]
    assert held(group) == [("1-0", b"alice", 0, 3), ("2-0", b"alice", 0, 2)]


def test_what_is_gone_is_shown_as_such_and_does_not_count(
    stream: Stream, group: Group, alice: Consumer, clock: Clock
) -> None:
    alice.read()
    stream.delete("2-0")
    stream.trim(minid="2-0")
    clock.go_on(50)
    found = alice.read("0", count=3)
    assert [(str(entry.id), entry.gone, entry.fields) for entry in found] == [
        ("1-0", True, {}),
        ("2-0", True, {}),
        ("3-0", False, {b"n": b"3"}),
    ]
    assert held(group)[:3] == [("1-0", b"alice", 50, 1), ("2-0", b"alice", 50, 1), ("3-0", b"alice", 0, 2)]
    assert found[0].ack()
    assert "1-0" not in owners(group)


def test_it_neither_waits_nor_claims_nor_acknowledges(group: Group, alice: Consumer, bob: Consumer) -> None:
    assert alice.read("0", block=0) == []
    bob.read(count=2)
    assert alice.read("0", claim_ms=0, noack=True, block=0) == []
    alice.read(count=1)
    assert ids(alice.read("0", claim_ms=0, noack=True, block=0)) == ["3-0"]
    assert owners(group) == {"1-0": b"bob", "2-0": b"bob", "3-0": b"alice"}
    assert str(group.info().last_delivered_id) == "3-0"


def test_a_long_history_is_read_in_parts(stream: Stream, group: Group, alice: Consumer, bob: Consumer) -> None:
    fill(stream, 6, 700)
    while alice.read(count=30):
        bob.read(count=7)
    mine = [entry for entry, owner in owners(group).items() if owner == b"alice"]
    found: list[str] = []
    while part := alice.read(found[-1] if found else "0", count=100):
        found += ids(part)
    assert found == mine
    assert len(found) > 500
    assert {row[3] for row in held(group) if row[1] == b"alice"} == {2}
    assert {row[3] for row in held(group) if row[1] == b"bob"} == {1}


# --- several streams --------------------------------------------------------------------------------------------------


@pytest.fixture
def three(store: Store) -> Store:
    """Streams a, b and c, with three entries each and a group `g`."""
    for name in ("a", "b", "c"):
        fill(store.stream(name), 1, 3)
        store.stream(name).group("g", start="0")
    return store


def test_streams_come_in_the_order_asked_for_and_only_with_entries(three: Store) -> None:
    three.stream("b").group("g").set_id("$")
    found = three.read_group("g", "alice", {"c": ">", "b": ">", "a": ">"}, count=2)
    assert list(shown(found).items()) == [(b"c", ["1-0", "2-0"]), (b"a", ["1-0", "2-0"])]
    assert three.read_group("g", "alice", {"b": ">"}) == {}


def test_a_history_that_is_asked_for_is_there_even_when_empty(three: Store) -> None:
    three.read_group("g", "alice", {"a": ">"}, count=1)
    found = three.read_group("g", "alice", {"a": "0", "b": "0", "c": ">"}, count=1)
    assert shown(found) == {b"a": ["1-0"], b"b": [], b"c": ["1-0"]}
    assert shown(three.read_group("g", "bob", {"a": "0", "c": "0"}, block=0)) == {b"a": [], b"c": []}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_count": 2}, {b"b": ["1-0", "2-0"]}),
        ({"max_count": 4}, {b"b": ["1-0", "2-0", "3-0"], b"a": ["1-0"]}),
        ({"max_count": 5, "count": 2}, {b"b": ["1-0", "2-0"], b"a": ["1-0", "2-0"], b"c": ["1-0"]}),
        ({"max_bytes": 1}, {b"b": ["1-0"]}),
        ({"max_bytes": 6}, {b"b": ["1-0", "2-0", "3-0"]}),
        ({"max_bytes": 7}, {b"b": ["1-0", "2-0", "3-0"], b"a": ["1-0"]}),
        ({"max_bytes": 4, "count": 1}, {b"b": ["1-0"], b"a": ["1-0"]}),
    ],
)
def test_limits_over_all_streams_are_used_up_in_their_order(
    three: Store, limits: dict[str, int], expected: dict[bytes, list[str]]
) -> None:
    found = three.read_group("g", "alice", {"b": ">", "a": ">", "c": ">"}, **limits)  # type: ignore[arg-type]  # one of its options, of its kind
    assert shown(found) == expected
    pending = {stream.name: list(owners(stream.group("g"))) for stream in three}
    assert {name: entries for name, entries in pending.items() if entries} == expected


@pytest.mark.parametrize("broken", ["none", "groupless"])
def test_a_stream_without_the_group_spoils_the_whole_call(three: Store, broken: str) -> None:
    fill(three.stream("groupless"), 1, 1)
    with pytest.raises(NoGroupError) as caught:
        three.read_group("g", "alice", {"a": ">", broken: ">", "b": ">"})
    assert caught.value.stream == broken.encode()
    for name in ("a", "b"):
        group = three.stream(name).group("g", create=False)
        assert (held(group), str(group.info().last_delivered_id)) == ([], "0-0")
    assert not three.exists("none")


def test_the_group_has_its_own_consumer_in_each_stream(three: Store) -> None:
    three.read_group("g", b"alice", {"a": ">", "b": ">"}, noack=True, count=1)
    three.read_group(b"g", "bob", {b"b": ">"})
    assert [[each.name for each in stream.group("g").consumers()] for stream in three] == [
        [b"alice"],
        [b"alice", b"bob"],
        [],
    ]


# --- what others have had for too long --------------------------------------------------------------------------------


def test_claim_comes_in_the_order_of_redis(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer, clock: Clock
) -> None:
    """What was given back, the first first; then what was delivered longest ago; then what is new."""
    alice.read(count=4)
    clock.go_on(10)
    alice.claim("1-0")
    clock.go_on(10)
    group.nack("4-0")
    group.nack("2-0")
    clock.go_on(1000)
    assert given(bob.read(claim_ms=1000)) == [
        ("4-0", -1, 1),
        ("2-0", -1, 1),
        ("3-0", 1020, 1),
        ("1-0", 1010, 2),
        ("5-0", 0, 0),
    ]
    assert held(group) == [
        ("1-0", b"bob", 0, 3),
        ("2-0", b"bob", 0, 2),
        ("3-0", b"bob", 0, 2),
        ("4-0", b"bob", 0, 2),
        ("5-0", b"bob", 0, 1),
    ]


def test_the_count_covers_both(group: Group, alice: Consumer, bob: Consumer, clock: Clock) -> None:
    alice.read(count=3)
    clock.go_on(100)
    assert ids(bob.read(claim_ms=100, count=2)) == ["1-0", "2-0"]
    assert ids(bob.read(claim_ms=100, count=2)) == ["3-0", "4-0"]
    assert ids(bob.read(claim_ms=100, max_count=1)) == ["5-0"]


def test_so_do_the_bytes(group: Group, alice: Consumer, bob: Consumer, clock: Clock) -> None:
    alice.read(count=2)
    clock.go_on(100)
    assert ids(bob.read(claim_ms=100, max_bytes=3)) == ["1-0", "2-0"]
    clock.go_on(100)
    assert ids(bob.read(claim_ms=100, max_bytes=5)) == ["1-0", "2-0", "3-0"]


@pytest.mark.parametrize(("idle", "ripe"), [(99, False), (100, True), (101, True)])
def test_it_is_ripe_to_the_millisecond(alice: Consumer, bob: Consumer, clock: Clock, idle: int, ripe: bool) -> None:
    alice.read()
    clock.go_on(idle)
    assert (len(bob.read(claim_ms=100)) == 5) == ripe


def test_ones_own_are_claimed_too(group: Group, alice: Consumer, clock: Clock) -> None:
    alice.read()
    clock.go_on(100)
    assert given(alice.read(claim_ms=100, count=1)) == [("1-0", 100, 1)]
    assert held(group)[0] == ("1-0", b"alice", 0, 2)


def test_what_is_gone_is_passed_over_and_stays_pending(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer
) -> None:
    alice.read(count=3)
    stream.delete("1-0", "3-0")
    group.nack("3-0")
    assert ids(bob.read(claim_ms=0)) == ["2-0", "4-0", "5-0"]
    assert owners(group) == {"1-0": b"alice", "2-0": b"bob", "3-0": b"", "4-0": b"bob", "5-0": b"bob"}


def test_what_is_claimed_is_pending_even_with_noack(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=2)
    assert len(bob.read(claim_ms=0, noack=True)) == 5
    assert owners(group) == {"1-0": b"bob", "2-0": b"bob"}


def test_claiming_does_not_move_the_group(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=2)
    bob.read(claim_ms=0, count=2)
    assert str(group.info().last_delivered_id) == "2-0"
    assert group.info().entries_read == 2


def test_a_history_in_the_same_call_switches_claim_off_for_later_streams(three: Store) -> None:
    for name in ("a", "b", "c"):
        three.read_group("g", "alice", {name: ">"}, count=1)
    found = three.read_group("g", "bob", {"a": ">", "b": "0", "c": ">"}, claim_ms=0, count=2)
    assert shown(found) == {b"a": ["1-0", "2-0"], b"b": [], b"c": ["2-0", "3-0"]}


def test_a_look_that_was_slow_gives_what_is_new_behind_the_last_that_is_ripe(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a reader got the few that were ripe, and none of those behind them."""
    monkeypatch.setattr(delivering, "_HOLD_S", 0.0)
    fill(stream, 6, 9)
    alice.read(count=2)
    clock.go_on(10)
    assert ids(bob.read(count=5, claim_ms=10)) == ["1-0", "2-0", "3-0", "4-0", "5-0"]


def test_so_does_one_behind_what_was_given_back(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "_HOLD_S", 0.0)
    alice.read(count=2)
    alice.nack("1-0", "2-0")
    assert ids(bob.read(count=4, claim_ms=10)) == ["1-0", "2-0", "3-0", "4-0"]


def test_a_look_that_was_slow_goes_past_the_few_that_are_gone(
    stream: Stream, group: Group, alice: Consumer, bob: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a reader got one entry that was ripe in place of the two that it had asked for."""
    monkeypatch.setattr(delivering, "_HOLD_S", 0.0)
    alice.read(count=4)
    stream.delete("1-0", "3-0")
    assert ids(bob.read(count=2, claim_ms=0)) == ["2-0", "4-0"]


@pytest.mark.parametrize("is_slow", [False, True])
def test_many_ripe_entries_are_all_found_before_those_that_are_new(
    stream: Stream,
    group: Group,
    alice: Consumer,
    bob: Consumer,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    is_slow: bool,
) -> None:
    """Also where a look ends early, since it holds the lock for too long."""
    if is_slow:
        monkeypatch.setattr(delivering, "_HOLD_S", 0.0)
    fill(stream, 6, 900)
    alice.read(count=600)
    clock.go_on(10)
    gone = list(range(10, 500, 3))
    stream.delete(*gone)
    found: list[str] = []
    while part := bob.read(claim_ms=10, count=350):
        found += ids(part)
    live = [f"{n}-0" for n in range(1, 901) if n not in set(gone)]
    assert found == live
    assert [row[0] for row in held(group) if row[1] == b"alice"] == [f"{n}-0" for n in gone]


# --- where the entries lie --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pending_rows", [1, 4096])
def test_a_group_reads_through_every_kind_of_segment(tmp_path: Any, clock: Clock, pending_rows: int) -> None:
    with small_store(tmp_path / "store", clock=clock, pending_rows=pending_rows) as store:
        made = layered(store)
        group = made.stream.group("g", start="0")
        found: list[Delivery] = []
        names = ("a", "b", "c")
        while part := group.consumer(names[len(found) % 3]).read(count=13):
            found += part
        assert rows(found) == made.live
        assert [entry.id for entry in group.pending_range(count=1000)] == [entry_id for entry_id, _ in made.live]
        again = [entry for name in names for entry in group.consumer(name).read("0")]
        assert sorted(rows(again)) == made.live
        assert group.ack(*(entry.id for entry in found)) == len(made.live)
        assert group.info().pending == 0


def test_text_where_the_store_decodes(tmp_path: Any) -> None:
    with diskstream.open(tmp_path / "store", decode_responses=True, **SMALL) as store:
        stream = store.stream("s")
        alice = stream.group("g", start="0").consumer("alice")
        stream.add({"rider": "Zoë"}, "1-0")
        expected = {"rider": "Zoë"}
        assert [entry.fields for entry in alice.read()] == [expected]
        assert [entry.fields for entry in alice.read("0")] == [expected]
        assert [entry.fields for entry in alice.claim("1-0")] == [expected]
        assert [entry.fields for entry in alice.autoclaim(0).entries] == [expected]
        stream.delete("1-0")
        assert [entry.fields for entry in alice.read("0")] == [{}]
