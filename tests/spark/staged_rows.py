"""Rows on their way into a store, for the tests of writing that need no Spark session."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import types

import diskstream
from diskstream import Store
from diskstream.spark.commit import Manifest, commit
from diskstream.spark.options import WriteOptions
from diskstream.spark.rows import Target
from diskstream.spark.staging import StagedBatch, StagedFile, stage

SMALL: dict[str, Any] = {"segment_bytes": 8192, "node_max_entries": 7}
LONG, TEXT = types.LongType(), types.StringType()


def schema(**columns: Any) -> Any:
    return types.StructType([types.StructField(name, kind) for name, kind in columns.items()])


def options(**given: str) -> WriteOptions:
    parsed: WriteOptions = WriteOptions.parse({"path": "unused", **given})
    return parsed


TO_TWO = Target.of(schema(stream=TEXT, n=LONG), options())
GIVEN = Target.of(schema(id_ms=LONG, id_seq=LONG, n=LONG), options(stream="x", ids="columns"))


def to_two(numbers: Iterable[int]) -> Any:
    """Rows whose even numbers go to one stream, and the odd ones to another."""
    listed = list(numbers)
    return pa.record_batch({"stream": ["odd" if n % 2 else "even" for n in listed], "n": pa.array(listed, pa.int64())})


def with_ids(numbers: Iterable[int]) -> Any:
    """Rows for one stream, the number of each its ID; 0 is ID 0-1, as none is 0-0."""
    n = list(numbers)
    columns = {"id_ms": n, "id_seq": [int(each == 0) for each in n], "n": n}
    return pa.record_batch({name: pa.array(column, pa.int64()) for name, column in columns.items()})


def staged(at: Path, *parts: Iterable[int], target: Target = TO_TWO, rows: int = 4) -> tuple[StagedFile, ...]:
    """What tasks stage that are given these numbers, each a partition."""
    make = with_ids if target.given else to_two
    return tuple(stage(at, ("job", number), [make(part)], target, rows) for number, part in enumerate(parts))


def staged_before(at: Path, partition: int, batch: Any, stream: str) -> StagedFile:
    """A batch for one stream as versions before packed staging left it: the rows by columns."""
    path = f"staging/job/{partition:032x}.arrow"
    (at / path).parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(at / path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    ends: Any = (None, None)
    if "id_ms" in batch.schema.names:
        ends = [(batch["id_ms"][row].as_py(), batch["id_seq"][row].as_py()) for row in (0, batch.num_rows - 1)]
    return StagedFile(path, partition, (StagedBatch(stream, batch.num_rows, *ends),))


def numbers(at: Path | Store, name: str = "x") -> list[int]:
    if isinstance(at, Store):
        return [int(entry[b"n"]) for entry in at.stream(name)]
    with diskstream.open(at) as store:
        return numbers(store, name)


def left(at: Path) -> list[str]:
    """Staged files and manifests that are there still."""
    found = [
        *at.glob("staging/**/*.packed"),
        *at.glob("staging/**/*.arrow"),
        *at.glob("commits/*/*.json"),
        *at.glob("commits/*/*.tmp"),
    ]
    return [path.name for path in found if path.name != "done.json"]


def committed(at: Path, manifest: Manifest) -> bool:
    with diskstream.open(at) as store:
        return commit(store, manifest)
