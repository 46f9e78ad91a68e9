"""What processes beside a test do with a keyspace."""

import sys

from diskstream.commands.keyspace import Keyspace
from tests.commands.world import Ours
from tests.engine.children import say
from tests.engine.forks import ended, forked


def _increase(keyspace: Keyspace, times: int) -> None:
    ours = Ours(keyspace)
    for number in range(times):
        ours.run("INCR counter")
        if number % 10 == 0:
            ours.run("RPUSH list x")


def increase(path: str, times: int) -> None:
    """Increases a counter so often, once it is told to."""
    with Keyspace(path) as keyspace:
        say("ready")
        sys.stdin.readline()
        _increase(keyspace, times)
        say("done")


def both_increase(path: str, times: int) -> None:
    """Parent and fork do, at the same time, through what the parent had opened."""
    with Keyspace(path) as keyspace:
        pid = forked(lambda: _increase(keyspace, times))
        _increase(keyspace, times)
        say(ended(pid))
        say((keyspace.values(0, b"counter", "string") or (b"",))[0].decode())
