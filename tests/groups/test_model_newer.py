"""What the reference says of Redis 8.x and no server of 7.0 can tell: sentence by sentence, of the model."""

from typing import Any

import pytest

from tests.groups.bout import Clock
from tests.groups.model import FOREVER
from tests.groups.model_commands import Model
from tests.groups.ops import op

F = [(b"f", b"1")]
WITHIN: dict[str, Any] = {"key": "s", "group": "g"}


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000)


@pytest.fixture
def model(clock: Clock) -> Model:
    """A stream of 1-0 to 5-0, and a group that has read nothing."""
    made = Model(clock)
    made.run(op("add_many", key="s", entries=[(f"{ms}-0", F) for ms in range(1, 6)]))
    made.run(op("xgroup_create", **WITHIN, id="0"))
    return made


def do(model: Model, name: str, **args: Any) -> Any:
    return model.run(op(name, **{**WITHIN, **args}))


def read(model: Model, count: int | None = None, consumer: str = "c", after: str = ">", **more: Any) -> Any:
    reply = model.run(op("xreadgroup", group="g", consumer=consumer, streams=[("s", after)], count=count, **more))
    return [] if reply is None else [[entry[0], *entry[2:]] for entry in reply[0][1]]


def pending(model: Model) -> list[Any]:
    found: list[Any] = do(model, "xpending_range", start="-", end="+", count=100)
    return found


def group(model: Model) -> tuple[Any, Any]:
    info = model.run(op("xinfo_groups", key="s"))[0]
    return info[b"entries-read"], info[b"lag"]


# --- how far a group has read -----------------------------------------------------------------------------------------


def test_a_group_that_reads_on_counts_what_it_reads(model: Model) -> None:
    assert group(model) == (None, 5)
    read(model, 2)
    assert group(model) == (2, 3)
    read(model)
    assert group(model) == (5, 0)


def test_an_entry_deleted_ahead_makes_the_counter_unknown_until_the_end(model: Model) -> None:
    read(model, 1)
    model.run(op("xdel", key="s", ids=["3-0"]))
    assert group(model) == (1, None)
    read(model, 1)
    assert group(model) == (None, None)
    read(model)
    assert group(model) == (5, 0)


def test_behind_all_that_is_left_a_group_lags_by_its_length(model: Model) -> None:
    model.run(op("xtrim", key="s", trim=("MAXLEN", "", 2)))
    assert group(model) == (None, 2)
    read(model, 1)
    assert group(model) == (4, 1)


def test_an_empty_stream_has_no_lag(model: Model) -> None:
    model.run(op("xtrim", key="s", trim=("MAXLEN", "", 0)))
    assert group(model) == (None, 0)


def test_entries_read_is_no_more_than_were_added(model: Model) -> None:
    do(model, "xgroup_setid", id="2-0", entries_read=99)
    assert group(model) == (5, 0)


# --- consumers --------------------------------------------------------------------------------------------------------


def consumers(model: Model) -> list[Any]:
    found = do(model, "xinfo_consumers")
    return [[known[name] for name in (b"name", b"idle", b"inactive")] for known in found]


def test_an_attempt_makes_the_consumer_and_a_delivery_makes_it_active(model: Model, clock: Clock) -> None:
    do(model, "xclaim", consumer="c", min_idle=0, ids=["1-0"])
    assert consumers(model) == [[b"c", 0, -1]]
    clock.now += 5
    read(model, 1, noack=True)
    assert consumers(model) == [[b"c", 0, -1]]
    read(model, 1)
    clock.now += 3
    read(model, after="0")
    assert consumers(model) == [[b"c", 0, 3]]


# --- claiming reads ---------------------------------------------------------------------------------------------------


def test_a_claiming_read_takes_what_was_refused_then_what_is_oldest_then_what_is_new(
    model: Model, clock: Clock
) -> None:
    read(model, 4, "d")
    do(model, "xclaim", consumer="d", min_idle=0, ids=["2-0"], time=900, justid=True)
    do(model, "xnack", mode="FAIL", ids=["4-0", "3-0"])
    clock.now += 10
    assert read(model, claim=10) == [
        [b"4-0", -1, 1],
        [b"3-0", -1, 1],
        [b"2-0", 110, 1],
        [b"1-0", 10, 1],
        [b"5-0", 0, 0],
    ]
    assert [row[1:] for row in pending(model)] == [[b"c", 0, 2]] * 4 + [[b"c", 0, 1]]


def test_claimed_and_new_entries_share_a_count_and_what_is_gone_stays_pending(model: Model, clock: Clock) -> None:
    read(model, 3, "d")
    model.run(op("xdel", key="s", ids=["1-0"]))
    clock.now += 10
    assert [entry[0] for entry in read(model, 3, claim=10)] == [b"2-0", b"3-0", b"4-0"]
    assert pending(model)[0][:2] == [b"1-0", b"d"]


def test_noack_is_not_for_what_is_claimed(model: Model, clock: Clock) -> None:
    read(model, 1, "d")
    clock.now += 10
    assert len(read(model, claim=10, noack=True)) == 5
    assert [row[:2] for row in pending(model)] == [[b"1-0", b"c"]]


