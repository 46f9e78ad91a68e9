"""Removing entries with an eye on groups: KEEPREF, DELREF and ACKED, wherever entries are removed."""

from collections.abc import Callable
from typing import Any

import pytest

from diskstream import Consumer, Group, Store, Stream
from diskstream.engine.pending import StreamPending
from tests.engine.sample import log_of
from tests.group_specs.shown import fill, owners
from tests.streams.layers import ids

NUMBERS = list(range(1, 6))


def pending(group: Group) -> list[str]:
    return list(owners(group))


def live(stream: Stream) -> list[str]:
    return ids(stream.range())


def named(*numbers: int) -> list[str]:
    return [f"{number}-0" for number in numbers]


@pytest.fixture
def other(stream: Stream) -> Group:
    """A second group, which has read 1-0 to 3-0 and acknowledged 1-0."""
    made = stream.group("other", start="0")
    made.consumer("carol").read(count=3)
    made.ack("1-0")
    return made


# --- delete_entries ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"ref": "KEEPREF"}])
def test_keepref_leaves_them_pending(
    stream: Stream, group: Group, alice: Consumer, other: Group, options: dict[str, Any]
) -> None:
    alice.read()
    assert stream.delete_entries("1-0", (9, 9), 3, "3-0", **options) == [1, -1, 1, -1]
    assert live(stream) == named(2, 4, 5)
    assert pending(group) == named(1, 2, 3, 4, 5)
    assert pending(other) == named(2, 3)


def test_so_does_a_plain_delete(stream: Stream, group: Group, alice: Consumer) -> None:
    alice.read()
    assert stream.delete("1-0", "2-0") == 2
    assert pending(group) == named(1, 2, 3, 4, 5)


def test_delref_drops_them_everywhere(stream: Stream, group: Group, alice: Consumer, other: Group) -> None:
    alice.read()
    assert stream.delete_entries("1-0", "2-0", "9-9", ref="DELREF") == [1, 1, -1]
    assert live(stream) == named(3, 4, 5)
    assert pending(group) == named(3, 4, 5)
    assert pending(other) == named(3)
    assert (group.info().pending, group.consumers()[0].pending, other.info().pending) == (3, 3, 1)


def test_delref_drops_what_is_pending_of_an_entry_that_is_gone(
    stream: Stream, group: Group, alice: Consumer, other: Group
) -> None:
    alice.read()
    stream.delete("2-0")
    assert stream.delete_entries("2-0", ref="DELREF") == [-1]
    assert pending(group) == named(1, 3, 4, 5)
    assert pending(other) == named(3)


def test_acked_spares_what_some_group_still_needs(stream: Stream, group: Group, alice: Consumer, other: Group) -> None:
    """1-0 is acknowledged by both, 2-0 by one, 4-0 was given to one only, 5-0 to one which acknowledged it."""
    alice.read()
    group.ack("1-0", "2-0", "5-0")
    assert stream.delete_entries(*NUMBERS, ref="ACKED") == [1, 2, 2, 2, 2]
    assert live(stream) == named(2, 3, 4, 5)
    assert (pending(group), pending(other)) == (named(3, 4), named(2, 3))
    other.consumer("carol").read()
    other.ack(*NUMBERS)
    group.ack("3-0")
    assert stream.delete_entries(*NUMBERS, "2-0", ref="ACKED") == [-1, 1, 1, 2, 1, -1]
    assert live(stream) == named(4)


def test_acked_without_groups_deletes(stream: Stream) -> None:
    assert stream.delete_entries("1-0", "9-9", ref="ACKED") == [1, -1]


def test_acked_spares_what_is_yet_to_come(stream: Stream, group: Group, alice: Consumer) -> None:
    """As Redis: an ID behind the last delivered one may be needed, whether there is such an entry or not."""
    alice.read()
    group.ack(*NUMBERS)
    assert stream.delete_entries("9-9", "0-1", ref="ACKED") == [2, -1]


def test_nobodys_entry_is_needed_too(stream: Stream, group: Group, alice: Consumer) -> None:
    alice.read()
    group.nack("1-0")
    group.ack("2-0")
    assert stream.delete_entries("1-0", "2-0", ref="ACKED") == [2, 1]
    assert stream.delete_entries("1-0", ref="DELREF") == [1]
    assert pending(group) == named(3, 4, 5)
    assert group.info().refused == 0


@pytest.mark.parametrize("ref", ["KEEPREF", "DELREF", "ACKED"])
def test_the_greatest_deleted_id_follows_deletes_of_what_was_there(stream: Stream, ref: str) -> None:
    stream.delete_entries("9-9", ref=ref)
    assert str(stream.info().max_deleted_entry_id) == "0-0"
    stream.delete_entries("4-0", "2-0", ref=ref)
    assert str(stream.info().max_deleted_entry_id) == "4-0"
    stream.delete_entries("4-0", "3-0", ref=ref)
    assert str(stream.info().max_deleted_entry_id) == "4-0"
    assert len(stream) == 2


