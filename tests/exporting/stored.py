"""Stores with entries of every kind, and what an export of them holds, read back by the libraries of the format."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import diskstream
from diskstream import EntryID, Stream

Pairs = list[tuple[bytes, bytes]]
Row = tuple[EntryID, Pairs]

_NAMES = st.one_of(
    st.binary(max_size=8), st.sampled_from([b"id", b"stream", b"fields", b"ts", b"id_ms", b'a"b', b",", b""])
)
_VALUES = st.one_of(st.binary(max_size=40), st.sampled_from([b"", b'"', b"\n", b"\r\n", b"\xff", b"null", b"\0"]))
ANY_PAIRS = st.lists(st.tuples(_NAMES, _VALUES), min_size=1, max_size=5)


@st.composite
def many_rows(draw: st.DrawFn, pairs: st.SearchStrategy[Pairs] = ANY_PAIRS) -> list[Row]:
    """Rows with IDs that grow, up to the greatest there is."""
    ids = draw(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=12, unique=True))
    return [(EntryID(*each), draw(pairs)) for each in sorted(ids) if each != (0, 0)]


def fill(stream: Stream, rows: Sequence[Row]) -> None:
    for entry_id, pairs in rows:
        stream.add(pairs, id=entry_id)


def rows_of(stream: Stream) -> list[Row]:
    return [(entry.id, entry.pairs) for entry in stream.range()]


def table_of(path: Path) -> pa.Table:
    """An Arrow or Parquet file."""
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read()  # a file by itself, whatever lies beside it
    with pa.OSFile(str(path), "rb") as file:
        return pa.ipc.open_file(file).read_all()


def rows_in(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Of a file of JSON lines: IDs and fields."""
    for line in path.read_text(encoding="ascii").splitlines():
        entry: dict[str, Any] = json.loads(line)
        yield entry["id"], entry["fields"]


def numbered(path: Path, count: int, name: str = "s", **options: Any) -> None:
    """A store whose stream has entries 1-0, 2-0, … with their number as `n`, in segments of every kind."""
    options = {"segment_bytes": 64 << 10, "fsync": "os", "seal": "manual", **options}
    with diskstream.open(path, **options) as store:
        stream = store.stream(name)
        step = 500
        for begin in range(1, count + 1, step):
            numbers = range(begin, min(begin + step, count + 1))
            stream.add_many([{"n": number, "pad": "x" * 50} for number in numbers], ids=[f"{n}-0" for n in numbers])
            if begin == count // 2 // step * step + 1:
                store.seal()
