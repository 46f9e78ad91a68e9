"""Processes that read what is away, end without closing, and fork."""

import gc
import os
import threading
from pathlib import Path

from tests.cold.world import opened, rows
from tests.engine.children import hear, say
from tests.engine.forks import ended, forked


def read(store: str, end: str) -> None:
    """Says how many entries there are, and ends when told to: `at once`, or with a thread that reads on."""
    opening = opened(Path(store), read_only=True)
    say(len(rows(opening.stream("x"))))
    hear()
    if end != "at once":
        threading.Thread(target=lambda: rows(opening.stream("x"))).start()


def read_in_forks(store: str) -> None:
    """One fork closes; another does nothing until its parent has closed, and reads then."""
    opening = opened(Path(store), read_only=True)
    before = rows(opening.stream("x"))

    def close() -> None:
        opening.close()
        gc.collect()

    code = ended(forked(close))
    say("closed in a fork")
    hear()
    gate = os.pipe()

    def go_on() -> None:
        os.read(gate[0], 1)
        assert rows(opening.stream("x")) == before
        opening.close()

    lives_on = forked(go_on)
    opening.close()
    say("closed")
    hear()
    os.write(gate[1], b".")
    say(code)
    say(ended(lives_on))
