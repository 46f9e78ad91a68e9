"""What processes use that outlive their parents counts for the bench, and not for others on the machine."""

import resource
import subprocess
import sys

import pytest

from bench.orphans import adopted, children

BUSY_S = 0.3
BUSY = f"import time\nwhile time.process_time() < {BUSY_S}: pass"
LEAVES_ONE_BEHIND = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BUSY!r}])"

BUSY_PARENT = f"{BUSY}\n{LEAVES_ONE_BEHIND}"
LEAVES_ONE_THAT_LEAVES_ONE = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BUSY_PARENT!r}])"


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
