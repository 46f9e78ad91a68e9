"""Clients that wait alike: the first of them alone looks for all, so the next one is to look at what it leaves behind.

An entry is kept for a while for a consumer that waits in another process; where that one died, and the first client
here went meanwhile, the others were not looked at before the next entry came.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Reply
from diskstream.commands.waiters import Waiters
from diskstream.commands.waiting import Waiting
from diskstream.server.connection import Connection
from tests.commands.world import Ours

KEY = (0, b"x")


class _Group:
    """Of which one entry is left to somebody elsewhere."""

    def __init__(self) -> None:
        self.entry: Reply | None = None
        self.is_kept = True

    def look(self) -> Reply | None:
        found, self.entry = self.entry, None
        self.is_kept = self.is_kept and found is None
        return found

    def ripe_at(self) -> float | None:
        return time.monotonic() + 60 if self.is_kept else None

    def waiting(self, until: float | None = None) -> Waiting:
        return Waiting(0, (KEY[1],), until, self.look, self.ripe_at, kin="workers")


def _connection() -> Connection:
    keyspace = SimpleNamespace(moment=SimpleNamespace(at=None))
    caller = SimpleNamespace(waiting=None, last_command="xreadgroup", keyspace=keyspace)
    return cast("Connection", SimpleNamespace(waiter=None, caller=caller))


GO: dict[str, Callable[[Waiters[Connection], Connection], Any]] = {
    "hangs up": lambda waiters, first: waiters.drop(first),
    "is unblocked": lambda waiters, first: waiters.unblock(first, with_error=False),
    "has waited long enough": lambda waiters, _first: waiters.serve_due(1000.0),
}


@pytest.mark.parametrize("how", GO)
def test_where_the_first_goes_the_next_looks_at_what_is_left_to_others(how: str) -> None:
    finished: list[Connection] = []
    waiters: Waiters[Connection] = Waiters(lambda connection, _reply: finished.append(connection))
    group = _Group()
    first, second = _connection(), _connection()
    waiters.add(first, group.waiting(until=1000.0), now=0.0)
    waiters.add(second, group.waiting(), now=0.0)
    waiters.serve([KEY], 0.0)
    assert second.waiter is not None
    second.waiter.due = math.inf  # as though it had begun before there was an entry
    waiters._due = [row for row in waiters._due if row[2] is first.waiter]
    GO[how](waiters, first)
    group.entry = b"free again"
    assert waiters.next_due() < math.inf, "nobody looks again"
    waiters.serve_due(waiters.next_due())
    assert finished[-1] is second


def test_where_nothing_is_left_to_others_nobody_is_to_look() -> None:
    waiters: Waiters[Connection] = Waiters(lambda _connection, _reply: None)
    group = _Group()
    group.is_kept = False
    first, second = _connection(), _connection()
    for each in (first, second):
        waiters.add(each, group.waiting(), now=0.0)
    waiters.drop(first)
    assert waiters.next_due() == math.inf


@pytest.mark.parametrize("entries", [1, 2])
def test_who_comes_does_not_go_before_who_waits_alike(entries: int) -> None:
    """What came since its command looked is for those who wait already; it is given what they leave."""
    finished: list[Connection] = []
    waiters: Waiters[Connection] = Waiters(lambda connection, _reply: finished.append(connection))
    left: list[Reply] = []
    first, second = _connection(), _connection()
    for each in (first, second):
        waiting = Waiting(0, (KEY[1],), None, lambda: left.pop() if left else None, kin="workers")
        waiters.add(each, waiting, now=0.0)
        if each is second:
            assert second.waiter is not None
            left += [b"an entry"] * entries
            waiters.serve_new(second.waiter, 0.0)
    assert finished == [first, second][:entries]


def test_what_has_ripened_is_for_the_first_who_waits_whoever_is_due() -> None:
    """Who had looked last was due first, and was given what others had waited for longer."""
    finished: list[Connection] = []
    waiters: Waiters[Connection] = Waiters(lambda connection, _reply: finished.append(connection))
    left: list[Reply] = []
    ripens = {"first": 0.002, "second": 0.001}

    def look() -> Reply | None:
        return left.pop() if left else None

    connections = {name: _connection() for name in ripens}
    for name, connection in connections.items():
        waiting = Waiting(0, (KEY[1],), None, look, partial(ripens.__getitem__, name), kin="claiming")
        waiters.add(connection, waiting, now=0.0)
    left.append(b"an entry")
    ripens |= {"first": 9.0, "second": 9.0}
    waiters.serve_due(0.001)
    assert finished == [connections["first"]]
    left.append(b"another one")
    waiters.serve_due(9.0)
    assert finished == [connections["first"], connections["second"]], "it is due no more"


@pytest.mark.parametrize("times", [(9.0, 0.001), (0.001, 0.001, 0.001)])
def test_where_nothing_has_ripened_one_of_those_who_wait_alike_looks(times: tuple[float, ...]) -> None:
    """Hundreds may claim by one age, and all of them are due at one moment."""
    looks: list[int] = []
    waiters: Waiters[Connection] = Waiters(lambda _connection, _reply: None)
    for ripens in times:
        waiting = Waiting(0, (KEY[1],), None, lambda: looks.append(1), partial(float, ripens), kin="claiming")
        waiters.add(_connection(), waiting, now=0.0)
    waiters.serve_due(0.001)
    assert len(looks) == 1
    waiters.serve_due(0.002)
    assert len(looks) == 2, "they are due again"


def test_those_who_wait_for_the_same_lists_wait_alike(tmp_path: Path) -> None:
    with Keyspace(tmp_path / "data", fsync="os") as keyspace:
        waits = [Ours(keyspace).raw(*words, b"0") for words in ([b"BLPOP", b"k", b"l"], [b"BRPOP", b"k", b"l"])]
        assert [isinstance(each, Waiting) and each.kin for each in waits] == [("list", 0, (b"k", b"l"))] * 2
