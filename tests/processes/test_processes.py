"""Several processes on one directory: each sees what the others do, and none is in the way of another's death."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

import diskstream

POLICIES = ["always", "everysec", "os"]


class Child:
    """A process that runs one command of `child.py`."""

    def __init__(self, command: str, path: Path, fsync: str) -> None:
        program = [sys.executable, "-m", "tests.processes.child", command, str(path), fsync]
        self.process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def pipe(self, end: IO[str] | None) -> IO[str]:
        assert end is not None
        return end

    def hear(self) -> str:
        return self.pipe(self.process.stdout).readline().strip()

    def tell(self) -> str:
        self.pipe(self.process.stdin).write("\n")
        self.pipe(self.process.stdin).flush()
        return self.hear()

    def kill(self) -> list[str]:
        """Kills it; what it had said until then."""
        if self.process.returncode is not None:
            return []
        self.process.kill()
        with self.process, self.pipe(self.process.stdout) as stdout:
            said = stdout.read()
        return said.split("\n")[:-1]  # a line cut in two by the kill is no acknowledgement


@contextlib.contextmanager
def child(command: str, path: Path, fsync: str = "everysec") -> Iterator[Child]:
    started = Child(command, path, fsync)
    try:
        yield started
    finally:
        started.kill()


def test_entries_of_two_processes_are_one_stream_in_order(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store, child("hold", tmp_path / "s") as other:
        stream = store.stream("x")
        other.hear()
        said: list[str] = []
        for _ in range(20):
            said += [other.tell(), str(stream.add({"by": "parent"}))]
        assert [str(entry.id) for entry in stream.range()] == said
        assert len(set(said)) == 40


def test_a_blocked_reader_is_woken_by_another_process(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"n": "old"})
        with child("wait", tmp_path / "s") as other:
            assert other.hear() == "ready"
            store.stream("x").add({"n": "new"})
            assert other.hear() == "new"


def test_a_stream_is_renamed_under_an_idle_holder_who_goes_on_with_a_new_one(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store, child("hold", tmp_path / "s") as other:
        other.hear()
        first = other.tell()
        store.rename("x", "y")
        # The holder is still there, idle; the new name works at once.
        assert [str(entry.id) for entry in store.stream("y").range()] == [first]
        store.stream("y").add({"by": "parent"})
        second = other.tell()
        assert [str(entry.id) for entry in store.stream("x").range()] == [second]
        assert len(store.stream("y")) == 2


def test_a_stream_is_deleted_under_an_idle_holder(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store, child("hold", tmp_path / "s") as other:
        other.hear()
        other.tell()
        assert store.delete("x")
        assert not store.exists("x")
        again = other.tell()
        assert [str(entry.id) for entry in store.stream("x").range()] == [again]


@pytest.mark.parametrize("fsync", POLICIES)
def test_what_a_killed_producer_was_told_is_there_and_others_go_on(tmp_path: Path, fsync: str) -> None:
    acknowledged: list[str] = []
    with diskstream.open(tmp_path / "s", fsync=fsync) as store:
        stream = store.stream("x")
        for _ in range(5):
            with child("produce", tmp_path / "s", fsync) as producer:
                acknowledged += [producer.hear() for _ in range(50)]
                acknowledged += producer.kill()
            stream.add({"by": "parent"})
        there = [str(entry.id) for entry in stream.range()]
        assert set(acknowledged) <= set(there)
        assert there == [str(each) for each in sorted(map(diskstream.EntryID, there))]
    with diskstream.open(tmp_path / "s") as store:
        assert [str(entry.id) for entry in store.stream("x").range()] == there
        assert store.verify().ok


@pytest.mark.parametrize("fsync", POLICIES)
def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path, fsync: str) -> None:
    with diskstream.open(tmp_path / "s", fsync=fsync) as store:
        stream = store.stream("x")
        with child("die_locked", tmp_path / "s", fsync) as other:
            assert other.hear() == "locked"
            other.kill()
        stream.add({"n": "after"})
        assert [entry["n"] for entry in stream.range()] == [b"before", b"after"]


def test_who_closes_gives_the_directory_up_even_while_a_stream_is_kept(tmp_path: Path) -> None:
    store = diskstream.open(tmp_path / "s")
    kept = store.stream("x")
    kept.add({"n": 1})
    store.close()
    with diskstream.open(tmp_path / "s") as again:
        again.stream("x").add({"n": 2})
        log = again._log(b"x", create=False)
        assert log is not None
        assert log.opened_alone
    with pytest.raises(diskstream.ClosedError):
        kept.add({"n": 3})
