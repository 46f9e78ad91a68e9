"""The job `reconcile`: silent where archive and store agree, and exact where they do not."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import diskstream
from diskstream import leases
from diskstream.errors import ArchiveError, ArgumentError
from diskstream.spark.jobs import archive, compact, reconcile
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactSettings
from diskstream.spark.jobs.digest import digest_of
from diskstream.spark.jobs.manifest import commit, latest
from diskstream.spark.jobs.part_reading import read_part
from diskstream.spark.jobs.parts import PartWriter
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.reconcile import ReconcileSettings, run
from tests.engine.children import until
from tests.spark.archives import BASE, DAY, days, fill, in_process, no_spark, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pa = pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]


def filled(spark: Any, tmp_path: Path, **given: Any) -> ReconcileSettings:
    """A store of three days, archived."""
    fill(tmp_path / "store", "s", days(3, 100))
    archive.run(spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive"), **given))
    return ReconcileSettings(str(tmp_path / "store"), str(tmp_path / "archive"))


def replant(root: Path, day: int, change: Any) -> None:
    """Rewrites the file of a day with other rows, and a manifest that goes with it: a fault no checksum shows."""
    place = Place(root)
    base = latest(place)
    old = base.files[day]
    table = pa.Table.from_batches(list(read_part(place, old.path, base.shape)))
    writer = PartWriter(place, old.folder, old.stream, base.shape, "f" * 16)
    for batch in change(table).combine_chunks().to_batches():
        writer.write(batch)
    files = tuple(writer.close("store") if each is old else each for each in base.files)
    commit(place, base.next("archive", files), "f" * 16)


def test_where_both_agree_nothing_is_found(no_spark: Any, tmp_path: Path) -> None:
    settings = filled(no_spark, tmp_path)
    summary = run(no_spark, settings)
    assert summary.ok
    (compared,) = summary.streams
    assert (compared.stored, compared.archived, compared.days, compared.archive_only) == (300, 300, 3, 0)
    # What is added later is not archived yet: no finding.
    fill(tmp_path / "store", "s", days(1, 7, first=3))
    assert run(no_spark, settings).streams == summary.streams
    compact.run(no_spark, CompactSettings(settings.archive))
    assert run(no_spark, settings).ok


def test_what_the_store_has_trimmed_is_no_finding(no_spark: Any, tmp_path: Path) -> None:
    settings = filled(no_spark, tmp_path)
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").trim(maxlen=150)
    summary = run(no_spark, settings)
    assert summary.ok
    (compared,) = summary.streams
    assert (compared.stored, compared.archived, compared.days, compared.archive_only) == (150, 150, 2, 100)
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").trim(maxlen=0)
    summary = run(no_spark, settings)
    assert summary.ok
    assert summary.streams[0].note == "the store has no entries of it any more"


def test_what_differs_is_found_with_its_day_and_ids(no_spark: Any, tmp_path: Path) -> None:
    settings = filled(no_spark, tmp_path)
    root = tmp_path / "archive"
    replant(root, 0, lambda table: table.slice(2))
    replant(
        root, 1, lambda table: pa.concat_tables([table.slice(0, 50), _changed(table.slice(50, 1)), table.slice(51)])
    )
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").delete(f"{BASE + 2 * DAY}-0")
    found = [
        (each.date, each.kind, each.segment is not None, each.entries, str(each.first), str(each.last))
        for each in run(no_spark, settings).findings
    ]
    assert found == [
        ("2024-10-04", "missing", True, 2, f"{BASE}-0", f"{BASE + 1000}-1"),
        ("2024-10-05", "different", True, 1, f"{BASE + DAY + 50_000}-0", f"{BASE + DAY + 50_000}-0"),
        ("2024-10-06", "extra", False, 1, f"{BASE + 2 * DAY}-0", f"{BASE + 2 * DAY}-0"),
    ]
    later = replace(settings, start=str(BASE + 2 * DAY + 1))
    assert run(no_spark, later).ok


def _changed(table: Any) -> Any:
    rows = table.to_pylist()
    rows[0]["fields"][0]["value"] = b"planted"
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_a_damaged_file_is_a_finding(no_spark: Any, tmp_path: Path) -> None:
    settings = filled(no_spark, tmp_path)
    root = tmp_path / "archive"
    (root / latest(Place(root)).files[1].path).unlink()
    summary = run(no_spark, settings)
    assert [(each.kind, each.entries) for each in summary.findings] == [("damaged", 100), ("missing", 100)]
    assert "is missing, though the manifest names it" in summary.findings[0].note


@pytest.mark.parametrize("lost", ["the first day", "all entries", "the stream"])
def test_a_damaged_file_of_what_the_store_has_no_longer_is_a_finding(no_spark: Any, tmp_path: Path, lost: str) -> None:
    """There is no other copy."""
    settings = filled(no_spark, tmp_path)
    first, second, _ = latest(Place(tmp_path / "archive")).files
    (tmp_path / "archive" / first.path).write_bytes((tmp_path / "archive" / second.path).read_bytes())
    with diskstream.open(tmp_path / "store") as store:
        if lost == "the stream":
            store.delete("s")
        else:
            store.stream("s").trim(maxlen=200 if lost == "the first day" else 0)
    summary = run(no_spark, settings)
    assert [(each.stream, each.kind, each.entries) for each in summary.findings] == [(b"s", "damaged", 100)]
    assert summary.streams[0].stored == summary.streams[0].archived == (200 if lost == "the first day" else 0)
    assert run(no_spark, replace(settings, start=str(BASE + DAY))).ok  # as far as it was asked for
    assert run(no_spark, replace(settings, pattern="other*")).ok
    assert run(no_spark, replace(settings, dry_run=True)).streams[0].archived == summary.streams[0].archived


def test_a_pattern_is_of_streams_that_the_archive_alone_has_too(no_spark: Any, tmp_path: Path) -> None:
    settings = filled(no_spark, tmp_path)
    fill(tmp_path / "store", "other", days(1, 5))
    with diskstream.open(tmp_path / "store") as store:
        store.delete("s")
    by_pattern = replace(settings, pattern="s*")
    summary = run(no_spark, by_pattern)
    assert summary.ok
    assert [(each.stream, each.note) for each in summary.streams] == [(b"s", "the store has no such stream")]
    (tmp_path / "archive" / latest(Place(tmp_path / "archive")).files[1].path).unlink()
    found = [(each.stream, each.kind, each.entries) for each in run(no_spark, by_pattern).findings]
    assert found == [(b"s", "damaged", 100)]
    assert run(no_spark, replace(settings, pattern="other*")).ok


def test_names_beside_a_pattern_are_refused_as_the_pattern_would_go_unheeded(no_spark: Any, tmp_path: Path) -> None:
    settings = filled(no_spark, tmp_path)
    for dry_run in (False, True):
        both: dict[str, Any] = {"streams": (b"s",), "pattern": "t*", "dry_run": dry_run}
        with pytest.raises(ArgumentError, match="not both"):
            run(no_spark, replace(settings, **both))
        with pytest.raises(ArgumentError, match="not both"):
            archive.run(no_spark, ArchiveSettings(settings.store, str(tmp_path / "new"), **both))
    assert not (tmp_path / "new").exists()


def test_a_lease_is_kept_while_files_of_the_archive_are_read(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may take longer than it is kept for, and whoever takes the next lease removes those that nobody uses."""
    settings = filled(no_spark, tmp_path)
    (tmp_path / "archive" / latest(Place(tmp_path / "archive")).files[1].path).unlink()

    def slowly(spark: object, what: str, tasks: Sequence[Any], work: Any, **given: Any) -> Any:
        (lease,) = (tmp_path / "store" / "leases").glob("*/lease.json")
        os.utime(lease, (0, 0))
        until(lambda: lease.stat().st_mtime > 0)
        with diskstream.open(tmp_path / "store") as other:
            leases.release(other.lease(["s"]))
        return in_process(spark, what, tasks, work, **given)

    monkeypatch.setattr(reconcile, "run_tasks", slowly)
    summary = run(no_spark, replace(settings, lease_ttl_s=4.0))
    assert [(each.kind, each.entries) for each in summary.findings] == [("damaged", 100), ("missing", 100)]
    assert not list((tmp_path / "store" / "leases").iterdir())


