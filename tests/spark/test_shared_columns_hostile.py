"""What a task's JVM gets of batches that go by shared memory, where something is in the way."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from diskstream.spark.shared_columns import Offered, handed


def test_a_batch_before_one_that_cannot_be_read_is_handed_on(tmp_path: Path) -> None:
    """A query that has enough with the first one does not fail for the second."""
    first = pa.RecordBatch.from_pydict({"n": [1, 2]})

    def read(partition: Any) -> Iterator[Any]:
        yield first
        raise ValueError("the second is damaged")

    batches = handed(Offered(pickle.dumps("planned"), str(tmp_path / "nobody listens")), read)
    assert next(batches).equals(first)
    with pytest.raises(ValueError, match="the second is damaged"):
        next(batches)
