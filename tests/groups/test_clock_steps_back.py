"""A clock that steps back while entries are pending: nothing has been idle for less than no time."""

import itertools
from pathlib import Path

import pytest

import diskstream


def test_no_idle_time_is_below_zero(tmp_path: Path) -> None:
    times = itertools.count(1_000_000, -1)
    with diskstream.open(tmp_path / "s", clock=lambda: next(times)) as store:
        stream = store.stream("x")
        ids = stream.add_many([{"n": number} for number in range(3)])
        group = stream.group("g", start="0")
        group.consumer("c").read(count=3)
        given = [
            *group.consumer("d").claim(ids[0]),
            *group.consumer("d").autoclaim(0, count=3).entries,
            *group.consumer("e").read(count=3, claim_ms=0),
        ]
        assert {each.id for each in given} == set(ids)
        # -1 would say that nobody had it.
        assert {each.idle_ms for each in given} == {0}


def test_none_is_longer_than_an_idle_time_can_be(tmp_path: Path) -> None:
    """A clock that leapt beyond 63 bits: what was claimed was the consumer's, and the call ended with OverflowError."""
    now = [1_000]
    with diskstream.open(tmp_path / "s", clock=lambda: now[0]) as store:
        group = store.stream("x").group("g", start="0")
        first, second, third = store.stream("x").add_many([{"n": number} for number in range(3)])
        group.consumer("c").read(count=3)
        now[0] = 2**64 - 1
        given = [
            *group.consumer("d").claim(first),
            *group.consumer("d").autoclaim(0, second, count=1).entries,
            *group.consumer("c").read("0"),
        ]
        assert [(each.id, each.idle_ms) for each in given] == [(each, 2**63 - 1) for each in (first, second, third)]


@pytest.mark.parametrize("now_ms", [2**63 - 1, 2**63, 2**64 - 1])
def test_a_read_that_claims_takes_what_is_idle_at_the_greatest_times_there_are(tmp_path: Path, now_ms: int) -> None:
    """A reader that claims got nothing at 63 bits, and at the last millisecond of 64 an OverflowError."""
    now = [1_000]
    with diskstream.open(tmp_path / "s", clock=lambda: now[0]) as store:
        group = store.stream("x").group("g", start="0")
        store.stream("x").add_many([{"n": number} for number in range(2)], ids=["1-1", "1-2"])
        group.consumer("c").read()
        now[0] = now_ms
        assert [str(each.id) for each in group.consumer("d").read(claim_ms=0)] == ["1-1", "1-2"]
        assert group.ripens_in_s(0) == 0
