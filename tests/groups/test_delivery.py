"""A delivery that is copied is the same one; sent to another process it says what it said, and has no group there."""

import copy
import pickle
from multiprocessing import get_context

import pytest

from diskstream import ArgumentTypeError, Delivery, Group, Store


@pytest.fixture
def group(store: Store) -> Group:
    stream = store.stream("x")
    group = stream.group("g", start="0")
    stream.add_many([{"n": number, "größe": "5 µm"} for number in range(3)], ids=["1-0", "2-0", "3-0"])
    assert len(list(group.consumer("c").read())) == 3
    stream.delete("2-0")
    return group


@pytest.fixture
def deliveries(group: Group) -> list[Delivery]:
    """Delivered twice; the second is gone."""
    found = list(group.consumer("c").read(after="0"))
    assert [each.gone for each in found] == [False, True, False]
    assert {each.deliveries for each in found} == {1}
    return found


def told(delivery: Delivery) -> tuple[object, ...]:
    return delivery.id, delivery.pairs, delivery.gone, delivery.idle_ms, delivery.deliveries


def test_it_is_shown_with_what_the_pending_entries_list_says(deliveries: list[Delivery]) -> None:
    """It was shown as the entry alone: nobody saw that it was delivered again, or that the entry is gone."""
    first, gone, _ = deliveries
    assert repr(first) == f"Delivery('1-0', {first.fields!r}, deliveries=1, idle_ms={first.idle_ms})"
    assert repr(gone) == f"Delivery('2-0', {{}}, deliveries=1, idle_ms={gone.idle_ms}, gone=True)"


def test_pickled_it_says_what_it_said(deliveries: list[Delivery]) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(deliveries, protocol))
        assert [type(each) for each in back] == [Delivery] * 3
        assert [told(each) for each in back] == [told(each) for each in deliveries]
        assert back == deliveries


def test_pickled_it_has_no_group_and_says_what_to_do(group: Group, deliveries: list[Delivery]) -> None:
    back = pickle.loads(pickle.dumps(deliveries[0]))
    for call in (back.ack, back.nack):
        with pytest.raises(ArgumentTypeError, match="no group there: acknowledge, or give back, its ID"):
            call()
    assert group.ack(back.id) == 1


def test_a_copy_is_the_same_one(group: Group, deliveries: list[Delivery]) -> None:
    assert copy.copy(deliveries[0]) is deliveries[0]
    first, *_ = copy.deepcopy(deliveries)
    assert first.ack()
    assert group.pending().total == 2


def test_what_other_processes_send_back_is_acknowledged_where_the_store_is_open(
    group: Group, deliveries: list[Delivery]
) -> None:
    with get_context("spawn").Pool(1) as pool:
        back = pool.map(copy.copy, deliveries)  # there and back
    assert [told(each) for each in back] == [told(each) for each in deliveries]
    assert group.ack(*(each.id for each in back)) == 3
