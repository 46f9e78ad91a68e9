"""Several processes on one stream: each entry once, in one order, seen by all; whoever sleeps is woken."""

import contextlib
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, Store
from tests.engine.children import Child, child
from tests.engine.sample import SMALL, log_of
from tests.engine.users import consume, keep_changing, produce, wake

PRODUCERS, EACH = 3, 200


@pytest.mark.parametrize("fsync", ["always", "interval=5", "os"])
def test_producers_and_readers_agree_on_one_order(tmp_path: Path, fsync: str) -> None:
    """The stream is rolled and sealed under their hands meanwhile."""
    with contextlib.ExitStack() as stack:
        producers = [stack.enter_context(child(produce, tmp_path / "s", fsync, by, EACH)) for by in range(PRODUCERS)]
        assert [one.hear() for one in producers] == ["ready"] * PRODUCERS
        modes = ["block", "tail", "read-only"]
        total = PRODUCERS * EACH
        readers = [stack.enter_context(child(consume, tmp_path / "s", mode, total)) for mode in modes]
        assert [one.hear() for one in readers] == ["ready"] * len(modes)
        for one in (*readers, *producers):
            one.tell()
        counts = [int(one.hear()) for one in producers]
        given = [[EntryID(text) for text in one.hear().split()] for one in producers]
        assert [len(ids) for ids in given] == counts
        assert all(count >= EACH for count in counts)
        with diskstream.open(tmp_path / "s", **SMALL) as store:
            there = list(store.stream("x").range())
            order = [entry.id for entry in there]
            assert order == sorted(set(order)), "out of order, or an ID given twice"
            assert order == sorted(one for ids in given for one in ids), "an entry is missing, or nobody's"
            for by in range(PRODUCERS):
                own = [int(entry["n"]) for entry in there if entry["by"] == b"%d" % by]
                assert own == list(range(counts[by])), "one producer's entries are out of order"
            for mode, reader in zip(modes, readers, strict=True):
                seen = [EntryID(text) for text in reader.hear().split()]
                assert seen == order[: len(seen)], f"{mode}: a reader saw another order"
                assert len(seen) >= total, f"{mode}: a reader missed entries"
            assert store.verify().ok


def test_who_closes_does_not_take_back_what_others_reserved(tmp_path: Path) -> None:
    """IDs are issued below a frontier that is durable. A process that closed took it back to the last ID, while another
    went on below the one that it knew of: after a power cut the same IDs were issued again."""
    with diskstream.open(tmp_path / "s", **SMALL) as other:
        with diskstream.open(tmp_path / "s", **SMALL) as store:
            store.stream("x").add({"n": 0}, "5-0")
            store.stream("x").add({"n": 1})
            other.stream("x").info()
        added = other.stream("x").add({"n": 2})
        assert added is not None
        assert log_of(other).native.read_frontier()[0] >= added.ms
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").info()
        assert log_of(store).native.read_frontier()[0] == added.ms - 1, "who closed last took it back"


def test_a_stream_that_is_renamed_while_others_have_it_open_skips_no_ids(tmp_path: Path) -> None:
    """What had been reserved was not taken back then: the next ID lay ten seconds ahead of the clock."""
    now_ms = 1_000_000
    options = {**SMALL, "clock": lambda: now_ms}
    with diskstream.open(tmp_path / "s", **options) as store, diskstream.open(tmp_path / "s", **options) as other:
        for each in (store, other):
            each.stream("x").add({"n": 0})
        store.rename("x", "y")
        for number, each in enumerate((other, store), 2):
            assert each.stream("y").add({"n": number}) == EntryID(now_ms, number)


def test_ids_are_reserved_in_the_first_millisecond_of_1970_too(tmp_path: Path) -> None:
    """A frontier of 0 was taken for a reservation of that millisecond."""
    with diskstream.open(tmp_path / "s", clock=lambda: 0, **SMALL) as store:
        for _ in range(3):
            added = store.stream("x").add({"n": 0})
            assert added is not None
            assert added.ms == 0
            assert log_of(store).native.read_frontier()[0] > 0


def test_two_processes_wake_each_other(tmp_path: Path) -> None:
    rounds = 200
    with diskstream.open(tmp_path / "s", **SMALL) as store, child(wake, tmp_path / "s", rounds) as other:
        assert other.hear() == "ready"
        ours, theirs = store.stream("ping"), store.stream("pong")
        after = EntryID(0, 0)
        for number in range(rounds):
            ours.add({"n": number})
            (entry,) = theirs.read(after, block=30)
            assert int(entry["n"]) == number
            after = entry.id
        assert other.wait() == 0


def numbers(store: Store, *, reverse: bool) -> list[int]:
    stream = store.stream("x")
    found = [int(entry["n"]) for entry in (stream.revrange() if reverse else stream.range())]
    return found[::-1] if reverse else found


def look(store: Store, turn: int) -> None:
    """One range beside a process that changes everything: right, without a hole, and without what was gone before."""
    stream = store.stream("x")
    newest = stream.last_id().ms
    first_before = next(stream.range(count=1), None)
    seen = numbers(store, reverse=bool(turn % 2))
    first_after = next(stream.range(count=1), None)
    assert seen == sorted(set(seen)), f"out of order: {seen}"
    if first_before is None or first_after is None:
        return
    assert not seen or seen[0] >= int(first_before["n"]), "what was trimmed came back"
    # What is still there now was there all the time, but for what is deleted: that may be seen or not.
    must = {number for number in range(int(first_after["n"]), newest + 1) if number % 5}
    assert must <= set(seen), f"holes: {sorted(must - set(seen))}"
    if newest % 5 and stream.get(EntryID(newest, 0)) is None:
        first_now = next(stream.range(count=1), None)
        assert first_now is None or int(first_now["n"]) > newest, f"{newest} is there and was not found"


@pytest.mark.parametrize("read_only", [False, True], ids=["joined", "read-only"])
def test_readers_never_fail_beside_trims_seals_and_compactions(tmp_path: Path, read_only: bool) -> None:
    with child(keep_changing, tmp_path / "s", 200) as changer:
        assert changer.hear() == "ready"
        with diskstream.open(tmp_path / "s", **SMALL, read_only=read_only) as store:
            changer.tell()
            looks = 0
            while not ended(changer):
                look(store, looks)
                looks += 1
            assert looks > 5, "too few looks to mean anything"
            word, last = changer.hear().split()
            assert word == "done"
            assert numbers(store, reverse=False)[-1] in range(int(last) - 5, int(last) + 1)
            if not read_only:
                assert store.verify().ok


def ended(process: Child) -> bool:
    return process.process.poll() is not None
