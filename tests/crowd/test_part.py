"""A life of a crowd ends when it is told to."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace

from tests.crowd.part import JOURNALS, Part, live
from tests.crowd.scene import draw
from tests.engine.sample import fast_directory


class _ToldMeanwhile:
    """SIGTERM comes while it is finalized: Python drops what the handler raises there."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def _work(part: Part) -> Callable[[], None]:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        part.journal.note("step", number=steps)
        if steps == 3:
            _ToldMeanwhile()
        assert steps < 10, "it went on"

    return step


def test_a_life_ends_though_a_finalizer_swallowed_its_end() -> None:
    scene = replace(draw(1, "os", 1.0, small=True), rule=False)
    codes = []
    for life in range(8):  # every other life has a handler
        with fast_directory() as root:
            (root / JOURNALS).mkdir()
            _, status = os.waitpid(live(_work, scene, root, "c0", life), 0)
            codes.append(os.waitstatus_to_exitcode(status))
    assert set(codes) == {0, -signal.SIGTERM}
