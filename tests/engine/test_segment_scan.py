"""A scan lays out a sealed segment's nodes one by one: the same batches as of its blocks, within the same limits."""

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import diskstream
from diskstream import CorruptionError, EntryID, Stream
from diskstream._native import ScanBatch, ScanLayout
from diskstream.batches import Layout, as_batch
from tests.engine.sample import damage_node, sealed

NODE = 4
LAYOUTS: list[tuple[str, list[tuple[bytes, str]]]] = [
    ("ids", []),
    ("fields", []),
    ("map", []),
    ("raw", []),
    ("typed", [(b"n", "int64"), (b"text", "string"), (b"n", "double"), (b"odd", "int8")]),
]


def ids_of(batch: ScanBatch) -> list[int]:
    return list(map(int, batch.ms))


def added(stream: Stream, entries: int, **fields: Any) -> None:
    stream.add_many([{"n": n, **fields} for n in range(entries)], ids=[(n + 1, 0) for n in range(entries)])
    stream.seal()


@pytest.mark.parametrize(("layout", "columns"), LAYOUTS)
@pytest.mark.parametrize("cached", [True, False])
def test_batches_are_those_of_the_blocks(
    layout: str, columns: list[tuple[bytes, str]], cached: bool, tmp_path: Path
) -> None:
    """Whatever is gone of it, of whatever shapes its entries are, and wherever the range begins and ends."""
    chance = random.Random(f"{layout}{cached}")
    with diskstream.open(tmp_path / "s", node_max_entries=7) as store:
        stream = store.stream("x")
        texts = ["", "a", "\u00e9t\u00e9", "1", "-7", "300", "2.5"]
        for n in range(300):
            fields = [("n", n), ("text", chance.choice(texts)), ("odd", chance.choice(texts)), ("n", 2 * n)]
            stream.add(chance.sample(fields, chance.randrange(1, 5)), (n // 3 + 1, n % 3))
        stream.seal()
        stream.delete(*[(n // 3 + 1, n % 3) for n in chance.sample(range(300), 100)])
        stream.trim(maxlen=150, approximate=False)
        segment, view = sealed(store)
        how = Layout.of(layout, columns, "last", strict=False, exact=False, metadata=True, times=True)
        for _ in range(40):
            start, end = sorted(EntryID(chance.randrange(110), chance.randrange(4)) for _ in range(2))
            first, last = segment.node_of_id(start), segment.node_of_id(end)
            blocks = [segment.read_block(node, start, end, view) for node in range(first, last + 1)]
            wanted = as_batch(how, how.native.batch(blocks), view.number)
            found: list[pa.RecordBatch] = []
            limits: dict[str, Any] = {"rows": chance.randrange(1, 100), "size_bytes": chance.choice([1, 400, 1 << 20])}
            while (first := segment.live_node(first, view)) <= last:
                made, first = segment.scan(how.native, first, last + 1, start, end, view, **limits, cached=cached)
                assert made.last_id == segment.read_block(first - 1, start, end, view).last_id
                found.append(as_batch(how, made, view.number))
            # Where nothing of a batch did not parse it does not say so, as the whole may.
            table = pa.Table.from_batches(found, wanted.schema) if found else wanted.schema.empty_table()
            assert table.combine_chunks().to_pylist() == pa.Table.from_batches([wanted]).to_pylist()


@pytest.mark.parametrize("damaged", [0, 1, 17, 99])
def test_what_came_before_a_damaged_node_is_a_batch(damaged: int, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", node_max_entries=NODE, cache_bytes=0) as store:
        added(store.stream("x"), 400)
    before = damage_node(tmp_path / "s", damaged)
    seen: list[int] = []
    with diskstream.open(tmp_path / "s", read_only=True) as store, pytest.raises(CorruptionError, match="node"):
        for batch in store.stream("x").scan(layout="ids"):
            seen += batch.column("id_ms").to_pylist()
    assert seen == list(range(1, before + 1))
    assert before == NODE * damaged


@pytest.mark.parametrize(
    ("rows", "size_bytes", "nodes"),
    [
        (1, 1 << 20, 1),
        (NODE, 1 << 20, 1),
        (2 * NODE + 1, 1 << 20, 2),
        (10**18, 1 << 20, 25),
        (40, 1, 1),
        (40, 9_000, 2),
    ],
)
def test_a_batch_is_of_one_node_at_least_and_of_no_more_than_is_wanted(
    rows: int, size_bytes: int, nodes: int, tmp_path: Path
) -> None:
    with diskstream.open(tmp_path / "s", node_max_entries=NODE) as store:
        added(store.stream("x"), 25 * NODE, pad="x" * 1_000)
        segment, view = sealed(store)
        layout = ScanLayout("fields", (), "last", exact=False, metadata=False, times=False)
        within = EntryID(0, 0), EntryID(2**63, 0)
        made, behind = segment.scan(
            layout, 0, segment.nodes, *within, view, rows=rows, size_bytes=size_bytes, cached=False
        )
        assert (behind, ids_of(made)) == (nodes, list(range(1, nodes * NODE + 1)))


def test_room_for_what_may_come_is_made_within_what_a_batch_may_hold(tmp_path: Path) -> None:
    """The first node has large values. Were all that follow like it, that would be a gigabyte."""

    def mapped_bytes() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGESIZE")

    with diskstream.open(tmp_path / "s", node_max_entries=NODE, segment_bytes=256 << 20) as store:
        stream = store.stream("x")
        for _ in range(NODE):
            stream.add({"n": bytes(1 << 20)})
        stream.add_many([{"n": n} for n in range(1_000)])
        stream.seal()
        segment, view = sealed(store)
        layout = ScanLayout("typed", [(b"n", "binary")], "last", exact=False, metadata=False, times=False)
        within = EntryID(0, 0), EntryID(2**63, 0)
        before = mapped_bytes()
        made, behind = segment.scan(
            layout, 0, segment.nodes, *within, view, rows=10**9, size_bytes=16 << 20, cached=False
        )
        assert mapped_bytes() - before < 256 << 20
        assert (made.rows, behind) == (1_000 + NODE, segment.nodes)


def test_as_many_rows_may_be_wanted_as_a_number_can_say(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store:
        added(store.stream("x"), 10)
        (batch,) = store.stream("x").scan(batch_rows=2**70)
        assert batch.num_rows == 10
