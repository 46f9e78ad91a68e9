"""Scans of entries with large values, and of many columns."""

from pathlib import Path

import pytest

import diskstream
from diskstream import Store

pytest.importorskip("pyarrow")

ROWS, COLUMNS = 10_000, 500


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


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("kind", ["double", "decimal(38,0)", "string", "bool"])
def test_a_batch_of_many_columns_has_few_rows(store: Store, kind: str, *, sealed: bool) -> None:
    """Entries of a few bytes have a cell in each of them: one of 40,000 rows and 2,000 columns took 600 MB."""
    stream = store.stream("x")
    stream.add_many([{"c0": "1"}] * ROWS)
    if sealed:
        stream.seal()
    columns: dict[str | bytes, str] = {f"c{number}": kind for number in range(COLUMNS)}
    batches = list(stream.scan(layout="typed", columns=columns, batch_rows=ROWS))
    assert sum(batch.num_rows for batch in batches) == ROWS
    assert max(batch.nbytes for batch in batches) < 17 << 20
    assert all(batch["c0"].null_count == 0 for batch in batches)
    assert (len(batches) == 1) == (kind == "bool")
    narrow = list(stream.scan(layout="typed", columns={"c0": kind}, batch_rows=ROWS))
    assert len(narrow) == 1
