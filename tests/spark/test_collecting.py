"""Spark's Python workers look through what they have loaded once, and not behind each piece of work."""

import gc
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from diskstream import Store
from diskstream.spark import collecting
from diskstream.spark.collecting import spare_the_collector
from diskstream.spark.source import DiskstreamSource


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    collecting._set_aside.cache_clear()
    yield
    gc.unfreeze()
    collecting._set_aside.cache_clear()


def _is_left_to_the_collector(of: object) -> bool:
    """Whether the next collection looks at it. Counts would not tell: what is set aside may be dropped meanwhile."""
    return any(each is of for each in gc.get_objects())


def test_a_worker_of_spark_sets_what_it_has_loaded_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"), raising=False)
    loaded: list[object] = []
    assert _is_left_to_the_collector(loaded)
    spare_the_collector()
    assert not _is_left_to_the_collector(loaded)
    later: list[object] = []
    spare_the_collector()
    assert _is_left_to_the_collector(later), "not anew each time"
    monkeypatch.setitem(sys.modules, "imported_later", SimpleNamespace(of=later))
    spare_the_collector()
    assert not _is_left_to_the_collector(later)


def test_so_do_those_that_make_a_source_and_plan_what_it_reads(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    store.stream("s").add({"n": 1})
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"), raising=False)
    source = DiskstreamSource({"path": str(store.path)})
    assert collecting._set_aside.cache_info().currsize == 1
    reader = source.reader(source.schema())
    collecting._set_aside.cache_clear()
    assert len(reader.partitions()) == 1
    assert collecting._set_aside.cache_info().currsize == 1


def test_a_program_of_somebody_else_keeps_its_collector_as_it_is() -> None:
    before = gc.get_freeze_count()
    spare_the_collector()
    assert gc.get_freeze_count() == before
