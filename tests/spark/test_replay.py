"""The job replay: a store or an archive into streams, each entry once, however often it is killed and started again."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import diskstream
from diskstream import Store
from diskstream.errors import ArgumentError, StorageError
from diskstream.spark import commit
from diskstream.spark.jobs import archive, compact
from diskstream.spark.jobs import replay as job
from diskstream.spark.jobs.manifest import latest
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.replaced_sources import FilesNow, as_they_are
from diskstream.spark.jobs.replay import ReplaySettings
from tests.spark.archives import fill, in_process, no_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_spark"]

NAMES = (b"a", b"b%\xff")
NAMES_AB = (b"a", b"b")
Pairs = list[tuple[str, list[tuple[bytes, bytes]]]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    with diskstream.open(path, segment_bytes=16384) as store:
        for name in NAMES:
            for first in range(0, 3000, 500):
                store.stream(name).add_many(
                    [[("n", str(n)), ("n", b"\xff"), ("", "")] for n in range(first, first + 500)]
                )
            store.stream(name).delete(*[entry.id for entry in store.stream(name).range(count=5)])
        store.seal()
        store.stream(NAMES[0]).add({"tail": "1"})
    return path


def entries(store: Store, name: bytes) -> Pairs:
    return [(str(entry.id), entry.pairs) for entry in store.stream(name).range()]


def all_of(path: Path) -> dict[bytes, Pairs]:
    with diskstream.open(path, read_only=True) as store:
        return {name: entries(store, name) for name in store.streams()}


def settings(source: Path, target: Path) -> ReplaySettings:
    return ReplaySettings(str(source), str(target), max_entries=400, tasks_per_round=3, quiet=True)


def test_a_store_is_replayed_whole_and_once(spark: "SparkSession", source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    given = settings(source, target)
    planned = job.run(spark, replace(given, dry_run=True))
    assert not target.exists()
    done = job.run(spark, given)
    assert planned.rounds == done.rounds > 2
    assert planned.entries >= done.entries == 2 * 2995 + 1
    assert all_of(target) == all_of(source)
    again = job.run(spark, given)
    assert (again.entries, again.rounds) == (0, 0)
    assert all_of(target) == all_of(source)
    assert list((source / "leases").iterdir()) == []
    with pytest.raises(ArgumentError, match="ends at"):
        job.run(spark, replace(given, name="another"))
    assert all_of(target) == all_of(source)


def test_killed_between_staging_and_commit_it_goes_on_where_it_stopped(
    spark: "SparkSession", source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    given = replace(settings(source, target), ids="new", to="copy-")
    whole, rounds = commit.commit, []

    def failing(store: Store, manifest: commit.Manifest) -> bool:
        rounds.append(manifest.version)
        if len(rounds) == 2:
            raise StorageError(str(target), "write", 5, "pulled out")
        done = whole(store, manifest)
        if len(rounds) == 4:
            raise StorageError(str(target), "write", 5, "pulled out after it was done")
        return done

    monkeypatch.setattr(job, "commit", failing)
    for _ in range(2):
        with pytest.raises(StorageError, match="pulled out"):
            job.run(spark, given)
    with diskstream.open(source) as store:
        store.stream(NAMES[0]).add({"later": "not in the plan"})
    job.run(spark, given)
    assert rounds[:6] == [0, 1, 1, 2, 3, 4]
    expected = all_of(source)
    expected[NAMES[0]].pop()
    found = all_of(target)
    assert {name: [pairs for _, pairs in made] for name, made in found.items()} == {
        b"copy-" + name: [pairs for _, pairs in made] for name, made in expected.items()
    }


@pytest.mark.parametrize("ids", ["original", "new"])
def test_a_killed_replay_of_an_archive_goes_on_when_its_files_were_compacted(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: str
) -> None:
    store, place, target = tmp_path / "store", tmp_path / "archive", tmp_path / "target"
    for first in range(1, 50, 10):
        fill(store, "s", [(f"{ms}-0", {"n": str(ms)}) for ms in range(first, first + 10)])
        archive.run(no_spark, archive.ArchiveSettings(str(store), str(place)))
    given = ReplaySettings(str(place), str(target), start="5", end="45", ids=ids, max_entries=20, tasks_per_round=1)
    whole = commit.commit

    def failing(store: Store, manifest: commit.Manifest) -> bool:
        if manifest.version == 1:
            raise StorageError(str(target), "write", 5, "pulled out")
        return whole(store, manifest)

    with monkeypatch.context() as patch, pytest.raises(StorageError, match="pulled out"):
        patch.setattr(job, "commit", failing)
        job.run(no_spark, given)
    compact.run(no_spark, compact.CompactSettings(str(place)))
    current = {each.path for each in latest(Place(place)).files}
    replaced = [each.path for each in Place(place).list() if each.path.startswith("stream=")]
    for each in set(replaced) - current:  # as when the grace time is over
        Place(place).remove(each)
    fill(store, "s", [("900-0", {"n": "later"})])
    archive.run(no_spark, archive.ArchiveSettings(str(store), str(place)))
    assert job.run(no_spark, given).rounds_before == 1
    assert [dict(pairs)[b"n"] for _, pairs in all_of(target)[b"s"]] == [b"%d" % ms for ms in range(5, 46)]


def test_a_killed_replay_of_files_that_are_in_no_version_any_more_is_refused() -> None:
    name = f"stream=s/date=1970-01-01/part-1-0-9-0-{'0' * 32}.parquet"
    for path in (name, "stream=s/other.parquet"):
        with pytest.raises(ArgumentError, match="replay what is left under another name"):
            as_they_are([("s", path, "0-0", "99-0")], FilesNow([]))


def test_an_archive_is_replayed_within_a_range(spark: "SparkSession", source: Path, tmp_path: Path) -> None:
    place, target = tmp_path / "archive", tmp_path / "target"
    archive.run(spark, archive.ArchiveSettings(str(source), str(place), quiet=True))
    there = all_of(source)[NAMES[0]]
    first, last = there[100][0], there[-100][0]
    given = ReplaySettings(str(place), str(target), (NAMES[0],), start=first, end=last, to="part", quiet=True)
    assert job.run(spark, given).entries == len(there) - 199
    assert all_of(target) == {b"part": there[100:-99]}


@pytest.mark.parametrize("of", ["store", "archive"])
def test_several_streams_keep_their_names_where_only_one_has_entries_in_the_range(
    no_spark: Any, tmp_path: Path, of: str
) -> None:
    store, target = tmp_path / "store", tmp_path / "target"
    fill(store, "a", [("100-0", {"n": "1"})])
    fill(store, "b", [("900-0", {"n": "2"})])
    archive.run(no_spark, archive.ArchiveSettings(str(store), str(tmp_path / "archive")))
    job.run(no_spark, ReplaySettings(str(tmp_path / of), str(target), NAMES_AB, start="500", to="copy-"))
    assert list(all_of(target)) == [b"copy-b"]


@pytest.mark.parametrize("of", ["store", "archive"])
def test_what_comes_into_a_range_that_was_empty_is_replayed(no_spark: Any, tmp_path: Path, of: str) -> None:
    store, target = tmp_path / "store", tmp_path / "target"
    archiving = archive.ArchiveSettings(str(store), str(tmp_path / "archive"))
    given = ReplaySettings(str(tmp_path / of), str(target), start="500")
    fill(store, "a", [("100-0", {"n": "1"})])
    archive.run(no_spark, archiving)
    for _ in range(2):
        done = job.run(no_spark, given)
        assert (done.entries, done.rounds, done.complete_before) == (0, 0, False)
    assert not (target / "replays").exists()
    assert not (store / "leases").exists() or not list((store / "leases").iterdir())
    fill(store, "a", [("900-0", {"n": "2"})])
    archive.run(no_spark, archiving)
    assert job.run(no_spark, given).entries == 1
    assert job.run(no_spark, given).complete_before
    assert all_of(target) == {b"a": [("900-0", [(b"n", b"2")])]}


@pytest.mark.parametrize("killed", [False, True])
def test_a_name_stands_for_one_replay(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    store, other, target = tmp_path / "store", tmp_path / "other", tmp_path / "target"
    fill(store, "a", [("100-0", {"n": "1"})])
    fill(other, "b", [("100-0", {"n": "2"})])
    given = ReplaySettings(str(store), str(target), name="daily")
    if killed:
        monkeypatch.setattr(job, "commit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            job.run(no_spark, given)
        monkeypatch.undo()
        monkeypatch.setattr(job, "run_tasks", in_process)
    else:
        job.run(no_spark, given)
    changes: list[tuple[str, Any]] = [("source", str(other)), ("end", "500"), ("ids", "new"), ("to", "x")]
    changes += [("streams", (b"a",)), ("pattern", "*"), ("start", "1")]
    for what, word in changes:
        with pytest.raises(ArgumentError, match=f"the name daily has another {what}"):
            job.run(no_spark, replace(given, **{what: word}))
    monkeypatch.chdir(tmp_path)
    done = job.run(no_spark, replace(given, source="store", tasks_per_round=1))
    assert done.complete_before is not killed
    assert all_of(target) == {b"a": [("100-0", [(b"n", b"1")])]}


def test_one_replay_has_one_name_however_its_words_are_put(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named in another order, or by a relative path, it was another one: with new IDs it came in a second time."""
    store, target = tmp_path / "store", tmp_path / "target"
    for name in NAMES_AB:
        fill(store, name, [("100-0", {"n": "1"})])
    given = ReplaySettings(str(store), str(target), NAMES_AB, ids="new")
    assert job.run(no_spark, given).entries == 2
    monkeypatch.chdir(tmp_path)
    for again in (
        replace(given, streams=NAMES_AB[::-1]),
        replace(given, source="store"),
        replace(given, target="target"),
    ):
        assert job.run(no_spark, again).complete_before


