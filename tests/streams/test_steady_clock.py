"""A clock that jumps ahead is not believed at once: by a wrong date every entry would be too old."""

import pytest

from diskstream.steady_clock import STEADY_MS, STEP_MS, SteadyClock

DAY_MS = 86_400_000
START = 1_800_000_000_000


class Machine:
    """Two clocks: one that can be set, and one that counts from the start."""

    def __init__(self) -> None:
        self.boot_ms, self.offset_ms = 5_000, START
        self.clock = SteadyClock(lambda: self.boot_ms)

    def pass_by(self, ms: int) -> None:
        self.boot_ms += ms

    @property
    def wall_ms(self) -> int:
        return self.boot_ms + self.offset_ms

    def believed(self, newest: tuple[int, int] | None = None) -> int:
        return self.clock.believed(self.wall_ms, newest)


@pytest.fixture
def machine() -> Machine:
    made = Machine()
    made.believed()
    made.pass_by(STEADY_MS)
    assert made.believed() == made.wall_ms
    return made


def test_a_steady_clock_is_believed(machine: Machine) -> None:
    for ms in (0, 1, 1000, DAY_MS, 365 * DAY_MS):
        machine.pass_by(ms)
        assert machine.believed() == machine.wall_ms


def test_a_jump_ahead_is_believed_when_it_has_lasted(machine: Machine) -> None:
    machine.pass_by(5000)
    expected = machine.wall_ms
    machine.offset_ms += 365 * DAY_MS
    assert machine.believed() == expected
    for _ in range(9):
        machine.pass_by(STEADY_MS // 10)
        expected += STEADY_MS // 10
        assert machine.believed() == expected, "time goes on meanwhile"
    machine.pass_by(STEADY_MS // 10)
    assert machine.believed() == machine.wall_ms


def test_a_jump_ahead_that_is_put_right_has_done_nothing(machine: Machine) -> None:
    machine.offset_ms += 365 * DAY_MS
    assert machine.believed() < START + 2 * STEADY_MS
    machine.pass_by(STEADY_MS // 2)
    machine.offset_ms -= 365 * DAY_MS
    assert machine.believed() == machine.wall_ms
    machine.pass_by(STEADY_MS)
    assert machine.believed() == machine.wall_ms


def test_jumps_on_jumps_do_not_add_up_to_belief(machine: Machine) -> None:
    right = machine.wall_ms
    for _ in range(50):
        machine.offset_ms += DAY_MS
        machine.pass_by(STEADY_MS // 2)
        right += STEADY_MS // 2
        assert machine.believed() == right


def test_a_step_back_counts_at_once(machine: Machine) -> None:
    machine.offset_ms -= 30 * DAY_MS
    assert machine.believed() == machine.wall_ms


def test_small_steps_are_no_jumps(machine: Machine) -> None:
    machine.offset_ms += STEP_MS
    assert machine.believed() == machine.wall_ms
    machine.offset_ms -= STEP_MS
    assert machine.believed() == machine.wall_ms


def test_small_steps_that_add_up_are_one(machine: Machine) -> None:
    began = machine.wall_ms
    for ahead in (0, 1, 2, 3):
        machine.offset_ms = START + ahead * (STEP_MS // 2)
        assert machine.believed() == (machine.wall_ms if ahead * (STEP_MS // 2) <= STEP_MS else began)


def test_at_first_the_newest_entry_vouches_for_the_clock() -> None:
    """After the start of a machine the clock may be anything, until something has put it right."""
    machine = Machine()
    machine.offset_ms += 50 * 365 * DAY_MS
    newest = machine.clock.newest_at(START)
    assert machine.believed(newest) == START + STEP_MS
    machine.pass_by(STEADY_MS - 1)
    assert machine.believed(newest) == START + STEP_MS + STEADY_MS - 1
    machine.pass_by(1)
    assert machine.believed(newest) == machine.wall_ms


def test_at_first_a_clock_that_entries_agree_with_is_believed() -> None:
    machine = Machine()
    newest = machine.clock.newest_at(machine.wall_ms - 5000)
    assert machine.believed(newest) == machine.wall_ms


def test_a_clock_put_right_in_the_first_minutes_is_believed_later() -> None:
    """A machine without a battery begins in 1970."""
    machine = Machine()
    machine.offset_ms = 0
    newest = machine.clock.newest_at(START)
    assert machine.believed(newest) == machine.wall_ms
    machine.pass_by(60_000)
    machine.offset_ms = START
    assert machine.believed(newest) < START
    machine.pass_by(STEADY_MS)
    assert machine.believed(newest) == machine.wall_ms
