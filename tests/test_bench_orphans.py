"""What processes use that outlive their parents counts for the bench, and not for others on the machine."""

import resource
import subprocess
import sys

import pytest

from bench.orphans import adopted, children, orphan_the_children_of

BUSY_S = 0.3
BUSY = f"import time\nwhile time.process_time() < {BUSY_S}: pass"
LEAVES_ONE_BEHIND = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BUSY!r}])"

BUSY_PARENT = f"{BUSY}\n{LEAVES_ONE_BEHIND}"
LEAVES_ONE_THAT_LEAVES_ONE = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BUSY_PARENT!r}])"

# As PySpark's daemon does, whose children have the same command line.
IGNORES_HOW_ITS_CHILD_ENDS = f"""if "a daemon of the tests":
    import os, signal, sys
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if os.fork():
        try:
            os.wait()
        except ChildProcessError:
            os._exit(0)
    exec({BUSY!r})
    print("done", flush=True)
    sys.stdin.read()
"""


def used_by_children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")
def test_what_an_orphan_used_is_ours() -> None:
    before, there = used_by_children_s(), set(children())
    with adopted():
        subprocess.run([sys.executable, "-c", LEAVES_ONE_BEHIND], check=True)
    assert used_by_children_s() - before >= BUSY_S
    assert set(children()) <= there, "nobody is left behind"


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")
def test_so_is_what_the_orphan_of_an_orphan_used_that_came_to_be_as_we_waited() -> None:
    before, there = used_by_children_s(), set(children())
    with adopted():
        subprocess.run([sys.executable, "-c", LEAVES_ONE_THAT_LEAVES_ONE], check=True)
    assert used_by_children_s() - before >= 2 * BUSY_S
    assert set(children()) <= there, "nobody is left behind"


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")
def test_what_the_child_of_a_daemon_used_that_does_not_ask_how_it_ended_is_ours_once_the_daemon_is_gone() -> None:
    before, there = used_by_children_s(), set(children())
    command = [sys.executable, "-c", IGNORES_HOW_ITS_CHILD_ENDS]
    with adopted(), subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "done\n"
        orphan_the_children_of(b"a daemon of the tests")
    assert used_by_children_s() - before >= BUSY_S
    assert set(children()) <= there, "nobody is left behind"
