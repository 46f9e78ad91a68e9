"""What fails leaves no file behind that nobody would ever remove: those with a name by chance, nobody looks for."""

import contextlib
import errno
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import DiskFullError, EntryID, Options, StorageError, Store
from diskstream.engine import quarantine, repair_store
from diskstream.engine.files import Files
from diskstream.engine.keeper import Keeper
from diskstream.engine.seal import reap, unsealed
from diskstream.replaying import plans
from tests.engine.children import until
from tests.engine.sample import SMALL, log_of
from tests.engine.stand_ins import Watched, failure
from tests.engine.test_replacing import LONG, dies_at

STEPS = ("write", "sync", "rename", "link")


def failing(step: str) -> Files:
    """Files of which the first step of a kind fails."""
    failed = list[Path]()

    def fail(kind: str, path: Path) -> None:
        if kind == step and not failed:
            failed.append(path)
            raise failure(path, kind, errno.EIO)

    return Watched(fail)


def make(path: Path, files: Files) -> None:
    diskstream.open(path / "s", **SMALL, files=files).close()


def keep(path: Path, files: Files) -> None:
    (path / "damaged").write_bytes(b"what is kept")
    quarantine.keep(path / "damaged", path / "quarantine", files)


def write_down(path: Path, files: Files) -> None:
    file = plans.PlanFile(path, b"writer")
    file._files = files
    with file.alone():
        file.write(plans.Plan.__new__(plans.Plan))


def describe_again(path: Path, files: Files) -> None:
    (path / "s" / "streams").mkdir(parents=True, exist_ok=True)
    wishes = repair_store.Wishes()
    list(repair_store.repair_store(path / "s", files, Options(), wishes, lambda *_: None, dry_run=False))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("work", [make, keep, write_down, describe_again], ids=lambda work: work.__name__)
def test_a_temporary_file_goes_with_what_it_was_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path, Files], None], step: str
) -> None:
    monkeypatch.setattr(plans.Plan, "as_json", lambda _: "{}")
    with contextlib.suppress(StorageError):
        work(tmp_path, failing(step))
    assert not list(tmp_path.rglob("*.tmp"))
    work(tmp_path, Files())
    assert not list(tmp_path.rglob("*.tmp"))


def hidden(path: Path) -> list[str]:
    """What is left half made, half removed or put aside among the streams of a store."""
    return sorted(each.name for each in (path / "streams").iterdir() if each.name.startswith("."))


def make_a_stream(store: Store) -> None:
    store.stream(LONG).add({"of": "any"})


def remove_a_stream(store: Store) -> None:
    store.stream("short").add({"of": "any"})
    store.delete("short")


def replace_a_stream(store: Store) -> None:
    store.stream("short").add({"of": "any"})
    store.rename("short", "lived")


