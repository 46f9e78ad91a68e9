"""Processes that have a stream with a rule open."""

import dataclasses
import threading
from pathlib import Path
from typing import Any

import diskstream
from tests.engine.children import hear, say, until
from tests.engine.forks import ended, forked
from tests.streams.test_retention import fill

OPTIONS: dict[str, Any] = {"retention_interval_ms": 2, "segment_bytes": 8192, "node_max_entries": 7}


def keep(path: str) -> None:
    """Has the stream open and does nothing with it."""
    with diskstream.open(Path(path), **OPTIONS) as store:
        say(len(store.stream("x")))
        hear()


def keep_and_fork(path: str) -> None:
    """Has a stream with a rule open, and forks; parent and fork look after it, each with a thread of its own."""
    with diskstream.open(Path(path), **OPTIONS) as store:
        stream = store.stream("x")
        fill(stream, 100)
        stream.set_retention(max_entries=50)
        until(lambda: len(stream) == 50)
        say(len(stream))

        def work() -> None:
            fill(stream, 100)
            until(lambda: len(stream) == 50)
            # The parent may have been the first to apply the rule: this process looks after it all the same.
            until(lambda: [thread.name for thread in threading.enumerate()].count("diskstream-retention") == 1)

        say(ended(forked(work)))
        fill(stream, 100)
        until(lambda: len(stream) == 50)
        say(len(stream))


def produce(path: str) -> None:
    """Adds numbered entries until it is killed, and says each number when the add has returned."""
    with diskstream.open(Path(path), **OPTIONS) as store:
        stream = store.stream("x")
        number = int(next(iter(stream.revrange(count=1)))["n"]) if len(stream) else -1
        while True:
            number += 1
            stream.add({"n": number, "pad": "." * 100})
            say(number)


def nth_rule(number: int) -> diskstream.RetentionRule | None:
    """Every third is none."""
    if number % 3 == 0:
        return None
    return diskstream.RetentionRule(max_entries=10**6 + number, ref=("KEEPREF", "ACKED")[number % 2])


def set_and_clear(path: str) -> None:
    """Sets one rule after another until it is killed; says which, each time it is durable."""
    with diskstream.open(Path(path), **OPTIONS) as store:
        stream, number = store.stream("x"), 0
        while True:
            number += 1
            rule = nth_rule(number)
            if rule is None:
                stream.clear_retention()
            else:
                stream.set_retention(**dataclasses.asdict(rule))
            say(number)
