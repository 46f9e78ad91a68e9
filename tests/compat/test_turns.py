"""Turns of threads, while signal handlers raise: whoever was interrupted keeps nobody waiting."""

import contextlib
import threading

import pytest

from diskstream.compat.turns import Turns
from tests.engine.children import LIMIT_S
from tests.engine.interruption import Interruption


def take(turns: Turns, kind: str) -> None:
    with turns.alone() if kind == "alone" else turns.shared():
        pass


@pytest.mark.parametrize("kind", ["alone", "shared"])
def test_an_interrupt_at_any_moment_of_a_turn_leaves_the_next_one_to_all(kind: str) -> None:
    nth, done = 0, False
    while not done:
        nth += 1
        turns, interruption = Turns(), Interruption(nth)
        with contextlib.suppress(KeyboardInterrupt):
            interruption.begin()
            try:
                take(turns, kind)
            finally:
                interruption.end()
        done = interruption.left > 0
        for word in ("shared", "alone"):
            other = threading.Thread(target=take, args=(turns, word), daemon=True)
            other.start()
            other.join(LIMIT_S)
            assert not other.is_alive(), interruption.place
        take(turns, "shared")
    assert nth > 10


def test_who_is_alone_waits_for_all_and_goes_before_those_that_come_later() -> None:
    turns, order = Turns(), list[str]()
    begun = threading.Event()

    def alone() -> None:
        begun.set()
        with turns.alone():
            order.append("alone")

    def later() -> None:
        with turns.shared():
            order.append("later")

    with turns.shared():
        first = threading.Thread(target=alone)
        first.start()
        assert begun.wait(LIMIT_S)
        while not turns._gate.locked():
            pass
        second = threading.Thread(target=later)
        second.start()
        order.append("first")
    first.join(LIMIT_S)
    second.join(LIMIT_S)
    assert order == ["first", "alone", "later"]
