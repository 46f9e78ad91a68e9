"""An operation's time is divided as its instructions are, with the kernel apart."""

from __future__ import annotations

import pytest

from bench.counts.dump import Dump, parse
from bench.model import Result
from bench.subjects import profiles

DUMP = """\
events: Ir sysCount sysTime sysCpuTime
ob=/somewhere/diskstream/_native.abi3.so
fn=append
0 600
ob=/usr/lib/libpython3.11.so.1.0
fn=_PyEval_EvalFrameDefault'2
0 200
fn=_PyObject_Malloc
0 100
ob=/usr/lib/libc.so.6
fn=clock_gettime@@GLIBC_2.17
0 50 10 9000 9000
fn=send
0 50 2 7000 5000
cfn=memcpy
calls=1 0
0 40 1 100 100
"""


@pytest.fixture
def dump() -> Dump:
    return parse(DUMP.splitlines())


def test_a_clock_is_no_system_call(dump: Dump) -> None:
    assert (dump.instructions, dump.system_calls, dump.system_ns) == (1000, 2, 5000)


def test_the_parts_make_up_the_whole(dump: Dump) -> None:
    found = profiles.parts(dump, 10, wall_us=3.0, cpu_us=2.5)
    assert found == pytest.approx(
        {
            profiles.CORE: 1.2,
            profiles.BYTECODE: 0.4,
            profiles.OBJECTS: 0.2,
            profiles.LIBRARY: 0.2,
            profiles.KERNEL: 0.5,
            profiles.WAITING: 0.5,
        }
    )
    assert sum(found.values()) == pytest.approx(3.0)


def test_the_kernel_takes_no_more_than_there_was(dump: Dump) -> None:
    found = profiles.parts(dump, 1, wall_us=2.0, cpu_us=2.0)
    assert found[profiles.KERNEL] == 2.0
    assert sum(found.values()) == pytest.approx(2.0)


def test_small_parts_are_left_out(dump: Dump) -> None:
    result = Result("profiles", "title", "method")
    floors = {name: [0.5] for name in (profiles.COPY, profiles.CALL, profiles.FLUSH, profiles.BUILD)}
    # 5000 operations: the kernel's part is below 1 %.
    profiles.report(result, {"add": dump}, {"add": [(1.0, 1.0)]}, floors)
    cases = [row.case for row in result.rows]
    assert cases[0] == "one Stream.add"
    assert f"one Stream.add: {profiles.CORE}" in cases
    assert f"one Stream.add: {profiles.KERNEL}" not in cases
    assert cases[-4:] == [f"floor: {name}" for name in floors]
