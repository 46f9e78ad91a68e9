"""Many streams removed at once: few flushes, and at each moment each of them is whole, or gone."""

import errno
import random
from pathlib import Path

import lmdb
import pytest

import diskstream
from diskstream import StorageError, Store
from diskstream._native import Ctl
from diskstream.engine import directory_lock
from tests.crash.disk import Disk
from tests.crash.image import materialise
from tests.crash.recorder import RecordingFiles
from tests.engine.stand_ins import Watched, failure

NAMES = [b"s%d" % number for number in range(100)]


def make(path: Path, names: list[bytes] = NAMES) -> None:
    with diskstream.open(path, fsync="os") as store:
        for name in names:
            store.stream(name).add({"n": name})


def whole(store: Store) -> list[bytes]:
    """The names of the streams, each of which has its entry."""
    names = store.streams()
    assert [[entry[b"n"] for entry in store.stream(name).range()] for name in names] == [[name] for name in names]
    return names


def rows_of_streams(txn: lmdb.Transaction) -> int:
    """How many rows of pending entries the view has; a row of its own, if there is one, is of no stream."""
    return sum(len(bytes(key)) > 16 for key, _ in txn.cursor())


def left_over(store: Store) -> list[str]:
    return [path.name for path in (store.path / "streams").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("are_open", [False, True])
def test_what_was_pending_goes_from_the_view_with_them(tmp_path: Path, are_open: bool) -> None:
    """Nobody asks for it any more, and it would take its room for ever."""
    make(tmp_path, NAMES[:3])
    with diskstream.open(tmp_path, fsync="os", pending_rows=1) as store:
        for name in NAMES[:3]:
            stream = store.stream(name)
            stream.add_many([{"n": number} for number in range(20)])
            assert len(stream.group("g", start="0").consumer("c").read(count=21)) == 21
    with diskstream.open(tmp_path, fsync="os", pending_rows=1) as store:
        assert [len(store.stream(name)) for name in NAMES[: 3 * are_open]] == [21] * 3 * are_open
        assert store._view is not None
        assert store._view.read(rows_of_streams) > 0
        assert store._delete_all(NAMES[:3]) == 3
        assert store._view.read(rows_of_streams) == 0


@pytest.mark.parametrize("are_open", [False, True])
def test_a_flush_is_for_many_of_them(tmp_path: Path, are_open: bool) -> None:
    """Each was flushed by itself, and opened before, which takes three more: 10,000 took a server long."""
    make(tmp_path)
    steps: list[str] = []
    files = Watched(lambda step, path: steps.append(f"{step} {path.name}"))
    with diskstream.open(tmp_path, files=files, fsync="always", seal="manual") as store:
        if are_open:
            assert whole(store) == sorted(NAMES)
        steps.clear()
        assert store._delete_all(NAMES) == len(NAMES)
        assert steps.count("sync_dir streams") <= 4
        assert not [step for step in steps if step.startswith(("flush", "open_log"))]
        assert store.streams() == []
        assert left_over(store) == []


def test_a_stream_that_is_named_twice_or_not_there_counts_as_it_is(tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        store.stream("a").add({"n": "a"})
        store.stream("b").add({"n": "b"})
        assert store._delete_all([b"a", b"none", b"a"]) == 1
        assert whole(store) == [b"b"]


def test_who_has_one_open_elsewhere_is_told(tmp_path: Path) -> None:
    make(tmp_path, NAMES[:3])
    with diskstream.open(tmp_path) as other, diskstream.open(tmp_path) as store:
        kept = other.stream(NAMES[1])
        assert len(kept) == 1
        assert store._delete_all(NAMES[:3]) == 3
        assert len(kept) == 0
        kept.add({"n": NAMES[1]})
        assert whole(store) == whole(other) == [NAMES[1]]
        assert left_over(store) == []


@pytest.mark.parametrize("are_open", [False, True])
def test_where_the_disk_refuses_one_those_before_are_gone_and_the_others_are_whole(
    tmp_path: Path, are_open: bool
) -> None:
    make(tmp_path)

    def step(what: str, path: Path) -> None:
        if what == "rename" and path.name.startswith(".deleted-"):
            gone.append(path)
            if len(gone) > 40:
                raise failure(path, what, errno.EIO)

    gone: list[Path] = []
    with diskstream.open(tmp_path, files=Watched(step), seal="manual") as store:
        assert not are_open or whole(store)
        with pytest.raises(StorageError):
            store._delete_all(NAMES)
        assert whole(store) == sorted(NAMES[40:])
        assert left_over(store) == []
    with diskstream.open(tmp_path) as store:
        assert whole(store) == sorted(NAMES[40:])


def test_where_the_flush_fails_no_file_is_removed(tmp_path: Path) -> None:
    """The names may be there again after a power cut."""
    make(tmp_path)
    removed: list[Path] = []

    def step(what: str, path: Path) -> None:
        if armed and what == "sync_dir" and path.name == "streams":
            raise failure(path, "flush", errno.EIO)
        if armed and what == "unlink":
            removed.append(path)

    armed = False
    with diskstream.open(tmp_path, files=Watched(step), seal="manual") as store:
        armed = True
        with pytest.raises(StorageError):
            store._delete_all(NAMES)
        armed = False
        assert removed == []


def test_large_ones_are_claimed_by_nobody_behind_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody removed their files then, as long as this process lived."""
    make(tmp_path)
    monkeypatch.setattr("diskstream.engine.stream_folders._FEW_FILES", 0)
    renamed: list[Path] = []

    def step(what: str, path: Path) -> None:
        if what == "rename":
            renamed.append(path)
            if len(renamed) > 2:
                raise failure(path, what, errno.EIO)

    with diskstream.open(tmp_path, files=Watched(step), seal="manual") as store:
        with pytest.raises(StorageError):
            store._delete_all(NAMES[:5])
        assert not [each for each in left_over(store) if directory_lock.is_taken(tmp_path / "streams" / each)]
        assert left_over(store) == []


def test_a_full_disk_that_has_no_room_for_a_page_lets_them_go(tmp_path: Path) -> None:
    make(tmp_path)
    for page in tmp_path.glob("streams/*/ctl"):
        page.unlink()
    refused: list[Path] = []

    class Full(Watched):
        def open_ctl(self, path: Path) -> tuple[int, Ctl]:
            if path.parent.parent.name == "streams" and not path.exists():
                refused.append(path)
                raise failure(path, "create", errno.ENOSPC)
            return super().open_ctl(path)

    with diskstream.open(tmp_path, files=Full(lambda *_: None), seal="manual") as store:
        assert store._delete_all(NAMES) == len(NAMES)
        assert refused
        assert store.streams() == []


@pytest.mark.parametrize("seed", range(4))
def test_after_a_power_cut_at_any_moment_each_is_whole_or_gone(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    files = RecordingFiles(tmp_path)
    with diskstream.open(tmp_path / "s", files=files, fsync="always", seal="manual") as store:
        for name in NAMES[:6]:
            store.stream(name).add({"n": name})
    with diskstream.open(tmp_path / "s", files=files, fsync="always", seal="manual") as store:
        assert [len(store.stream(name)) for name in NAMES[:2]] == [1, 1]
        began = files.position
        store._delete_all(NAMES[:6])
        done = files.position
    disk = Disk({})
    for position, event in enumerate(files.events[:done], 1):
        disk.apply(event)
        if position < began:
            continue
        tree, _ = disk.cut(rng)
        materialise(tree, tmp_path / "after", {})
        with diskstream.open(tmp_path / "after" / "s") as store:
            names = whole(store)
            assert set(names) <= set(NAMES[:6])
            if position == began:
                assert len(names) == 6
            if position == done:
                assert names == []
