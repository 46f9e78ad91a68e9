"""A commit of rows with given IDs while others add to their stream: what cannot follow any more is given up, once."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, Stream

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark.sql.types")

from diskstream.spark import commit as commits  # after what it needs
from diskstream.spark.commit import JOB, Manifest, abandon, last_done
from diskstream.spark.rows import Target
from tests.spark.staged_rows import (
    GIVEN,
    LONG,
    SMALL,
    TEXT,
    committed,
    left,
    numbers,
    options,
    schema,
    staged,
)
from tests.spark.staged_rows import with_ids as rows_with_ids

WRITERS = ["query:q", "txn:t", f"{JOB}1"]
BY_COLUMN = Target.of(schema(stream=TEXT, id_ms=LONG, id_seq=LONG, n=LONG), options(ids="columns"))


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """Where an empty store is."""
    with diskstream.open(tmp_path / "at", **SMALL):
        return tmp_path / "at"


class Dead(BaseException):
    """What a killed process does."""


def dies(*_: object) -> None:
    raise Dead


def add(at: Path, id: str, name: str = "x") -> None:
    """What somebody else adds."""
    with diskstream.open(at) as store:
        store.stream(name).add({"n": -1}, id)


def while_committed(
    at: Path, monkeypatch: pytest.MonkeyPatch, manifest: Manifest, act: Callable[[], Any], *, before: int
) -> None:
    """Commits, and before one of its batches somebody does something."""
    really, count = Stream._add_packed, iter(range(1000))

    def add(self: Stream, *given: Any, **named: Any) -> Any:
        if next(count) == before:
            act()
        return really(self, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Stream, "_add_packed", add)
        committed(at, manifest)


def given_up(at: Path, monkeypatch: pytest.MonkeyPatch, writer: str = "query:q", version: int = 7) -> str:
    """Of 20 rows, 4 a batch, 12 are in when somebody adds 15-1. What the error says."""
    manifest = Manifest(writer, version, True, staged(at, range(1, 21), target=GIVEN))
    with pytest.raises(ArgumentError) as error:
        while_committed(at, monkeypatch, manifest, lambda: add(at, "15-1"), before=3)
    return str(error.value)


@pytest.mark.parametrize("writer", WRITERS)
def test_it_is_said_which_rows_are_in_and_which_cannot_follow_and_nothing_is_left(
    at: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    said = given_up(at, monkeypatch, writer)
    assert "stream x has come to 15-1" in said
    assert "of 20 rows 12 were added, and 8, from 13-0 on, were not" in said
    assert "see that nothing else adds to a stream" in said
    assert (numbers(at), left(at), list(at.glob("staging/*"))) == ([*range(1, 13), -1], [], [])
    assert (len(list(at.glob("commits/*"))) == 0) == writer.startswith(JOB)
    abandon(at, writer, 7, ())  # as Spark has it next
    assert numbers(at) == [*range(1, 13), -1]


def test_later_batches_go_on(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They met the same error for ever."""
    given_up(at, monkeypatch)
    assert committed(at, Manifest("query:q", 8, True, staged(at, [30, 31], target=GIVEN)))
    assert numbers(at) == [*range(1, 13), -1, 30, 31]
    assert not committed(at, Manifest("query:q", 8, True, staged(at, [30, 31], target=GIVEN)))


