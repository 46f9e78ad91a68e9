"""Giving entries back: nack."""

from typing import Any

import pytest

from diskstream import ArgumentError, Consumer, Group, NoGroupError, Stream
from tests.group_specs.clock import Clock
from tests.group_specs.shown import fill, given, held, owners
from tests.streams.layers import ids

MOST = 2**63 - 1


def test_what_is_given_back_is_nobodys(group: Group, alice: Consumer, clock: Clock) -> None:
    alice.read(count=3)
    clock.go_on(100)
    assert group.nack("1-0", "3-0") == 2
    assert held(group) == [("1-0", b"", -1, 1), ("2-0", b"alice", 100, 1), ("3-0", b"", -1, 1)]
    assert [entry.delivered_ms for entry in group.pending_range()] == [0, clock.now - 100, 0]
    info = group.info()
    assert (info.pending, info.refused) == (3, 2)
    assert [(each.name, each.pending) for each in group.consumers()] == [(b"alice", 1)]
    assert ids(alice.read("0")) == ["2-0"]
    assert [str(entry.id) for entry in alice.pending_range()] == ["2-0"]


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [
        ("FAIL", 1, 1),
        ("FAIL", 7, 7),
        ("SILENT", 1, 0),
        ("SILENT", 7, 6),
        ("SILENT", 0, 0),
        ("FATAL", 1, MOST),
        ("FATAL", MOST, MOST),
        ("SILENT", MOST, MOST - 1),
    ],
)
def test_the_mode_says_what_becomes_of_the_count(
    group: Group, alice: Consumer, mode: str, before: int, after: int
) -> None:
    alice.read(count=1)
    alice.claim("1-0", retry_count=before)
    assert alice.nack("1-0", mode=mode) == 1
    assert held(group) == [("1-0", b"", -1, after)]


@pytest.mark.parametrize("mode", ["FAIL", "SILENT", "FATAL"])
def test_a_count_that_is_said_goes_before_the_mode(group: Group, alice: Consumer, mode: str) -> None:
    alice.read(count=1)
    assert group.nack("1-0", mode=mode, retry_count=5) == 1
    assert held(group) == [("1-0", b"", -1, 5)]
    assert group.nack("1-0", mode=mode, retry_count=0) == 1
    assert held(group) == [("1-0", b"", -1, 0)]


@pytest.mark.parametrize("mode", ["fail", "", [], None, 1])
def test_a_mode_that_is_none_is_an_error_and_changes_nothing(group: Group, alice: Consumer, mode: Any) -> None:
    alice.read(count=1)
    before = held(group)
    with pytest.raises(ArgumentError, match="mode must be SILENT, FAIL, or FATAL"):
        group.nack("1-0", mode=mode)
    assert held(group) == before


def test_a_delivery_can_be_given_back_in_each_mode(group: Group, alice: Consumer) -> None:
    entries = alice.read(count=3)
    assert [entry.nack(mode) for entry, mode in zip(entries, ("FAIL", "SILENT", "FATAL"), strict=True)] == [True] * 3
    assert [row[3] for row in held(group)] == [1, 0, MOST]


def test_anyone_may_give_back_and_acknowledge(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=2)
    assert bob.nack("1-0", "2-0") == 2
    assert bob.ack("1-0") == 1
    assert held(group) == [("2-0", b"", -1, 1)]
    assert group.info().refused == 1


def test_what_is_not_pending_cannot_be_given_back(group: Group, alice: Consumer) -> None:
    alice.read(count=1)
    assert group.nack("2-0", "9-9") == 0
    group.ack("1-0")
    assert group.nack("1-0") == 0
    assert held(group) == []


