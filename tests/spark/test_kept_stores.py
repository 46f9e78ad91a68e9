"""A worker that is used again and again: it keeps a few stores open, and nothing of those that it has done with."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import diskstream
from diskstream import NotAStoreError
from diskstream.spark.kept_stores import KeptStores
from tests.engine.children import child
from tests.spark.archives import fill
from tests.spark.worker_reads import read_again


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    made = [tmp_path / str(number) for number in range(4)]
    for path in made:
        fill(path, "s", [("1-0", {"n": "1"})])
    return [str(path) for path in made]


def test_a_read_leaves_no_descriptor_behind_however_many_came_before(tmp_path: Path) -> None:
    """Each lease cost one for each stream, for good: a worker that was reused long enough could open nothing more."""
    for stream in "abcde":
        fill(tmp_path / "store", stream, [(f"1-{n}", {"n": str(n)}) for n in range(1, 50)])
    with child(read_again, tmp_path / "store", 12) as worker:
        turns = [json.loads(worker.hear()) for _ in range(12)]
    assert [rows for rows, _ in turns] == [5 * 49] * 12
    assert turns[-1][1] == turns[5][1]


def test_what_is_read_again_stays_open(paths: list[str]) -> None:
    stores = KeptStores(2)
    with stores.reading(paths[0]) as first, stores.reading(paths[0]) as same:
        assert first is same
    with stores.reading(paths[1]):
        pass
    with stores.reading(paths[0]) as again:
        assert again is first
    for path in paths[2:]:
        with stores.reading(path):
            pass
    assert first.closed  # two others came after it
    with stores.reading(paths[3]) as last:
        assert not last.closed
    stores.forget()
    assert last.closed


def test_nothing_is_closed_while_somebody_reads_it(paths: list[str]) -> None:
    stores = KeptStores(1)
    with stores.reading(paths[0]) as first:
        others = []
        for path in paths[1:]:
            with stores.reading(path) as other:
                others.append(other)
        stores.forget()
        assert all(other.closed for other in others)
        assert len(first.stream("s")) == 1
    stores.forget()
    assert first.closed


def test_a_lease_that_is_gone_is_not_kept(paths: list[str]) -> None:
    """What is made at its path later is another store."""
    stores = KeptStores(4)
    with pytest.raises(NotAStoreError), stores.reading(paths[0]) as outer, stores.reading(paths[0]) as gone:
        shutil.rmtree(paths[0])
        raise NotAStoreError(paths[0], "the lease has run out")
    assert outer is gone
    assert gone.closed
    with diskstream.open(paths[0]) as made:
        made.stream("t").add({"n": "2"})
    with stores.reading(paths[0]) as found:
        assert found.streams() == [b"t"]
    stores.forget()
