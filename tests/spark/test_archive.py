"""The job `archive`: nothing lost, nothing twice, whatever is killed; and what it says."""

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import diskstream
from diskstream.cli.spark.garbage import tell_garbage
from diskstream.errors import ArchiveChangedError, ArchiveError, ArgumentError, StorageError
from diskstream.ids import parse_id
from diskstream.spark.jobs import archive as job
from diskstream.spark.jobs import settling
from diskstream.spark.jobs.archive import ArchiveSettings, ArchiveTask, archive_slices, run
from diskstream.spark.jobs.archive_plan import ArchivePlan, tasks_of
from diskstream.spark.jobs.folders import folder_of
from diskstream.spark.jobs.garbage import Marker, collect, running
from diskstream.spark.jobs.manifest import Manifest, Shape, commit, latest, versions
from diskstream.spark.jobs.outcome import Guarded
from diskstream.spark.jobs.part_reading import read_part
from diskstream.spark.jobs.place import Place
from diskstream.spark.partitions import Slice
from diskstream.spark.planning import slices_of
from tests.spark.archives import BASE, DAY, days, fill, in_process, kept, no_spark, parts, rows, stored
from tests.spark.killed_jobs import POINTS, Jobs, jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pa = pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["jobs", "no_spark"]

ODD = [
    (f"{BASE}-0", [(b"a", b"1"), (b"a", b""), (b"", b"x")]),
    (f"{BASE}-1", [(b"a", b""), (b"a", b"1"), (b"", b"x")]),
    (f"{BASE}-18446744073709551615", [(b"\xff\x00", bytes(range(256))), (b"long", b"z" * 100_000)]),
    (f"{BASE + DAY}-0", [("ä", "€")]),
    ("18446744073709551615-7", [(b"far", b"away")]),
]


def settings(tmp_path: Path, **given: Any) -> ArchiveSettings:
    return ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive"), **given)


def test_every_entry_is_archived_as_it_was(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "odd:one", ODD)
    summary = run(no_spark, settings(tmp_path))
    assert kept(tmp_path / "archive", "odd:one") == stored(tmp_path / "store", "odd:one")
    assert (summary.version, summary.entries, summary.files, summary.verified) == (1, 5, 3, True)
    assert str(summary.streams[0].archived_to) == ODD[-1][0]
    folders = sorted(path.rpartition("/")[0] for path in parts(tmp_path / "archive"))
    assert folders == [
        "stream=odd%3Aone/date=2024-10-04",
        "stream=odd%3Aone/date=2024-10-05",
        "stream=odd%3Aone/date=__HIVE_DEFAULT_PARTITION__",
    ]
    assert not list((tmp_path / "store" / "leases").iterdir())
    assert not [each for each in Place(tmp_path / "archive").list() if each.path.startswith("_jobs/")]


