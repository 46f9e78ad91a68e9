"""The same operations on streams and groups, in any order, to a store and to a Redis server.

Every reply and all that can be seen afterwards must agree: across two openings of one directory, reopening, a view that
was thrown away, rolls, seals and compactions. Between the two stands a model of what Redis 8.x does, since the server
is one of 7.0: see `bout.py` and `their_side.py`.
"""

from collections.abc import Iterator

import pytest

from tests.conftest import RedisServer
from tests.groups.grammar import APART, COMMON
from tests.groups.machine import run_machine
from tests.groups.shares import run_share
from tests.groups.their_side import TheirSide
from tests.groups.trials import SHARES


@pytest.fixture
def theirs(redis_server: RedisServer) -> Iterator[TheirSide]:
    side = TheirSide(redis_server)
    yield side
    side.close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", SHARES, ids=str)
def test_any_sequence_from_a_seed_has_the_same_effect_on_both_sides(redis_server: RedisServer, seeds: range) -> None:
    run_share(seeds, redis_server)


@pytest.mark.timeout(1800)  # where it fails, the shortest sequence that does is looked for
def test_any_sequence_of_commands_has_the_same_effect_on_both_sides(theirs: TheirSide) -> None:
    run_machine(COMMON, APART, theirs)
