"""diskstream as the benchmarks use it: the public surface alone, with its default options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import diskstream
from bench.context import Context
from bench.entries import Fields

NAME = "bench"


@contextmanager
def fresh_stream(context: Context, fsync: str) -> Iterator[diskstream.Stream]:
    """A stream in a new store, removed afterwards."""
    with context.fresh("store") as path, diskstream.open(path, fsync=fsync) as store:
        yield store.stream(NAME)


def add_step(stream: diskstream.Stream, rows: list[Fields]) -> Callable[[], int]:
    """A step that adds the rows, one call each."""

    def step() -> int:
        add = stream.add
        for row in rows:
            add(row)
        return len(rows)

    return step


def add_many_step(stream: diskstream.Stream, batches: Iterator[list[Fields]]) -> Callable[[], int]:
    """A step that adds the next batch in one call."""

    def step() -> int:
        batch = next(batches)
        stream.add_many(batch)
        return len(batch)

    return step


def fill(stream: diskstream.Stream, rows: list[Fields], size: int = 500) -> None:
    """Adds all rows, `size` a call."""
    for at in range(0, len(rows), size):
        stream.add_many(rows[at : at + size])


def must_hold(stream: diskstream.Stream, count: int) -> None:
    """A figure counts only when everything that was added is there."""
    if len(stream) != count:
        raise RuntimeError(f"the stream holds {len(stream)} entries and {count} were added")


def bytes_below(path: Path, suffix: str = "") -> int:
    """The sizes of the files below a directory whose names end in `suffix`, added up."""
    return sum(file.stat().st_size for file in path.rglob(f"*{suffix}") if file.is_file())
