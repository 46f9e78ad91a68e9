"""The folders of stores, backups, exports and what Spark's jobs write outlive a power cut, whoever made them."""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest

import diskstream
from diskstream.backups import find_backup, make_backup, restore
from diskstream.engine.files import Files
from diskstream.errors import ArgumentError, StorageError, storage_error
from diskstream.exporting import ExportRequest, export_directory
from diskstream.spark.jobs import rollup_stream
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.rollup_settings import Settings
from diskstream.spark.staging import make_folders
from tests.crash.disk import Disk
from tests.crash.events import ROOT, Enter, Event, Names, SyncDir

CUTS = 200
ABOVE = ("a", "a/b", "a/b/c")


class Folders:
    """What is done to the names of folders below a root, by whichever call."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.names = root, Names()
        self.events: list[Event] = []
        self._mkdir, self._fsync = os.mkdir, os.fsync
        monkeypatch.setattr(os, "mkdir", self.mkdir)
        monkeypatch.setattr(os, "fsync", self.fsync)

    def _number(self, folder: Path) -> int | None:
        if not folder.is_relative_to(self.root):
            return None
        return ROOT if folder == self.root else self.names.find(folder.relative_to(self.root).as_posix())

    def mkdir(self, path: Path | str, mode: int = 0o777) -> None:
        """Makes a folder."""
        self._mkdir(path, mode)
        above = self._number(Path(path).parent)
        if above is not None:
            made = Enter(above, Path(path).name, len(self.events) + 1000, is_directory=True)
            self.names.apply(made)
            self.events.append(made)

    def fsync(self, fd: int) -> None:
        """Makes the names in a folder durable, where it is one."""
        self._fsync(fd)
        number = self._number(Path(f"/proc/self/fd/{fd}").readlink())
        if number is not None:
            self.events.append(SyncDir(number))

    def lost(self, path: str) -> int:
        """How many power cuts take a folder that is there now."""
        disk, rng = Disk({}), random.Random(7)
        for event in self.events:
            disk.apply(event)
        return sum(path not in disk.cut(rng)[0] for _ in range(CUTS))


def store_at(place: Path) -> None:
    with diskstream.open(place) as store:
        store.stream("s").add({"a": "1"}, "1-1")


def made_at(place: Path) -> None:
    store_at(place / "store")


def backed_up_at(place: Path) -> None:
    make_backup(place.parents[3] / "source", place)


def restored_at(place: Path) -> None:
    restore(find_backup(place.parents[3] / "backups"), place / "store")


def exported_at(place: Path) -> None:
    with diskstream.open(place.parents[3] / "source", read_only=True) as store:
        export_directory(store, ExportRequest([b"s"], "csv"), place, rows_per_file=10)


def archived_at(place: Path) -> None:
    """A job marks itself before it does anything."""
    assert Place(place / "archive").create("_jobs/0123456789abcdef", b"", "0")


def rolled_up_at(place: Path) -> None:
    settings = Settings("store", (b"s",), window_ms=1000, fields=("v",))
    with patch.object(rollup_stream, "windows"):  # the query is Spark's
        rollup_stream.rollup_stream(
            MagicMock(), settings, place / "windows", checkpoint=place / "checkpoint", frame=MagicMock()
        )


@pytest.mark.parametrize("made", range(4), ids=["none", "the first", "two", "all"])
@pytest.mark.parametrize("work", [made_at, backed_up_at, restored_at, exported_at, archived_at, rolled_up_at])
def test_folders_that_a_killed_process_made_are_durable_once_others_have_used_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path], None], made: int
) -> None:
    """Who made them was killed before it flushed the last name. It was there, and so it was flushed by nobody: what was
    put into it was reported as durable, and went with it in a power cut."""
    store_at(tmp_path / "source")
    make_backup(tmp_path / "source", tmp_path / "backups")
    root = tmp_path / "root"
    root.mkdir()
    folders = Folders(root, monkeypatch)
    for above, each in zip(("", *ABOVE), ABOVE[:made], strict=False):
        os.mkdir(root / each)  # noqa: PTH102  # the very call that is noted
        if each != ABOVE[:made][-1]:  # the last one's maker is killed here
            fd = os.open(root / above, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
    work(root / ABOVE[-1])
    assert folders.lost(ABOVE[-1]) == 0


@pytest.mark.parametrize("made", [(), ("staging",), ("staging", "staging/job")], ids=len)
def test_the_folders_of_staged_rows_and_of_commits_are_durable_whoever_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: tuple[str, ...]
) -> None:
    """A commit that was durable listed files whose folder a power cut took: their rows were appended by nobody."""
    folders = Folders(tmp_path, monkeypatch)
    for each in made:
        (tmp_path / each).mkdir()  # and its maker is killed
    make_folders(tmp_path / "staging" / "job")
    assert folders.lost("staging/job") == 0


def test_a_folder_that_nobody_flushes_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = Folders(tmp_path, monkeypatch)
    (tmp_path / "a").mkdir()
    assert folders.lost("a") > 0


def test_a_folder_that_this_user_may_not_list_can_hold_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a service may be given one below a folder of root's, mode 0711. The store could not be opened by it."""
    place = tmp_path / "above" / "store"
    place.mkdir(parents=True)
    whole = Files.sync_dir

    def refused(files: Files, path: Path) -> None:
        if path == place.parent:
            raise storage_error(str(path), "open", errno.EACCES, os.strerror(errno.EACCES))
        whole(files, path)

    monkeypatch.setattr(Files, "sync_dir", refused)
    store_at(place)
    make_backup(place, tmp_path / "backups")


def test_a_folder_that_this_user_may_not_list_can_hold_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first job wrote files, and could not flush the names of the folders above."""
    place, really = tmp_path / "above" / "archive", os.open
    place.mkdir(parents=True)

    def refused(path: str | Path, flags: int) -> int:
        if Path(path) == place.parent:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return really(path, flags)

    monkeypatch.setattr(os, "open", refused)
    archived_at(place.parent)


def test_a_rollup_into_a_file_is_refused_before_its_query_starts(tmp_path: Path) -> None:
    (tmp_path / "windows").write_text("not a folder")
    with pytest.raises(ArgumentError, match="windows is no directory"):
        rolled_up_at(tmp_path)


def test_a_disk_that_fails_to_flush_the_name_of_a_folder_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "above" / "store"
    place.mkdir(parents=True)

    def refused(_: Files, path: Path) -> None:
        raise storage_error(str(path), "flush", errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Files, "sync_dir", refused)
    with pytest.raises(StorageError, match="could not flush"):
        store_at(place)
