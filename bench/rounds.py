"""How contenders take turns: A B C A B C ..., each for the same wall time, with the disk quiet in between."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.context import Context


@dataclass(frozen=True)
class Contender:
    """One way to do the work. `run` measures one turn by itself, set-up and clean-up left out, and returns a figure."""

    name: str
    run: Callable[[], float]


def rate(step: Callable[[], int], seconds: float) -> float:
    """Calls `step` until `seconds` have passed and returns what it did in a second, by its own count."""
    done = 0
    begin = time.perf_counter()
    end = begin + seconds
    while True:
        done += step()
        now = time.perf_counter()
        if now >= end:
            return done / (now - begin)


def settle(context: Context) -> None:
    """Leaves nothing of the last turn for the next to pay: dirty pages are written back, garbage is collected."""
    gc.collect()
    if context.seconds >= 0.2:
        os.sync()
        time.sleep(0.1)


def take_turns(
    context: Context, contenders: list[Contender], rounds: int | None = None
) -> dict[str, tuple[float, ...]]:
    """Runs every contender once a round, in turn, and returns their figures by name, one a round."""
    figures: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    rounds = rounds or context.rounds
    for number in range(rounds):
        for contender in contenders:
            context.say(f"round {number + 1} of {rounds}: {contender.name}")
            settle(context)
            figures[contender.name].append(contender.run())
    return {name: tuple(samples) for name, samples in figures.items()}
