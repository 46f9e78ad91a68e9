"""Committing from Spark, without Spark: whoever dies at whatever step, each row is there once and in order."""

import errno
import functools
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import DiskFullError, StorageError, Store, Stream, system_calls
from diskstream.errors import LimitError, storage_error
from tests.engine.children import child, hear, say
from tests.engine.stand_ins import unlisted

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark.sql.types")

from diskstream.spark import commit as commits
from diskstream.spark.commit import JOB, Manifest, commit, finish_left
from diskstream.spark.rows import Target
from diskstream.spark.staging import discard, sweep
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
    to_two,
)


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """Where an empty store is."""
    with diskstream.open(tmp_path / "at", **SMALL):
        return tmp_path / "at"


# --- a commit that dies at any step -----------------------------------------------------------------------------------


class Dead(BaseException):
    """What a killed process does: nothing more, no cleaning up either."""


class Deadly:
    """Counts the steps of the code under test, and dies before or after one of them; then no step is done."""

    STEPS = (
        (Path, ("hardlink_to", "mkdir", "open", "replace", "rmdir", "unlink")),
        (os, ("fsync",)),
        (shutil, ("rmtree",)),
        (Stream, ("_add_packed", "committed")),
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
                made: Any = None
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
SPELLINGS = {"even": "a/b", "odd": "a%2Fb"}
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
    really, batches = Stream._add_packed, iter(range(after))

    def add(self: Stream, *given: Any, **named: Any) -> Any:
        return fails() if next(batches, None) is None else really(self, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Stream, "_add_packed", add)
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


@pytest.mark.parametrize("look", [1, 2])
def test_an_earlier_version_that_cannot_be_looked_for_is_not_passed_over(
    at: Path, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """From Python 3.13 on it was, and its rows were never added."""
    half_done(at, Manifest("query:q", 0, False, staged(at, [0, 2, 4, 6, 8])), monkeypatch, after=1)
    later = Manifest("query:q", 1, False, staged(at, [10]))
    looks = []

    def fails(place: Path) -> bool:
        looks.append(place.parent == at / "commits")
        return looks[-1] and sum(looks) == look

    with unlisted(fails), pytest.raises(StorageError, match="could not list"):
        committed(at, later)
    assert committed(at, later)
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


@pytest.mark.parametrize(("limit", "greatest"), [("_MAX_BATCHES", 2), ("_MAX_MANIFEST_BYTES", 500)])
def test_more_than_can_be_carried_out_is_not_decided_on(
    at: Path, monkeypatch: pytest.MonkeyPatch, limit: str, greatest: int
) -> None:
    """The number of a batch would be too great for the rows behind it, or the manifest too long to be read again."""
    files = staged(at, range(40), rows=4)
    with monkeypatch.context() as patch:
        patch.setattr(commits, limit, greatest)
        with pytest.raises(LimitError, match="choose a greater batchRows"):
            committed(at, Manifest("w", 0, False, files))
    assert (numbers(at, "even"), numbers(at, "odd")) == ([], [])
    assert committed(at, Manifest("w", 0, False, files))
    assert len(numbers(at, "even")) == 20


def test_of_two_spellings_of_one_stream_no_rows_are_dropped(at: Path) -> None:
    """Manifests that were written before may list both."""
    files = staged(at, [0, 1, 2, 3])
    both = tuple(
        replace(file, batches=tuple(replace(each, stream=SPELLINGS[each.stream]) for each in file.batches))
        for file in files
    )
    assert committed(at, Manifest("query:q", 0, False, both))
    assert sorted(numbers(at, "a/b")) == [0, 1, 2, 3]


def test_a_write_does_not_look_at_all_writers_that_are_done(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `txnId` is known for ever, and each write listed the folders of all of them: of 20,000 it took a second."""
    listed, counts = list[Path](), list[int]()

    def named(folder: Path, suffix: str) -> list[Path]:
        listed.append(folder)
        return system_calls.named(folder, suffix)

    monkeypatch.setattr(commits, "named", named)
    for number in range(5):
        listed.clear()
        assert committed(at, Manifest(f"txn:load-{number}", 0, False, staged(at, range(3))))
        counts.append(len(listed))
    assert counts == [counts[0]] * 5


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
commits_when_told.__module__ = "tests.spark.test_commit_units"


def test_of_two_processes_that_commit_one_version_at_once_one_does(at: Path) -> None:
    rounds = 10
    with child(commits_when_told, at, 7) as one, child(commits_when_told, at, 15) as other:
        for _ in range(rounds):
            assert [each.hear() for each in (one, other)] == ["ready", "ready"]
            one.tell("go")
            other.tell("go")
            assert sorted([one.hear(), other.hear()]) == ["False", "True"]
    assert rows_of(at, TO_TWO) == [found * rounds for found in all_of(TO_TWO)]


def vanishing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What a folder holds of this name goes once it is listed, as another query takes its own."""
    for owner, lists in ((Path, "iterdir"), (commits, "named")):
        monkeypatch.setattr(owner, lists, _then_goes(getattr(owner, lists), name))


def _then_goes(really: Callable[..., Any], name: str) -> Callable[..., Any]:
    def lists(folder: Path, *given: Any) -> Any:
        found = list(really(folder, *given))
        shutil.rmtree(folder / name, ignore_errors=True)
        return iter(found)

    return lists


def test_what_others_stage_may_go_while_it_is_swept(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staged(at, [2])
    vanishing(monkeypatch, "job")
    assert sweep(at, set()) == []
    assert not (at / "staging" / "job").exists()


def test_the_folder_of_another_writer_may_go_while_manifests_are_looked_for(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_done(at, Manifest("query:left", 0, False, staged(at, *FIRST)), monkeypatch)
    (gone,) = (path.name for path in (at / "commits").iterdir())
    vanishing(monkeypatch, gone)
    assert committed(at, Manifest("query:q", 0, False, ()))
    assert not (at / "commits" / gone).exists()


# --- manifests that cannot be carried out -----------------------------------------------------------------------------


def damage_the_manifest(at: Path) -> None:
    (path,) = (path for path in at.glob("commits/*/*.json") if path.name != "done.json")
    path.write_text(path.read_text()[:50])


def take_the_files(at: Path) -> None:
    shutil.rmtree(at / "staging")


def damage_the_files(at: Path) -> None:
    for path in at.glob("staging/*/*.packed"):
        path.write_bytes(b"no arrow")


def damage_done(at: Path) -> None:
    (path,) = (path.parent for path in at.glob("commits/*/*.json"))
    (path / "done.json").write_text("{")


@pytest.mark.parametrize(
    "harm",
    [damage_the_manifest, take_the_files, damage_the_files, damage_done],
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
    assert len(list(at.glob("staging/job/*.packed"))) == 3


def test_a_writer_at_work_is_left_alone(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_done(at, Manifest("query:left", 0, False, staged(at, *FIRST)), monkeypatch)
    with diskstream.open(at) as store, commits._locked(next(at.glob("commits/*")), wait=True):
        assert finish_left(store) == []
    with diskstream.open(at) as store:
        assert finish_left(store) == ["query:left"]
        assert finish_left(store) == []
    assert rows_of(at, TO_TWO) == all_of(TO_TWO)