def test_a_replay_that_an_earlier_version_completed_is_complete(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "a", [("100-0", {"n": "1"})])
    given = ReplaySettings(str(tmp_path / "store"), str(tmp_path / "target"))
    job.run(no_spark, given)
    [mark] = (tmp_path / "target" / "replays").glob("*/complete")
    mark.write_bytes(b"")
    assert job.run(no_spark, given).complete_before
    mark.write_bytes(b"[]")
    with pytest.raises(StorageError, match="what is kept of this replay is damaged"):
        job.run(no_spark, given)


def test_what_cannot_be_replayed_is_refused_before_anything_is_made(source: Path, tmp_path: Path) -> None:
    none: SparkSession = None  # type: ignore[assignment]  # it is not asked
    with pytest.raises(ArgumentError, match="ids is 'original' or 'new'"):
        job.run(none, replace(settings(source, tmp_path / "t"), ids="other"))
    with pytest.raises(ArgumentError, match="name the streams, or give a pattern"):
        job.run(none, replace(settings(source, tmp_path / "t"), streams=NAMES, pattern="*"))
    with pytest.raises(ArgumentError, match="neither a store"):
        job.run(none, settings(tmp_path, tmp_path / "t"))
    with pytest.raises(diskstream.NoSuchStreamError):
        job.run(none, replace(settings(source, tmp_path / "t"), streams=(b"nope",)))


