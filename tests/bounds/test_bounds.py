"""A leak of one small thing for each operation is found, whatever it is of."""

from collections.abc import Iterator

import pytest

from tests.bounds.held import BARS, why_not
from tests.bounds.many import full_disks, many_streams
from tests.bounds.planted import LEAKS, hunt
from tests.bounds.run import Points
from tests.engine.children import Child, child

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "")


@pytest.fixture(scope="module")
def hunter() -> Iterator[Child]:
    with child(hunt) as started:
        yield started


@pytest.mark.parametrize("kind", LEAKS)
def test_a_planted_leak_is_found(hunter: Child, kind: str) -> None:
    assert kind.partition(" of ")[0] in hunter.ask(kind)


def grown(kind: str, *counts: int) -> list[str]:
    points = Points()
    for count in counts:
        points.add({**dict.fromkeys(BARS, 0), kind: count})
    return points.grown()


def test_what_comes_and_goes_is_no_leak() -> None:
    assert grown("disk bytes", 4096, 1 << 20, 4096, 1 << 21) == []
    assert grown("Python blocks", 7, 9, 7, 8) == []


def test_what_stays_is_one() -> None:
    (found,) = grown("Python blocks", 100, 200, 300, 400)
    assert "100.0 Python blocks a cycle" in found


def test_many_streams_need_no_more_than_those_that_may_be_open() -> None:
    assert many_streams(200, seed=1)[1] == []


def test_a_full_disk_is_got_over() -> None:
    _, wrong, why = full_disks(seed=1)
    if why:
        pytest.skip(why)
    assert wrong == []
