"""A life of a crowd ends when it is told to, and repeats nothing that it has noted when it is interrupted."""

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import diskstream
from tests.crowd.journal import Journal, read_journal
from tests.crowd.looking import follow
from tests.crowd.part import JOURNALS, Part, live
from tests.crowd.scene import draw, row_of
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
    for life in range(8):  # some of them have a handler
        with fast_directory() as root:
            (root / JOURNALS).mkdir()
            _, status = os.waitpid(live(_work, scene, root, "c0", life), 0)
            codes.append(os.waitstatus_to_exitcode(status))
    assert set(codes) == {0, -signal.SIGTERM}


class _Interrupted(Journal):
    """An interruption comes as soon as the end of an operation is noted."""

    @contextmanager
    def op(self, word: str, **about: Any) -> Iterator[dict[str, Any]]:
        with super().op(word, **about) as done:
            yield done
        raise KeyboardInterrupt


def test_who_follows_and_is_interrupted_goes_on_behind_what_was_noted(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        part = Part(
            draw(1, "os", 1.0, small=True), tmp_path, "f0", 0, store, _Interrupted(tmp_path, "f0", 0), random.Random(1)
        )
        step = follow(part)
        for key in ("q0.0.1", "q0.0.2"):
            part.stream.add(row_of(key))
            with pytest.raises(KeyboardInterrupt):
                step()
    assert [op.result["keys"] for op in read_journal(tmp_path / "f0.0")] == ["q0.0.1", "q0.0.2"]
