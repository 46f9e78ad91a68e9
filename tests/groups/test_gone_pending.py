"""Entries that are gone and still pending, very many of them, before one that can be claimed.

A consumer died, a trim by length took what it had: who read with CLAIM looked each of them up, one by one, with the
append lock held. With 10,000 of them, and COUNT 1, that were three seconds in which nobody could add.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Group, Stream, delivering
from diskstream.engine import reader
from diskstream.engine.log import StreamLog
from tests.engine.children import LIMIT_S
from tests.engine.stand_ins import Watched

GONE = 6000


@pytest.fixture(autouse=True)
def _however_slow_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind so many that are gone, a look ends with what it found when its time is over: here it has time."""
    monkeypatch.setattr(delivering, "_HOLD_S", LIMIT_S)


@pytest.fixture
def clock() -> list[int]:
    return [1000]


@pytest.fixture
def stream(tmp_path: Path, clock: list[int]) -> Iterator[Stream]:
    with diskstream.open(tmp_path / "store", fsync="os", clock=lambda: clock[0]) as store:
        yield store.stream("x")


def _pending(stream: Stream, behind: int) -> tuple[Group, list[EntryID]]:
    """A group of which a consumer has so many entries that will be gone, and `behind` more."""
    group = stream.group("g", start="0")
    ids = stream.add_many([{"n": n} for n in range(GONE + behind)])
    dead = group.consumer("dead")
    while dead.read(count=1000):
        pass
    return group, ids


GO: dict[str, Callable[[Stream, list[EntryID]], Any]] = {
    "trimmed": lambda stream, ids: stream.trim(maxlen=len(ids) - GONE),
    "deleted": lambda stream, ids: stream.delete(*ids[1 : GONE + 1]),
}


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each look was for."""
    found: list[int] = []
    real = reader.find_many

    def counted(log: StreamLog, ids: list[EntryID]) -> Any:
        found.append(len(ids))
        return real(log, ids)

    monkeypatch.setattr(reader, "find_many", counted)
    return found


@pytest.mark.parametrize("how", GO)
@pytest.mark.parametrize("count", [1, 3, None])
def test_what_is_behind_them_is_claimed(
    stream: Stream, clock: list[int], how: str, count: int | None, lookups: list[int]
) -> None:
    group, ids = _pending(stream, 3)
    clock[0] += 500
    GO[how](stream, ids)
    alive = [entry.id for entry in stream.range()]
    claimed: list[EntryID] = []
    while entries := group.consumer("w").read(claim_ms=500, count=count):
        claimed += [entry.id for entry in entries]
    assert claimed == alive
    assert len(lookups) < GONE / 30, "one by one"
    if how == "trimmed":
        assert sum(lookups) < 40, "below the first entry there is nothing to be looked up"
    assert group.pending().total == GONE + 3


@pytest.mark.parametrize("how", GO)
def test_others_have_the_lock_in_between(stream: Stream, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivering, "_GONE_AT_ONCE", 500)
    group, ids = _pending(stream, 1)
    GO[how](stream, ids)
    group.ack(*[entry.id for entry in stream.range()])
    holds = 0
    real = StreamLog.locked

    def counted(log: StreamLog) -> Any:
        nonlocal holds
        holds += threading.current_thread() is threading.main_thread()
        return real(log)

    monkeypatch.setattr(StreamLog, "locked", counted)
    assert group.consumer("w").read(claim_ms=0, count=1) == []
    assert holds >= GONE // 500 - 1
    stream.add({"n": "new"})
    assert [entry["n"] for entry in group.consumer("w").read(claim_ms=0, count=1)] == [b"new"]


def test_nothing_is_given_twice_in_one_read(stream: Stream) -> None:
    """What was just claimed is the youngest, and idle long enough for who asks for no time at all."""
    group, ids = _pending(stream, 300)
    stream.trim(maxlen=300)
    assert [entry.id for entry in group.consumer("w").read(claim_ms=0, count=500)] == ids[GONE:]
    assert [entry.id for entry in group.consumer("w").read(claim_ms=0, count=2)] == ids[GONE : GONE + 2]


def test_what_is_gone_is_looked_up_once(stream: Stream, lookups: list[int]) -> None:
    """Who waits with CLAIM looks again and again: fifty clients of a server let nobody else be served."""
    group, ids = _pending(stream, 1)
    group.ack(ids[0])  # below the first entry there is nothing to be looked up
    stream.delete(*ids[1:])
    assert group.consumer("w").read(claim_ms=0) == []
    assert sum(lookups) >= GONE
    lookups.clear()
    for consumer in "wxyz":
        assert group.consumer(consumer).read(claim_ms=0) == []
    assert lookups == []
    assert group.ripens_in_s(0) is None


def _claimed_as_if_long_ago(group: Group, alive: EntryID, clock: list[int]) -> None:
    group.consumer("w").claim(alive, min_idle_ms=0, idle_ms=clock[0])


def _given_back(group: Group, alive: EntryID, clock: list[int]) -> None:
    group.nack(alive)


def _claimed_with_the_clock_put_back(group: Group, alive: EntryID, clock: list[int]) -> None:
    clock[0] = 10
    group.consumer("w").claim(alive, min_idle_ms=0)


def _merged_into_the_view_and_given_back(group: Group, alive: EntryID, clock: list[int]) -> None:
    def merge(log: StreamLog) -> None:
        with log.locked():
            log.pending.checkpoint()

    group.stream._use(merge, None)
    group.nack(alive)


@pytest.mark.parametrize(
    "comes",
    [_claimed_as_if_long_ago, _given_back, _claimed_with_the_clock_put_back, _merged_into_the_view_and_given_back],
)
def test_what_comes_before_those_that_were_looked_up_is_found(
    stream: Stream, clock: list[int], comes: Callable[[Group, EntryID, list[int]], None]
) -> None:
    group, ids = _pending(stream, 2)
    alive = [entry.id for entry in stream.range()][-2:]
    group.nack(*ids[:10])
    stream.delete(*[each for each in ids if each not in alive])
    clock[0] += 500
    assert [entry.id for entry in group.consumer("x").read(claim_ms=500)] == alive
    assert group.consumer("x").read(claim_ms=500) == []
    comes(group, alive[1], clock)
    clock[0] += 1
    found = group.consumer("y").read(claim_ms=1, count=1)
    assert [entry.id for entry in found] == [alive[1]]


def test_no_more_is_unpacked_behind_them_than_a_few(
    stream: Stream, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For one entry some thousands were unpacked, with the append lock held."""
    group, ids = _pending(stream, 3000)
    stream.delete(*ids[1 : GONE + 1])
    group.ack(ids[0])
    found: list[int] = []
    real = reader.find_many

    def counted(log: StreamLog, ids: list[EntryID]) -> Any:
        entries = real(log, ids)
        found.append(len(entries))
        return entries

    monkeypatch.setattr(reader, "find_many", counted)
    assert len(group.consumer("w").read(claim_ms=0, count=1)) == 1
    assert sum(found) <= 64


