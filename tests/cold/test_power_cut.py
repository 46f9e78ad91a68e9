"""Whatever a power cut leaves of a move out and back, every entry is read: from here or from there."""

import io
import random
from pathlib import Path

import pytest

from diskstream import object_on_disk
from diskstream.cold import bring_back, move_out
from diskstream.engine.files import Files
from diskstream.objects import Place
from tests.cold.world import filled, opened, rows, where
from tests.crash.disk import Disk
from tests.crash.events import Tree
from tests.crash.image import materialise, snapshot
from tests.crash.recorder import RecordingFiles

STATES = 120
STORE, STREAM = "6f1c3d0e-2f7a-4b52-9d2e-000000000001", "6f1c3d0e-2f7a-4b52-9d2e-000000000002"


def start(root: Path) -> tuple[Tree, list[object]]:
    with opened(root / "store") as store:
        before: list[object] = list(rows(filled(store, count=50)))
    tree = snapshot(root)
    return {path: data for path, data in tree.items() if "/view" not in path}, before


def violations(root: Path, make_files: type[RecordingFiles], states: int = STATES) -> int:
    """How many states do not have every entry, or were not opened."""
    tree, before = start(root / "world")
    files = make_files(root / "world", tree)
    place = f"file://{root}/place"  # the storage is another machine: it sees no power cut
    with opened(root / "world" / "store", files=files) as store:
        stream = store.stream("x")
        move_out(stream, place, older_than_ms=0)
        bring_back(stream)
        move_out(stream, place, before="25")
    rng = random.Random(9)
    bad = 0
    disk, at = Disk(files.start), 0
    for position in sorted(rng.choices(range(len(files.events) + 1), k=states)):
        for event in files.events[at:position]:
            disk.apply(event)
        at = position
        left, _ = disk.cut(rng)
        materialise(left, root / "cut", {})
        with opened(root / "cut" / "store", files=Files()) as store:
            found = rows(store.stream("x")) if "missing" not in where(store.stream("x")) else None
            bad += found != before or not store.verify(cold=True).ok
    return bad


def test_every_entry_is_somewhere(tmp_path: Path) -> None:
    assert violations(tmp_path, RecordingFiles) == 0


def test_a_stub_that_is_not_durable_before_the_segment_goes_is_missed(tmp_path: Path) -> None:
    """The test can fail: with the flush of the directory behind the stub's name left out, entries are lost."""

    class Hasty(RecordingFiles):
        def sync_dir(self, path: Path) -> None:
            pass

    assert violations(tmp_path, Hasty) > 0


@pytest.mark.parametrize("deep", range(4), ids=["the place", "the store", "the stream", "all"])
def test_the_folders_of_an_object_are_durable_whoever_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deep: int
) -> None:
    """Who made one may have been killed before he flushed its name. It was there, and so it was flushed by nobody: the
    segment went here, and a power cut took what had become of it there."""
    flushed: list[Path] = []
    folders = [tmp_path, tmp_path / "place", tmp_path / "place" / STORE, tmp_path / "place" / STORE / STREAM]
    for folder in folders[1 : deep + 2]:
        folder.mkdir()  # and its maker is killed
    monkeypatch.setattr(object_on_disk, "_sync", flushed.append)
    place = Place(f"file://{tmp_path}/place")
    place.make_folder(STORE)
    place.put(f"{STORE}/{STREAM}/00000001.0123456789abcdef.seg", io.BytesIO(b"all that there is"))
    assert set(folders if deep == 0 else folders[1:]) <= set(flushed)