def test_a_plan_whose_lease_is_gone_says_what_to_do(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    given = settings(source, target)
    with diskstream.open(target) as store:
        folder = store.path / "replays" / "x"
        job._kept_plan(folder, given)
    for lease in (source / "leases").iterdir():
        diskstream.leases.release(lease)
    with pytest.raises(ArgumentError, match="what it reads is gone"):
        job._kept_plan(folder, given)


def test_a_plan_of_an_earlier_version_has_rounds_as_the_settings_say(source: Path, tmp_path: Path) -> None:
    given = settings(source, tmp_path / "target")
    file = tmp_path / "replay" / "plan.json"
    plan, rounds = job._kept_plan(file.parent, given)
    assert rounds == 3
    assert job._kept_plan(file.parent, replace(given, tasks_per_round=9)) == (plan, 3)
    file.write_text(json.dumps([asdict(work) for work in plan]))
    assert job._kept_plan(file.parent, replace(given, tasks_per_round=9)) == (plan, 9)
    file.write_text("{}")
    with pytest.raises(StorageError, match="give the replay another name"):
        job._kept_plan(file.parent, given)


def test_a_plan_with_a_number_without_end_is_damaged(source: Path, tmp_path: Path) -> None:
    """It ended in an OverflowError, which named no file."""
    given = settings(source, tmp_path / "target")
    file = tmp_path / "replay" / "plan.json"
    job._kept_plan(file.parent, given)
    file.write_text(json.dumps({"tasks_per_round": float("inf"), "work": []}))
    with pytest.raises(StorageError, match="give the replay another name"):
        job._kept_plan(file.parent, given)