def test_the_same_rows_are_refused_again_and_the_first_error_is_said_too(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that is started again may be all that anybody looks at."""
    given_up(at, monkeypatch)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"IDs must be above the last.*given up: .*of 20 rows 12 were added"):
            committed(at, Manifest("query:q", 7, True, staged(at, range(1, 21), target=GIVEN)))
    with diskstream.open(at) as store:
        assert last_done(store, "query:q") == -1


def test_the_version_may_come_again_with_rows_that_follow_and_none_is_passed_over(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream passes over numbers of batches that it has: those of the attempt that was given up."""
    given_up(at, monkeypatch)
    again = Manifest("query:q", 7, True, staged(at, range(30, 50), target=GIVEN))
    with pytest.raises(ArgumentError, match="of 20 rows 8 were added, and 12, from 38-0 on"):
        while_committed(at, monkeypatch, again, lambda: add(at, "60-0"), before=2)
    last = staged(at, range(70, 90), target=GIVEN)
    assert committed(at, Manifest("query:q", 7, True, last))
    assert numbers(at) == [*range(1, 13), -1, *range(30, 38), -1, *range(70, 90)]
    assert not committed(at, Manifest("query:q", 7, True, staged(at, [100], target=GIVEN)))


@pytest.mark.parametrize("writer", WRITERS)
def test_its_rows_do_not_come_back_when_the_stream_is_deleted(
    at: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    """They came with the next commit of anybody."""
    given_up(at, monkeypatch, writer)
    with diskstream.open(at) as store:
        store.delete("x")
    assert committed(at, Manifest("query:other", 0, False, ()))
    assert numbers(at) == []


@pytest.mark.parametrize("writer", WRITERS[:2])
def test_one_that_dies_while_it_gives_up_has_given_up(at: Path, monkeypatch: pytest.MonkeyPatch, writer: str) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(commits, "_forget", dies)
        with pytest.raises(Dead):
            given_up(at, patched, writer)
    assert left(at) != []
    with diskstream.open(at) as store:
        store.delete("x")
    assert committed(at, Manifest("query:other", 0, False, ()))
    assert (numbers(at), left(at)) == ([], [])
    assert committed(at, Manifest(writer, 7, True, staged(at, [1, 2], target=GIVEN)))
    assert numbers(at) == [1, 2]


def test_where_it_is_too_late_before_the_first_row_no_stream_gets_a_half(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa

    from diskstream.spark.staging import stage

    plain = rows_with_ids(range(1, 9))
    names = pa.array(["a", "b"] * 4)
    batch = pa.record_batch([names, *plain.columns], names=["stream", *plain.schema.names])
    manifest = Manifest("query:q", 7, True, (stage(at, ("job", 0), [batch], BY_COLUMN, 4),))
    really = commits._put

    def put(path: Path, text: str, *, exclusive: bool) -> bool:
        if exclusive:  # it is decided
            add(at, "5-0", "b")
        return really(path, text, exclusive=exclusive)

    with monkeypatch.context() as patched:
        patched.setattr(commits, "_put", put)
        with pytest.raises(
            ArgumentError,
            match=r"b has come to 5-0.* of 4 rows 0 were added, and 4, from 2-0 on.* 1 other stream 0 ",
        ):
            committed(at, manifest)
    assert (numbers(at, "a"), numbers(at, "b"), left(at)) == ([], [-1], [])


def test_what_a_dead_writer_left_and_a_stream_has_passed_is_given_up_by_others(
    at: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = Manifest("query:left", 3, True, staged(at, range(1, 21), target=GIVEN))
    with pytest.raises(Dead):
        while_committed(at, monkeypatch, manifest, dies, before=2)
    add(at, "12-0")
    with caplog.at_level(logging.WARNING, "diskstream.spark"):
        assert committed(at, Manifest("query:other", 0, False, ()))
    assert "of 20 rows 8 were added, and 12, from 9-0 on, were not" in caplog.text
    assert (numbers(at), left(at)) == ([*range(1, 9), -1], [])
    with pytest.raises(ArgumentError, match="given up: stream x has come to 12-0"):
        committed(at, Manifest("query:left", 3, True, staged(at, range(1, 21), target=GIVEN)))


def test_an_earlier_batch_that_cannot_go_on_is_in_no_later_ones_way(
    at: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = Manifest("query:q", 3, True, staged(at, range(1, 21), target=GIVEN))
    with pytest.raises(Dead):
        while_committed(at, monkeypatch, manifest, dies, before=2)
    add(at, "12-0")
    with caplog.at_level(logging.WARNING, "diskstream.spark"):
        assert committed(at, Manifest("query:q", 4, True, staged(at, [20, 21], target=GIVEN)))
    assert "of 20 rows 8 were added" in caplog.text
    assert (numbers(at), left(at)) == ([*range(1, 9), -1, 20, 21], [])


def test_one_whose_rows_can_follow_still_is_carried_out(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others added, but below what is missing."""
    manifest = Manifest("query:q", 3, True, staged(at, range(1, 21), target=GIVEN))
    with pytest.raises(Dead):
        while_committed(at, monkeypatch, manifest, dies, before=2)
    add(at, "8-5")
    assert committed(at, Manifest("query:other", 0, False, ()))
    assert (numbers(at), left(at)) == ([*range(1, 9), -1, *range(9, 21)], [])
