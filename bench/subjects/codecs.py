"""Bytes for each entry, by codec.

The same entries, sealed at several levels of zstd (0 stores nodes plain; 3 is the default), and with nodes of 64 and of
4,096 entries at the default level; all bytes of the segments are counted. Beside them the same columns as one Parquet
file by pyarrow with its codecs, IDs as two integers, and the bytes of names and values alone.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import diskstream
from bench import ours
from bench.context import Context
from bench.entries import Fields, sensor_entries
from bench.model import Figure, Result, Row, Series

NAME = "codecs"
UNIT = "bytes"
CHART = "codecs"
MOST_ENTRIES = 200_000
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"compression_level": 0},
    "zstd 1": {"compression_level": 1},
    "zstd 3": {"compression_level": 3},
    "zstd 9": {"compression_level": 9},
    "zstd 19": {"compression_level": 19},
    "zstd 3, nodes of 64": {"node_max_entries": 64},
    "zstd 3, nodes of 4,096": {"node_max_entries": 4096, "node_max_bytes": 1 << 20},
}
PARQUET = ("NONE", "SNAPPY", "ZSTD")


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    rows = sensor_entries(min(MOST_ENTRIES, context.scale.entries))
    raw = sum(len(name) + len(value) for row in rows for name, value in row.items())
    beside = {"names and values alone": raw / len(rows)}
    if find_spec("pyarrow") is None:
        result.skipped.append("Parquet: pyarrow is not installed")
    found = {}
    for name, options in OPTIONS.items():
        context.say(name)
        with context.fresh("store") as path:
            found[name] = _sealed(path, rows, options) / len(rows)
            if len(found) == 1 and not result.skipped:
                beside |= {f"Parquet {codec}": _parquet(path, codec) / len(rows) for codec in PARQUET}
    for name, size in found.items():
        for peer, theirs in beside.items():
            if peer == "Parquet ZSTD" or name == "zstd 3":
                result.rows.append(Row(name, Figure(UNIT, (size,)), peer, Figure(UNIT, (theirs,))))
    for name, size in (found | beside).items():
        result.series.append(Series(CHART, name, "", "bytes an entry", ((0.0, size),)))


def _sealed(path: Path, rows: list[Fields], options: dict[str, Any]) -> int:
    """The bytes of the sealed segments."""
    with diskstream.open(path, fsync="os", **options) as store:
        stream = store.stream(ours.NAME)
        ours.fill(stream, rows)
        stream.seal()
        ours.must_hold(stream, len(rows))
    return ours.bytes_below(path, ".seg")


def _parquet(path: Path, codec: str) -> int:
    """The bytes of one Parquet file with the same columns."""
    parquet = importlib.import_module("pyarrow.parquet")
    file = path / f"{codec}.parquet"
    with diskstream.open(path, read_only=True) as store:
        parquet.write_table(store.stream(ours.NAME).to_arrow(), file, compression=codec)
    return file.stat().st_size