def test_a_read_comes_to_its_end_where_ids_are_beyond_the_last_one(stream: Stream) -> None:
    """Once the last ID was set back, nothing is noted of what lies above it: one look began where the other did."""
    group, _ = _pending(stream, 0)
    stream.trim(maxlen=0)
    stream.set_id("1-0")
    assert group.consumer("w").read(claim_ms=0) == []
    assert group.pending().total == GONE


def test_what_comes_back_under_its_old_id_is_claimed(stream: Stream, clock: list[int]) -> None:
    """As far as XAUTOCLAIM of Redis gives it out, too."""
    group = stream.group("g", start="0")
    stream.add({"n": "old"}, id="10-0")
    assert len(group.consumer("dead").read()) == 1
    stream.trim(maxlen=0)
    for last in ("6-0", "20-0"):
        stream.set_id(last)
    clock[0] += 500
    assert group.consumer("w").read(claim_ms=500) == []
    stream.set_id("6-0")
    stream.add({"n": "anew"}, id="10-0")
    assert [entry["n"] for entry in group.consumer("w").read(claim_ms=500)] == [b"anew"]


def test_what_comes_back_and_is_not_visible_yet_is_not_taken_for_gone(
    tmp_path: Path, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under `always` an entry is visible once it is durable: who looks for it while it is being flushed finds none."""
    held, flushing, go_on = threading.Event(), threading.Event(), threading.Event()

    def step(kind: str, _: Path) -> None:
        if kind == "flush" and held.is_set():
            flushing.set()
            assert go_on.wait(LIMIT_S)

    real = StreamLog.settle

    def settle(log: StreamLog) -> None:
        go_on.set()
        real(log)

    monkeypatch.setattr(StreamLog, "settle", settle)
    with diskstream.open(tmp_path / "s", fsync="always", clock=lambda: clock[0], files=Watched(step)) as store:
        stream = store.stream("x")
        group = stream.group("g", start="0")
        stream.add({"n": "old"}, id="10-0")
        assert len(group.consumer("dead").read()) == 1
        stream.trim(maxlen=0)
        stream.set_id("6-0")
        clock[0] += 500
        go_on.clear()
        held.set()
        adds = threading.Thread(target=stream.add, args=({"n": "anew"},), kwargs={"id": "10-0"})
        adds.start()
        assert flushing.wait(LIMIT_S)
        assert group.consumer("w").read(claim_ms=500) == []
        adds.join()
        assert [entry["n"] for entry in group.consumer("w").read(claim_ms=500)] == [b"anew"]
