"""The demo of the guide in its quick form; `python -m bench.archive_demo` is the long one."""

import shutil
from pathlib import Path

import pytest

from bench.archive_demo import KEYS, Demo

ENTRIES, KILLS = 50_000, 2


def test_history_moves_out_of_a_redis_that_is_in_use_while_the_archiver_is_killed(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("needs the program redis-server, which is not installed")
    figures = Demo(
        ENTRIES, KILLS, tmp_path, quiet=True
    ).run()  # asserts that each entry is in one place, and memory free
    assert figures["produced"] == figures["archived"] + figures["left at the source"] >= ENTRIES
    assert figures["MEMORY USAGE after"] < figures["MEMORY USAGE before"] / 10
    assert len(KEYS) == 3
