"""A share of the sequences, dealt out to as many processes as there are processors: no sequence knows of another.

A process of its own says what failed, as `Trials` does, and exits with 1; whatever else it says is a failure, too.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.conftest import ROOT, RedisServer
from tests.groups.grammar import APART, COMMON, EXACT, NEWER
from tests.groups.their_side import TheirSide
from tests.groups.trials import Trials

__all__ = ["run_share"]

# Databases of the server that nobody else uses: each process has one.
_DATABASES = range(1, 9)
_COMMAND = [sys.executable, "-W", "error", "-m", "tests.groups.shares"]


def run_share(seeds: range, server: RedisServer | None = None) -> None:
    """Runs one sequence for each seed, beside the model and, where it is given, a server."""
    processes = min(len(os.sched_getaffinity(0)), len(_DATABASES), len(seeds))
    where = [] if server is None else [server.host, str(server.port), str(server.directory)]
    running: list[subprocess.Popen[str]] = []
    with ExitStack() as ended:
        for number, database in enumerate(_DATABASES[:processes]):
            each = subprocess.Popen(
                [*_COMMAND, str(database), " ".join(map(str, seeds[number::processes])), *where],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=ROOT,
            )
            running.append(ended.enter_context(each))
            ended.callback(each.kill)
        for each in running:
            said, _ = each.communicate()
            if each.returncode or said:
                pytest.fail(said or f"a process ended with {each.returncode}", pytrace=False)


def _run(seeds: Iterable[int], database: int, where: list[str]) -> None:
    if not where:
        Trials(NEWER, EXACT).run(seeds)
        return
    host, port, directory = where
    with closing(TheirSide(RedisServer(host, int(port), Path(directory)), database)) as theirs:
        Trials(COMMON, APART, theirs).run(seeds)


if __name__ == "__main__":
    try:
        _run(map(int, sys.argv[2].split()), int(sys.argv[1]), sys.argv[3:])
    except AssertionError as error:
        sys.exit(str(error))
