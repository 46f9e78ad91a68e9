"""Writing from Spark, without Spark: what makes an entry, staged files, given IDs, writers."""

import errno
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

import diskstream
from diskstream import ArgumentError, DiskFullError, LimitError, NotAStoreError

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

from diskstream.spark import merging, staging
from diskstream.spark.commit import Manifest
from diskstream.spark.rows import Target, by_stream
from diskstream.spark.staging import stage, sweep
from diskstream.spark.writers import EntriesStreamWriter, EntriesWriter
from tests.spark.staged_rows import (
    GIVEN,
    LONG,
    SMALL,
    TEXT,
    TO_TWO,
    committed,
    left,
    numbers,
    options,
    schema,
    staged,
    staged_before,
    to_two,
    with_ids,
)

FIELDS = types.ArrayType(types.StructType([types.StructField(n, types.BinaryType()) for n in ("name", "value")]))
MAP = types.MapType(types.BinaryType(), types.BinaryType())


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """Where an empty store is."""
    with diskstream.open(tmp_path / "at", **SMALL):
        return tmp_path / "at"


# --- what makes an entry ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ({"n": LONG}, {}, "which stream"),
        ({"stream": TEXT}, {}, "no column that could be a field"),
        ({"n": LONG, "id": TEXT}, {"stream": "x", "ids": "columns"}, None),
        ({"n": LONG, "id_ms": LONG}, {"stream": "x", "ids": "columns"}, "id_ms and id_seq"),
        (
            {"n": LONG, "fields": FIELDS},
            {"stream": "x"},
            "beside the column fields .* no other fields, but .* n",
        ),
        ({"id": TEXT, "position": LONG}, {"stream": "x"}, "no column that could be a field"),
    ],
)
def test_a_schema_that_makes_no_entries_is_refused_with_what_is_missing(
    columns: dict[str, Any], given: dict[str, str], message: str | None
) -> None:
    if message is None:
        assert Target.of(schema(**columns), options(**given)).columns == ("id", "n")
        return
    with pytest.raises(ArgumentError, match=message):
        Target.of(schema(**columns), options(**given))


def test_two_columns_of_one_name_are_refused() -> None:
    twice = types.StructType([types.StructField("n", LONG), types.StructField("n", LONG)])
    with pytest.raises(ArgumentError, match="two columns have one name"):
        Target.of(twice, options(stream="x"))


def test_rows_are_parted_by_stream_and_stay_in_order() -> None:
    parted = {name: batch["n"].to_pylist() for name, batch in by_stream(TO_TWO, to_two([4, 1, 2, 3, 0]))}
    assert parted == {"even": [4, 2, 0], "odd": [1, 3]}


def test_two_spellings_of_a_stream_are_one_stream_and_its_rows_stay_in_order() -> None:
    batch = pa.record_batch({"stream": ["a/b", "a%2Fb", "50%", "a/b", "50%25"], "n": [1, 2, 3, 4, 5]})
    parted = {name: part["n"].to_pylist() for name, part in by_stream(TO_TWO, batch)}
    assert parted == {"a/b": [1, 2, 4], "50%25": [3, 5]}


@pytest.mark.parametrize("spelling", ["50%", "50%25"])
def test_the_option_stream_may_be_spelt_as_it_likes(spelling: str) -> None:
    target = Target.of(schema(n=LONG), options(stream=spelling))
    assert [name for name, _ in by_stream(target, to_two([1]))] == ["50%25"]


@pytest.mark.parametrize("name", ["", None])
def test_a_row_without_a_stream_is_refused(name: str | None) -> None:
    batch = pa.record_batch({"stream": pa.array(["x", name]), "n": [1, 2]})
    with pytest.raises(ArgumentError, match="stream is null or empty"):
        list(by_stream(TO_TWO, batch))


@pytest.mark.parametrize("text", ["1", "1-*", "-1-0", "x", None, "99999999999999999999-0"])
def test_a_text_that_is_no_whole_id_is_refused(text: str | None) -> None:
    target = Target.of(schema(id=TEXT, n=LONG), options(stream="x", ids="columns"))
    with pytest.raises(ArgumentError, match="the column id holds"):
        list(by_stream(target, pa.record_batch({"id": pa.array([text], pa.string()), "n": [1]})))


