"""A store survives os.fork(): parent and child both go on, each with an opening of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream
from tests.engine import forks
from tests.engine.children import LIMIT_S, ROOT, child
from tests.engine.sample import SMALL

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")


def by(path: Path) -> list[str]:
    """Who added each entry, once all processes have ended."""
    with diskstream.open(path, **SMALL) as store:
        assert store.verify().ok
        return [entry["by"].decode() for entry in store.stream("x").range()]


@pytest.mark.parametrize("fsync", ["always", "interval=1", "os"])
def test_parent_and_fork_add_to_the_same_stream(tmp_path: Path, fsync: str) -> None:
    with child(forks.both_add, tmp_path / "s", fsync) as parent:
        assert parent.hear() == "0"
        assert parent.hear() == "121"
        assert parent.wait() == 0
    there = by(tmp_path / "s")
    assert sorted(there) == ["before"] + ["fork"] * 60 + ["parent"] * 60


@pytest.mark.parametrize("fsync", ["always", "interval=1"])
def test_a_fork_among_busy_threads_never_hangs(tmp_path: Path, fsync: str) -> None:
    with child(forks.fork_among_threads, tmp_path / "s", fsync) as parent:
        assert parent.hear().split() == ["0"] * 8
        assert parent.hear() == "24"
        assert parent.hear() == "True"
        assert parent.wait() == 0


@pytest.mark.parametrize("kind", ["sync_dir", "pwrite_sync"])
def test_nobody_waits_for_the_fork_of_a_parent_that_was_killed_as_it_was_alone(tmp_path: Path, kind: str) -> None:
    """The fork had kept the lock of who is alone: all others hung as they opened the stream, as long as it lived."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"by": "before", "n": "0"})
    with child(forks.fork_as_a_thread_is_alone, tmp_path / "s", kind) as parent:
        assert parent.hear() == "forked"
        assert parent.wait() == -signal.SIGKILL
        with child(forks.add_one, tmp_path / "s") as other:
            assert other.hear() == "added"
            assert other.wait() == 0
    assert by(tmp_path / "s")[-1] == "other"


def test_a_fork_reads_object_storage_though_a_thread_was_just_importing_what_for(tmp_path: Path) -> None:
    """It hung for ever: of a module that was being imported it has the lock, and not the thread that gives it up."""
    pytest.importorskip("pyarrow")
    with child(forks.fork_as_a_thread_imports, tmp_path / "s") as parent:
        assert parent.hear() == "0"


def test_ctrl_c_in_a_fork_is_heard_behind_it_and_no_thread_waits_for_ever(tmp_path: Path) -> None:
    """It ended what lets the other threads go on, and was lost: they hung, and so did whoever closed the store."""
    command = [sys.executable, "-c", forks.INTERRUPTED_IN_A_FORK, str(tmp_path / "s"), str(LIMIT_S / 4)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("8 interrupted 8 8\n", "", 0)


def test_a_lock_that_a_thread_held_is_the_parents_alone(tmp_path: Path) -> None:
    with child(forks.fork_while_locked, tmp_path / "s") as parent:
        assert parent.hear() == "0"
        assert parent.hear() == "3"


def test_a_fork_that_closes_the_store_closes_its_own(tmp_path: Path) -> None:
    with child(forks.close_in_the_fork, tmp_path / "s") as parent:
        assert parent.hear() == "0"
        assert parent.hear() == "locked"
        assert parent.hear() == "3"


def test_a_store_that_a_fork_cannot_open_again_takes_no_other_with_it(tmp_path: Path) -> None:
    with child(forks.fork_beside_a_lost_store, tmp_path / "s") as parent:
        assert parent.hear() == "0"
        assert parent.hear() == "11"
        assert parent.wait() == 0


def test_a_fork_that_never_touches_the_store_is_in_nobodys_way(tmp_path: Path) -> None:
    with child(forks.leave_without_closing, tmp_path / "s") as parent:
        assert parent.hear() == "0"
        assert parent.hear() == "2"
        assert parent.wait() == 0
    assert by(tmp_path / "s") == ["before", "parent"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc, to see what is open")
def test_a_fork_has_nothing_open_before_it_uses_the_store(tmp_path: Path) -> None:
    """It opened the store anew at once: a daemon that closes what it inherits closed that too, and wrote elsewhere."""
    with child(forks.daemonize, tmp_path / "s") as parent:
        assert parent.hear() == "0"
    assert by(tmp_path / "s") == ["before"] * 3 + ["fork"] * 2


def test_a_fork_of_a_fork_that_has_not_used_the_store_goes_on_as_well(tmp_path: Path) -> None:
    with child(forks.fork_twice_unused, tmp_path / "s") as parent:
        assert parent.hear() == "0"
    assert by(tmp_path / "s") == ["before", "grandchild", "child"]


def test_a_fork_that_closes_what_it_has_not_used_has_closed_it(tmp_path: Path) -> None:
    with child(forks.close_unused, tmp_path / "s") as parent:
        assert parent.hear() == "0"


def test_an_iterator_that_was_begun_is_right_in_both(tmp_path: Path) -> None:
    with child(forks.go_on_reading, tmp_path / "s") as parent:
        assert parent.hear() == "0"
        assert parent.hear() == "400"


def test_a_pool_of_forked_workers(tmp_path: Path) -> None:
    with child(forks.multiprocess, tmp_path / "s") as parent:
        assert parent.hear() == "21"
        assert parent.hear() == "21"
        assert parent.wait() == 0


def test_a_fork_outlives_a_parent_that_was_killed_with_the_lock_in_its_hands(tmp_path: Path) -> None:
    with child(forks.survive_the_parent, tmp_path / "s") as parent:
        assert parent.hear() == "locked"
        assert parent.kill() == ["done"]
    assert by(tmp_path / "s") == ["before", "fork", "fork"]


def test_a_reader_that_sleeps_in_the_parent_is_woken_by_the_fork(tmp_path: Path) -> None:
    with child(forks.block_in_parent, tmp_path / "s") as parent:
        assert parent.hear() == "0"
        assert parent.hear() == "fork"


@pytest.mark.parametrize("after", [False, True], ids=["the child first", "the parent first"])
def test_a_fork_in_the_midst_of_a_call_leaves_what_is_begun_to_its_parent(tmp_path: Path, after: bool) -> None:
    """As a signal handler forks that returns in the child, too: the call goes on there, and can change nothing."""
    with child(forks.go_on_with_the_call, tmp_path / "s", after) as parent:
        codes = 0
        while (said := parent.hear()) == "0":
            codes += 1
        word, steps, is_same = said.split()
        assert (word, is_same) == ("end", "True")
        assert codes == int(steps) - 1 > 30, "each step was forked in"
        assert parent.wait() == 0
    there = by(tmp_path / "s")
    assert there.count("fork") == codes
    assert there.count("either") >= 8 * (codes + 1)
    assert there.count("either") % 8 == 0, "all of a batch or nothing"
