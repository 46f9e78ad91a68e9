"""When a pending entry was delivered, told by a server as an age, to the millisecond."""

import itertools
from typing import Any

import pytest
import redis

from diskstream.archiving import group_states
from diskstream.archiving.group_states import groups_of

DELIVERED_MS = {b"1-0": 5_000, b"2-0": 5_003, b"3-0": 4_000}


class Ticking:
    """A Redis whose clock goes on by so much with each command; Redis 7.2 looks at it once for a transaction."""

    url = "redis://nowhere"

    def __init__(self, step_us: int, start_us: int, *, once: bool, is_full: bool = False) -> None:
        self.now_us, self.step_us, self.once, self.is_full = start_us, step_us, once, is_full
        self.client = self

    def call(self, _doing: str, *words: Any) -> Any:
        self.now_us += self.step_us
        if words[:2] == ("XINFO", "GROUPS"):
            return [{b"name": b"g", b"last-delivered-id": b"3-0", b"entries-read": 3}]
        if words[:2] == ("XINFO", "CONSUMERS"):
            return [{b"name": b"c", b"idle": 0, b"inactive": 0}]
        if words[0] == "TIME":
            return [b"%d" % (self.now_us // 1_000_000), b"%d" % (self.now_us % 1_000_000)]
        assert words[0] == "XPENDING"
        seen_ms = (self.begun_us if self.once else self.now_us) // 1000
        rows = [(name, b"c", seen_ms - at, 1) for name, at in sorted(DELIVERED_MS.items())]
        return [row for row in rows if row[0] >= words[3]][: words[-1]]

    def pipeline(self, **_options: Any) -> "Ticking":
        self.words: list[tuple[Any, ...]] = []
        return self

    def execute_command(self, *words: Any) -> None:
        self.words.append(words)

    def execute(self) -> list[Any]:
        words = [each[0] for each in self.words]
        if "MULTI" not in words:
            return [self.call("", *each) for each in self.words]
        if self.is_full:
            raise redis.exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'.")
        begins, ends = words.index("MULTI"), words.index("EXEC")
        replies = [self.call("", *each) for each in self.words[:begins]]
        self.now_us += self.step_us
        self.begun_us = self.now_us
        queued = self.words[begins + 1 : ends]
        return [*replies, "OK", *["QUEUED" for _ in queued], [self.call("", *each) for each in queued]]


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("at_once", [2, 5000])
def test_the_time_of_a_delivery_is_the_one_that_the_server_has(
    monkeypatch: pytest.MonkeyPatch, once: bool, at_once: int
) -> None:
    """It was a millisecond too early where the clock went on between the two commands."""
    monkeypatch.setattr(group_states, "_PENDING_AT_ONCE", at_once)
    for step_us, start_us in itertools.product((7, 61, 170), range(20_000_000, 20_001_000, 13)):
        server: Any = Ticking(step_us, start_us, once=once)
        (group,) = groups_of(server, b"s")
        assert {bytes(row.id): row.delivered_ms for row in group.pending} == DELIVERED_MS, (step_us, start_us)


def test_so_is_it_where_a_server_without_room_takes_no_transaction() -> None:
    """Its clock is looked at for each command, then."""
    for step_us, start_us in itertools.product((7, 61, 170), range(20_000_000, 20_001_000, 13)):
        server: Any = Ticking(step_us, start_us, once=False, is_full=True)
        (group,) = groups_of(server, b"s")
        assert {bytes(row.id): row.delivered_ms for row in group.pending} == DELIVERED_MS, (step_us, start_us)


def test_what_is_delivered_anew_between_two_answers_says_nothing_of_the_clock() -> None:
    """Without a transaction: the ages of all others were taken for as much less."""
    server: Any = Ticking(7, 20_000_000, once=False, is_full=True)
    looks = itertools.count()

    def redelivered(doing: str, *words: Any) -> Any:
        reply = Ticking.call(server, doing, *words)
        if words[0] == "XPENDING" and words[-1] > 1 and not next(looks):
            return [(b"1-0", b"other", 0, 2), *reply[1:]]
        return reply

    server.call = redelivered
    (group,) = groups_of(server, b"s")
    assert {bytes(row.id): row.delivered_ms for row in group.pending} == DELIVERED_MS