# --- staging ----------------------------------------------------------------------------------------------------------


def test_what_is_staged_is_listed_with_its_streams_and_ids(at: Path) -> None:
    (file,) = staged(at, [5, 3, 4, 1], target=GIVEN, rows=2)
    assert [(batch.stream, batch.rows, batch.first, batch.last) for batch in file.batches] == [
        ("x", 2, (1, 0), (3, 0)),
        ("x", 2, (4, 0), (5, 0)),
    ]
    assert (at / file.path).exists()


def jobs_left(at: Path) -> list[str]:
    return [path.name for path in at.glob("staging/*")]


def test_a_task_without_rows_leaves_no_file_and_no_folder(at: Path) -> None:
    """A query left one for each of its tasks and batches, for a day."""
    (file,) = staged(at, [])
    assert (file.batches, jobs_left(at)) == ((), [])
    sink = EntriesStreamWriter(options(path=str(at), writer="w"), schema(stream=TEXT, n=LONG), overwrite=False)
    for batch in range(3):
        sink.commit([sink.write(iter([to_two(rows)])) for rows in ([], [2 * batch], [])], batch)
    assert (numbers(at, "even"), jobs_left(at)) == ([0, 2, 4], [])


def test_a_folder_that_another_task_takes_away_is_made_again(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that failed removes the folder of the job, if it is empty."""
    really, made = staging.make_folders, []

    def make(folder: Path) -> None:
        really(folder)
        made.append(folder)
        if len(made) == 1:
            folder.rmdir()

    monkeypatch.setattr(staging, "make_folders", make)
    (file,) = staged(at, [2])
    assert ((at / file.path).exists(), len(made)) == (True, 2)


def test_a_task_that_fails_leaves_no_file_and_no_folder(at: Path) -> None:
    def rows() -> Iterator[Any]:
        yield to_two(range(100))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        stage(at, ("job", 0), rows(), TO_TWO, 3)
    assert jobs_left(at) == []


def test_a_staged_file_is_flushed_and_so_are_its_name_and_those_of_its_folders(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = []
    really = os.fsync

    def fsync(fd: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{fd}").readlink())
        really(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    (file,) = staged(at, [1])
    folder = (at / file.path).parent
    assert flushed == [at, folder.parent, at / file.path, folder]


class _Full:
    """A file on a disk that is full after some bytes."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        if self._file.tell() > 500:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(self._file.write(data))


def test_a_full_disk_is_said_in_words_and_leaves_nothing(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda descriptor, mode: _Full(really(descriptor, mode)))
    with pytest.raises(DiskFullError, match="staging"):
        staged(at, range(100))
    assert jobs_left(at) == []


def test_a_disk_that_is_full_when_it_is_flushed_leaves_nothing(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="staging"):
        staged(at, [1])
    assert jobs_left(at) == []


def test_a_worker_that_does_not_see_the_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="the worker does not see it"):
        staged(tmp_path / "elsewhere", [1])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"n": pa.array([1, None, 3])},
        {"n": pa.array([b"x" * (65 << 20)])},
        {"n": pa.array([[1], [2]])},
    ],
    ids=["a row without fields", "a value that is too large", "a list"],
)
def test_rows_that_cannot_be_entries_are_refused_before_they_are_decided_on(at: Path, bad: dict[str, Any]) -> None:
    target = Target.of(schema(n=LONG), options(stream="x"))
    with pytest.raises((ArgumentError, LimitError)):
        stage(at, ("job", 0), [pa.record_batch(bad)], target, 100)
    assert jobs_left(at) == []


def test_what_dead_jobs_left_is_swept_after_a_day_unless_a_manifest_lists_it(at: Path) -> None:
    files = {name: stage(at, (name, 0), [to_two([1])], TO_TWO, 3) for name in ("dead", "listed", "young")}
    for name in ("dead", "listed"):
        os.utime(at / "staging" / name, (0, time.time() - 90_000))
    assert sweep(at, {files["listed"].path}) == ["dead"]
    assert sorted(path.name for path in (at / "staging").iterdir()) == ["listed", "young"]


