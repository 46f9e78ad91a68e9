"""Scans of entries with large values."""

from pathlib import Path

import pytest

import diskstream

pytest.importorskip("pyarrow")


def test_a_batch_of_large_values_has_fewer_rows(tmp_path: Path) -> None:
    """However many rows it may have: what a reader holds is bounded."""
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("s")
        for number in range(24):
            stream.add({"v": bytes([number]) * (1 << 20)})
        for _ in range(2):
            batches = list(stream.scan(batch_rows=1000))
            assert sum(batch.num_rows for batch in batches) == 24
            assert [batch.num_rows for batch in batches if batch.nbytes > 17 << 20] == []
            stream.seal()