@pytest.mark.parametrize(("options", "count"), [({}, 0), ({"mode": "FATAL"}, MOST), ({"retry_count": 4}, 4)])
def test_unless_by_force_if_it_exists(
    stream: Stream, group: Group, alice: Consumer, options: dict[str, Any], count: int
) -> None:
    alice.read(count=1)
    stream.delete("3-0")
    assert group.nack("2-0", "3-0", "9-9", force=True, **options) == 1
    assert held(group) == [("1-0", b"alice", 0, 1), ("2-0", b"", -1, count)]
    assert group.info().pending == 2


def test_the_next_reader_that_claims_gets_them_first_come_first_served(
    group: Group, alice: Consumer, bob: Consumer, clock: Clock
) -> None:
    alice.read(count=4)
    for entry in ("3-0", "1-0", "4-0"):
        group.nack(entry)
        clock.go_on(1)
    assert given(bob.read(claim_ms=100_000, count=2)) == [("3-0", -1, 1), ("1-0", -1, 1)]
    group.nack("3-0")
    assert ids(bob.read(claim_ms=100_000)) == ["4-0", "3-0", "5-0"]
    assert group.info().refused == 0


def test_ids_of_one_call_queue_in_its_order(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read()
    group.nack("4-0", "2-0")
    group.nack("5-0", "1-0")
    assert ids(bob.read(claim_ms=100_000)) == ["4-0", "2-0", "5-0", "1-0"]


def test_a_clock_that_steps_back_does_not_mix_up_the_queue(
    group: Group, alice: Consumer, bob: Consumer, clock: Clock
) -> None:
    alice.read()
    for entry in ("5-0", "1-0", "3-0"):
        group.nack(entry)
        clock.now -= 1000
    assert ids(bob.read(claim_ms=100_000)) == ["5-0", "1-0", "3-0"]


@pytest.mark.parametrize("claim_ms", [10**9, 2**63 - 1])
def test_nobodys_entries_are_given_however_long_others_may_have_theirs(
    group: Group, alice: Consumer, bob: Consumer, claim_ms: int
) -> None:
    """Even for longer than since 1970."""
    alice.read()
    group.nack("2-0")
    assert ids(bob.read(claim_ms=claim_ms)) == ["2-0"]


def test_a_reader_that_does_not_claim_does_not_get_them(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=2)
    group.nack("1-0")
    assert ids(bob.read()) == ["3-0", "4-0", "5-0"]


def test_the_count_goes_on_with_the_next_delivery(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=2)
    group.nack("1-0", mode="SILENT")
    group.nack("2-0", mode="FATAL")
    bob.read(claim_ms=0, count=2)
    assert held(group) == [("1-0", b"bob", 0, 1), ("2-0", b"bob", 0, MOST)]


def test_removing_the_consumer_does_not_take_what_it_gave_back(group: Group, alice: Consumer) -> None:
    alice.read()
    group.nack("2-0")
    assert group.delete_consumer("alice") == 4
    assert held(group) == [("2-0", b"", -1, 1)]
    assert (group.info().pending, group.info().refused) == (1, 1)


def test_the_summary_counts_them_for_nobody(group: Group, alice: Consumer) -> None:
    alice.read(count=3)
    group.nack("1-0", "3-0")
    summary = group.pending()
    assert (summary.total, str(summary.first), str(summary.last)) == (3, "1-0", "3-0")
    assert summary.consumers == {b"alice": 1}


def test_there_must_be_a_group(stream: Stream) -> None:
    with pytest.raises(NoGroupError):
        stream.group("g", create=False).nack("1-0")


def test_a_long_queue_keeps_its_order(stream: Stream, group: Group, alice: Consumer, bob: Consumer) -> None:
    fill(stream, 6, 500)
    alice.read()
    order = [(number * 7) % 499 + 1 for number in range(499)]
    for at in range(0, 499, 50):
        group.nack(*order[at : at + 50])
    assert group.info().refused == 499
    found: list[str] = []
    while part := bob.read(claim_ms=100_000, count=40):
        found += ids(part)
    assert found == [f"{number}-0" for number in order]
    assert owners(group)["500-0"] == b"alice"
