"""Retention with an eye on groups: DELREF ends what is pending, ACKED spares what is not acknowledged."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diskstream import EntryID, RetentionReport, Store, Stream, retaining
from diskstream.engine import limits
from tests.streams.layers import ids, log_of, small_store
from tests.streams.test_retention import applied, fill


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with small_store(tmp_path / "store", retention_interval_ms=0, pending_rows=50) as opened:
        yield opened


def pending(stream: Stream, group: str) -> list[EntryID]:
    return [row.id for row in stream.group(group, create=False).pending_range(count=10**6)]


# --- KEEPREF and DELREF -----------------------------------------------------------------------------------------------


def test_with_keepref_what_is_pending_stays_pending(store: Store) -> None:
    stream = store.stream("x")
    added = fill(stream, 200)
    stream.group("g", start="0").consumer("c").read(count=120)
    stream.set_retention(max_entries=100)
    assert applied(stream) == RetentionReport(removed=100)
    assert pending(stream, "g") == added[:120]


@pytest.mark.parametrize("limit", [None, 7])
def test_with_delref_what_goes_is_pending_no_more_in_any_group(store: Store, limit: int | None) -> None:
    stream = store.stream("x")
    added = fill(stream, 200)
    for group in ("g", "h"):
        stream.group(group, start="0").consumer("c").read(count=120)
    stream.set_retention(max_entries=100, ref="DELREF")
    assert applied(stream, limit=limit) == RetentionReport(removed=100, references=200)
    assert pending(stream, "g") == pending(stream, "h") == added[100:120]
    assert [(info.pending, info.name) for info in stream.groups()] == [(20, b"g"), (20, b"h")]


def test_each_step_of_delref_ends_so_many_at_most(store: Store) -> None:
    stream = store.stream("x")
    fill(stream, 200)
    stream.group("g", start="0").consumer("c").read(count=200)
    stream.set_retention(max_entries=1, ref="DELREF")
    steps = 0
    while (report := stream.apply_retention(limit=9)).more:
        assert report.references <= 9
        steps += 1
    assert steps >= 199 // 9
    assert len(pending(stream, "g")) == 1


def test_what_an_earlier_step_left_pending_is_ended_by_the_next(store: Store) -> None:
    """As where a process died between both, or the rule was another one then."""
    stream = store.stream("x")
    added = fill(stream, 200)
    stream.group("g", start="0").consumer("c").read(count=120)
    assert stream.trim(maxlen=150) == 50
    stream.set_retention(max_entries=150, ref="DELREF")
    assert applied(stream) == RetentionReport(references=50)
    assert pending(stream, "g") == added[50:120]


def test_what_is_given_out_later_is_ended_when_it_goes(store: Store) -> None:
    stream = store.stream("x")
    group = stream.group("g", start="0")
    stream.set_retention(max_entries=10, ref="DELREF")
    for _ in range(3):
        added = fill(stream, 40)
        group.consumer("c").read(count=40)
        applied(stream)
        assert pending(stream, "g") == added[30:]


def test_what_users_deleted_one_by_one_stays_pending_until_a_trim_has_passed_it(store: Store) -> None:
    stream = store.stream("x")
    added = fill(stream, 100)
    stream.group("g", start="0").consumer("c").read(count=100)
    stream.delete(*added[:20], *added[90:])
    stream.set_retention(max_entries=75, ref="DELREF")
    assert applied(stream) == RetentionReport()
    assert pending(stream, "g") == added
    stream.set_retention(max_entries=65, ref="DELREF")
    assert applied(stream) == RetentionReport(removed=5, references=25)
    assert pending(stream, "g") == added[25:]


# --- ACKED ------------------------------------------------------------------------------------------------------------


def test_without_a_group_nobody_needs_anything(store: Store) -> None:
    stream = store.stream("x")
    added = fill(stream, 200)
    stream.set_retention(max_entries=10, ref="ACKED")
    assert applied(stream).removed == 190
    assert ids(stream) == [str(entry_id) for entry_id in added[190:]]


def test_what_a_group_was_not_given_stays(store: Store) -> None:
    stream = store.stream("x")
    added = fill(stream, 200)
    quick = stream.group("quick", start="0")
    for delivery in quick.consumer("c").read(count=200):
        delivery.ack()
    slow = stream.group("slow", start="0")
    stream.set_retention(max_entries=10, ref="ACKED")
    assert applied(stream).removed == 0
    slow.consumer("c").read(count=60, noack=True)
    assert applied(stream).removed == 60
    assert ids(stream)[0] == str(added[60])
    slow.set_id("$")
    assert applied(stream).removed == 130


@pytest.mark.parametrize("limit", [None, 1, 13])
def test_what_is_pending_stays_and_what_lies_between_goes(store: Store, limit: int | None) -> None:
    stream = store.stream("x")
    added = fill(stream, 200)
    stuck = {added[0], added[3], added[70], added[71], added[155]}
    group = stream.group("g", start="0")
    group.consumer("c").read(count=180)
    group.ack(*[entry_id for entry_id in added[:180] if entry_id not in stuck])
    stream.set_retention(max_entries=50, ref="ACKED")
    assert stream.apply_retention(dry_run=True).removed == 146
    assert applied(stream, limit=limit).removed == 146
    assert ids(stream) == [str(entry_id) for entry_id in sorted(stuck - {added[155]}) + added[150:]]
    group.ack(*stuck)
    assert applied(stream, limit=limit).removed == 4
    assert len(stream) == 50


def test_the_search_goes_on_where_it_was_and_rests_when_there_is_nothing_new(store: Store) -> None:
    stream = store.stream("x")
    fill(stream, 200)
    stream.group("g", start="0").consumer("c").read(count=200)
    stream.set_retention(max_entries=1, ref="ACKED")
    steps = 1
    while stream.apply_retention(limit=20).more:
        steps += 1
    assert steps == 10, "one pass over the 199 that may go, twenty at a time"
    before = log_of(store).native.tail[2]
    assert stream.apply_retention(limit=20) == RetentionReport(), "it does not begin anew"
    assert log_of(store).native.tail[2] == before, "a search that finds nothing writes nothing"
    stream.add({"n": 1})
    assert stream.apply_retention(limit=20).more, "something new was said"


def test_a_group_that_is_made_between_look_and_lock_is_heeded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = store.stream("x")
    fill(stream, 105)
    stream.set_retention(max_entries=10, ref="ACKED")
    place_of = limits.place_of

    def place_then_make(*arguments: Any) -> Any:
        found = place_of(*arguments)
        stream.group("late", start="0")
        return found

    monkeypatch.setattr(limits, "place_of", place_then_make)
    assert applied(stream).removed == 0
    assert len(stream) == 110


def test_a_group_that_is_set_back_during_the_search_is_heeded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = store.stream("x")
    added = fill(stream, 100)
    group = stream.group("g", start="0")
    group.consumer("c").read(count=100)
    group.ack(*added[1:])
    stream.set_retention(max_entries=10, ref="ACKED")
    places = retaining._places

    def look_then_set_back(*arguments: Any) -> Any:
        found = places(*arguments)
        group.set_id(added[20])
        return found

    monkeypatch.setattr(retaining, "_places", look_then_set_back)
    assert stream.apply_retention().removed == 20
    assert ids(stream) == [str(entry_id) for entry_id in [added[0], *added[21:]]]


def test_what_was_given_back_stays_too(store: Store) -> None:
    stream = store.stream("x")
    added = fill(stream, 100)
    group = stream.group("g", start="0")
    group.consumer("c").read(count=100)
    group.ack(*added[1:])
    group.nack(added[0])
    stream.set_retention(max_entries=10, ref="ACKED")
    assert applied(stream).removed == 89
    assert ids(stream)[0] == str(added[0])


def test_pending_entries_that_are_gone_hold_nothing_back(store: Store) -> None:
    stream = store.stream("x")
    added = fill(stream, 100)
    group = stream.group("g", start="0")
    group.consumer("c").read(count=100)
    stream.delete(*added[:5])
    group.ack(*added[5:])
    stream.set_retention(max_entries=10, ref="ACKED")
    first = stream.apply_retention()
    assert first.removed == 85
    assert len(stream) == 10


def test_all_limits_go_by_it_together(store: Store) -> None:
    stream = store.stream("x")
    for n in range(1, 101):
        stream.add({"n": n}, f"{n}-0")
    group = stream.group("g", start="0")
    group.consumer("c").read(count=100)
    group.ack(*[f"{n}-0" for n in range(1, 101) if n % 10])
    stream.set_retention(max_age_ms=1, max_bytes=1, ref="ACKED")
    applied(stream)
    assert ids(stream) == [f"{n}-0" for n in range(10, 101, 10)]


def test_what_grows_too_old_is_searched_though_the_log_says_nothing_new(tmp_path: Path) -> None:
    clock = [1000]
    with small_store(tmp_path / "s", retention_interval_ms=0, clock=lambda: clock[0]) as store:
        stream = store.stream("x")
        for n in range(1, 101):
            stream.add({"n": n}, f"{n}-0")
        group = stream.group("g", start="0")
        group.consumer("c").read(count=100)
        group.ack(*[f"{n}-0" for n in range(50, 101)])
        stream.set_retention(max_age_ms=960, ref="ACKED")
        assert applied(stream).removed == 0
        clock[0] = 1020
        assert applied(stream).removed == 10
        assert ids(stream)[48:50] == ["49-0", "60-0"]


@pytest.mark.parametrize("seed", range(6))
def test_against_a_plain_list(store: Store, seed: int) -> None:
    """At random: reads, acknowledgements, new and removed groups, deletes, seals; steps of any size in between."""
    rng = random.Random(seed)
    stream = store.stream("x")
    keep, live, given, acked = 60, list[EntryID](), dict[str, int](), dict[str, set[EntryID]]()
    added = list[EntryID]()
    for _ in range(120):
        act = rng.randrange(7)
        if act < 2:
            fresh = fill(stream, 10 * rng.randrange(1, 4))
            added += fresh
            live += fresh
        elif act == 2 and len(given) < 3:
            name = f"g{rng.randrange(10**9)}"
            start = rng.choice(["0", "$"])
            stream.create_group(name, start, mkstream=True)
            given[name] = 0 if start == "0" else len(added)
            acked[name] = set()
        elif act == 3 and given:
            name = rng.choice(sorted(given))
            for delivery in stream.group(name, create=False).consumer("c").read(count=rng.randrange(1, 90)):
                given[name] = added.index(delivery.id) + 1
                if rng.random() < 0.9:
                    delivery.ack()
                    acked[name].add(delivery.id)
                else:
                    acked[name].discard(delivery.id)
        elif act == 4 and live:
            gone = rng.sample(live, min(len(live), 3))
            stream.delete(*gone)
            live = [entry_id for entry_id in live if entry_id not in gone]
        elif act == 5:
            stream.seal()
            stream.compact()
        elif act == 6 and given and rng.random() < 0.3:
            name = rng.choice(sorted(given))
            stream.group(name, create=False).destroy()
            del given[name], acked[name]
        if not added:
            continue
        stream.set_retention(max_entries=keep, ref="ACKED")
        applied(stream, limit=rng.choice([1, 5, 50, None]))
        old, new = live[:-keep], live[-keep:]
        held = {name: set(pending(stream, name)) for name in given}

        def needed(entry_id: EntryID, held: dict[str, set[EntryID]] = held) -> bool:
            place = added.index(entry_id)
            return any(place >= given[name] or entry_id in held[name] for name in given)

        live = [entry_id for entry_id in old if needed(entry_id)] + new
        assert ids(stream) == [str(entry_id) for entry_id in live]