def test_where_there_is_no_stream_there_is_nothing(store: Store) -> None:
    for ref in ("KEEPREF", "DELREF", "ACKED"):
        assert store.stream("none").delete_entries("1-0", "2-0", ref=ref) == [-1, -1]
    assert not store.exists("none")


# --- ack_delete -------------------------------------------------------------------------------------------------------


def test_it_acknowledges_and_deletes_in_one_step(stream: Stream, group: Group, alice: Consumer, other: Group) -> None:
    alice.read(count=3)
    assert group.ack_delete("3-0", "4-0", "9-9", "1-0", "3-0") == [1, -1, -1, 1, -1]
    assert live(stream) == named(2, 4, 5)
    assert (pending(group), pending(other)) == (named(2), named(2, 3))
    assert str(stream.info().max_deleted_entry_id) == "3-0"


@pytest.mark.parametrize("ref", ["KEEPREF", "DELREF", "ACKED"])
def test_it_answers_1_where_the_entry_was_gone_before(stream: Stream, group: Group, alice: Consumer, ref: str) -> None:
    alice.read()
    stream.delete("1-0")
    assert group.ack_delete("1-0", ref=ref) == [1]
    assert pending(group) == named(2, 3, 4, 5)


def test_with_delref_it_drops_them_from_the_other_groups(
    stream: Stream, group: Group, alice: Consumer, other: Group
) -> None:
    alice.read(count=2)
    assert group.ack_delete("2-0", "3-0", ref="DELREF") == [1, -1]
    assert live(stream) == named(1, 3, 4, 5)
    assert (pending(group), pending(other)) == (named(1), named(3))


def test_with_acked_it_deletes_only_what_no_other_group_needs(
    stream: Stream, group: Group, alice: Consumer, other: Group
) -> None:
    alice.read()
    assert group.ack_delete(*NUMBERS[:4], ref="ACKED") == [1, 2, 2, 2]
    assert live(stream) == named(2, 3, 4, 5)
    assert (pending(group), pending(other)) == (named(5), named(2, 3))
    assert other.ack_delete("2-0", "3-0", ref="ACKED") == [1, 1]
    assert live(stream) == named(4, 5)


def test_of_a_group_or_stream_that_is_not_there_nothing_is_pending(store: Store, stream: Stream) -> None:
    assert stream.group("none", create=False).ack_delete("1-0", "2-0") == [-1, -1]
    assert store.stream("none").group("g", create=False).ack_delete("1-0") == [-1]
    assert live(stream) == named(*NUMBERS)


# --- trims ------------------------------------------------------------------------------------------------------------


def by_trim(stream: Stream, **options: Any) -> int:
    return stream.trim(**options)


def by_add(stream: Stream, **options: Any) -> int:
    """Adds 6-0, too: `maxlen` allows for it."""
    before = len(stream)
    if "maxlen" in options:
        options["maxlen"] += 1
    stream.add({"n": 6}, "6-0", **options)
    return before + 1 - len(stream)


def by_add_many(stream: Stream, **options: Any) -> int:
    before = len(stream)
    if "maxlen" in options:
        options["maxlen"] += 2
    stream.add_many([{"n": 6}, {"n": 7}], ids=["6-0", "7-0"], **options)
    return before + 2 - len(stream)


trims = pytest.mark.parametrize("trim", [by_trim, by_add, by_add_many])
Trim = Callable[..., int]


@trims
@pytest.mark.parametrize("options", [{"maxlen": 2}, {"minid": "4-0"}])
def test_a_trim_leaves_them_pending(
    stream: Stream, group: Group, alice: Consumer, trim: Trim, options: dict[str, Any]
) -> None:
    alice.read()
    assert trim(stream, **options) == 3
    assert live(stream)[:2] == named(4, 5)
    assert pending(group) == named(1, 2, 3, 4, 5)
    assert str(stream.info().max_deleted_entry_id) == "0-0"


@trims
@pytest.mark.parametrize("options", [{"maxlen": 2}, {"minid": "4-0"}, {"maxlen": 2, "approximate": True}])
def test_a_trim_with_delref_drops_them_everywhere(
    stream: Stream, group: Group, alice: Consumer, other: Group, trim: Trim, options: dict[str, Any]
) -> None:
    alice.read()
    assert trim(stream, ref="DELREF", **options) == 3
    assert live(stream)[:2] == named(4, 5)
    assert (pending(group), pending(other)) == (named(4, 5), [])
    assert str(stream.info().max_deleted_entry_id) == "0-0"


def test_it_drops_those_of_entries_that_were_deleted_before(stream: Stream, group: Group, alice: Consumer) -> None:
    alice.read()
    stream.delete("1-0", "3-0")
    assert stream.trim(maxlen=2, ref="DELREF") == 1
    assert pending(group) == named(4, 5)


def test_a_trim_of_everything_with_delref_leaves_nothing_pending(
    stream: Stream, group: Group, alice: Consumer, other: Group
) -> None:
    alice.read()
    assert stream.trim(maxlen=0, ref="DELREF") == 5
    assert (pending(group), pending(other)) == ([], [])
    assert (group.info().pending, group.info().lag, other.info().lag) == (0, 0, 0)


