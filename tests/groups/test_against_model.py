"""What a server of 7.0 cannot tell: refusals, claiming reads, references, idempotence, limits, exact times.

A store must do what a model does that was written after the reference of 8.x. Where the two have commands in common the
model is held against a real server by `test_against_redis.py`, and against a transcript of 8.x by `test_model.py`.
"""

import pytest

from tests.groups.grammar import EXACT, NEWER
from tests.groups.machine import run_machine
from tests.groups.shares import run_share
from tests.groups.trials import SHARES


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", SHARES, ids=str)
def test_any_sequence_from_a_seed_has_the_effect_that_the_model_says(seeds: range) -> None:
    run_share(seeds)


@pytest.mark.timeout(1800)  # where it fails, the shortest sequence that does is looked for
def test_any_sequence_of_commands_has_the_effect_that_the_model_says() -> None:
    run_machine(NEWER, EXACT)
