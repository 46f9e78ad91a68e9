"""What a producer sends twice is added once."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, EntryID, Store, Stream, idempotence
from tests.group_specs.clock import Clock
from tests.group_specs.shown import fill
from tests.streams.background import Background
from tests.streams.layers import frames, ids, log_of, small_store


def tracked(stream: Stream) -> tuple[int, int, int, int]:
    info = stream.info()
    return info.producers_tracked, info.messages_tracked, info.messages_added, info.messages_duplicate


@pytest.fixture
def orders(store: Store) -> Stream:
    """A stream without entries of its own."""
    return store.stream("orders")


# --- messages with an ID ----------------------------------------------------------------------------------------------


def test_the_second_time_the_first_id_comes_back(orders: Stream, clock: Clock) -> None:
    first = orders.add({"n": 1}, producer="shop", message_id="m1")
    clock.go_on(10)
    assert orders.add({"n": 1}, producer="shop", message_id="m1") == first
    assert orders.add({"other": "fields"}, producer=b"shop", message_id=b"m1") == first
    assert [entry.fields for entry in orders] == [{b"n": b"1"}]
    assert tracked(orders) == (1, 1, 1, 2)
    assert orders.info().entries_added == 1


def test_another_message_or_producer_is_added(orders: Stream) -> None:
    added = [
        orders.add({"n": 1}, producer=producer, message_id=message)
        for producer in ("shop", "depot")
        for message in ("m1", "m2")
    ]
    assert len(set(added)) == len(orders) == 4
    assert tracked(orders) == (2, 4, 4, 0)


def test_appends_without_a_producer_are_never_the_same(orders: Stream) -> None:
    orders.add({"n": 1}, producer="shop", message_id="m1")
    orders.add({"n": 1})
    orders.add({"n": 1})
    assert len(orders) == 3
    assert tracked(orders) == (1, 1, 1, 0)


def test_streams_remember_apart(store: Store) -> None:
    for name in ("a", "b"):
        store.stream(name).add({"n": 1}, producer="shop", message_id="m1")
    assert [len(stream) for stream in store] == [1, 1]


def test_a_duplicate_trims_nothing(orders: Stream) -> None:
    fill(orders, 1, 5)
    first = orders.add({"n": 6}, producer="shop", message_id="m1")
    assert orders.add({"n": 6}, producer="shop", message_id="m1", maxlen=1) == first
    assert orders.add({"n": 6}, producer="shop", message_id="m1", minid="9999999999999", ref="DELREF") == first
    assert len(orders) == 6
    orders.add({"n": 7}, producer="shop", message_id="m2", maxlen=1)
    assert len(orders) == 1


@pytest.mark.parametrize("how", ["delete", "trim", "delete_entries"])
def test_a_message_is_remembered_when_its_entry_is_gone(orders: Stream, how: str) -> None:
    first = orders.add({"n": 1}, producer="shop", message_id="m1")
    assert first is not None
    if how == "delete":
        orders.delete(first)
    elif how == "trim":
        orders.trim(maxlen=0)
    else:
        orders.delete_entries(first, ref="DELREF")
    assert orders.add({"n": 1}, producer="shop", message_id="m1") == first
    assert len(orders) == 0


def test_a_stream_that_is_deleted_forgets(store: Store, orders: Stream) -> None:
    orders.add({"n": 1}, producer="shop", message_id="m1")
    store.delete("orders")
    orders.add({"n": 1}, producer="shop", message_id="m1")
    assert len(orders) == 1
    assert tracked(orders) == (1, 1, 1, 0)


def test_without_a_stream_nothing_is_made_nor_remembered(store: Store, orders: Stream) -> None:
    assert orders.add({"n": 1}, producer="shop", message_id="m1", nomkstream=True) is None
    assert not store.exists("orders")
    assert orders.add({"n": 1}, producer="shop", message_id="m1") is not None
    assert orders.add({"n": 1}, producer="shop", message_id="m1", nomkstream=True) == orders.last_id()
    assert len(orders) == 1


def test_an_append_that_fails_is_not_remembered(orders: Stream) -> None:
    orders.add({"n": 0})
    for broken in ({}, {"n": object()}, [("a",)]):
        with pytest.raises(ArgumentError):
            orders.add(broken, producer="shop", message_id="m1")  # type: ignore[arg-type]  # refused: of a wrong kind
    assert tracked(orders) == (0, 0, 0, 0)
    orders.add({"n": 1}, producer="shop", message_id="m1")
    assert len(orders) == 2


# --- messages told by their fields ------------------------------------------------------------------------------------


def test_without_an_id_the_fields_tell(orders: Stream) -> None:
    first = orders.add({"a": "1", "b": "2"}, producer="shop")
    assert orders.add({"a": "1", "b": "2"}, producer="shop") == first
    assert orders.add({"b": "2", "a": "1"}, producer="shop") == first  # in any order
    assert orders.add([(b"b", b"2"), ("a", bytearray(b"1"))], producer="shop") == first
    assert len(orders) == 1
    assert tracked(orders) == (1, 1, 1, 3)


@pytest.mark.parametrize(
    "fields",
    [
        {"a": "1"},
        {"a": "2", "b": "1"},
        {"a": "1", "b": "2", "c": ""},
        {"a1": "", "b": "2"},
        {"a": "1b2"},
        [("a", "1"), ("b", "2"), ("b", "2")],
        {"A": "1", "b": "2"},
    ],
)
def test_other_fields_are_another_message(orders: Stream, fields: Any) -> None:
    orders.add({"a": "1", "b": "2"}, producer="shop")
    orders.add(fields, producer="shop")
    assert len(orders) == 2


@pytest.mark.parametrize("value", [1, 1.5, -0.0, 10**30, 1e300, "x", b"\xff", memoryview(b"abc")])
def test_a_value_is_the_same_as_what_is_stored_of_it(orders: Stream, value: Any) -> None:
    orders.add({"n": value}, producer="shop")
    stored = next(iter(orders))["n"]
    orders.add({"n": stored}, producer="shop")
    assert len(orders) == 1


def test_fields_that_can_be_read_only_once(orders: Stream) -> None:
    """`add` takes any iterator of pairs."""
    pairs = [("a", "1"), ("b", "2")]
    orders.add(iter(pairs))  # type: ignore[call-overload]  # iterators are taken, and used up
    orders.add(iter(pairs), producer="shop")  # type: ignore[call-overload]  # iterators are taken, and used up
    orders.add(iter(pairs), producer="shop")  # type: ignore[call-overload]  # iterators are taken, and used up
    assert [entry.pairs for entry in orders] == [[(b"a", b"1"), (b"b", b"2")]] * 2


# --- the windows ------------------------------------------------------------------------------------------------------


def test_by_default_a_hundred_messages_for_a_hundred_seconds(orders: Stream) -> None:
    orders.add({"n": 1})
    assert (orders.info().idmp_duration_s, orders.info().idmp_max_size) == (100, 100)


def test_each_producer_has_so_many_messages_the_oldest_goes(orders: Stream) -> None:
    fill(orders, 1, 1)
    orders.configure_idempotence(max_size=2)
    first = [orders.add({"n": 1}, producer="shop", message_id=f"m{number}") for number in range(3)]
    other = orders.add({"n": 1}, producer="depot", message_id="m0")
    assert tracked(orders)[:2] == (2, 3)
    assert orders.add({"n": 1}, producer="shop", message_id="m2") == first[2]
    assert orders.add({"n": 1}, producer="shop", message_id="m1") == first[1]  # asking does not make it younger
    assert orders.add({"n": 1}, producer="depot", message_id="m0") == other
    assert orders.add({"n": 1}, producer="shop", message_id="m0") != first[0]
    assert orders.add({"n": 1}, producer="shop", message_id="m1") != first[1]
    assert tracked(orders)[:2] == (2, 3)


def test_after_its_time_a_message_is_forgotten(orders: Stream, clock: Clock) -> None:
    fill(orders, 1, 1)
    orders.configure_idempotence(duration_s=10)
    first = orders.add({"n": 1}, producer="shop", message_id="m1")
    clock.go_on(9_000)
    assert orders.add({"n": 1}, producer="shop", message_id="m1") == first
    clock.go_on(2_000)  # counted from when it was added, not from when it was asked for
    assert tracked(orders)[:2] == (0, 0)
    assert orders.add({"n": 1}, producer="shop", message_id="m1") != first
    assert tracked(orders) == (1, 1, 2, 1)


def test_a_changed_window_forgets_everything(orders: Stream) -> None:
    first = orders.add({"n": 1}, producer="shop", message_id="m1")
    orders.configure_idempotence(duration_s=100, max_size=100)  # as it was
    assert orders.add({"n": 1}, producer="shop", message_id="m1") == first
    orders.configure_idempotence(duration_s=200)
    assert tracked(orders)[:2] == (0, 0)
    assert (orders.info().idmp_duration_s, orders.info().idmp_max_size) == (200, 100)
    assert orders.add({"n": 1}, producer="shop", message_id="m1") != first
    orders.configure_idempotence(max_size=7)
    assert (orders.info().idmp_duration_s, orders.info().idmp_max_size) == (200, 7)
    assert tracked(orders) == (0, 0, 2, 1)


@pytest.mark.parametrize("limits", [{"duration_s": 1, "max_size": 1}, {"duration_s": 86_400, "max_size": 10_000}])
def test_the_limits_of_the_windows(orders: Stream, limits: dict[str, int]) -> None:
    fill(orders, 1, 1)
    orders.configure_idempotence(**limits)
    for number in range(3):
        orders.add({"n": 1}, producer="shop", message_id=f"m{number}")
    assert tracked(orders)[1] == min(3, limits["max_size"])


# --- noted afterwards -------------------------------------------------------------------------------------------------


def test_an_entry_can_be_noted_as_a_message(orders: Stream, clock: Clock) -> None:
    entry = orders.add({"n": 1})
    assert entry is not None
    orders.record_idempotent("shop", "m1", entry)
    orders.record_idempotent(b"shop", b"m1", str(entry))  # twice is fine
    assert orders.add({"n": 1}, producer="shop", message_id="m1") == entry
    assert len(orders) == 1


def test_a_message_is_one_entrys_only(orders: Stream) -> None:
    first = orders.add({"n": 1}, producer="shop", message_id="m1")
    second = orders.add({"n": 2})
    assert second is not None
    with pytest.raises(ArgumentError, match="IID already exists for this producer with a different stream ID"):
        orders.record_idempotent("shop", "m1", second)
    assert orders.add({"n": 1}, producer="shop", message_id="m1") == first
    orders.record_idempotent("depot", "m1", second)
    assert orders.add({"n": 1}, producer="depot", message_id="m1") == second


# --- what it outlives -------------------------------------------------------------------------------------------------


def test_messages_outlive_rolls_seals_and_an_opening(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "small"
    with small_store(path, clock=clock) as store:
        stream = store.stream("x")
        first = [stream.add({"n": n, "pad": "." * 200}, producer="shop", message_id=f"m{n}") for n in range(90)]
        stream.seal()
        assert stream.info().segments > 2
        assert stream.add({"n": 0}, producer="shop", message_id="m0") == first[0]
    with small_store(path, clock=clock) as store:
        stream = store.stream("x")
        again = [stream.add({"n": n}, producer="shop", message_id=f"m{n}") for n in range(90)]
        assert again == first
        assert tracked(stream)[:3] == (1, 90, 90)


def test_two_openings_share_what_is_remembered(store: Store, orders: Stream, clock: Clock) -> None:
    with diskstream.open(store.path, clock=clock) as other:
        first = orders.add({"n": 1}, producer="shop", message_id="m1")
        assert other.stream("orders").add({"n": 1}, producer="shop", message_id="m1") == first
        second = other.stream("orders").add({"n": 2}, producer="shop", message_id="m2")
        assert orders.add({"n": 2}, producer="shop", message_id="m2") == second
    assert len(orders) == 2


@pytest.mark.parametrize("fsync", ["os", "always"])
def test_of_many_that_send_the_same_at_once_one_adds_it(tmp_path: Path, fsync: str) -> None:
    with diskstream.open(tmp_path / "s", fsync=fsync) as store:
        stream = store.stream("x")

        def send() -> list[EntryID | None]:
            return [stream.add({"n": n}, producer="shop", message_id=f"m{n}") for n in range(40)]

        results = [sender.result() for sender in [Background(send) for _ in range(5)]]
        assert all(result == results[0] for result in results)
        assert ids(stream.range()) == [str(entry_id) for entry_id in sorted(filter(None, results[0]))]
        assert len(stream) == 40
        assert tracked(stream)[3] == 160


def test_names_are_bytes(orders: Stream) -> None:
    names = [b"\x00", b"\xff" * 300, "Zoë".encode()]
    for producer in names:
        for message in names:
            first = orders.add({"n": 1}, producer=producer, message_id=message)
            assert orders.add({"n": 1}, producer=producer, message_id=message) == first
    assert tracked(orders) == (3, 9, 9, 9)


def test_who_made_the_stream_as_another_did_changes_no_windows_that_are_in_use(store: Store, orders: Stream) -> None:
    """A change of the windows forgets what was remembered, and a message that is sent again would be added again."""
    first = orders.add({"n": 1}, producer="shop", message_id="m1")
    idempotence.begin(log_of(store, "orders"), 50, 5)
    assert orders.add({"n": 1}, producer="shop", message_id="m1") == first
    info = orders.info()
    assert (info.idmp_duration_s, info.idmp_max_size) == (100, 100)


def test_windows_that_are_set_as_they_are_write_nothing(store: Store, orders: Stream) -> None:
    orders.add({"n": 1}, producer="shop", message_id="m1")
    before = frames(store, "orders")
    orders.configure_idempotence(duration_s=100)
    assert frames(store, "orders") == before
