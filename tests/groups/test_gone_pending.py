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

GONE = 6000


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
    assert len(lookups) < 60, "one by one"
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
