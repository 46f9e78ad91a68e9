"""No more a second than was asked for, and no less where that can be had."""

import threading
from typing import Any

import pytest

from diskstream.archiving import ArchiveOptions
from diskstream.errors import ArgumentError
from diskstream.pace import Pace


class Clock:
    """A clock that goes on when somebody waits for it."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.waits.append(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def paced(clock: Clock, per_s: float) -> Pace:
    return Pace(per_s, clock=lambda: clock.now_s)


def test_the_time_that_the_work_takes_counts(clock: Clock) -> None:
    """What was moved to object storage, and copied out of a Redis, was paid for on top of it: at half the rate."""
    pace = paced(clock, 5000)
    for _ in range(40):
        clock.now_s += 0.08  # reading 500 bytes
        pace.passed(500, clock.wait)
    assert 3.9 < clock.now_s - 100.0 < 4.3


def test_what_was_not_used_long_ago_is_not_caught_up(clock: Clock) -> None:
    pace = paced(clock, 1000)
    pace.passed(500, clock.wait)
    clock.now_s += 1000
    began = clock.now_s
    for _ in range(4):
        pace.passed(500, clock.wait)
    assert 1.7 < clock.now_s - began <= 2


def test_the_bound_is_of_all_threads_together(clock: Clock) -> None:
    pace = paced(clock, 1000)
    left: list[float] = []
    threads = [threading.Thread(target=pace.passed, args=(1000, left.append)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(left) == [1, 2, 3, 4]


def test_a_long_wait_is_cut_into_pieces_and_ends_when_it_is_told_to(clock: Clock) -> None:
    """Of some slow bounds the system said that the time to wait is too long."""
    pace = paced(clock, 1e-9)
    told: list[float] = []

    def stop(seconds: float) -> bool:
        told.append(seconds)
        return len(told) == 3

    pace.passed(1, stop)
    assert told == [30, 30, 30]


def test_without_a_bound_nobody_waits(clock: Clock) -> None:
    Pace(None).passed(1 << 60, clock.wait)
    assert clock.waits == []


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), True, "1"])
def test_a_bound_is_a_number_above_0(rate: Any) -> None:
    """Of an infinite one the archiver made a batch of as many entries, in Python's words."""
    with pytest.raises(ArgumentError, match="rate must be a number above 0"):
        ArchiveOptions(rate=rate).check()
