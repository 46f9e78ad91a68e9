"""Batches of a commit are packed ahead of the one that is appended, and come in their order, as do their errors."""

import threading
from collections.abc import Callable
from functools import partial

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from diskstream import ArgumentError, StorageError
from diskstream._native import PackedRows
from diskstream.arrow_rows import pack
from diskstream.spark import packing
from diskstream.spark.merging import Batch
from diskstream.spark.packing import packed_ahead
from tests.engine.children import until


def rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": [str(number) for number in range(count)]})


def batches(count: int, read: list[int]) -> list[Batch]:
    """Batches of 1, 2, 3, ... rows, which note that they are read."""

    def made(size: int) -> pa.RecordBatch:
        read.append(size)
        return rows(size)

    return [Batch(size, partial(made, size)) for size in range(1, count + 1)]


def sizes(packed: list[PackedRows]) -> int:
    return sum(frame.rows for frame in packed)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 50])
def test_they_come_in_order_each_read_once(count: int) -> None:
    read: list[int] = []
    with packed_ahead(batches(count, read), given=False) as packed:
        assert [sizes(frames) for frames in packed] == [*range(1, count + 1)]
    assert read == [*range(1, count + 1)]


def test_a_few_are_read_ahead_and_no_more() -> None:
    read: list[int] = []
    with packed_ahead(batches(50, read), given=False) as packed:
        for number, _ in zip(range(1, 11), packed, strict=False):
            assert len(read) == number + 3


def test_the_next_are_packed_while_one_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else packing would wait for appending: here nothing is packed by the thread that appends."""
    by: list[str] = []
    all_of_them = threading.Barrier(2)

    def watched(batch: pa.RecordBatch, ids: str) -> list[PackedRows]:
        by.append(threading.current_thread().name)
        all_of_them.wait(20)  # two at once, or never
        return pack(batch, ids)

    monkeypatch.setattr(packing, "pack", watched)
    with packed_ahead(batches(6, []), given=False) as packed:
        assert sizes(next(packed)) == 1
        until(lambda: len(by) >= 4)
        assert [sizes(frames) for frames in packed] == [2, 3, 4, 5, 6]
    assert threading.current_thread().name not in by


def gone() -> pa.RecordBatch:
    raise StorageError("staged", "read", 5, "it is gone")


def no_entry() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array([None], pa.string())})


@pytest.mark.parametrize(("third", "error"), [(gone, StorageError), (no_entry, ArgumentError)])
def test_an_error_comes_in_its_place(third: Callable[[], pa.RecordBatch], error: type[Exception]) -> None:
    given = batches(5, [])
    given[2] = Batch(1, third)
    with packed_ahead(given, given=False) as packed:
        assert [sizes(next(packed)), sizes(next(packed))] == [1, 2]
        with pytest.raises(error):
            next(packed)


def test_who_stops_half_way_leaves_no_thread() -> None:
    with pytest.raises(KeyboardInterrupt), packed_ahead(batches(50, []), given=False) as packed:
        next(packed)
        raise KeyboardInterrupt
    assert not [each for each in threading.enumerate() if each.name.startswith("diskstream-commit")]


def test_for_one_batch_there_is_no_thread() -> None:
    with packed_ahead(batches(1, []), given=False) as packed:
        assert sizes(next(packed)) == 1
        assert not [each for each in threading.enumerate() if each.name.startswith("diskstream-commit")]
