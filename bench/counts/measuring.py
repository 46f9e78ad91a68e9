"""Runs the workloads under callgrind and takes from its dumps what an operation costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench.context import CHECKOUT
from bench.counts.dump import Dump, read
from bench.counts.workloads import WORKLOADS

NATIVE = "_native.abi3.so"
# Callgrind runs some fifty times slower than the processor.
PATIENCE_S = 900.0


@dataclass(frozen=True)
class Count:
    """What one operation of a workload costs, in instructions: all, and those in the native core."""

    instructions: float
    native: float


def missing() -> str | None:
    """Why nothing can be counted here, or nothing."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if find_spec("diskstream._native") is None:
        return "diskstream is not built in this environment"
    return None


def dumps(scratch: Path, names: Sequence[str]) -> dict[str, Dump]:
    """Prepares the workloads in `scratch`, runs them in one process under callgrind, and reads its dumps.

    The hash seed is fixed, since dicts with other orders take other steps, and the environment is empty, since it lies
    on the stack. Addresses are not randomised. Threads are counted apart: only the one that works is read. Which code
    the C library and zstd choose does not vary: the processor that valgrind shows to a program is always the same.
    """
    for name in names:
        WORKLOADS[name].prepare(scratch / name)
    out = scratch / "callgrind.out"
    command = [
        *(["setarch", "-R"] if shutil.which("setarch") else []),
        "valgrind",
        "--tool=callgrind",
        "--separate-threads=yes",
        "--dump-before=getsid",
        "--dump-line=no",
        "--collect-systime=nsec",
        "--compress-strings=no",
        "--compress-pos=no",
        f"--callgrind-out-file={out}",
        sys.executable,
        "-m",
        "bench.counts.child",
        "run",
        str(scratch),
        *names,
    ]
    environment = {
        "PATH": os.defpath,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(CHECKOUT),
    }
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"callgrind ended with {done.returncode}: {done.stderr[-2000:]}")
    return {name: read(Path(f"{out}.{2 * place + 2}-01")) for place, name in enumerate(names)}


def counts(scratch: Path, names: Sequence[str]) -> dict[str, Count]:
    """What an operation of each workload costs."""
    return {
        name: Count(dump.instructions / WORKLOADS[name].operations, dump.objects()[NATIVE] / WORKLOADS[name].operations)
        for name, dump in dumps(scratch, names).items()
    }
