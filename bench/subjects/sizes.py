"""The size of the real data.

The same entries with the same explicit IDs go into diskstream (`add_many`, then `seal`; the bytes of the sealed
segments, index and copied snapshot included) and into a Redis server with `appendonly yes` (`XADD` through pipelines;
`MEMORY USAGE` with `SAMPLES 0` of each stream, and the size of the commands in the append-only file, which is never
rewritten here). Input: 24 series of sensor readings (the timestamp is the ID; with all columns kept, and once more with
the value alone), and the logs of seven systems, as columns and as plain lines. *All* counts every file's columns as
they stand and the lines; the readings with the value alone are not in it. Redis runs with its default listpack limits.
Sizes do not vary: each is taken once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diskstream
from bench import ours
from bench.context import Context, real_data
from bench.model import Figure, Result, Row, Target
from bench.peers import redis_server
from bench.realdata import RealStream, log_lines, readings, structured_logs

NAME = "sizes"
UNIT = "bytes"
BATCH = 500
MEMORY = "Redis MEMORY USAGE"
AOF = "Redis append-only file"
READINGS = "readings, all columns"
VALUES = "readings, value alone"
COLUMNS = "logs, columns"
LINES = "logs, lines"


@dataclass
class Size:
    """What one set of streams takes, in bytes."""

    sealed: int = 0
    store: int = 0
    raw: int = 0
    entries: int = 0
    memory: int = 0
    aof: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def sets(data: Path) -> dict[str, Callable[[], Iterator[RealStream]]]:
    """The sets of streams, by what they are called in the report."""
    return {
        READINGS: lambda: readings(data, with_timestamp=True),
        COLUMNS: lambda: structured_logs(data),
        LINES: lambda: log_lines(data),
        VALUES: lambda: readings(data, with_timestamp=False),
    }


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    data = real_data()
    if data is None:
        result.skipped.append("sizes: the real data is not beside the checkout")
        return
    with ExitStack() as stack:
        without = redis_server.missing()
        server = None
        if without:
            result.skipped.append(without)
        else:
            server = stack.enter_context(redis_server.server(context, "everysec"))
        found: dict[str, Size] = {}
        for name, streams in sets(data).items():
            context.say(f"loading {name}")
            with context.fresh("store") as path:
                found[name] = measure(path, streams(), server)
    every = found[READINGS] + found[COLUMNS] + found[LINES]
    _rows(result, "all", every, peers=server is not None, gate=True)
    for name, size in found.items():
        _rows(result, name, size, peers=server is not None, gate=False)


def measure(path: Path, streams: Iterator[RealStream], server: redis_server.Server | None) -> Size:
    """Loads the streams into a new store, and into the server."""
    size = Size()
    client = server.client() if server else None
    before = server.aof_bytes() if server else 0
    with diskstream.open(path, fsync="os") as store:
        for real in streams:
            stream = store.stream(real.name)
            for at in range(0, len(real.rows), BATCH):
                stream.add_many(real.rows[at : at + BATCH], ids=real.ids[at : at + BATCH])
            stream.seal()
            ours.must_hold(stream, len(real.rows))
            size.entries += len(real.rows)
            size.raw += sum(len(name) + len(value) for row in real.rows for name, value in row)
            if client is not None:
                size.memory += load_redis(client, real)
        size.sealed = ours.bytes_below(path, ".seg")
    size.store = ours.bytes_below(path)
    size.aof = server.aof_bytes() - before if server else 0
    return size


def load_redis(client: Any, real: RealStream) -> int:
    """Adds the same to Redis and returns what it takes in memory."""
    for at in range(0, len(real.rows), BATCH):
        pipeline = client.pipeline(transaction=False)
        for entry_id, row in zip(real.ids[at : at + BATCH], real.rows[at : at + BATCH], strict=True):
            pipeline.execute_command("XADD", real.name, entry_id, *(part for pair in row for part in pair))
        pipeline.execute()
    if client.xlen(real.name) != len(real.rows):
        raise RuntimeError(f"Redis holds not all of {real.name}")
    memory = int(client.memory_usage(real.name, samples=0))
    client.delete(real.name)
    return memory


def _rows(result: Result, name: str, size: Size, *, peers: bool, gate: bool) -> None:
    def figure(count: int) -> Figure:
        return Figure(UNIT, (float(count),))

    case = f"{name}: {size.entries:,} entries, sealed"
    if peers:
        quarter, fifth = Target("ratio", at_most=0.25), Target("ratio", at_most=0.2)
        result.rows.append(Row(case, figure(size.sealed), MEMORY, figure(size.memory), quarter if gate else None))
        result.rows.append(Row(case, figure(size.sealed), AOF, figure(size.aof), fifth if gate else None))
    result.rows.append(Row(case, figure(size.sealed), "names and values alone", figure(size.raw)))
    if gate:
        with_all = f"{size.store:,} bytes, of which the sealed segments are {size.sealed:,}"
        result.notes.append(f"The directories of the three stores, with all that is in them: {with_all}.")
