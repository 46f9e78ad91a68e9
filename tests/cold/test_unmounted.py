"""A place on a disk that is not mounted just now: nothing goes to the disk below, where nobody would find it again."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diskstream import Stream
from diskstream.cold import adopt, bring_back, move_out, sweep
from diskstream.cold.listing import catalogued
from diskstream.errors import RemoteError
from diskstream.objects import Place
from tests.cold.world import filled, names_in, opened, rows, where
from tests.engine.children import until


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    """Its rule is applied by who says so, and by nobody else."""
    with opened(tmp_path / "store", retention_interval_ms=0) as store:
        yield filled(store, count=60)


class Disk:
    """A mount point, and what is mounted there."""

    def __init__(self, folder: Path) -> None:
        self.at, self._away = folder / "mnt", folder / "disk"
        self.at.mkdir()

    def unmount(self) -> None:
        """What is left is an empty folder."""
        self.at.rename(self._away)
        self.at.mkdir()

    def mount(self) -> None:
        """It is there again, and hides what was put below it: nothing."""
        assert list(self.at.rglob("*")) == []
        self.at.rmdir()
        self._away.rename(self.at)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.fixture(params=["a folder of it", "all of it"])
def place(request: pytest.FixtureRequest, disk: Disk) -> str:
    return f"file://{disk.at}/place" if request.param == "a folder of it" else f"file://{disk.at}"


def test_nothing_is_moved_to_what_was_there_and_is_not(stream: Stream, disk: Disk, place: str) -> None:
    """It was put on the disk below, and gone as soon as the right one was mounted over it."""
    before = rows(stream)
    first = move_out(stream, place, before="30")
    assert first.segments
    disk.unmount()
    for each in (stream, filled(stream._store, "y", 40)):
        with pytest.raises(RemoteError, match="there is no folder") as failed:
            move_out(each, place, older_than_ms=0)
        assert "mounted" in (failed.value.hint or "")
        assert "cold" not in where(each)[len(first.segments) :]
    disk.mount()
    assert move_out(stream, place, older_than_ms=0).segments
    assert stream._store.verify(cold=True).ok
    assert rows(stream) == before


def test_one_that_goes_while_segments_move_takes_no_more(stream: Stream, disk: Disk, place: str) -> None:
    gone: list[int] = []

    def goes(_: int) -> None:
        if len(where(stream)) > where(stream).count("here") and not gone:
            gone.append(1)
            disk.unmount()

    with pytest.raises(RemoteError):
        move_out(stream, place, older_than_ms=0, progress=goes)
    disk.mount()
    assert stream._store.verify(cold=True).ok


def test_a_place_is_made_for_the_first_move_and_again_by_hand(stream: Stream, disk: Disk, tmp_path: Path) -> None:
    place = f"file://{disk.at}/a/new/place"
    move_out(stream, place, before="30")
    disk.unmount()
    with pytest.raises(RemoteError) as failed:
        move_out(stream, place, older_than_ms=0)
    Path(str(failed.value).partition("there is no folder ")[2].partition(":")[0]).mkdir(parents=True)
    assert move_out(stream, place, older_than_ms=0).segments
    assert names_in(disk.at, ".seg")


def test_whoever_looks_at_a_place_says_that_it_is_not_mounted(stream: Stream, disk: Disk, place: str) -> None:
    """A mount point without its disk looked like a place with nothing in it: 0 objects, and nothing to adopt."""
    move_out(stream, place, before="30")
    store = stream._store
    disk.unmount()
    Place(place).make_folder("of-another-store")
    looks: list[Callable[[], object]] = [
        lambda: sweep(store, place, older_than_ms=0),
        lambda: sweep(store, place, older_than_ms=0, dry_run=True),
        lambda: adopt(stream, place),
        lambda: list(catalogued(store, [stream], place, whole=True)),
        lambda: bring_back(stream),
        lambda: rows(stream),
    ]
    for look in looks:
        with pytest.raises(RemoteError, match="there is no folder") as failed:
            look()
        assert "mounted" in (failed.value.hint or "")


Sets = Callable[[Stream, str], Any]


def test_a_rule_makes_its_place_when_it_is_set_and_never_after(
    tmp_path: Path, disk: Disk, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the background a folder was made wherever the rule pointed, whatever was mounted there."""
    monkeypatch.setattr("diskstream.retainer._LONGEST_RETRY_S", 0.01)
    monkeypatch.setattr("diskstream.retainer._BETWEEN_MOVES_S", 0.01)
    with opened(tmp_path / "store", retention_interval_ms=2) as store:
        stream = store.stream("x")
        stream.add({"n": "0"}, "0-1")
        stream.set_retention(max_entries=20, to=place)
        disk.unmount()
        stream.set_retention(max_entries=10, to=place)  # as a program does at each start
        filled(store, count=60)
        until(lambda: "there is no folder" in (stream.info().retention_error or ""))
        with pytest.raises(RemoteError, match="there is no folder"):
            stream.apply_retention()
        assert set(where(stream)) == {"here"}
        disk.mount()
        until(lambda: where(stream).count("cold") > 1)
        until(lambda: stream.info().retention_error is None)
        assert len(stream) == 61


def test_a_rule_for_a_stream_that_is_not_there_makes_nothing(stream: Stream, disk: Disk, place: str) -> None:
    with pytest.raises(LookupError):
        stream._store.stream("nobody").set_retention(max_entries=1, to=place)
    assert list(disk.at.rglob("*")) == []


def test_a_disk_that_does_not_say_whether_it_is_there_is_told_as_any_that_fails(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an error of the system, from wherever it was looked."""
    place = f"file://{tmp_path}/place"
    move_out(stream, place, before="20")

    def fails(folder: Path) -> bool:
        raise OSError(errno.EIO, "Input/output error", str(folder))

    monkeypatch.setattr(Path, "is_dir", fails)
    with pytest.raises(RemoteError, match=r"could not look for the folder .*Input/output error"):
        Place(place).check_folder("any")