def test_typed_archives_are_compared_by_their_columns(no_spark: Any, tmp_path: Path) -> None:
    columns = (("n", "int32"), ("day", "string"), ("none", "double"))
    fill(tmp_path / "store", "s", [(f"{BASE - 5}-0", {"n": "bad"}), (f"{BASE - 5}-1", {"n": "4", "other": "x"})])
    settings = filled(no_spark, tmp_path, layout="typed", columns=columns)
    assert run(no_spark, settings).ok
    compact.run(no_spark, CompactSettings(settings.archive))
    summary = run(no_spark, settings)
    assert summary.ok
    assert summary.streams[0].archived == 302


def test_columns_of_every_type_come_back_as_they_were(no_spark: Any, tmp_path: Path) -> None:
    kinds = {
        "flag": ("bool", "true"),
        "tiny": ("int8", "-7"),
        "short": ("int16", "-700"),
        "long": ("int64", "-9223372036854775808"),
        "single": ("float", "-0.5"),
        "double": ("double", "nan"),
        "price": ("decimal(20,4)", "-12.3400"),
        "at": ("timestamp", "2024-10-04T00:00:00Z"),
        "on": ("date", "2024-10-04"),
        "text": ("string", "ä"),
        "data": ("binary", "x" * 70),
    }
    names = list(kinds)
    entries = [
        (f"{BASE + number * 1000}-0", {name: kinds[name][1] for name in names[number % 7 :]} | {"n": "?"})
        for number in range(20_000)
    ]
    entries += [(f"{BASE + 10 * DAY}-0", {"n": "none of them"}), (f"{BASE + 10 * DAY}-1", {"tiny": "1000"})]
    fill(tmp_path / "store", "s", entries)
    root = tmp_path / "archive"
    columns = tuple((name, kind) for name, (kind, _) in kinds.items())
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(root), layout="typed", columns=columns))
    settings = ReconcileSettings(str(tmp_path / "store"), str(root))
    assert run(no_spark, settings).ok
    first = next(rows(root, "s"))
    assert first["_corrupt"] is None
    assert (first["flag"], first["long"], first["text"], str(first["price"])) == (True, -(1 << 63), "ä", "-12.3400")
    # A digest of each row alone, and so of other batches, adds up to the same.
    place = Place(root)
    for file in latest(place).files:
        batches = list(read_part(place, file.path, latest(place).shape))
        assert digest_of(part for batch in batches for part in (batch.slice(0, 3), batch.slice(3))) == file.digest


