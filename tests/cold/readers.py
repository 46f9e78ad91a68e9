"""Processes that read what is away, end without closing, and fork."""

import gc
import os
import threading
from pathlib import Path

from diskstream.cold import move_out
from tests.cold.s3_server import Asked, door_to
from tests.cold.world import filled, opened, rows
from tests.engine.children import LIMIT_S, hear, say
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


def read_in_a_fork_beside_a_request(store: str, s3_port: int) -> None:
    """A fork begins while a thread waits for an object, and the storage answers only then; the child reads another."""
    begun, asked = threading.Event(), threading.Event()

    def late(question: Asked) -> None:
        if question.method == "GET" and question.is_segment:
            asked.set()
            begun.wait(LIMIT_S)

    with door_to(s3_port) as door, opened(Path(store)) as opening:
        stream = filled(opening, count=60)
        move_out(stream, door.url("forked"), older_than_ms=0)
        door.fault = late
        os.register_at_fork(before=begun.set)  # before what was registered earlier
        fetching = threading.Thread(target=rows, args=(stream, "1", "5"))
        fetching.start()
        assert asked.wait(LIMIT_S)
        child = forked(lambda: say(len(rows(stream))))
        fetching.join()
        say(ended(child))
