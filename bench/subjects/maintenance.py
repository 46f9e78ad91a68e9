"""Keeping a store: reading it against its checksums, exporting it, compacting it.

One stream of readings with four small fields, added in frames of 500 and sealed. *Verify* reads every byte of the
store (`diskstream verify`); *export* writes all entries to an Arrow file, its flush included (`diskstream export
--format arrow`), one column a field, or all fields of each entry as a list. All are in bytes of the entries' names
and values a second, whatever the files hold. The peer of the export is pyarrow writing the same columns, which it has
in memory already. *Compact* merges segments of which every other entry was deleted: entries that it went through a
second; what it wrote is read back. Each turn has a copy of the store of its own. All files are in the page cache.
"""

from __future__ import annotations

import importlib
import os
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import diskstream
from bench.context import Context
from bench.model import Figure, Result, Row, Target
from bench.rounds import Contender, take_turns
from diskstream.exporting import Column, ExportRequest, export_file
from diskstream.verifying import verify

NAME = "maintenance"
STREAM = b"readings"
FRAME = 500
NAMES = (b"sensor-id", b"temperature", b"humidity", b"battery")
SEGMENT_BYTES = 8 << 20
LEAST_BYTES_PER_S = 500e6
LEAST_COMPACTED_PER_S = 2e6


def run(context: Context, result: Result) -> None:
    """Makes the stores, takes turns, and puts the rows into `result`."""
    importlib.import_module("pyarrow.ipc")  # once in a process, and no part of an export
    with context.fresh("kept") as kept, context.fresh("holed") as holed:
        context.say(f"{context.scale.entries:,} entries, sealed")
        _fill(kept, context.scale.entries)
        shutil.copytree(kept, holed)
        _delete_every_other(holed)
        columns = [Column(name) for name in NAMES]
        size_bytes = _size_bytes(kept)
        contenders = [
            Contender("verify", lambda: size_bytes / _verify(kept)),
            Contender("export columns", lambda: size_bytes / _export(context, kept, columns)),
            Contender("export fields", lambda: size_bytes / _export(context, kept, [])),
            Contender("pyarrow columns", lambda: size_bytes / _pyarrow(context, kept, columns)),
            Contender("pyarrow fields", lambda: size_bytes / _pyarrow(context, kept, [])),
            Contender("compact", lambda: _compact(context, holed)),
        ]
        found = take_turns(context, contenders)
    least = Target("figure", at_least=LEAST_BYTES_PER_S)
    result.rows.append(Row("verify", Figure("B/s", found["verify"]), target=least))
    for shape, case in (("columns", "a column a field"), ("fields", "fields as a list")):
        ours, peer = Figure("B/s", found[f"export {shape}"]), Figure("B/s", found[f"pyarrow {shape}"])
        result.rows.append(Row(f"export, {case}", ours, "pyarrow, from memory", peer, least))
    compacted = Target("figure", at_least=LEAST_COMPACTED_PER_S)
    result.rows.append(Row("compact", Figure("entries/s", found["compact"]), target=compacted))


def _fill(path: Path, entries: int) -> None:
    chance = random.Random(20)
    with diskstream.open(path, fsync="os", seal="manual", segment_bytes=SEGMENT_BYTES) as store:
        stream = store.stream(STREAM)
        for first in range(0, entries, FRAME):
            rows = [dict(zip(NAMES, _reading(chance), strict=True)) for _ in range(first, min(entries, first + FRAME))]
            stream.add_many(rows)
        stream.seal()


def _reading(chance: random.Random) -> tuple[bytes, ...]:
    return (
        b"%d" % chance.randrange(1000, 10000),
        b"%.1f" % chance.uniform(-20, 40),
        b"%d" % chance.randrange(100),
        b"%.2f" % chance.uniform(3, 4),
    )


def _delete_every_other(path: Path) -> None:
    with diskstream.open(path, fsync="os", seal="manual", segment_bytes=SEGMENT_BYTES) as store:
        stream = store.stream(STREAM)
        ids = [entry.id for entry in stream.range()][::2]
        for first in range(0, len(ids), 10_000):
            stream.delete(*ids[first : first + 10_000])


def _verify(path: Path) -> float:
    began = time.perf_counter()
    report = verify(path)
    seconds = time.perf_counter() - began
    assert report.ok, report
    return seconds


def _size_bytes(path: Path) -> int:
    """Bytes of the names and values of all entries."""
    with diskstream.open(path, read_only=True) as store:
        return sum(len(name) + len(value) for entry in store.stream(STREAM).range() for name, value in entry.pairs)


def _export(context: Context, path: Path, columns: list[Column]) -> float:
    with _target(context) as target, diskstream.open(path, read_only=True) as store:
        began = time.perf_counter()
        export_file(store, ExportRequest([STREAM], "arrow", columns=columns), target)
        return time.perf_counter() - began


def _pyarrow(context: Context, path: Path, columns: list[Column]) -> float:
    import pyarrow as pa

    with diskstream.open(path, read_only=True) as store:
        stream = store.stream(STREAM)
        lists = stream.scan(layout="fields", times=False)
        table = stream.to_arrow(fields=list(NAMES)) if columns else pa.Table.from_batches(lists)
    with _target(context) as target:
        began = time.perf_counter()
        with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        with target.open("rb+") as file:
            os.fsync(file.fileno())
        return time.perf_counter() - began


@contextmanager
def _target(context: Context) -> Iterator[Path]:
    with context.fresh("export") as directory:
        directory.mkdir()
        yield directory / "readings.arrow"


def _compact(context: Context, path: Path) -> float:
    with context.fresh("compact") as directory:
        shutil.copytree(path, directory)
        with diskstream.open(directory, fsync="os", seal="manual", segment_bytes=SEGMENT_BYTES) as store:
            stream = store.stream(STREAM)
            before = stream.info().entries_added
            began = time.perf_counter()
            report = stream.compact()
            seconds = time.perf_counter() - began
        assert report is not None
        assert report.entries_dropped >= before // 2 - 1, report
        return before / seconds
