"""A store whose closing Ctrl-C ended somewhere, which is then closed again, or dropped."""

import gc
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

from diskstream import Store
from diskstream.engine import keeper
from tests.engine.children import say
from tests.engine.interruption import WORKS, interrupted, made
from tests.engine.sample import fast_directory

__all__ = ["ENDS", "let_go_everywhere"]

ENDS: dict[str, Callable[[list[Store]], object]] = {
    "closed again": lambda held: held.pop().close(),
    "dropped": lambda held: held.clear(),
}


def _left(path: Path) -> list[str]:
    """Threads that still run, and files that are still open."""
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("diskstream-")]
    files = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = str(Path("/proc/self/fd", fd).readlink())
        except FileNotFoundError:
            continue
        # The view ends in a destructor, of which the interpreter drops what is raised in it.
        files += [target] if target.startswith(str(path)) and "/view/" not in target else []
    return threads + files


def let_go_everywhere(end: str) -> None:
    """Closes a store again and again, interrupted a moment later each time; says what is left after it has ended."""
    nth, moments = 1, 0
    warnings.simplefilter("ignore", ResourceWarning)
    with fast_directory() as directory:
        while True:
            path = directory / str(nth)
            held = [made(path)]
            place = interrupted(held[0], WORKS["close"], nth)
            ENDS[end](held)
            held.clear()
            gc.collect()
            keeper.wait_for_last()
            gc.collect()
            if left := _left(path):
                say(f"after Ctrl-C at moment {nth}, {place}: {left}")
            if place is None:
                break
            moments += 1
            say("at", nth)
            # Every moment at first, then further and further apart, as `interrupt_everywhere`.
            nth += 1 + nth // 40
    say("moments", moments)