# --- given IDs --------------------------------------------------------------------------------------------------------


def test_partitions_that_overlap_are_merged(at: Path) -> None:
    parts = [range(1, 60, 3), range(2, 60, 3), [*range(3, 60, 3), *range(100, 105)], range(200, 203)]
    assert committed(at, Manifest("query:q", 0, True, staged(at, *parts, target=GIVEN)))
    assert numbers(at) == [*range(1, 60), *range(100, 105), *range(200, 203)]


PAIRS = pa.list_(pa.struct([("name", pa.binary()), ("value", pa.binary())]))


@pytest.mark.parametrize("far", [1, 1000, 1 << 30], ids=["each window", "the whole only", "nothing"])
@pytest.mark.parametrize(
    ("column", "kind", "make"),
    [
        ("n", TEXT, lambda n: pa.array([str(each) for each in n])),
        ("n", types.BinaryType(), lambda n: pa.array([str(each).encode() for each in n])),
        ("fields", FIELDS, lambda n: pa.array([[{"name": b"n", "value": str(each).encode()}] for each in n], PAIRS)),
        ("fields", MAP, lambda n: pa.array([[(b"n", str(each).encode())] for each in n], pa.map_(*[pa.binary()] * 2))),
    ],
    ids=["text", "binary", "list", "map"],
)
def test_what_is_merged_may_be_longer_than_a_column_of_arrow(
    at: Path, monkeypatch: pytest.MonkeyPatch, column: str, kind: Any, make: Any, far: int
) -> None:
    """Past 2 GiB `take` said that an offset overflowed, on each attempt and after it was decided."""
    monkeypatch.setattr(merging, "_FAR_BYTES", far)
    monkeypatch.setattr(merging, "_MERGED_BATCH_ROWS", 7)
    really, made = merging._one, []

    def one(batches: list[Any]) -> Any:
        made.append(really(batches))
        return made[-1]

    monkeypatch.setattr(merging, "_one", one)
    target = Target.of(schema(id_ms=LONG, id_seq=LONG, **{column: kind}), options(stream="x", ids="columns"))
    parts = [range(1, 60, 3), range(2, 60, 3), [*range(3, 60, 3), *range(100, 105)]]
    files = []
    for number, part in enumerate(parts):
        ids = with_ids(part)
        batch = pa.record_batch([ids["id_ms"], ids["id_seq"], make(part)], names=["id_ms", "id_seq", column])
        # Of columns of any type, as earlier versions staged them; what is staged now comes back as lists.
        files.append(
            stage(at, ("job", number), [batch], target, 100)
            if kind is FIELDS
            else staged_before(at, number, batch, "x")
        )
    assert committed(at, Manifest("query:q", 0, True, tuple(files)))
    assert numbers(at) == [*range(1, 60), *range(100, 105)]
    if far < 1 << 30:
        assert max(each.num_rows for each in made) <= 7
    assert {merging._far(each.schema.field("fields").type) == each.schema.field("fields").type for each in made} == {
        far == 1
    }


@pytest.mark.parametrize("parts", [[[1, 2, 3, 4], [4, 5]], [[1, 2], [1, 2]], [[10, 30], [20, 21], [21, 40]]])
def test_an_id_that_two_partitions_have_is_refused_and_nothing_added(at: Path, parts: list[list[int]]) -> None:
    files = staged(at, [1000], *([2000 + n for n in part] for part in parts), target=GIVEN)
    every = [2000 + n for part in parts for n in part]
    twice = min(n for n in every if every.count(n) > 1)
    with pytest.raises(ArgumentError, match=f"two rows for stream x have one ID, {twice}-0: nothing was added"):
        committed(at, Manifest("query:q", 0, True, files))
    assert numbers(at) == []
    assert committed(at, Manifest("query:q", 0, True, staged(at, [1], target=GIVEN)))


@pytest.mark.parametrize("rows", [2, 100])
def test_an_id_that_two_rows_of_a_partition_have_is_refused(at: Path, rows: int) -> None:
    with pytest.raises(ArgumentError, match="one ID, 5-0"):
        committed(at, Manifest("query:q", 0, True, staged(at, [1, 5, 4, 3, 5], target=GIVEN, rows=rows)))
    assert numbers(at) == []