@trims
@pytest.mark.parametrize("options", [{"maxlen": 2}, {"minid": "4-0"}, {"maxlen": 2, "approximate": True}])
def test_a_trim_with_acked_spares_what_is_not_acknowledged(
    stream: Stream, group: Group, alice: Consumer, trim: Trim, options: dict[str, Any]
) -> None:
    """By ID nothing newer is taken for what is spared; by length it goes on with newer ones."""
    alice.read()
    group.ack("1-0", "3-0", "4-0")
    newer = "maxlen" in options
    assert trim(stream, ref="ACKED", **options) == (3 if newer else 2)
    assert [entry for entry in live(stream) if entry < "6-0"] == (named(2, 5) if newer else named(2, 4, 5))
    assert pending(group) == named(2, 5)
    assert str(stream.info().max_deleted_entry_id) == "0-0"


def test_with_acked_only_what_every_group_has_acknowledged_goes(
    stream: Stream, group: Group, alice: Consumer, other: Group
) -> None:
    alice.read()
    group.ack(*NUMBERS)
    assert stream.trim(maxlen=0, ref="ACKED") == 1  # the other group has acknowledged 1-0 only
    other.ack("2-0", "3-0")
    assert stream.trim(maxlen=0, ref="ACKED") == 2
    assert live(stream) == named(4, 5)
    assert stream.trim(minid="9-0", ref="ACKED") == 0
    other.destroy()
    assert stream.trim(minid="9-0", ref="ACKED") == 2


def test_with_acked_and_no_groups_it_is_a_trim(stream: Stream) -> None:
    assert stream.trim(maxlen=2, ref="ACKED") == 3
    assert stream.trim(minid="5-0", ref="ACKED") == 1


def test_what_a_group_was_not_given_is_spared(stream: Stream, group: Group, alice: Consumer) -> None:
    alice.read(count=2, noack=True)
    assert stream.trim(maxlen=0, ref="ACKED") == 2
    assert live(stream) == named(3, 4, 5)


@pytest.mark.parametrize("ref", ["DELREF", "ACKED"])
def test_an_approximate_trim_is_exact_then(store: Store, ref: str) -> None:
    stream = store.stream("long")
    fill(stream, 1, 300)
    group = stream.group("g", start="0")
    consumer = group.consumer("c")
    group.ack(*(entry.id for entry in consumer.read(count=300)))
    assert stream.trim(maxlen=7, approximate=True, ref=ref) == 293
    assert live(stream) == named(*range(294, 301))


def test_a_long_trim_with_acked_picks_what_it_may(store: Store) -> None:
    stream = store.stream("long")
    fill(stream, 1, 600)
    groups = [stream.group(name, start="0") for name in ("a", "b")]
    for group, step in zip(groups, (3, 5), strict=True):
        group.consumer("c").read()
        group.ack(*(number for number in range(1, 601) if number % step))
    assert stream.trim(minid="401-0", ref="ACKED") == sum(1 for n in range(1, 401) if n % 3 and n % 5)
    assert live(stream) == named(*(n for n in range(1, 601) if n > 400 or n % 3 == 0 or n % 5 == 0))
    assert [pending(group) for group in groups] == [named(*range(3, 601, 3)), named(*range(5, 601, 5))]


def test_a_trim_with_delref_is_one_frame_with_all_that_it_ends_where_that_is_not_too_much(
    stream: Stream, group: Group, alice: Consumer, other: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who dies between two frames leaves entries pending that are gone."""
    native = log_of(stream._store, stream.name).native
    alice.read()
    before = native.tail[2]
    assert stream.trim(maxlen=3, ref="DELREF") == 2
    assert native.tail[2] == before + 1
    assert (pending(group), pending(other)) == (named(3, 4, 5), named(3))
    monkeypatch.setattr("diskstream.references._AT_ONCE", 2)
    assert stream.trim(maxlen=1, ref="DELREF") == 2
    assert native.tail[2] > before + 2
    assert (pending(group), pending(other)) == (named(5), [])


@pytest.mark.parametrize("how", [{"maxlen": 2}, {"minid": "4-0"}, {"maxlen": 0}], ids=["length", "ID", "all"])
def test_a_trim_with_delref_that_is_stopped_leaves_no_references_behind(
    stream: Stream,
    group: Group,
    alice: Consumer,
    other: Group,
    monkeypatch: pytest.MonkeyPatch,
    how: dict[str, Any],
) -> None:
    """It was two frames: who was killed between them left what was pending of entries that were gone."""
    alice.read()

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StreamPending, "change", stopped)
        with pytest.raises(KeyboardInterrupt):
            stream.trim(**how, ref="DELREF")
    assert live(stream) == pending(group) == named(*NUMBERS)
    kept = [] if how == {"maxlen": 0} else named(4, 5)
    assert stream.trim(**how, ref="DELREF") == 5 - len(kept)
    assert live(stream) == pending(group) == kept
    assert pending(other) == []
    assert group.info().pending == len(kept)
