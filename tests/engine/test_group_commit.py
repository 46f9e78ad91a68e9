"""fsync=always: every entry is on disk when its add returns, and one flush serves all who wait for one."""

import threading
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, Store
from tests.engine.children import LIMIT_S
from tests.engine.sample import SMALL, log_of
from tests.engine.stand_ins import Watched

THREADS, EACH = 12, 15


class SlowDisk:
    """A flush that takes until every thread has written its entry of the round: as a slow one would."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.round_over = threading.Barrier(THREADS, self.next_round, LIMIT_S)
        self.is_slow = False
        self.written = self.flushes = 0

    def __call__(self, kind: str, path: Path) -> None:
        if not self.is_slow or path.parent.name != "x" or kind not in ("pwrite", "flush"):
            return
        with self.changed:
            if kind == "pwrite":
                self.written += 1
                self.changed.notify_all()
            else:
                assert self.changed.wait_for(lambda: self.written >= THREADS, LIMIT_S), "who writes waits for a flush"
                self.flushes += 1

    def next_round(self) -> None:
        """Every thread has what it waited for, and none has gone on."""
        self.written = 0


def durable_end(store: Store) -> tuple[int, int]:
    return log_of(store).ctl.durable


def add_all(store: Store, disk: SlowDisk, by: int, given: list[EntryID]) -> None:
    stream = store.stream("x")
    try:
        for number in range(EACH):
            added = stream.add({"by": by, "n": number})
            assert added is not None
            given.append(added)
            assert stream.get(added) is not None, "an entry that its writer does not see"
            disk.round_over.wait()
    except BaseException:
        disk.round_over.abort()
        raise


def test_many_threads_share_few_flushes(tmp_path: Path) -> None:
    disk = SlowDisk()
    options = {**SMALL, "fsync": "always", "segment_bytes": 1 << 20}
    with diskstream.open(tmp_path / "s", **options, files=Watched(disk)) as store:
        store.stream("x").add({"by": -1, "n": 0})
        disk.is_slow = True
        given: list[EntryID] = []
        threads = [threading.Thread(target=add_all, args=(store, disk, by, given)) for by in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        disk.is_slow = False
        assert len(set(given)) == THREADS * EACH
        # One for who came first, which may have looked before the others had written, and one for all others.
        assert EACH <= disk.flushes <= 2 * EACH, f"{disk.flushes} flushes for {THREADS * EACH} entries"
        assert durable_end(store) == log_of(store).ctl.written, "an entry was acknowledged that is not durable"
        there = list(store.stream("x").range())[1:]
        assert sorted(given) == [entry.id for entry in there]
        for by in range(THREADS):
            assert [int(entry["n"]) for entry in there if entry["by"] == b"%d" % by] == list(range(EACH))


def test_nobody_sees_an_entry_before_it_is_durable(tmp_path: Path) -> None:
    """A reader elsewhere, while the flush is under way."""
    flushing, go_on = threading.Event(), threading.Event()

    def step(kind: str, path: Path) -> None:
        if kind == "flush" and armed:
            flushing.set()
            assert go_on.wait(LIMIT_S)

    armed: list[bool] = []
    with (
        diskstream.open(tmp_path / "s", **{**SMALL, "fsync": "always"}, files=Watched(step)) as store,
        diskstream.open(tmp_path / "s", **{**SMALL, "fsync": "always"}) as other,
    ):
        store.stream("x").add({"n": 0})
        armed.append(True)
        adding = threading.Thread(target=lambda: store.stream("x").add({"n": 1}))
        adding.start()
        assert flushing.wait(LIMIT_S)
        for reader in (store, other):
            stream = reader.stream("x")
            assert [entry["n"] for entry in stream.range()] == [b"0"]
            assert len(stream) == 1
            assert stream.info().entries_added == 1
            assert stream.read(stream.last_id(), block=0.01) == []
        armed.clear()
        go_on.set()
        adding.join()
        for reader in (store, other):
            assert [entry["n"] for entry in reader.stream("x").range()] == [b"0", b"1"]


@pytest.mark.parametrize("how", ["durable=True", "sync"])
def test_one_calls_guarantee_can_be_asked_for_under_any_policy(tmp_path: Path, how: str) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        stream.add({"n": 0})
        assert durable_end(store) < log_of(store).ctl.written
        if how == "sync":
            store.sync()
        else:
            stream.add({"n": 1}, durable=True)
        assert durable_end(store) == log_of(store).ctl.written


def test_a_flush_covers_what_other_processes_have_written(tmp_path: Path) -> None:
    """Also behind a roll of theirs."""
    with diskstream.open(tmp_path / "s", **SMALL) as ours, diskstream.open(tmp_path / "s", **SMALL) as theirs:
        ours.stream("x").add({"n": 0})
        theirs.stream("x").add({"n": 1})
        log_of(theirs).roll()
        theirs.stream("x").add({"n": 2})
        log_of(theirs).roll()
        theirs.stream("x").add({"n": 3})
        ours.sync()
        assert durable_end(theirs) == log_of(theirs).ctl.written
        theirs.stream("x").add({"n": 4})
        log_of(theirs).roll()
        theirs.stream("x").add({"n": 5})
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert [int(entry["n"]) for entry in store.stream("x").range()] == list(range(6))
        assert store.recoveries == []


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not tell what is mapped")
@pytest.mark.parametrize(("fsync", "rolls"), [("always", 0), ("always", 1), ("everysec", 0)])
def test_a_flush_under_always_has_no_mapping_to_look_through(tmp_path: Path, fsync: str, rolls: int) -> None:
    """The kernel looks for stores through every mapping that is shared (`sh`): of as many processes as write."""
    with diskstream.open(tmp_path / "store", fsync=fsync) as store:
        stream = store.stream("x")
        stream.add({"n": 1})
        for number in range(rolls):
            stream.seal()
            stream.add({"n": number})
        mapped = flags_of_mapped(log_of(store).directory / f"{1 + rolls:08}.log")
        assert len(mapped) == 1
        assert ("sh" in mapped[0]) is (fsync == "everysec")


def flags_of_mapped(path: Path) -> list[list[str]]:
    """What the kernel says of each mapping of a file in this process."""
    found, within = [], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            within = words[-1] == str(path)
        elif within and words[0] == "VmFlags:":
            found.append(words[1:])
    return found
