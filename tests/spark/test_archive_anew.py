"""The job `archive`, where a stream or a folder is not what it was: another stream, or none at all."""

import json
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.errors import ArchiveError, ArgumentError, DiskstreamError, NewerFormatError
from diskstream.spark.jobs.archive import ArchiveSettings, run
from diskstream.spark.jobs.garbage import running
from diskstream.spark.jobs.manifest import Manifest, latest
from diskstream.spark.jobs.place import Place
from tests.spark.archives import days, fill, kept, no_spark, stored

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]


def settings(tmp_path: Path, **given: Any) -> ArchiveSettings:
    return ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive"), **given)


def test_a_stream_made_anew_is_archived_on_unless_it_began_before_the_archives_end(
    no_spark: Any, tmp_path: Path
) -> None:
    """What is said to be archived may be trimmed: entries of another stream under the same IDs never were."""
    fill(tmp_path / "store", "s", [(f"{ms}-0", {"of": "the first"}) for ms in range(1, 6)])
    run(no_spark, settings(tmp_path))
    with diskstream.open(tmp_path / "store") as store:
        store.delete("s")
    fill(tmp_path / "store", "s", [(f"{ms}-0", {"of": "the second"}) for ms in range(6, 8)])
    assert run(no_spark, settings(tmp_path)).entries == 2
    with diskstream.open(tmp_path / "store") as store:
        store.delete("s")
    fill(tmp_path / "store", "s", [(f"{ms}-0", {"of": "the third"}) for ms in range(7, 12)])
    with pytest.raises(ArchiveError, match=r"up to 7-0, but the store's is another one, made anew"):
        run(no_spark, settings(tmp_path))
    assert latest(Place(tmp_path / "archive")).version == 2


def test_a_stream_made_anew_without_entries_does_not_keep_others_from_being_archived(
    no_spark: Any, tmp_path: Path
) -> None:
    """As a consumer makes one with its group (MKSTREAM), behind a delete: it was said to want another folder."""
    for name in "st":
        fill(tmp_path / "store", name, [(f"{ms}-0", {"n": "1"}) for ms in range(1, 6)])
    run(no_spark, settings(tmp_path))
    with diskstream.open(tmp_path / "store") as store:
        store.delete("s")
        store.stream("s").group("g", create=True)
    fill(tmp_path / "store", "t", [("6-0", {"n": "2"})])
    summary = run(no_spark, settings(tmp_path))
    assert [(each.entries, each.note) for each in summary.streams] == [
        (0, "it was made anew, and has no entries yet"),
        (1, ""),
    ]
    fill(tmp_path / "store", "s", [("5-1", {"of": "the second"})])
    assert run(no_spark, settings(tmp_path)).entries == 1


@pytest.mark.parametrize("within", ["", "streams", "leases/mine"])
def test_a_store_has_no_archive_among_its_files(no_spark: Any, tmp_path: Path, within: str) -> None:
    store = tmp_path / "store"
    fill(store, "s", days(1, 1))
    (tmp_path / "link").symlink_to(store)
    before = sorted(store.rglob("*"))
    for root in (store / within, tmp_path / "link" / within):
        with pytest.raises(ArgumentError, match="an archive has a folder of its own"):
            run(no_spark, ArchiveSettings(str(store), str(root)))
    assert sorted(store.rglob("*")) == before


@pytest.mark.parametrize("was_there", [False, True])
def test_a_first_run_that_fails_leaves_no_folders(no_spark: Any, tmp_path: Path, *, was_there: bool) -> None:
    fill(tmp_path / "store", "s", days(2, 10))
    root = tmp_path / "archive"
    if was_there:
        root.mkdir()
    with pytest.raises(DiskstreamError, match="no such type of a column: word"):
        run(no_spark, settings(tmp_path, layout="typed", columns=(("n", "word"),)))
    assert root.exists() == was_there
    assert not list(tmp_path.glob("archive/*"))


def test_a_folder_that_an_ending_job_takes_away_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    place, missing = Place(tmp_path / "archive"), 3

    class Pruned(fs.LocalFileSystem):  # type: ignore[misc]  # pyarrow has no types
        def open_output_stream(self, path: str) -> Any:
            nonlocal missing
            if missing:
                missing -= 1
                place.prune()
            return super().open_output_stream(path)

    monkeypatch.setattr(Place, "files", Pruned())
    with running(place) as marker:
        marker.check()
    assert missing == 0
    assert not place.there()


def test_no_bit_of_a_manifest_may_be_another(no_spark: Any, tmp_path: Path) -> None:
    """One in the name of a stream took a file's rows away without a word."""
    fill(tmp_path / "store", "s", days(2, 3))
    run(no_spark, settings(tmp_path))
    (file,) = (tmp_path / "archive" / "_manifest").iterdir()
    data = file.read_bytes()
    made = Manifest.decode(data, "m")
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            try:
                assert Manifest.decode(bytes(flipped), "m") == made
            except (ArchiveError, NewerFormatError):
                continue


@pytest.mark.parametrize(("own", "other"), [(1, 9), (2, 1)], ids=["later", "earlier"])
def test_a_version_under_the_name_of_another_is_refused(no_spark: Any, tmp_path: Path, own: int, other: int) -> None:
    """An older one that was put back under a later number hid what had been archived since; and as the next version's
    number was below that, each job said that another had been quicker, for ever."""
    for day in range(2):
        fill(tmp_path / "store", "s", days(1, 3, day))
        run(no_spark, settings(tmp_path))
    folder = tmp_path / "archive" / "_manifest"
    (folder / f"{own:012d}.json").rename(folder / f"{other:012d}.json")
    fill(tmp_path / "store", "s", days(1, 3, 2))
    with pytest.raises(ArchiveError, match=rf"{other}\.json is version {own} of .* call it {own:012d}\.json"):
        run(no_spark, settings(tmp_path))
    (folder / f"{other:012d}.json").rename(folder / f"{own:012d}.json")
    run(no_spark, settings(tmp_path))
    assert kept(tmp_path / "archive", "s") == stored(tmp_path / "store", "s")


def test_a_manifest_of_an_earlier_version_is_read(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", days(2, 3))
    run(no_spark, settings(tmp_path))
    (file,) = (tmp_path / "archive" / "_manifest").iterdir()
    facts = json.loads(file.read_bytes())
    made = latest(Place(tmp_path / "archive"))
    del facts["check"]
    file.write_text(json.dumps(facts))
    assert latest(Place(tmp_path / "archive")) == made
