"""Writing from Spark, without Spark: staged files, and a commit that may die at any step."""

import errno
import functools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, DiskFullError, LimitError, NotAStoreError, Store, Stream
from diskstream.errors import storage_error
from tests.engine.children import child, hear, say

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

from diskstream.spark import commit as commits  # noqa: E402  # after what it needs
from diskstream.spark import staging  # noqa: E402
from diskstream.spark.commit import JOB, Manifest, commit, finish_left  # noqa: E402
from diskstream.spark.options import WriteOptions  # noqa: E402
from diskstream.spark.rows import Target, by_stream  # noqa: E402
from diskstream.spark.staging import StagedFile, discard, stage, sweep  # noqa: E402
from diskstream.spark.writers import EntriesStreamWriter, EntriesWriter  # noqa: E402

SMALL: dict[str, Any] = {"segment_bytes": 8192, "node_max_entries": 7}
LONG, TEXT = types.LongType(), types.StringType()


def schema(**columns: Any) -> Any:
    return types.StructType([types.StructField(name, kind) for name, kind in columns.items()])


def options(**given: str) -> WriteOptions:
    parsed: WriteOptions = WriteOptions.parse({"path": "unused", **given})
    return parsed


TO_TWO = Target.of(schema(stream=TEXT, n=LONG), options())
GIVEN = Target.of(schema(id_ms=LONG, id_seq=LONG, n=LONG), options(stream="x", ids="columns"))


def to_two(numbers: Iterable[int]) -> Any:
    """Rows whose even numbers go to one stream, and the odd ones to another."""
    listed = list(numbers)
    return pa.record_batch({"stream": ["odd" if n % 2 else "even" for n in listed], "n": pa.array(listed, pa.int64())})


def with_ids(numbers: Iterable[int]) -> Any:
    """Rows for one stream, the number of each its ID; 0 is ID 0-1, as none is 0-0."""
    n = list(numbers)
    columns = {"id_ms": n, "id_seq": [int(each == 0) for each in n], "n": n}
    return pa.record_batch({name: pa.array(column, pa.int64()) for name, column in columns.items()})


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """Where an empty store is."""
    with diskstream.open(tmp_path / "at", **SMALL):
        return tmp_path / "at"


def staged(at: Path, *parts: Iterable[int], target: Target = TO_TWO, rows: int = 4) -> tuple[StagedFile, ...]:
    """What tasks stage that are given these numbers, each a partition."""
    make = with_ids if target.given else to_two
    return tuple(stage(at, ("job", number), [make(part)], target, rows) for number, part in enumerate(parts))


def numbers(at: Path | Store, name: str = "x") -> list[int]:
    if isinstance(at, Store):
        return [int(entry[b"n"]) for entry in at.stream(name)]
    with diskstream.open(at) as store:
        return numbers(store, name)


def left(at: Path) -> list[str]:
    """Staged files and manifests that are there still."""
    found = [*at.glob("staging/**/*.arrow"), *at.glob("commits/*/*.json"), *at.glob("commits/*/*.tmp")]
    return [path.name for path in found if path.name != "done.json"]


def committed(at: Path, manifest: Manifest) -> bool:
    with diskstream.open(at) as store:
        return commit(store, manifest)


# --- what makes an entry ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ({"n": LONG}, {}, "which stream"),
        ({"stream": TEXT}, {}, "no column that could be a field"),
        ({"n": LONG, "id": TEXT, "ts": TEXT}, {"stream": "x", "ids": "columns"}, None),
        ({"n": LONG, "id_ms": LONG}, {"stream": "x", "ids": "columns"}, "id_ms and id_seq"),
        ({"n": LONG, "fields": TEXT}, {"stream": "x"}, "beside the column fields there are no other fields, but .* n"),
        ({"id": TEXT, "ts": TEXT}, {"stream": "x"}, "no column that could be a field"),
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


def test_a_task_without_rows_leaves_no_file(at: Path) -> None:
    (file,) = staged(at, [])
    assert (file.batches, left(at)) == ((), [])


