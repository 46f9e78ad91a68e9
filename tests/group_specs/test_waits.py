"""How consumers wait: not in a hurry, not for nobody, and in the queue of the group that there is now."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from diskstream import Group, NoGroupError, Stream, aio, group_calls
from tests.group_specs.clock import Clock
from tests.streams.layers import ids

Waits = Callable[[Sequence[Any], Sequence[Any], float], None]


@pytest.fixture
def group(stream: Stream) -> Group:
    """To which there is nothing new yet."""
    return stream.group("g")


def waiting_by(monkeypatch: pytest.MonkeyPatch, *steps: Waits) -> None:
    """What each wait of a call does, one after the other."""
    left = iter(steps)

    def run_next(turns: Sequence[Any], bells: Sequence[Any], slice_s: float) -> None:
        next(left)(turns, bells, slice_s)

    monkeypatch.setattr(group_calls, "wait_turns", run_next)


@pytest.mark.parametrize("claim_ms", [0, 5])
def test_who_claims_does_not_spin_for_an_entry_that_is_gone(
    stream: Stream, group: Group, clock: Clock, monkeypatch: pytest.MonkeyPatch, claim_ms: int
) -> None:
    """It was ripe, and not to be had: two thousand looks a second, for as long as it was pending."""
    stream.add({"n": 6}, "6-0")
    group.consumer("alice").read()
    stream.delete("6-0")
    clock.go_on(claim_ms)
    slices: list[float] = []
    stop = threading.Event()

    def wait(_turns: Sequence[Any], _bells: Sequence[Any], slice_s: float) -> None:
        slices.append(slice_s)
        if len(slices) == 3:
            stop.set()

    waiting_by(monkeypatch, wait, wait, wait)
    found = stream._store.read_group("g", "bob", {"s": ">"}, block=0, claim_ms=claim_ms, stop=stop)
    assert found == {}
    assert min(slices) >= 0.01


def test_who_was_told_to_stop_is_given_nothing(stream: Stream, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given the next entry, which nobody saw: it lay with a consumer that had gone."""
    stop = threading.Event()

    def stopped_as_something_comes(*_words: object) -> None:
        stream.add({"n": 6}, "6-0")
        stop.set()

    waiting_by(monkeypatch, stopped_as_something_comes)
    assert stream._store.read_group("g", "alice", {"s": ">"}, block=0, stop=stop) == {}
    assert group.pending().total == 0
    assert ids(group.consumer("bob").read()) == ["6-0"]


def test_a_consumer_that_is_deleted_while_it_waits_is_not_made_again_by_waiting(
    stream: Stream, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there again at the next look, a fifth of a second later; now when it is given something, as with Redis."""
    there: list[list[bytes]] = []

    def deleted(*_words: object) -> None:
        group.delete_consumer("alice")

    def looked(*_words: object) -> None:
        there.append([each.name for each in group.consumers()])

    def comes(*words: object) -> None:
        looked()
        stream.add({"n": 6}, "6-0")

    waiting_by(monkeypatch, deleted, looked, comes)
    assert ids(group.consumer("alice").read(block=0)) == ["6-0"]
    assert there == [[], []]
    assert [each.name for each in group.consumers()] == [b"alice"]


def test_who_waits_for_a_group_that_is_made_anew_waits_in_the_new_ones_queue(
    stream: Stream, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood in the queue of the old one, and nobody woke it: it came by each fifth of a second."""
    ctl = stream._store._log(b"s", create=False).ctl  # type: ignore[union-attr]  # it is there
    promised: list[int] = []

    def made_anew(*_words: object) -> None:
        group.destroy()
        stream.create_group("g", "$")

    def then_one_comes(*_words: object) -> None:
        number = stream._store._log(b"s", create=False).native.group_number(b"g")  # type: ignore[union-attr]  # it is there
        stream.add({"n": 6}, "6-0")  # which wakes, and promises it to, the first one in the queue of its group
        promised.append(ctl.promised(number or 0))

    waiting_by(monkeypatch, made_anew, then_one_comes)
    assert ids(group.consumer("alice").read(block=0)) == ["6-0"]
    assert promised == [1]


def test_readers_that_wait_do_not_hold_up_what_they_wait_for(tmp_path: Path) -> None:
    """They took all threads that asyncio has, and the append that they waited for found none."""

    async def body(store: aio.Store) -> list[list[str]]:
        stream = store.stream("s")
        group = await stream.group("g")
        readers = [asyncio.ensure_future(group.consumer(name).read(count=1, block=0)) for name in ("a", "b", "c")]
        while await asyncio.to_thread(lambda: len(group.sync_group.consumers())) < len(readers):
            pass
        for _ in readers:
            await stream.add({"n": 1}, durable=True)
        return [ids(found) for found in await asyncio.gather(*readers)]

    async def whole() -> list[list[str]]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with await aio.open(tmp_path / "store") as store:
            return await asyncio.wait_for(body(store), 60)

    assert [len(found) for found in asyncio.run(whole())] == [1, 1, 1]


def test_what_a_waiting_call_raises_comes_to_the_task(tmp_path: Path) -> None:
    async def whole() -> None:
        async with await aio.open(tmp_path / "store") as store:
            await store.read_group("g", "a", {"nothing": ">"}, block=1)

    with pytest.raises(NoGroupError):
        asyncio.run(whole())
