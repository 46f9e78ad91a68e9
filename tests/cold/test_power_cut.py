"""Whatever a power cut leaves of a move out and back, every entry is read: from here or from there."""

import random
from pathlib import Path

from diskstream.cold import bring_back, move_out
from diskstream.engine.files import Files
from tests.cold.world import filled, opened, rows, where
from tests.crash.disk import Disk
from tests.crash.events import Tree
from tests.crash.image import materialise, snapshot
from tests.crash.recorder import RecordingFiles

STATES = 120


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