@pytest.mark.parametrize("first", [3, 5])
def test_ids_that_do_not_follow_are_refused_and_nothing_added(at: Path, first: int) -> None:
    committed(at, Manifest("query:q", 0, True, staged(at, [1, 5], target=GIVEN)))
    with pytest.raises(ArgumentError, match=f"rows begin at {first}-0: IDs must be above the last"):
        committed(at, Manifest("query:q", 1, True, staged(at, [first, 9], target=GIVEN)))
    assert numbers(at) == [1, 5]
    assert committed(at, Manifest("query:q", 1, True, staged(at, [9], target=GIVEN)))


def test_a_name_that_no_stream_can_have_is_refused_and_nothing_added(at: Path) -> None:
    batch = pa.record_batch({"stream": ["a", "x" * 5000], "n": [1, 2]})
    with pytest.raises(LimitError, match="name of a stream"):
        committed(at, Manifest("query:q", 0, False, (stage(at, ("job", 0), [batch], TO_TWO, 10),)))
    assert numbers(at, "a") == []
    assert committed(at, Manifest("query:q", 0, False, staged(at, [2])))


# --- writers ----------------------------------------------------------------------------------------------------------


def written(at: Path, rows: Iterable[int], **given: str) -> None:
    writer = EntriesWriter(options(path=str(at), **given), schema(stream=TEXT, n=LONG), overwrite=False)
    writer.commit([writer.write(iter([to_two(rows)]))])


def test_a_transaction_is_written_once(at: Path) -> None:
    written(at, [2, 4], txnid="t")
    written(at, [2, 4], txnid="t")
    written(at, [6], txnid="u")
    assert (numbers(at, "even"), left(at)) == ([2, 4, 6], [])


def test_a_batch_write_takes_no_name_of_a_query(at: Path) -> None:
    """It was not heeded, and a batch that was tried again was in twice."""
    with pytest.raises(ArgumentError, match=r"writer is for streaming queries.*txnId"):
        EntriesWriter(options(path=str(at), stream="x", writer="w"), schema(n=LONG), overwrite=False)


def test_without_one_each_write_adds(at: Path) -> None:
    written(at, [2])
    written(at, [2])
    assert (numbers(at, "even"), list((at / "commits").iterdir())) == ([2, 2], [])


def test_a_write_that_is_refused_leaves_nothing(at: Path) -> None:
    written(at, [2])
    said = options(path=str(at), stream="even", ids="columns")
    writer = EntriesWriter(said, schema(id_ms=LONG, id_seq=LONG, n=LONG), overwrite=False)
    messages: list[Any] = [writer.write(iter([with_ids([1, 2])]))]
    with pytest.raises(ArgumentError, match="IDs must be above the last"):
        writer.commit(messages)
    writer.abort(messages)
    assert (left(at), list((at / "commits").iterdir()), numbers(at, "even")) == ([], [], [2])


def test_overwriting_is_refused(at: Path) -> None:
    with pytest.raises(ArgumentError, match="append"):
        EntriesWriter(options(path=str(at)), schema(stream=TEXT, n=LONG), overwrite=True)


def test_a_manifest_comes_back_from_json_as_it_was(at: Path) -> None:
    manifest = Manifest("query:\udcff", 2**63, True, staged(at, [1, 3], [2], target=GIVEN))
    assert Manifest.from_json(manifest.as_json()) == manifest
    assert json.loads(manifest.as_json())["version"] == 2**63


def test_what_is_staged_and_decided_is_for_its_owner_and_his_group(at: Path) -> None:
    """It was as the umask had it, and so might be for everybody."""
    before = os.umask(0)
    try:
        file = stage(at, ("job", 0), [to_two([1, 2])], TO_TWO, 10)
        with diskstream.open(at):
            pass
        (mode_of_staged,) = {path.stat().st_mode & 0o777 for path in (at / "staging").rglob("*.packed")}
        assert committed(at, Manifest("query:q", 0, False, (file,)))
    finally:
        os.umask(before)
    made = [at / "staging", at / "commits", *(at / "commits").rglob("*")]
    assert mode_of_staged == 0o640
    assert len(made) > 3
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o750}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o640}
