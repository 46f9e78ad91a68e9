"""What is measured: each case makes a store, does one thing for a while, and removes the store again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import diskstream

POLICIES: Final = ("always", "everysec", "os")
_AT_ONCE: Final = 100
_FILL_AT_ONCE: Final = 1000
_STREAM: Final = "bench"


@dataclass(frozen=True)
class Bounds:
    """How much is done: of both that which is reached first.

    Attributes:
        seconds: of one round of one case; what is prepared for it is not counted.
        entries: added, or there to be read.
        value_bytes: of the one field of each entry.
    """

    seconds: float
    entries: int
    value_bytes: int


@dataclass(frozen=True)
class Case:
    """A thing to measure.

    Attributes:
        name: what it is asked for by.
        prepare: whether entries have to be there before.
        work: does it; returns entries and the seconds that they took.
    """

    name: str
    prepare: bool
    work: Callable[[diskstream.Stream, Bounds], tuple[int, float]]

    def measure(self, directory: Path, policy: str, bounds: Bounds) -> float:
        """Entries a second."""
        try:
            with diskstream.open(directory, fsync=policy) as store:
                stream = store.stream(_STREAM)
                value = b"x" * bounds.value_bytes
                stream.add({"value": value})  # the first one makes the stream, which is not what is measured
                if self.prepare:
                    with diskstream.open(directory, fsync="os") as filling:
                        _fill(filling.stream(_STREAM), bounds, value)
                entries, seconds = self.work(stream, bounds)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return entries / max(seconds, 1e-9)


def _fill(stream: diskstream.Stream, bounds: Bounds, value: bytes) -> None:
    left = bounds.entries
    while left > 0:
        some = min(left, _FILL_AT_ONCE, max(1, (16 << 20) // len(value)))
        stream.add_many([{"value": value}] * some)
        left -= some


def _add(stream: diskstream.Stream, bounds: Bounds) -> tuple[int, float]:
    row = {"value": b"x" * bounds.value_bytes}
    begin = time.perf_counter()
    until = begin + bounds.seconds
    added, now = 0, begin
    while added < bounds.entries and now < until:
        stream.add(row)
        added += 1
        now = time.perf_counter()
    return added, now - begin


def _add_many(stream: diskstream.Stream, bounds: Bounds) -> tuple[int, float]:
    rows = [{"value": b"x" * bounds.value_bytes}] * min(_AT_ONCE, max(1, (16 << 20) // bounds.value_bytes))
    begin = time.perf_counter()
    until = begin + bounds.seconds
    added, now = 0, begin
    while added < bounds.entries and now < until:
        stream.add_many(rows)
        added += len(rows)
        now = time.perf_counter()
    return added, now - begin


def _range(stream: diskstream.Stream, bounds: Bounds) -> tuple[int, float]:
    begin = time.perf_counter()
    until = begin + bounds.seconds
    read, now = 0, begin
    for _ in stream.range():
        read += 1
        if read % 256 == 0:
            now = time.perf_counter()
            if now >= until:
                break
    return read, time.perf_counter() - begin


def _group(stream: diskstream.Stream, bounds: Bounds) -> tuple[int, float]:
    group = stream.group("workers", start="0")
    consumer = group.consumer("one")
    begin = time.perf_counter()
    until = begin + bounds.seconds
    done, now = 0, begin
    while now < until:
        entries = consumer.read(count=_AT_ONCE)
        if not entries:
            break
        group.ack(*(entry.id for entry in entries))
        done += len(entries)
        now = time.perf_counter()
    return done, time.perf_counter() - begin


CASES: Final = (
    Case("add", False, _add),
    Case("add_many", False, _add_many),
    Case("range", True, _range),
    Case("group", True, _group),
)