@pytest.mark.parametrize("name", ["position", "segment", "size_bytes"])
def test_fields_named_like_the_metadata_of_a_scan_count_as_others_do(no_spark: Any, tmp_path: Path, name: str) -> None:
    """They were in no digest: whatever happened to them in the archive, it was as good as the store."""
    fill(tmp_path / "store", "s", [(f"{BASE + n}-0", {name: str(n)}) for n in range(100)])
    root = tmp_path / "archive"
    columns = ((name, "int64"),)
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(root), layout="typed", columns=columns))
    settings = ReconcileSettings(str(tmp_path / "store"), str(root))
    assert run(no_spark, settings).ok

    def planted(table: Any) -> Any:
        changed = pa.array([777, *table[name].to_pylist()[1:]], pa.int64())
        return table.set_column(table.schema.get_field_index(name), table.schema.field(name), changed)

    replant(root, 0, planted)
    (finding,) = run(no_spark, settings).findings
    assert (finding.kind, finding.segment, finding.entries, str(finding.first)) == ("different", 1, 1, f"{BASE}-0")


def test_streams_of_one_side_only_are_named(no_spark: Any, tmp_path: Path) -> None:
    settings = filled(no_spark, tmp_path)
    fill(tmp_path / "store", "new", days(1, 1))
    with diskstream.open(tmp_path / "store") as store:
        store.delete("s")
    summary = run(no_spark, settings)
    assert {each.stream: each.note for each in summary.streams} == {
        b"new": "not archived",
        b"s": "the store has no such stream",
    }
    with pytest.raises(ArchiveError, match="there is no archive in"):
        run(no_spark, replace(settings, archive=str(tmp_path / "nowhere")))


def test_a_dry_run_says_what_would_be_compared_and_reads_nothing(no_spark: Any, tmp_path: Path) -> None:
    settings = filled(no_spark, tmp_path)
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").trim(maxlen=150)
    planned = run(None, settings)
    assert (planned.dry_run, planned.findings) == (True, ())
    assert list((tmp_path / "store" / "leases").iterdir()) == []
    (compared,) = planned.streams
    (real,) = run(no_spark, settings).streams
    assert (compared.first, compared.last, compared.days) == (real.first, real.last, 2)
    assert compared.stored >= real.stored
    assert compared.archived == 200  # of whole files


def test_an_archive_of_another_store_is_refused_unless_it_is_meant(no_spark: Any, tmp_path: Path) -> None:
    """With no stream in common nothing was found, and all was well."""
    settings = filled(no_spark, tmp_path)
    fill(tmp_path / "other", "t", days(1, 1))
    for spark in (None, no_spark):
        with pytest.raises(ArchiveError, match=r"is of another store than .*--other-store compares it all the same"):
            run(spark, replace(settings, store=str(tmp_path / "other")))
    copy = replace(settings, store=str(tmp_path / "copy"), other_store=True)
    fill(tmp_path / "copy", "s", days(3, 100))
    assert run(no_spark, copy).ok
    replant(tmp_path / "archive", 2, lambda table: table.slice(0, 99))
    assert not run(no_spark, copy).ok


def test_on_spark(spark: "SparkSession", tmp_path: Path) -> None:
    settings = filled(spark, tmp_path)
    assert run(spark, settings).ok
    replant(tmp_path / "archive", 2, lambda table: table.slice(0, 99))
    (finding,) = run(spark, settings).findings
    assert (finding.kind, finding.date, finding.entries) == ("missing", "2024-10-06", 1)
