"""kill -9 at any moment: what was acknowledged is there, what was not is whole or absent, and others go on at once."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, Store
from tests.engine.nursery import Mortal, Nursery, nursery
from tests.engine.sample import SMALL

ROUNDS = 12


@pytest.fixture
def nurse() -> Iterator[Nursery]:
    with nursery() as started:
        yield started


def given(mortal: Mortal, word: str = "added") -> list[EntryID]:
    """The IDs that a process said behind a word."""
    return [EntryID(one) for line in mortal.said if line.startswith(word + " ") for one in line.split()[1:]]


def ids(store: Store, name: str = "x") -> list[EntryID]:
    there = [entry.id for entry in store.stream(name).range()]
    assert there == sorted(set(there)), "out of order, or an ID twice"
    return there


@pytest.mark.parametrize("fsync", ["always", "everysec", "os"])
def test_producers_killed_at_random_lose_nothing_that_was_acknowledged(
    nurse: Nursery, tmp_path: Path, fsync: str
) -> None:
    acknowledged: list[EntryID] = []
    chance = random.Random(fsync)
    with diskstream.open(tmp_path / "s", **{**SMALL, "fsync": fsync, "seal": "background"}) as store:
        for turn in range(ROUNDS):
            producer = nurse.born("produce", tmp_path / "s", fsync, turn)
            for _ in range(chance.randrange(1, 40)):
                assert producer.hear().startswith("added")
            producer.kill()
            acknowledged += given(producer)
            own = store.stream("x").add({"by": "survivor"}, durable=chance.random() < 0.3)
            assert own is not None
            assert own > acknowledged[-1]
            acknowledged.append(own)
            if turn % 5 == 4:
                store.seal()
        there = ids(store)
        assert set(acknowledged) <= set(there)
        # What nobody was told of: at most one call of each producer, which is one frame: all of it or nothing.
        assert len(there) - len(acknowledged) <= 5 * ROUNDS
        assert store.verify().ok
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert ids(store) == there
        assert store.verify().ok


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_a_producer_killed_alone_is_recovered_from_by_whoever_comes_next(
    nurse: Nursery, tmp_path: Path, fsync: str
) -> None:
    acknowledged: list[EntryID] = []
    chance = random.Random(fsync)
    for turn in range(ROUNDS):
        producer = nurse.born("produce", tmp_path / "s", fsync, turn)
        for _ in range(chance.randrange(1, 30)):
            producer.hear()
        producer.kill()
        acknowledged += given(producer)
        with diskstream.open(tmp_path / "s", **SMALL) as store:
            there = ids(store)
            assert set(acknowledged) <= set(there)
            assert store.verify().ok
            own = store.stream("x").add({"by": "survivor"})
            assert own is not None
            assert own > there[-1]
            acknowledged.append(own)


class Left:
    """What a process that died in the middle of its housekeeping must have left."""

    def __init__(self, mortal: Mortal, before: list[EntryID]) -> None:
        self.added = before + given(mortal)
        self.gone = given(mortal, "deleted")
        self.going = given(mortal, "deleting")
        self.floor = max(given(mortal, "trimmed"), default=EntryID(0, 0))
        self.possible_floor = max(given(mortal, "trimming"), default=EntryID(0, 0))

    def check(self, there: list[EntryID], own: EntryID, label: str) -> None:
        must = {one for one in self.added if one >= self.possible_floor and one not in self.going}
        may = {one for one in self.added if one >= self.floor and one not in self.gone}
        unknown = set(there) - set(self.added) - {own}
        assert must <= set(there), f"{label}: lost {sorted(must - set(there))}"
        assert len(unknown) <= 1, f"{label}: {unknown} were never added"
        assert set(there) - unknown - {own} <= may, f"{label}: {sorted(set(there) - may)} came back"
        assert there[-1] == own, label


@pytest.mark.parametrize("fsync", ["always", "os"])
@pytest.mark.parametrize("joined", [True, False], ids=["others have it open", "alone"])
def test_a_death_at_any_step_is_got_over(nurse: Nursery, tmp_path: Path, fsync: str, joined: bool) -> None:
    """Many of the steps are taken with a lock held: of appending, rolling, extending, sealing, trimming, compacting."""
    step, kinds, names = 0, set(), set()
    while True:
        step += 1
        path = tmp_path / f"{step}"
        options = {**SMALL, "fsync": fsync, "segment_bytes": 20 << 10}
        store = diskstream.open(path, **options)
        before = [store.stream("x").add({"by": "survivor"}) for _ in range(2)]
        if not joined:
            store.close()
        mortal = nurse.born("keep_house", path, fsync, step)
        stopped = mortal.hear_until("stopped", "done")
        if stopped == "done":
            mortal.hear_until("dead")
            store.close()
            break
        mortal.kill()
        label = f"step {step}, {stopped}"
        _, kind, name = stopped.split()
        kinds.add(kind)
        names.add(name.partition(".")[2])
        if not joined:
            store = diskstream.open(path, **options)
        left = Left(mortal, before)
        own = store.stream("x").add({"by": "survivor"})
        assert own is not None
        there = ids(store)
        left.check(there, own, label)
        assert store.verify().problems == [], label
        store.seal()
        store.compact()
        assert ids(store) == there, label
        store.close()
        with diskstream.open(path, **SMALL) as again:
            assert ids(again) == there, label
            assert again.verify().problems == [], label
    assert step > 60
    assert kinds >= {"create", "write", "sync", "rename", "unlink", "sync_dir", "extend", "pwrite_sync", "flush"}
    assert names >= {"log", "log.tmp", "seg", "seg.tmp"}


@pytest.mark.parametrize("joined", [True, False], ids=["others have it open", "alone"])
def test_a_death_in_the_middle_of_a_move_leaves_each_stream_whole(nurse: Nursery, tmp_path: Path, joined: bool) -> None:
    step = 0
    while True:
        step += 1
        path = tmp_path / f"{step}"
        store = diskstream.open(path, **SMALL)
        owned = {name: store.stream(name).add({"by": name}) for name in ("a", "b", "c", "d")}
        if not joined:
            store.close()
        mortal = nurse.born("move", path, "os", step)
        stopped = mortal.hear_until("stopped", "done")
        if stopped == "done":
            mortal.hear_until("dead")
            store.close()
            break
        mortal.kill()
        if not joined:
            store = diskstream.open(path, **SMALL)
        label = f"step {step}, {stopped} behind {mortal.said}"
        there = {name.decode(): [entry["by"].decode() for entry in store.stream(name)] for name in store.streams()}
        begun = [word for word in ("rename", "replace", "delete") if word in mortal.said]
        assert sum(owner == ["a"] for owner in there.values()) == 1, f"{label}: {there}"
        assert sum(owner == ["b"] for owner in there.values()) == 1, f"{label}: {there}"
        assert there.get("a") == ["a"] or "rename" in begun, f"{label}: {there}"
        assert there.get("b") == ["b"] or "replace" in begun, f"{label}: {there}"
        assert there.get("d") == ["d"] or "delete" in begun, f"{label}: {there}"
        if begun[-1:] in ([], ["rename"]):
            assert there.get("c") == ["c"], f"{label}: {there}"
        for name in ("a", "b", "c", "d", "e"):
            added = store.stream(name).add({"by": "survivor"})
            assert ids(store, name)[-1] == added, label
        assert store.verify().ok, label
        store.close()
        with diskstream.open(path, **SMALL) as again:
            assert again.streams() == [b"a", b"b", b"c", b"d", b"e"], label
            assert not [left for left in (path / "streams").iterdir() if left.name.startswith(".")], label
    assert step > 12
    assert owned
