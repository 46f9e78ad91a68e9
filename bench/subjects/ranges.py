"""Reading everything back.

A stream is filled once; then each contender reads it from the start for the same time, in turn, again when it comes to
the end, and touches the ID and one field of each entry: `Stream.range` over sealed segments and over an active segment,
redis-py's `xrange` in pages of 1000 (hiredis, Unix socket; Redis holds a quarter of the entries, of which a page costs
the same and which it takes long enough to give), SQLite's cursor over the three columns. A Python loop that cuts two
byte strings out of a longer one for each entry is near what any such reading from Python can reach. `to_arrow` makes
one table of all columns from sealed segments, pyarrow reads the same table from a Parquet file compressed with zstd,
and `columns` gives the NumPy form; one pass before the first turn is not counted. All is in the page cache.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import diskstream
from bench import ours
from bench.context import Context
from bench.entries import Fields, sensor_entries
from bench.model import Figure, Result, Row, Target
from bench.peers import redis_server, sqlite
from bench.rounds import Contender, rate, take_turns

NAME = "range"
RATE = "entries/s"

SEALED = "Stream.range, sealed"
ACTIVE = "Stream.range, active segment"
COLUMNS = "Stream.columns, sealed"
ARROW = "Stream.to_arrow, sealed"
PARQUET = "pyarrow read_table of Parquet, zstd"
REDIS = "redis-py xrange by 1000"
SQLITE = "SQLite cursor"
LOOP = "Python loop, two slices of bytes"


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    rows = sensor_entries(context.scale.entries)
    with ExitStack() as stack:
        sealed = stack.enter_context(ours.fresh_stream(context, "everysec"))
        active = stack.enter_context(ours.fresh_stream(context, "everysec"))
        for stream in (sealed, active):
            ours.fill(stream, rows)
            ours.must_hold(stream, len(rows))
        sealed.seal()
        steps = {SEALED: range_step(sealed), ACTIVE: range_step(active), COLUMNS: columns_step(sealed)}
        if find_spec("pyarrow") is None:
            result.skipped.append("to_arrow: pyarrow is not installed")
        else:
            steps[ARROW] = arrow_step(sealed)
            steps[PARQUET] = parquet_step(stack.enter_context(context.fresh("parquet")), sealed)
        without = redis_server.missing()
        if without:
            result.skipped.append(without)
        else:
            steps[REDIS] = _redis(context, stack, rows)
        steps[SQLITE] = _sqlite(context, stack, rows)
        steps[LOOP] = loop_step(len(rows))
        # A million dicts of ours in the heap would make every garbage collection of every contender dearer.
        rows.clear()
        for step in steps.values():
            step()
        contenders = [Contender(name, _turn(context, step)) for name, step in steps.items()]
        figures = {name: Figure(RATE, samples) for name, samples in take_turns(context, contenders).items()}
    for case in (SEALED, ACTIVE):
        if REDIS in figures:
            result.rows.append(Row(case, figures[case], REDIS, figures[REDIS], Target("ratio", at_least=20)))
        result.rows.append(Row(case, figures[case], target=Target("figure", at_least=3e6)))
        for peer in (SQLITE, LOOP):
            result.rows.append(Row(case, figures[case], peer, figures[peer]))
    if ARROW in figures:
        result.rows.append(Row(ARROW, figures[ARROW], target=Target("figure", at_least=20e6)))
        result.rows.append(Row(ARROW, figures[ARROW], PARQUET, figures[PARQUET]))
    result.rows.append(Row(COLUMNS, figures[COLUMNS]))


def _turn(context: Context, step: Callable[[], int]) -> Callable[[], float]:
    return lambda: rate(step, context.seconds)


def range_step(stream: diskstream.Stream) -> Callable[[], int]:
    """A step that ranges over everything and touches the ID and one field of each entry."""

    def step() -> int:
        count = 0
        for entry in stream.range():
            _id, _value = entry.id, entry["temperature"]
            count += 1
        return count

    return step


def loop_step(count: int) -> Callable[[], int]:
    """A step of a bare loop that makes two objects for each entry, as an ID and a value have to be made."""
    stored = b"1692632086370-0 19.8"

    def step() -> int:
        for _ in range(count):
            _id, _value = stored[:15], stored[16:]
        return count

    return step


def columns_step(stream: diskstream.Stream) -> Callable[[], int]:
    """A step that takes everything as columns."""
    return lambda: len(stream.columns())


def arrow_step(stream: diskstream.Stream) -> Callable[[], int]:
    """A step that takes everything as an Arrow table."""
    return lambda: int(stream.to_arrow().num_rows)


def parquet_step(path: Path, stream: diskstream.Stream) -> Callable[[], int]:
    """A step that reads the same table from a Parquet file, by one thread as `to_arrow` does."""
    parquet = importlib.import_module("pyarrow.parquet")
    path.mkdir()
    file = path / "entries.parquet"
    parquet.write_table(stream.to_arrow(), file, compression="zstd")
    return lambda: int(parquet.read_table(file, use_threads=False).num_rows)


def _redis(context: Context, stack: ExitStack, rows: list[Fields]) -> Callable[[], int]:
    server = stack.enter_context(redis_server.server(context, "everysec"))
    quarter = rows[: len(rows) // 4]
    redis_server.fill(server, ((b"*", *(word.encode() for pair in row.items() for word in pair)) for row in quarter))
    return redis_server.range_step(server.client())


def _sqlite(context: Context, stack: ExitStack, rows: list[Fields]) -> Callable[[], int]:
    path = stack.enter_context(context.fresh("sqlite"))
    connection = stack.enter_context(sqlite.database(path, "NORMAL"))
    sqlite.batch_step(connection, iter([sqlite.values(rows)]))()
    return sqlite.range_step(connection)