def test_a_task_that_fails_leaves_no_file(at: Path) -> None:
    def rows() -> Iterator[Any]:
        yield to_two(range(100))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        stage(at, ("job", 0), rows(), TO_TWO, 3)
    assert left(at) == []


def test_a_staged_file_is_flushed_and_so_is_its_name(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    really = os.fsync

    def fsync(fd: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{fd}").readlink())
        really(fd)

    monkeypatch.setattr(staging.os, "fsync", fsync)
    (file,) = staged(at, [1])
    assert flushed == [at / file.path, (at / file.path).parent]


class _Full:
    """A file on a disk that is full after some bytes."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> "_Full":
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
    really = Path.open
    monkeypatch.setattr(Path, "open", lambda self, mode="r": _Full(really(self, mode)))
    with pytest.raises(DiskFullError, match="staging"):
        staged(at, range(100))
    assert left(at) == []


def test_a_disk_that_is_full_when_it_is_flushed_leaves_nothing(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(staging.os, "fsync", full)
    with pytest.raises(DiskFullError, match="staging"):
        staged(at, [1])
    assert left(at) == []


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
    assert left(at) == []


def test_what_dead_jobs_left_is_swept_after_a_day_unless_a_manifest_lists_it(at: Path) -> None:
    files = {name: stage(at, (name, 0), [to_two([1])], TO_TWO, 3) for name in ("dead", "listed", "young")}
    for name in ("dead", "listed"):
        os.utime(at / "staging" / name, (0, time.time() - 90_000))
    assert sweep(at, {files["listed"].path}) == ["dead"]
    assert sorted(path.name for path in (at / "staging").iterdir()) == ["listed", "young"]


# --- a commit that dies at any step -----------------------------------------------------------------------------------


class Dead(BaseException):
    """What a killed process does: nothing more, no cleaning up either."""


class Deadly:
    """Counts the steps of the code under test, and dies before or after one of them; then no step is done."""

    STEPS = (
        (Path, ("hardlink_to", "mkdir", "open", "replace", "rmdir", "unlink")),
        (os, ("fsync",)),
        (shutil, ("rmtree",)),
        (Stream, ("add_arrow", "committed")),
        (Store, ("sync",)),
    )

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.step, self.after = 0, -1, False
        for owner, names in self.STEPS:
            for name in names:
                monkeypatch.setattr(owner, name, self._watched(getattr(owner, name)))

    def _watched(self, really: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(really)
        def call(*given: Any, **named: Any) -> Any:
            if not sys._getframe(1).f_globals["__name__"].startswith("diskstream.spark"):
                return really(*given, **named)
            self.count += 1
            if 0 <= self.step < self.count:
                made = None
                if self.count == self.step + 1 and self.after:
                    made = really(*given, **named)
                if hasattr(made, "close"):
                    made.close()
                raise Dead
            return really(*given, **named)

        return call

    def die_at(self, step: int, *, after: bool) -> None:
        self.count, self.step, self.after = 0, step, after

    def live(self) -> None:
        self.count, self.step = 0, -1


KINDS: dict[str, tuple[Target, dict[str, Any]]] = {
    "automatic IDs": (TO_TWO, {}),
    "segments roll in between": (TO_TWO, {"segment_bytes": 8192, "node_max_entries": 2}),
    "each append flushed": (TO_TWO, {"fsync": "always"}),
    "given IDs": (GIVEN, {}),
}
ROWS = 20
# How partitions are cut the first time, and the second.
FIRST = [range(8), range(8, 17), range(17, ROWS)]
SECOND = [range(3), range(3, ROWS)]


def rows_of(at: Path, target: Target) -> list[list[int]]:
    return [numbers(at, name) for name in (["x"] if target.given else ["even", "odd"])]


def all_of(target: Target) -> list[list[int]]:
    return [list(range(ROWS))] if target.given else [list(range(0, ROWS, 2)), list(range(1, ROWS, 2))]


@pytest.mark.parametrize(("kind", "after"), [*((kind, False) for kind in KINDS), ("automatic IDs", True)])
def test_whatever_step_it_dies_at_the_next_attempt_makes_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, after: bool
) -> None:
    """The next attempt has other files, as a batch that comes again is cut differently."""
    target, how = KINDS[kind]
    deadly = Deadly(monkeypatch)
    steps, step = 1, 0
    while step < steps:
        at = tmp_path / str(step)
        with diskstream.open(at, **how):
            pass
        deadly.live()
        files = staged(at, *FIRST, target=target)
        deadly.die_at(step, after=after)
        with suppress(Dead):
            committed(at, Manifest("query:q", 4, target.given, files))
            steps = step  # it has come to its end
        deadly.live()
        committed(at, Manifest("query:q", 4, target.given, staged(at, *SECOND, target=target)))
        assert rows_of(at, target) == all_of(target), f"dead at step {step}"
        # What belonged to nobody goes with the next versions, or after a day.
        committed(at, Manifest("query:q", 5, target.given, ()))
        assert not [name for name in left(at) if name.endswith(".json")], f"dead at step {step}"
        steps, step = (steps if steps == step else step + 2), step + 1
    assert step > 20


@pytest.mark.parametrize("writer", ["query:q", f"{JOB}1", "txn:t"])
def test_whatever_step_it_dies_at_another_writer_finishes_it_or_nobody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    deadly = Deadly(monkeypatch)
    seen = set()
    for step in range(100):
        at = tmp_path / str(step)
        with diskstream.open(at, **SMALL):
            pass
        deadly.live()
        files = staged(at, *FIRST)
        deadly.die_at(step, after=step % 2 == 1)
        with suppress(Dead):
            committed(at, Manifest(writer, 0, False, files))
            break
        deadly.live()
        committed(at, Manifest("query:another", 0, False, ()))
        found = rows_of(at, TO_TWO)
        assert found in ([[], []], all_of(TO_TWO)), f"dead at step {step}"
        seen.add(found == all_of(TO_TWO))
    assert seen == {False, True}


def test_one_that_dies_again_and_again_still_comes_to_its_end(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadly = Deadly(monkeypatch)
    for step in range(100):
        deadly.live()
        files = staged(at, *(FIRST if step % 2 else SECOND))
        deadly.die_at(step // 2, after=True)
        with suppress(Dead):
            committed(at, Manifest("query:q", 0, False, files))
            break
    deadly.live()
    assert rows_of(at, TO_TWO) == all_of(TO_TWO)


def test_a_version_that_is_done_adds_nothing(at: Path) -> None:
    assert committed(at, Manifest("query:q", 1, False, staged(at, [2, 4])))
    assert not committed(at, Manifest("query:q", 1, False, staged(at, [2, 4])))
    assert not committed(at, Manifest("query:q", 0, False, staged(at, [6])))
    assert committed(at, Manifest("query:q", 2, False, staged(at, [8])))
    assert (numbers(at, "even"), left(at)) == ([2, 4, 8], [])


def test_a_batch_without_rows_is_done_too(at: Path) -> None:
    assert committed(at, Manifest("query:q", 0, False, ()))
    assert not committed(at, Manifest("query:q", 0, False, staged(at, [2])))
    assert numbers(at, "even") == []


def fails(*_: Any, **__: Any) -> Any:
    raise storage_error("even", "write", errno.ENOSPC, os.strerror(errno.ENOSPC))


def half_done(at: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch, after: int = 2) -> None:
    """A commit whose disk is full after some batches."""
    really, batches = Stream.add_arrow, iter(range(after))

    def add(self: Stream, *given: Any, **named: Any) -> Any:
        return fails() if next(batches, None) is None else really(self, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Stream, "add_arrow", add)
        with pytest.raises(DiskFullError):
            committed(at, manifest)


def test_what_failed_half_way_may_be_committed_again_as_it_is(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = Manifest("query:q", 0, False, staged(at, *FIRST))
    half_done(at, manifest, monkeypatch)
    assert not committed(at, manifest)
    assert (rows_of(at, TO_TWO), left(at)) == (all_of(TO_TWO), [])


def test_an_earlier_version_left_half_done_goes_before_the_next(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_done(at, Manifest("query:q", 0, False, staged(at, [0, 2, 4, 6, 8])), monkeypatch, after=1)
    assert committed(at, Manifest("query:q", 1, False, staged(at, [10])))
    assert numbers(at, "even") == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("streaming", [False, True])
def test_spark_says_abort_after_a_commit_that_failed_and_nothing_is_lost(
    at: Path, monkeypatch: pytest.MonkeyPatch, streaming: bool
) -> None:
    """Files that a manifest lists must stay: it is decided that they are appended."""
    kind: Any = EntriesStreamWriter if streaming else EntriesWriter
    given = {"writer": "w"} if streaming else {"txnid": "t"}
    number = (7,) if streaming else ()

    def attempt() -> tuple[Any, list[Any]]:
        writer = kind(options(path=str(at), **given), schema(stream=TEXT, n=LONG), overwrite=False)
        return writer, [writer.write(iter([to_two(part)])) for part in FIRST]

    writer, messages = attempt()
    with monkeypatch.context() as patched:
        patched.setattr(Store, "sync", fails)
        with pytest.raises(DiskFullError):
            writer.commit(messages, *number)
    writer.abort(messages, *number)
    again, messages = attempt()
    again.commit(messages, *number)
    # Here all tasks say that theirs is partition 0: the order between them is another test's.
    assert ([sorted(rows) for rows in rows_of(at, TO_TWO)], left(at)) == (all_of(TO_TWO), [])


def test_what_is_aborted_before_a_commit_goes(at: Path) -> None:
    writer = EntriesWriter(options(path=str(at)), schema(stream=TEXT, n=LONG), overwrite=False)
    writer.abort([writer.write(iter([to_two(range(9))])), None])
    assert left(at) == []


def test_what_a_task_staged_and_lost_is_not_decided_on(at: Path) -> None:
    files = staged(at, [2], [4])
    discard(at, files[1:])
    with pytest.raises(diskstream.StorageError, match="staged is gone"):
        committed(at, Manifest("query:q", 0, False, files))
    assert committed(at, Manifest("query:q", 0, False, staged(at, [2, 4])))
    assert numbers(at, "even") == [2, 4]


# --- several at once --------------------------------------------------------------------------------------------------


def commits_when_told(at: str, cut: int) -> None:
    files = staged(Path(at), range(cut), range(cut, ROWS))
    with diskstream.open(at) as store:
        say("ready")
        version = 0
        while hear() == "go":
            say(commit(store, Manifest("query:q", version, False, files)))
            version += 1
            files = staged(Path(at), range(cut), range(cut, ROWS))
            say("ready")


# By the name under which the child can import it: pytest calls this module after its folder alone.
commits_when_told.__module__ = "tests.spark.test_write_units"


def test_of_two_processes_that_commit_one_version_at_once_one_does(at: Path) -> None:
    rounds = 10
    with child(commits_when_told, at, 7) as one, child(commits_when_told, at, 15) as other:
        for _ in range(rounds):
            assert [each.hear() for each in (one, other)] == ["ready", "ready"]
            one.tell("go")
            other.tell("go")
            assert sorted([one.hear(), other.hear()]) == ["False", "True"]
    assert rows_of(at, TO_TWO) == [found * rounds for found in all_of(TO_TWO)]


# --- manifests that cannot be carried out -----------------------------------------------------------------------------


def damage_the_manifest(at: Path) -> None:
    (path,) = (path for path in at.glob("commits/*/*.json") if path.name != "done.json")
    path.write_text(path.read_text()[:50])


def take_the_files(at: Path) -> None:
    shutil.rmtree(at / "staging")


def damage_the_files(at: Path) -> None:
    for path in at.glob("staging/*/*.arrow"):
        path.write_bytes(b"no arrow")


def damage_done(at: Path) -> None:
    (path,) = (path.parent for path in at.glob("commits/*/*.json"))
    (path / "done.json").write_text("{")


def pass_the_ids(at: Path) -> None:
    with diskstream.open(at) as store:
        store.stream("x").add({"n": 1}, "1000-0")


@pytest.mark.parametrize(
    "harm",
    [damage_the_manifest, take_the_files, damage_the_files, damage_done, pass_the_ids],
    ids=lambda harm: harm.__name__,
)
def test_a_manifest_that_cannot_be_carried_out_stops_nobody_else(
    at: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None]
) -> None:
    half_done(at, Manifest("query:left", 0, True, staged(at, *FIRST, target=GIVEN)), monkeypatch)
    harm(at)
    assert committed(at, Manifest("query:other", 0, False, staged(at, [2])))
    assert numbers(at, "even") == [2]
    with pytest.raises(diskstream.DiskstreamError):
        committed(at, Manifest("query:left", 0, True, ()))


def test_nothing_staged_is_swept_while_a_manifest_cannot_be_read(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may list anything."""
    half_done(at, Manifest("query:left", 0, False, staged(at, *FIRST)), monkeypatch)
    damage_the_manifest(at)
    os.utime(at / "staging" / "job", (0, 0))
    with diskstream.open(at) as store:
        assert finish_left(store) == []
    assert len(list(at.glob("staging/job/*.arrow"))) == 3


def test_a_writer_at_work_is_left_alone(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_done(at, Manifest("query:left", 0, False, staged(at, *FIRST)), monkeypatch)
    with diskstream.open(at) as store, commits._locked(next(at.glob("commits/*")), wait=True):
        assert finish_left(store) == []
    with diskstream.open(at) as store:
        assert finish_left(store) == ["query:left"]
        assert finish_left(store) == []
    assert rows_of(at, TO_TWO) == all_of(TO_TWO)


# --- given IDs --------------------------------------------------------------------------------------------------------


def test_partitions_that_overlap_are_merged(at: Path) -> None:
    parts = [range(1, 60, 3), range(2, 60, 3), [*range(3, 60, 3), *range(100, 105)], range(200, 203)]
    assert committed(at, Manifest("query:q", 0, True, staged(at, *parts, target=GIVEN)))
    assert numbers(at) == [*range(1, 60), *range(100, 105), *range(200, 203)]


@pytest.mark.parametrize("parts", [[[1, 2, 3, 4], [4, 5]], [[1, 2], [1, 2]], [[10, 30], [20, 21], [21, 40]]])
def test_an_id_that_two_partitions_have_is_refused_and_nothing_added(at: Path, parts: list[list[int]]) -> None:
    files = staged(at, [1000], *([2000 + n for n in part] for part in parts), target=GIVEN)
    with pytest.raises(ArgumentError, match="one ID"):
        committed(at, Manifest("query:q", 0, True, files))
    assert numbers(at) == []
    assert committed(at, Manifest("query:q", 0, True, staged(at, [1], target=GIVEN)))


@pytest.mark.parametrize("rows", [2, 100])
def test_an_id_that_two_rows_of_a_partition_have_is_refused(at: Path, rows: int) -> None:
    with pytest.raises(ArgumentError, match="one ID"):
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


def test_without_one_each_write_adds(at: Path) -> None:
    written(at, [2])
    written(at, [2])
    assert (numbers(at, "even"), list((at / "commits").iterdir())) == ([2, 2], [])


def test_overwriting_is_refused(at: Path) -> None:
    with pytest.raises(ArgumentError, match="append"):
        EntriesWriter(options(path=str(at)), schema(stream=TEXT, n=LONG), overwrite=True)


def test_a_manifest_comes_back_from_json_as_it_was(at: Path) -> None:
    manifest = Manifest("query:\udcff", 2**63, True, staged(at, *FIRST, target=GIVEN))
    assert Manifest.from_json(manifest.as_json()) == manifest
    assert json.loads(manifest.as_json())["version"] == 2**63