@pytest.mark.parametrize("work", [make_a_stream, remove_a_stream, replace_a_stream], ids=lambda work: work.__name__)
def test_what_the_killed_left_goes_though_the_store_stays_open(tmp_path: Path, work: Callable[[Store], None]) -> None:
    """Only who opened the store alone removed it: beside a server it was there, and took its room, for years."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("lived").add({"of": "any"})
        left: set[str] = set()
        for nth in itertools.count(1):
            store.delete(LONG)
            if not dies_at(tmp_path / "s", nth, work):
                break
            left.update(hidden(tmp_path / "s"))
        assert left, "no death left anything"
        store.stream("another").add({"of": "any"})
        assert hidden(tmp_path / "s") == []


def test_the_files_of_what_the_killed_removed_go_once_its_name_is_gone_for_good(tmp_path: Path) -> None:
    """They went at once: a power cut could bring the name back, and some of the files."""
    steps: list[tuple[str, str]] = []
    with diskstream.open(
        tmp_path / "s", **SMALL, files=Watched(lambda kind, path: steps.append((kind, path.name)))
    ) as store:
        store.stream("lived").add({"of": "any"})
        for nth in itertools.count(1):
            store.delete("short")
            assert dies_at(tmp_path / "s", nth, remove_a_stream), "no death left anything"
            if any(name.startswith(".deleted-") for name in hidden(tmp_path / "s")):
                break
        steps.clear()
        store.stream("another").add({"of": "any"})
        assert hidden(tmp_path / "s") == []
        gone = next(at for at, (kind, _) in enumerate(steps) if kind in ("unlink", "rmdir"))
        assert ("sync_dir", "streams") in steps[:gone]


def test_a_removal_that_failed_is_ended_by_the_next_one(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL, files=failing("rmdir")) as store:
        for name in ("x", "y"):
            store.stream(name).add({"n": 1})
        with pytest.raises(StorageError):
            store.delete("x")
        assert store.streams() == [b"y"]
        store.delete("y")
        assert hidden(tmp_path / "s") == []


def test_what_cannot_be_removed_keeps_nobody_out_of_the_store(tmp_path: Path) -> None:
    """One file that the disk, or another user, does not let go of: the store could not be opened from then on."""

    def keep(kind: str, path: Path) -> None:
        if kind == "unlink" and path.name == "00000001.log" and path.parent.name.startswith(".deleted-"):
            raise failure(path, kind, errno.EIO)

    for _ in range(2):
        with diskstream.open(tmp_path / "s", **SMALL, files=Watched(keep)) as store:
            store.stream("x").add({"n": 1})
            with pytest.raises(StorageError):
                store.delete("x")
            assert store.stream("x").add({"n": 2}) in [entry.id for entry in store.stream("x").range()]
    assert len(hidden(tmp_path / "s")) == 2
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert hidden(tmp_path / "s") == []
        assert [entry["n"] for entry in store.stream("x").range()] == [b"2"]


@pytest.mark.parametrize("suffix", [".seg", ".log", ".audit", ".tmp"])
def test_a_file_that_a_stream_does_not_need_and_that_cannot_be_removed_keeps_nobody_out(
    tmp_path: Path, suffix: str
) -> None:
    """One that is another user's, or immutable: the stream could not be opened, and not be read."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        stream.create_group("g", "0", mkstream=True)
        for number in range(80):
            stream.add({"n": number, "pad": "." * 500})
            stream.group("g").consumer("c").read(noack=True)
        log = log_of(store)
        kept = {path.name: path.read_bytes() for path in log.directory.glob("0*.log")}
        stream.seal()
        kept |= {path.name: path.read_bytes() for path in log.directory.glob("0*.[sa]*")}
        stream.trim(maxlen=20)
        log.remove_dropped()
        last = max(name for name in kept if name.endswith(".seg"))
        there = {path.name for path in log.directory.iterdir()}
        entries = [entry.id for entry in stream.range()]
    left = [name for name in kept if name.endswith(suffix) and name not in there] or ["00000001.seg.tmp"]
    for name in left:
        (log.directory / name).write_bytes(kept.get(name, b""))
    assert last in there

    read: list[EntryID] = []
    found: dict[str, str] = {}

    def keep(kind: str, path: Path) -> None:
        if kind == "unlink" and path.name in left:
            raise failure(path, kind, errno.EPERM)

    with (
        contextlib.suppress(StorageError),  # that room was not given back is told as it is closed
        diskstream.open(tmp_path / "s", **SMALL, files=Watched(keep)) as store,
    ):
        read = [entry.id for entry in store.stream("x").range()]
        store.stream("x").add({"n": "more"})
        found = {finding.path.name: finding.action for finding in store.recoveries[0].findings}
    assert read == entries
    assert all(found[name].startswith("left as it is, though ") for name in left)
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert len(store.stream("x")) == len(entries) + 1
        assert not any((log.directory / name).exists() for name in left)


def test_a_segment_that_cannot_be_removed_keeps_no_room_of_others_and_holds_up_no_sealing(tmp_path: Path) -> None:
    """What was trimmed behind it stayed for good, and so did all that was rolled: unsealed."""

    kept: list[str] = []

    def keep(kind: str, path: Path) -> None:
        if kind == "unlink" and path.suffix == ".seg" and (not kept or path.name in kept):
            kept.append(path.name)
            raise failure(path, kind, errno.EPERM)

    with (
        pytest.raises(StorageError, match="EPERM"),
        diskstream.open(tmp_path / "s", **SMALL, files=Watched(keep)) as store,
    ):
        stream = store.stream("x")
        for number in range(80):
            stream.add({"n": number, "pad": "." * 500})
        stream.seal()
        stream.trim(maxlen=5)
        log = log_of(store)
        with pytest.raises(StorageError):
            reap(log)
        left = {path.name for path in log.directory.glob("*.seg")}
        for number in range(80):
            stream.add({"n": number, "pad": "." * 500})
        keeper = Keeper(lambda: [log], None, seals=True, notice=lambda _: None)

        def has_met_it() -> bool:
            keeper._each(keeper._attend)  # it leaves the files to the store's own keeper, where that is at them
            return isinstance(keeper.last_error, StorageError) and not unsealed(log)

        until(has_met_it)
    assert left & set(kept)
    assert len(left) <= 3


def test_a_stream_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    """Whoever tried again and again on a full disk left a folder, and what was written of a log, each time."""

    def fill(kind: str, path: Path) -> None:
        if kind == "write" and path.parent.name.startswith(".new-"):
            raise failure(path, kind, errno.ENOSPC)

    with diskstream.open(tmp_path / "s", **SMALL, files=Watched(fill)) as store:
        for _ in range(3):
            with pytest.raises(DiskFullError):
                store.stream("x").add({"n": 1})
            assert hidden(tmp_path / "s") == []