def test_a_files_footer_says_what_it_holds(no_spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fill(tmp_path / "store", "s", days(1, 500))
    run(no_spark, settings(tmp_path))
    (file,) = latest(Place(tmp_path / "archive")).files
    opened = pq.ParquetFile(tmp_path / "archive" / file.path)
    facts = {key.decode(): text.decode() for key, text in opened.metadata.metadata.items() if b"diskstream" in key}
    assert facts == {
        "diskstream.stream": "s",
        "diskstream.first": str(file.first),
        "diskstream.last": str(file.last),
        "diskstream.rows": "500",
        "diskstream.digest": str(file.digest),
        "diskstream.layout": "fields",
    }
    columns = [opened.metadata.row_group(0).column(number) for number in range(5)]
    assert {column.compression for column in columns} == {"ZSTD"}
    assert columns[0].statistics.min == BASE
    # Neighbours differ by little; what stands within lists is no help to a reader that skips.
    assert ["DELTA_BINARY_PACKED" in column.encodings for column in columns] == [True] * 3 + [False] * 2
    assert ["RLE_DICTIONARY" in column.encodings for column in columns] == [False] * 3 + [True, False]
    # Who reads it without a word gets names, and not places.
    assert opened.schema_arrow.field("fields").type.value_type.field("name").type == pa.binary()
    assert [column.is_stats_set for column in columns] == [True] * 3 + [False] * 2
    assert f"part-{file.first}-{file.last}-" in file.path


def test_entries_of_ever_other_fields_are_archived_as_they_were(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch has other names, of which some are in the batch before: files have them as places among all."""
    import pyarrow.parquet as pq

    store, root = tmp_path / "store", tmp_path / "archive"
    for batch in range(6):
        names = [f"n{batch}", "", "shared", f"{batch}" * 300]
        entries = [(f"{BASE + 1000 * batch + n}-0", {names[at % 4]: str(n) for at in range(n)}) for n in range(1, 40)]
        fill(store, "s", entries)
        with diskstream.open(store) as opened:
            opened.seal()
    monkeypatch.setattr("diskstream.spark.jobs.parts._GROUP_ROWS", 50)
    monkeypatch.setattr("diskstream.spark.jobs.part_reading._READ_ROWS", 30)  # which no group is a multiple of
    run(no_spark, settings(tmp_path))
    (file,) = latest(Place(root)).files
    assert pq.ParquetFile(root / file.path).num_row_groups > 2
    assert kept(root, "s") == stored(store, "s")


def test_so_are_those_with_more_names_than_a_dictionary_mostly_holds(no_spark: Any, tmp_path: Path) -> None:
    """At a megabyte Parquet may give a dictionary up, and goes on with the names themselves."""
    entries = [(f"{BASE + n}-0", {f"{n} {name} " * 60: "v" for name in range(100)}) for n in range(40)]
    fill(tmp_path / "store", "s", entries)
    assert run(no_spark, settings(tmp_path)).verified
    assert kept(tmp_path / "archive", "s") == stored(tmp_path / "store", "s")


def test_each_run_goes_on_where_the_last_one_ended(no_spark: Any, tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    fill(store, "s", days(2, 100))
    assert run(no_spark, settings(tmp_path)).entries == 200
    again = run(no_spark, settings(tmp_path))
    assert (again.entries, again.version) == (0, 1)
    fill(store, "s", days(1, 50, first=2))
    fill(store, "t", days(1, 10))
    more = run(no_spark, settings(tmp_path))
    assert (more.entries, more.version) == (60, 2)
    assert kept(root, "s") == stored(store, "s")
    assert kept(root, "t") == stored(store, "t")


def test_a_stream_that_is_named_twice_is_archived_once(no_spark: Any, tmp_path: Path) -> None:
    """Each of its entries was in the archive twice, for good."""
    fill(tmp_path / "store", "s", days(2, 50))
    twice = settings(tmp_path, streams=(b"s", b"s"))
    assert run(None, twice).entries == 100
    assert run(no_spark, twice).entries == 100
    assert kept(tmp_path / "archive", "s") == stored(tmp_path / "store", "s")


def test_an_archive_that_has_an_entry_twice_is_never_committed(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a plan did wrong: in one task, and in two."""
    fill(tmp_path / "store", "s", days(1, 50))
    monkeypatch.setattr(job, "chosen_streams", lambda *_: [b"s", b"s"])
    with pytest.raises(ArchiveError, match="come out of order"):
        run(no_spark, settings(tmp_path))
    with pytest.raises(ArchiveError, match="overlap"):
        run(no_spark, settings(tmp_path, max_entries=50))
    assert parts(tmp_path / "archive") == []
    assert latest(Place(tmp_path / "archive")).version == 0


def test_a_range_is_archived_and_then_the_rest_without_a_gap(no_spark: Any, tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "s", days(3, 10))
    first = run(no_spark, settings(tmp_path, end=str(BASE + DAY - 1)))
    assert first.entries == 10
    assert first.streams[0].archived_to == parse_id(f"{BASE + DAY - 1}-18446744073709551615")
    with pytest.raises(ArgumentError, match="would leave a gap"):
        run(no_spark, settings(tmp_path, start=str(BASE + 2 * DAY)))
    assert run(no_spark, settings(tmp_path)).entries == 20
    assert kept(tmp_path / "archive", "s") == stored(store, "s")


def test_each_run_says_what_is_before_the_archives_first_id(no_spark: Any, tmp_path: Path) -> None:
    """The first run decides where it begins. Who trims up to where it ends would lose what is before."""
    fill(tmp_path / "store", "s", days(3, 10))
    begin = BASE + DAY
    wanted = f"10 entries before {begin}-0 not in the archive"
    for given in ({"start": str(begin), "dry_run": True}, {"start": str(begin)}, {}, {"start": str(BASE)}):
        (stream,) = run(no_spark, settings(tmp_path, **given)).streams
        assert stream.note == wanted
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").trim(minid=str(begin))
    (stream,) = run(no_spark, settings(tmp_path)).streams
    assert stream.note == ""


def test_typed_columns_keep_what_does_not_parse(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", [(f"{BASE}-0", {"n": "7", "word": "x"}), (f"{BASE}-1", {"n": "seven"})])
    columns = (("n", "int32"), ("word", "string"))
    run(no_spark, settings(tmp_path, layout="typed", columns=columns))
    first, second = rows(tmp_path / "archive", "s")
    assert (first["n"], first["word"], first["_corrupt"]) == (7, "x", None)
    assert (second["n"], second["word"]) == (None, None)
    assert second["_corrupt"] == [{"name": b"n", "value": b"seven"}]
    # The archive knows its layout; another one is refused.
    fill(tmp_path / "store", "s", [(f"{BASE}-2", {"n": "8"})])
    with pytest.raises(ArgumentError, match="layout typed n:int32"):
        run(no_spark, settings(tmp_path, layout="fields"))
    assert run(no_spark, settings(tmp_path)).entries == 1
    with pytest.raises(ArgumentError, match="'ts'"):
        run(no_spark, settings(tmp_path / "other", layout="typed", columns=(("ts", "int64"),)))


def test_large_streams_are_cut_into_files_that_do_not_overlap(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", days(1, 5000))
    with diskstream.open(tmp_path / "store") as store:
        store.seal()
    fill(tmp_path / "store", "s", [(f"{BASE + 6_000_000 + number}-0", {"n": "tail"}) for number in range(5000)])
    summary = run(no_spark, settings(tmp_path, max_bytes=20_000, max_entries=3000))
    files = latest(Place(tmp_path / "archive")).files
    assert summary.files == len(files) > 4
    assert all(before.last < after.first for before, after in pairwise(files))
    assert kept(tmp_path / "archive", "s") == stored(tmp_path / "store", "s")


@pytest.mark.parametrize(("given", "workers", "sizes"), [
    ({}, 2, [750, 750, 750, 750]),
    ({}, 4, [250, 500] * 4),  # and not twelve of 250, which packing within a limit would make
    ({}, 32, [250] * 12),  # not less than what is worth a task
    ({"max_entries": 500_000}, 2, [500] * 6),
    ({"max_bytes": 600_000}, 1, [500] * 6),
])  # fmt: skip
def test_there_are_two_tasks_of_one_size_for_each_core_within_the_limits(
    tmp_path: Path, given: Any, workers: int, sizes: list[int]
) -> None:
    slices = tuple(Slice(b"s", (at, 0), (at, 9), 250_000, 250_000) for at in range(12))
    of = settings(tmp_path, **given)
    base = latest(Place(tmp_path / "none"))
    tasks = tasks_of(of, ArchivePlan(base, base.shape, "", slices, {}), "lease", "job", workers)
    assert [sum(each.entries for each in task.slices) // 1000 for task in tasks] == sizes
    assert [each for task in tasks for each in task.slices] == list(slices)


def test_hours_have_folders_of_their_own(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", [(f"{BASE + hour * 3_600_000}-0", {"h": str(hour)}) for hour in (0, 1, 23)])
    run(no_spark, settings(tmp_path, hourly=True))
    folders = sorted(path.rpartition("/")[0] for path in parts(tmp_path / "archive"))
    assert folders == [f"stream=s/date=2024-10-04/hour={hour}" for hour in ("00", "01", "23")]


def test_names_of_folders_are_those_that_file_systems_take() -> None:
    assert folder_of("a/b=ü %".encode(), 0, hourly=False) == "stream=a%2Fb%3Dü%20%2525/date=1970-01-01"
    assert folder_of(b"\xff..", 1, hourly=False) == "stream=%25FF../date=1970-01-01"
    long, other = (folder_of(b"/" * 400 + end, 0, hourly=False) for end in (b"a", b"b"))
    assert long != other
    assert max(len(part.encode()) for part in long.split("/")) <= 255


def test_a_dry_run_writes_nothing(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", days(1, 100))
    summary = run(no_spark, settings(tmp_path, dry_run=True))
    assert (summary.entries, summary.files, summary.version, summary.verified) == (100, 0, 0, False)
    assert not (tmp_path / "archive").exists()
    assert not (tmp_path / "store" / "leases").exists()


def written_but_not_committed(tmp_path: Path) -> list[str]:
    """What a job leaves that is killed before its commit: files, and its mark."""
    place = Place(tmp_path / "archive")
    with diskstream.open(tmp_path / "store", read_only=True) as store:
        stream = store.stream("s")
        slices = tuple(slices_of(stream, parse_id("0-1"), parse_id(f"{BASE + 9 * DAY}-0"), (1000, 1 << 20)))
    marker = Marker(place, "0123456789abcdef")
    place.create(marker.path, b"", "x")
    task = ArchiveTask(str(tmp_path / "store"), place.root, slices, Shape(), marker.job, True, 1 << 20)
    return [each.path for each in archive_slices(task)]


def test_a_killed_run_leaves_nothing_twice_and_nothing_out(no_spark: Any, tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    fill(store, "s", days(2, 100))
    orphans = written_but_not_committed(tmp_path)
    summary = run(no_spark, settings(tmp_path))
    assert kept(root, "s") == stored(store, "s")
    # Its job may still run: then its files are nobody's garbage. After the grace time they are.
    assert summary.garbage.removed == ()
    place = Place(root)
    assert collect(place, 3600).removed == ()
    long_ago = time.time() - 7200
    os.utime(root / "_jobs" / "0123456789abcdef", (long_ago, long_ago))
    assert sorted(collect(place, 3600, dry_run=True).waiting) == sorted(orphans)
    for each in orphans:
        os.utime(root / each, (long_ago, long_ago))
    assert sorted(collect(place, 3600).removed) == sorted(orphans)
    assert kept(root, "s") == stored(store, "s")
    assert len(parts(root)) == 2


@pytest.mark.parametrize("point", POINTS["archive"])
def test_wherever_a_run_is_killed_the_next_one_makes_it_good(
    no_spark: Any, jobs: Jobs, tmp_path: Path, point: str
) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    fill(store, "s", days(3, 50))
    jobs.killed("archive", point, store, root)
    committed = point in ("a manifest with two names", "after the commit")
    assert latest(Place(root)).version == int(committed)
    run(no_spark, settings(tmp_path))
    assert kept(root, "s") == stored(store, "s")
    long_ago = time.time() - 3601
    for each in Place(root).list():
        os.utime(root / each.path, (long_ago, long_ago))
    collect(Place(root), 3600)
    assert len(parts(root)) == 3
    assert not [each for each in Place(root).list() if each.path.startswith("_jobs/") or each.path.endswith(".tmp")]
    assert kept(root, "s") == stored(store, "s")


def test_of_two_jobs_at_once_one_wins_and_the_other_says_so(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    fill(store, "s", days(2, 100))

    def late(place: Place, made: Manifest, name: str) -> None:
        monkeypatch.setattr(settling, "commit", commit)
        run(no_spark, settings(tmp_path))
        commit(place, made, name)

    monkeypatch.setattr(settling, "commit", late)
    with pytest.raises(ArchiveChangedError, match="version 1 of the archive"):
        run(no_spark, settings(tmp_path))
    assert kept(root, "s") == stored(store, "s")
    assert len(parts(root)) == 2


def test_a_job_that_was_taken_for_dead_does_not_commit(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "store", "s", days(1, 10))

    def asleep(*given: Any, **options: Any) -> Any:
        done = in_process(*given, **options)
        for each in (tmp_path / "archive" / "_jobs").iterdir():
            each.unlink()
        return done

    monkeypatch.setattr(job, "run_tasks", asleep)
    with pytest.raises(ArchiveError, match="took this job for dead"):
        run(no_spark, settings(tmp_path))
    assert parts(tmp_path / "archive") == []


def test_what_the_disk_refuses_is_said_in_the_users_words(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "a", days(1, 10))
    fill(tmp_path / "store", "s", days(1, 10))
    root = tmp_path / "archive"
    root.mkdir()
    (root / "stream=s").write_bytes(b"in the way")
    with pytest.raises(StorageError, match=r"could not write .*stream=s"):
        run(no_spark, settings(tmp_path))
    assert parts(root) == ["stream=s"]
    assert versions(Place(root)) == []


def test_what_cannot_be_read_back_does_not_count(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "store", "s", days(1, 1000))

    def spoilt(place: Place, path: str, shape: Shape, **how: Any) -> Any:
        batches = list(read_part(place, path, shape, **how))
        return [batches[0].slice(1), *batches[1:]]

    monkeypatch.setattr("diskstream.spark.jobs.part_reading.read_part", spoilt)
    with pytest.raises(ArchiveError, match=r"had 1,000 rows .* read back 999 and"):
        run(no_spark, settings(tmp_path))
    assert parts(tmp_path / "archive") == []
    assert run(no_spark, settings(tmp_path, verify=False)).entries == 1000


def test_a_link_that_is_there_by_us_is_our_commit(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a network the answer may be lost, and the question asked again: the files of a committed version went."""
    fill(tmp_path / "store", "s", days(1, 10))
    link = os.link

    def asked_twice(*given: Any) -> None:
        link(*given)
        link(*given)

    monkeypatch.setattr(os, "link", asked_twice)
    assert run(no_spark, settings(tmp_path)).version == 1
    monkeypatch.undo()
    assert kept(tmp_path / "archive", "s") == stored(tmp_path / "store", "s")


def test_of_a_file_that_could_not_be_flushed_nothing_is_left(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had its name already, and engines that list folders read it."""
    fill(tmp_path / "store", "s", days(1, 10))

    def refused(place: Place, path: str) -> None:
        raise StorageError(path, "flush", 5, "Input/output error")

    monkeypatch.setattr(Place, "flush", lambda place, path: refused(place, path) if "part-" in path else None)
    with pytest.raises(StorageError, match="flush"):
        run(no_spark, settings(tmp_path))
    assert not list((tmp_path / "archive").rglob("*.parquet"))


def test_garbage_that_cannot_be_removed_fails_nothing_that_was_committed(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "store", "s", days(1, 10))

    def refused(place: Place, path: str) -> None:
        raise StorageError(path, "remove", 5, "Input/output error")

    stray = tmp_path / "archive" / "stream=s" / "date=2024-10-04" / f"part-1-0-2-0-{'0123456789abcdef' * 2}.parquet"
    stray.parent.mkdir(parents=True)
    stray.touch()
    os.utime(stray, (0, 0))
    with monkeypatch.context() as patch:
        patch.setattr(Place, "remove", lambda place, path: None if ".tmp" in path else refused(place, path))
        summary = run(no_spark, settings(tmp_path))
    assert (summary.version, summary.entries) == (1, 10)
    assert "Input/output error" in summary.garbage.failed
    tell_garbage(summary.garbage, dry_run=False)
    assert "was not removed: " in capsys.readouterr().err
    fill(tmp_path / "store", "s", days(1, 10, first=1))
    assert run(no_spark, settings(tmp_path)).garbage.removed == (f"stream=s/date=2024-10-04/{stray.name}",)


def test_another_store_and_a_stream_made_anew_are_refused(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", days(1, 10))
    run(no_spark, settings(tmp_path))
    fill(tmp_path / "other", "s", days(1, 20))
    with pytest.raises(ArchiveError, match="another store"):
        run(no_spark, ArchiveSettings(str(tmp_path / "other"), str(tmp_path / "archive")))
    with diskstream.open(tmp_path / "store") as store:
        store.delete("s")
        store.stream("s").add({"a": "b"}, id="1-1")
    with pytest.raises(ArchiveError, match="made anew"):
        run(no_spark, settings(tmp_path))


def test_what_was_trimmed_before_it_was_archived_is_told(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", days(1, 10))
    run(no_spark, settings(tmp_path))
    fill(tmp_path / "store", "s", days(1, 10, first=1))
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").trim(maxlen=3)
    summary = run(no_spark, settings(tmp_path))
    assert summary.entries == 3
    assert "were trimmed before they were archived" in summary.streams[0].note


def test_garbage_is_not_collected_while_a_job_runs(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with running(place) as marker:
        name = f"stream=s/date=2024-10-04/.{marker.job}{marker.job}.tmp"
        with place.writing(name) as sink:
            sink.write(b"half")
        os.utime(tmp_path / name, (1, 1))
        assert collect(place, 60).removed == ()
    assert collect(place, 60).removed == (name,)
    with pytest.raises(ArgumentError, match="60 seconds at least"):
        collect(place, 1)


def test_on_spark_tasks_write_and_the_driver_commits(spark: "SparkSession", tmp_path: Path) -> None:
    """And Spark reads what pyarrow wrote, with the stream and the day as columns."""
    store, root = tmp_path / "store", tmp_path / "archive"
    for name in ("race:one", "race:two"):
        fill(store, name, days(2, 300))
    summary = run(spark, settings(tmp_path, pattern="race:*"))
    assert (summary.entries, summary.files) == (1200, 4)
    assert kept(root, "race:two") == stored(store, "race:two")
    read = spark.read.parquet(str(root))
    assert {(row[0], str(row[1]), row[2]) for row in read.groupBy("stream", "date").count().collect()} == {
        (stream, date, 300) for stream in ("race:one", "race:two") for date in ("2024-10-04", "2024-10-05")
    }
    (root / "stream=bad").write_bytes(b"in the way")
    fill(store, "bad", days(1, 10))
    with pytest.raises(StorageError, match="could not write"):
        run(spark, settings(tmp_path))
    assert latest(Place(root)).version == 1
    assert Guarded(archive_slices) == Guarded(archive_slices)
