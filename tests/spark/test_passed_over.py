"""Committing from Spark: what was done before is passed over, and what only has its name and number is refused."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, DiskFullError, Store

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark.sql.types")

from diskstream.checked_json import checked, with_check
from diskstream.spark.commit import Manifest, finish_left
from diskstream.spark.jobs.rollup_stream import write_batch
from diskstream.spark.writers import EntriesStreamWriter, EntriesWriter, Staged
from tests.spark.staged_rows import LONG, SMALL, TEXT, committed, left, numbers, options, schema, staged


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """Where an empty store is."""
    with diskstream.open(tmp_path / "at", **SMALL):
        return tmp_path / "at"


def rows(*given: int) -> Any:
    return pa.record_batch({"stream": ["by column"] * len(given), "n": pa.array(given, pa.int64())})


def batch_of_query(at: Path, query: str, stream: str, batch: int, *given: int, writer: str = "etl") -> None:
    """What a query commits whose option `writer` is this."""
    kind = EntriesStreamWriter(options(path=str(at), stream=stream, writer=writer), schema(n=LONG), overwrite=False)
    message = replace_query(kind.write(iter([rows(*given)] if given else [])), query)
    try:
        kind.commit([message], batch)
    except diskstream.DiskstreamError:
        kind.abort([message], batch)
        raise


def replace_query(message: Any, query: str) -> Staged:
    return Staged(message.file, query)


def written(at: Path, *given: int, **said: str) -> None:
    kinds = schema(n=LONG) if said["stream"] else schema(stream=TEXT, n=LONG)
    kind = EntriesWriter(options(path=str(at), **said), kinds, overwrite=False)
    message = kind.write(iter([rows(*given)]))
    try:
        kind.commit([message])
    except diskstream.DiskstreamError:
        kind.abort([message])
        raise


def full(_: Store) -> None:
    raise DiskFullError("x", "write", 28, "no space left")


def done(at: Path) -> dict[str, Any]:
    (path,) = at.glob("commits/*/done.json")
    return checked(path.read_bytes())


# --- queries ----------------------------------------------------------------------------------------------------------


def test_a_query_that_comes_again_is_passed_over(at: Path) -> None:
    for _ in range(2):
        batch_of_query(at, "one", "x", 0, 1, 2)
    batch_of_query(at, "one", "x", 1, 3)
    said = {"writer": "query:etl", "version": 1, "by": "query one", "to": "stream x", "rows": 1}
    assert (numbers(at, "x"), done(at)) == ([1, 2, 3], said)


def test_another_query_of_the_same_writer_is_refused_and_its_rows_go(at: Path) -> None:
    """They went without a word."""
    batch_of_query(at, "one", "x", 0, 1, 2)
    with pytest.raises(ArgumentError, match=r"batch 0 of the writer etl.*by query one.*this is query two"):
        batch_of_query(at, "two", "y", 0, 3)
    assert (numbers(at, "x"), left(at)) == ([1, 2], [])
    batch_of_query(at, "two", "y", 0, 3, writer="other")
    assert numbers(at, "y") == [3]


def test_what_another_query_has_decided_but_not_finished_is_not_passed_for_ones_own(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Store, "sync", full)
        with pytest.raises(DiskFullError):
            batch_of_query(at, "one", "x", 0, 1, 2)
    with pytest.raises(ArgumentError, match=r"by query one.*this is query two"):
        batch_of_query(at, "two", "y", 0, 3)
    with diskstream.open(at) as store:
        assert finish_left(store) == ["query:etl"]
    assert (numbers(at, "x"), done(at)["by"], left(at)) == ([1, 2], "query one", [])


def test_a_batch_before_the_last_is_of_an_older_checkpoint_and_refused(at: Path) -> None:
    """Planned anew it has other rows, those that came since: they were passed over with it."""
    for batch in range(3):
        batch_of_query(at, "one", "x", batch, batch)
    with pytest.raises(ArgumentError, match=r"batch 1 of query one comes again, but 2 is done.* older one"):
        batch_of_query(at, "one", "x", 1, 1, 2, 3)
    batch_of_query(at, "one", "x", 1)  # without rows nothing is lost
    assert (numbers(at, "x"), done(at)["version"], left(at)) == ([0, 1, 2], 2, [])
    batch_of_query(at, "one", "x", 1, 1, 2, 3, writer="other")
    assert numbers(at, "x") == [0, 1, 2, 1, 2, 3]


@pytest.mark.parametrize("decided", [False, True])
def test_a_query_that_goes_on_from_a_copy_of_a_checkpoint_is_refused_for_another_stream(
    at: Path, monkeypatch: pytest.MonkeyPatch, decided: bool
) -> None:
    """Of two, each lost what the other one was first with."""
    with monkeypatch.context() as patched:
        if decided:
            patched.setattr(Store, "sync", full)
        with contextlib.suppress(DiskFullError):
            batch_of_query(at, "one", "x", 0, 1, 2)
    with pytest.raises(
        ArgumentError, match=r"batch 0 of query one was appended to stream x, and comes .* for stream y"
    ):
        batch_of_query(at, "one", "y", 0, 1, 2)
    batch_of_query(at, "one", "x", 0, 1, 2)
    assert (numbers(at, "x"), left(at)) == ([1, 2], [])


def test_the_last_batch_with_more_rows_is_of_an_older_checkpoint_and_refused(at: Path) -> None:
    batch_of_query(at, "one", "x", 0, 1, 2)
    with pytest.raises(ArgumentError, match=r"batch 0 of query one was appended with 2 rows, and comes again with 3:"):
        batch_of_query(at, "one", "x", 0, 1, 2, 3)
    batch_of_query(at, "one", "x", 0, 2)  # as where a trim took some meanwhile
    assert (numbers(at, "x"), left(at)) == ([1, 2], [])


def test_a_batch_of_which_spark_tells_no_query_does_not_make_it_forgotten(at: Path) -> None:
    """One without any tasks."""
    batch_of_query(at, "one", "x", 0, 1)
    batch_of_query(at, "", "x", 1)
    assert done(at) == {"writer": "query:etl", "version": 1, "by": "query one"}


def test_what_was_done_before_it_was_noted_by_whom_is_passed_over(at: Path) -> None:
    batch_of_query(at, "one", "x", 0, 1, 2)
    (path,) = at.glob("commits/*/done.json")
    path.write_text(json.dumps(with_check({"writer": "query:etl", "version": 0})))
    batch_of_query(at, "two", "y", 0, 3)
    assert numbers(at, "x") == [1, 2]


def test_a_manifest_written_before_is_read(at: Path) -> None:
    manifest = Manifest("query:q", 0, False, staged(at, [2]), "query one")
    old = checked(manifest.as_json())
    assert old.pop("by") == "query one"
    assert Manifest.from_json(json.dumps(with_check(old))) == replace(manifest, by="")
    assert committed(at, replace(manifest, by=""))
    assert done(at) == {"writer": "query:q", "version": 0}


# --- transactions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "then"), [("p", "q"), ("p", ""), ("", "q")])
def test_a_transaction_for_another_stream_is_refused(at: Path, first: str, then: str) -> None:
    """It never came to be written."""
    written(at, 1, txnid="load-7", stream=first)
    with pytest.raises(ArgumentError, match="txnId load-7 was used"):
        written(at, 2, txnid="load-7", stream=then)
    assert (numbers(at, first or "by column"), left(at)) == ([1], [])


@pytest.mark.parametrize("again", ["a/b", "a%2Fb"])
def test_a_transaction_for_the_same_stream_is_passed_over(at: Path, again: str) -> None:
    written(at, 1, txnid="load-7", stream="a/b")
    written(at, 2, txnid="load-7", stream=again)
    assert (numbers(at, "a/b"), left(at)) == ([1], [])


# --- a rollup that goes on --------------------------------------------------------------------------------------------


class Windows:
    """A batch of a rollup."""

    def __init__(self, *starts: int) -> None:
        self.starts = starts

    def toArrow(self) -> Any:  # noqa: N802  # Spark's name
        at = pa.array(self.starts, pa.timestamp("us", "UTC"))
        return pa.table({"window_start": at, "window_end": at})


def rolled(output: Path, query: str, batch: int, *starts: int) -> bool:
    frame: Any = Windows(*starts)
    return write_batch(frame, batch, output, query=query)


def test_windows_of_another_query_are_refused_and_not_taken_for_a_batch_that_comes_again(tmp_path: Path) -> None:
    """As where a checkpoint was deleted, and the output kept: the new windows were dropped."""
    assert rolled(tmp_path, "one", 0, 1)
    assert not rolled(tmp_path, "one", 0, 1)
    for batch in (0, 1):
        with pytest.raises(ArgumentError, match=r"windows of the query one, but this is two.*another output"):
            rolled(tmp_path, "two", batch, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_query", "batch=0"]


def test_windows_of_an_older_checkpoint_are_refused_and_not_taken_for_a_batch_that_comes_again(tmp_path: Path) -> None:
    """Of the windows of such a batch those were dropped that no batch of its number had."""
    assert rolled(tmp_path, "one", 1, 1)
    with pytest.raises(
        ArgumentError, match=r"has batch 1 with 1 window, but .* with batch 1 and 2 windows: .* older one"
    ):
        rolled(tmp_path, "one", 1, 1, 2)
    assert rolled(tmp_path, "one", 12, 2, 3)
    assert not rolled(tmp_path, "one", 12, 2, 3)
    for batch in (1, 5):
        with pytest.raises(
            ArgumentError, match=rf"has batch 12, but the query comes with batch {batch} and 1 window: "
        ):
            rolled(tmp_path, "one", batch, 4)
    assert not rolled(tmp_path, "one", 5)  # without windows nothing is lost
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_query", "batch=1", "batch=12"]


def test_an_output_of_before_belongs_to_the_query_that_goes_on_with_it(tmp_path: Path) -> None:
    (tmp_path / "batch=0").mkdir()
    assert not rolled(tmp_path, "one", 0, 1)
    assert rolled(tmp_path, "one", 1, 1)
    with pytest.raises(ArgumentError, match="of the query one"):
        rolled(tmp_path, "two", 2, 2)