def test_limits_over_all_streams_leave_the_rest_unread(model: Model) -> None:
    model.run(op("add_many", key="t", entries=[("1-0", F), ("2-0", F)]))
    model.run(op("xgroup_create", key="t", group="g", id="0"))
    streams = [("t", ">"), ("s", ">")]
    reply = model.run(op("xreadgroup", group="g", consumer="c", streams=streams, max_count=3))
    assert [[name, [entry[0] for entry in found]] for name, found in reply] == [
        [b"t", [b"1-0", b"2-0"]],
        [b"s", [b"1-0"]],
    ]
    assert len(read(model, max_bytes=3)) == 2  # an entry has two bytes: the second goes over
    assert group(model) == (3, 2)


# --- refusing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "retry", "deliveries"),
    [("SILENT", None, 1), ("FAIL", None, 2), ("FATAL", None, FOREVER), ("FATAL", 7, 7)],
)
def test_what_is_refused_is_nobodys(model: Model, mode: str, retry: int | None, deliveries: int) -> None:
    read(model, 1)
    read(model, 1, after="0")
    assert do(model, "xnack", mode=mode, ids=["1-0", "2-0"], retry=retry) == 1
    assert pending(model) == [[b"1-0", b"", -1, deliveries]]
    assert do(model, "xpending") == [1, b"1-0", b"1-0", None]
    do(model, "xautoclaim", consumer="c", min_idle=99, start="-")
    assert pending(model) == [[b"1-0", b"c", 0, min(deliveries + 1, FOREVER)]]


# --- references -------------------------------------------------------------------------------------------------------


def test_a_group_that_has_still_to_read_an_entry_refers_to_it_even_where_there_is_none(model: Model) -> None:
    assert model.run(op("xdelex", key="s", ids=["5-0", "9-0"], ref="ACKED")) == [2, 2]
    read(model, 2)
    do(model, "xack", ids=["1-0"])
    assert model.run(op("xdelex", key="s", ids=["0-1", "1-0", "2-0"], ref="ACKED")) == [-1, 1, 2]


def test_delref_takes_pending_entries_with_it_also_of_what_is_gone(model: Model) -> None:
    read(model, 2)
    model.run(op("xdel", key="s", ids=["1-0"]))
    assert model.run(op("xdelex", key="s", ids=["1-0", "2-0"], ref="DELREF")) == [-1, 1]
    assert pending(model) == []


def test_xackdel_says_deleted_even_where_nothing_was_left(model: Model) -> None:
    read(model, 2)
    model.run(op("xdel", key="s", ids=["1-0"]))
    model.run(op("xgroup_create", key="s", group="h", id="0"))
    assert do(model, "xackdel", ids=["1-0", "3-0"]) == [1, -1]
    assert do(model, "xackdel", ids=["2-0"], ref="ACKED") == [2]
    assert model.run(op("xackdel", key="s", group="none", ids=["2-0", "3-0"])) == [-1, -1]


def test_a_trim_of_what_is_acknowledged_goes_on_behind_what_is_not(model: Model) -> None:
    read(model, 3)
    do(model, "xack", ids=["1-0", "3-0"])
    assert model.run(op("xtrim", key="s", trim=("MAXLEN", "~", 0), ref="ACKED")) == 2
    left = model.run(op("xrange", key="s", start="-", end="+"))
    assert [entry[0] for entry in left] == [b"2-0", b"4-0", b"5-0"]
    assert model.run(op("xinfo_stream", key="s"))[b"max-deleted-entry-id"] == b"0-0"


# --- idempotence ------------------------------------------------------------------------------------------------------


def send(model: Model, message: str | None, fields: Any = F, **more: Any) -> Any:
    return model.run(op("xadd", key="s", id="*", fields=fields, producer="p", message=message, **more))


def test_a_message_that_came_before_adds_and_trims_nothing_even_where_its_entry_is_gone(model: Model) -> None:
    assert send(model, "1") == b"1000-0"
    model.run(op("xdel", key="s", ids=["1000-0"]))
    assert send(model, "1", trim=("MAXLEN", "", 0)) == b"1000-0"
    info = model.run(op("xinfo_stream", key="s"))
    assert [info[name] for name in (b"length", b"iids-tracked", b"iids-added", b"iids-duplicates")] == [5, 1, 1, 1]


def test_without_a_message_id_the_fields_are_it_in_any_order(model: Model) -> None:
    pairs = [(b"a", b"1"), (b"b", b"2")]
    assert send(model, None, pairs) == send(model, None, pairs[::-1]) == b"1000-0"
    assert send(model, None, [(b"a", b"2"), (b"b", b"1")]) == b"1000-1"


def test_a_producer_is_remembered_by_number_and_by_time_until_either_is_changed(model: Model, clock: Clock) -> None:
    model.run(op("xcfgset", key="s", duration=1, maxsize=2))
    assert [send(model, name) for name in "123"] == [b"1000-0", b"1000-1", b"1000-2"]
    assert [send(model, name) for name in "231"] == [b"1000-1", b"1000-2", b"1000-3"]
    clock.now += 1_001
    assert send(model, "1") == b"2001-0"
    model.run(op("xcfgset", key="s", duration=1, maxsize=2))
    assert send(model, "1") == b"2001-0"
    model.run(op("xcfgset", key="s", maxsize=3))
    assert send(model, "1") == b"2001-1"
