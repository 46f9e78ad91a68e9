"""When entries are due, by a clock of the test's own."""

from threading import Event

import pytest

from diskstream import ArgumentError
from diskstream.replaying import Pacer


class Clock:
    """Goes on only while somebody waits."""

    def __init__(self) -> None:
        self.now = 50.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(("speed", "took"), [(1.0, 10.0), (10.0, 1.0), (0.5, 20.0), (None, 0.0)])
def test_each_comes_as_long_after_the_first_as_it_did(clock: Clock, speed: float | None, took: float) -> None:
    pacer = Pacer(speed, clock=clock, wait=clock.wait)
    for ms in (1_700_000_000_000, 1_700_000_000_000, 1_700_000_004_000, 1_700_000_010_000):
        assert pacer.wait(ms)
        pacer.sent()
    assert clock.now - 50.0 == pytest.approx(took)


def test_what_was_late_is_caught_up(clock: Clock) -> None:
    pacer = Pacer(1.0, clock=clock, wait=clock.wait)
    pacer.wait(0)
    clock.now += 7  # the target was slow
    assert pacer.due_in(5_000) == 0
    pacer.wait(8_000)
    assert clock.now == pytest.approx(58.0)


def test_a_rate_is_kept_and_a_pause_is_not_caught_up(clock: Clock) -> None:
    pacer = Pacer(None, rate=100, clock=clock, wait=clock.wait)
    for _ in range(200):
        assert pacer.wait(0)
        pacer.sent()
    assert clock.now - 50.0 == pytest.approx(2.0, abs=0.3)
    clock.now += 1000
    before = clock.now
    for _ in range(100):
        pacer.wait(0)
        pacer.sent()
    assert clock.now - before > 0.7


def test_stopping_ends_a_wait_however_long(clock: Clock) -> None:
    stop = Event()

    def wait(seconds: float) -> None:
        clock.wait(seconds)
        if len(clock.waits) == 3:
            stop.set()

    pacer = Pacer(1.0, stop=stop, clock=clock, wait=wait)
    assert pacer.wait(0)
    assert not pacer.wait(2**63)
    assert len(clock.waits) == 3
    assert max(clock.waits) <= 3600


NO_PACES = [
    *({"speed": speed} for speed in (0.0, -1.0, 1e-320, 9e-7, float("inf"), float("nan"))),
    *({"rate": rate} for rate in (0.0, 5e-324, 9e-7, float("inf"))),
]


@pytest.mark.parametrize("options", NO_PACES)
def test_what_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=r"from 0\.000001 on"):
        Pacer(**options)  # type: ignore[arg-type]  # one of its options, of its kind
