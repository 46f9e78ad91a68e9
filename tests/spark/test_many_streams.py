"""Reads and writes of many streams: each is opened once, and each staged file too, however many streams are in it."""

import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Store

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark.sql.types")

from diskstream.options import streams_within_descriptors
from diskstream.spark import planning, staged_reading
from diskstream.spark.commit import Manifest, commit
from diskstream.spark.options import ReadOptions
from diskstream.spark.planning import plan_entries
from diskstream.spark.rows import Target
from diskstream.spark.staged_file import PackedFile
from diskstream.spark.staging import stage
from diskstream.spark.writers import EntriesWriter
from tests.spark.staged_rows import LONG, TEXT, options, schema
from tests.spark.test_stream_units import Query

NAMES = [f"s{number}" for number in range(6)]
COLUMNS = schema(stream=TEXT, id_ms=LONG, id_seq=LONG, n=LONG)


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """Where a store of a few streams is."""
    with diskstream.open(tmp_path / "at") as store:
        for name in NAMES:
            store.stream(name).add_many([{"n": number} for number in range(40)], ids=[f"{n}-1" for n in range(40)])
        store.seal()
    return tmp_path / "at"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> "Counter[str]":
    """How often streams are opened, of stores that keep two of them open where nobody says how many."""
    found: Counter[str] = Counter()
    really: Callable[..., Store] = diskstream.open
    opening: Callable[..., Any] = Store._open_log

    def noted(store: Store, name: bytes, where: Path, **named: Any) -> Any:
        if "/leases/" in str(store.path) or not store.read_only:
            found[f"{'read' if store.read_only else 'write'} {name.decode()}"] += 1
        return opening(store, name, where, **named)

    monkeypatch.setattr(Store, "_open_log", noted)
    monkeypatch.setattr(diskstream, "open", lambda path, **given: really(path, **{"max_open_streams": 2, **given}))
    return found


def test_the_looks_of_an_idle_query_open_no_stream_anew(at: Path, opened: "Counter[str]") -> None:
    """Spark looks again and again: where streams take turns, all of them were opened, and flushed, each time."""
    query = Query(at, streampattern="s*")
    while query.batch():
        pass
    opened.clear()
    assert query.latest() == query.offset
    assert not opened
    query.reader.stop()


@pytest.mark.parametrize("more", [{}, {"minpartitions": "4"}, {"minpartitions": "50"}])
def test_a_plan_opens_each_stream_once(at: Path, opened: "Counter[str]", more: dict[str, str]) -> None:
    parts = plan_entries(ReadOptions.parse({"path": str(at), **more}).check())
    assert sum(each.entries for part in parts for each in part.slices) == 40 * len(NAMES)
    assert set(opened.values()) == {1}


def test_only_streams_that_are_too_large_for_a_part_are_cut_again(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with diskstream.open(at) as store:
        store.stream("large").add_many([{"n": number} for number in range(4000)])
        store.seal()
    looked: Counter[bytes] = Counter()
    really = planning.slices_of

    def noted(stream: diskstream.Stream, *args: Any, **more: Any) -> Any:
        looked[stream.name] += 1
        return really(stream, *args, **more)

    monkeypatch.setattr(planning, "slices_of", noted)
    parts = plan_entries(ReadOptions.parse({"path": str(at), "minpartitions": "4"}).check())
    assert looked == {b"large": 2, **{name.encode(): 1 for name in NAMES}}
    assert len(parts) >= 4
    assert sum(each.entries for part in parts for each in part.slices) == 4000 + 40 * len(NAMES)


def rows(first: int, count: int = 2) -> Any:
    """Rows of each stream, in turn, from an ID on."""
    n = [first + at for at in range(count) for _ in NAMES]
    columns = {"id_ms": n, "id_seq": [0] * len(n), "n": n}
    return pa.record_batch(
        {"stream": NAMES * count, **{name: pa.array(each, pa.int64()) for name, each in columns.items()}}
    )


def test_a_write_opens_each_stream_once(at: Path, opened: "Counter[str]") -> None:
    writer = EntriesWriter(options(path=str(at), ids="columns"), COLUMNS, overwrite=False)
    parts: list[Any] = [writer.write(iter([rows(100)])), writer.write(iter([rows(102)]))]
    opened.clear()
    writer.commit(parts)
    assert opened == {f"write {name}": 1 for name in NAMES}
    with diskstream.open(at) as store:
        for name in NAMES:
            assert [int(entry[b"n"]) for entry in store.stream(name).range("100", "+")] == [100, 101, 102, 103]


def test_a_commit_opens_each_staged_file_once(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its batches are is found by going through it: for each of them anew, a wide write cost their square."""
    target = Target.of(COLUMNS, options(ids="columns"))
    files = tuple(stage(at, ("job", task), [rows(200 + task, 2)], target, 8) for task in range(0, 4, 2))
    read: Counter[str] = Counter()

    class Noted(PackedFile):
        def __init__(self, path: Path) -> None:
            read[str(path.relative_to(at))] += 1
            super().__init__(path)

    monkeypatch.setattr(staged_reading, "PackedFile", Noted)
    with diskstream.open(at) as store:
        commit(store, Manifest("query:q", 0, given=True, files=files))
    assert read == {each.path: 1 for each in files}


@pytest.mark.parametrize(("soft", "kept"), [(40, 16), (256, 64), (1024, 256), (4096, 1024), (1 << 20, 4096)])
def test_half_of_the_descriptors_are_left_to_others(soft: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, 1 << 20))
    assert streams_within_descriptors() == kept
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert streams_within_descriptors() == 4096
