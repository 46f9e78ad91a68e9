"""What is still on its way to a storage when nobody waits for it any more: it comes when it likes, and harms nothing.

No stream of pyarrow can be given up without publishing what was written so far, and no request can be called back.
"""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream import Stream, objects
from diskstream.cold import bring_back, catalogue, move_out, sweep
from diskstream.errors import ChangedError, ClosedError, RemoteError
from diskstream.objects import Place
from tests.cold.s3_server import Answer, Asked, Door, Fault
from tests.cold.world import filled, names_in, opened, rows, where

WAIT_S = 30


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    """A short one: each segment costs many requests."""
    with opened(tmp_path / "store") as store:
        yield filled(store, count=60)


class Late:
    """The first request of a kind for a segment's object is held on its way until it is let go, and done then."""

    def __init__(self, method: str) -> None:
        self.method, self.path = method, ""
        self.go, self.through, self.asked = threading.Event(), threading.Event(), threading.Event()

    def fault(self, asked: Asked) -> Fault | None:
        """What the door does with a request."""
        if asked.method != self.method or not asked.is_segment or self.path:
            return None
        self.path = asked.path
        self.asked.set()

        def body(data: bytes) -> bytes:
            assert self.go.wait(WAIT_S)
            return data

        def after(answer: Answer) -> Answer:
            self.through.set()
            return answer

        return Fault(body=body, after=after)

    def comes(self) -> None:
        """Lets it go, and waits until the storage has done it."""
        self.go.set()
        assert self.through.wait(WAIT_S)


def test_an_upload_that_was_broken_off_comes_over_nothing_that_is_relied_on(
    stream: Stream, door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came, cut short, over the whole object that the next mover had put, read back and left a stub for."""
    before, url = rows(stream), door.url(tmp_path.name)
    late, handled = Late("PUT"), []
    door.fault = late.fault

    def closing(size_bytes: int) -> None:
        """As a store that is closed stops its mover: at a sign of progress."""
        handled.append(size_bytes)
        if sum(handled) > 200:
            raise ClosedError("the store")

    with monkeypatch.context() as patched, pytest.raises(ClosedError):
        patched.setattr(objects, "_AT_ONCE", 100)
        move_out(stream, url, older_than_ms=0, progress=closing)
    assert late.asked.wait(WAIT_S)
    report = move_out(stream, url, older_than_ms=0)
    assert where(stream) == ["cold"] * len(report.segments) + ["here"]
    late.comes()
    shutil.rmtree(tmp_path / "store" / "cold-cache", ignore_errors=True)
    assert rows(stream) == before
    assert not any(late.path.endswith(each.path) for each in report.segments)
    sweep(stream._store, url, older_than_ms=0)
    assert len(Place(url).objects(report.segments[0].path.partition("/")[0])) == 2 * len(report.segments)


class Breaking:
    """A file system whose second write fails, once."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.writes, self.removed = 0, threading.Event()

    def open_output_stream(self, path: str) -> "Sink":
        return Sink(self, path)

    def delete_file(self, path: str) -> None:
        self.done.append(("removed", path))
        self.removed.set()


class Sink:
    def __init__(self, files: Breaking, path: str) -> None:
        self.files, self.path = files, path

    def write(self, data: bytes) -> None:
        self.files.writes += 1
        if self.files.writes == 2:
            raise OSError("a part was refused")

    def close(self) -> None:
        self.files.done.append(("closed", self.path))


def test_each_attempt_has_a_name_of_its_own_and_what_was_broken_off_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one put the second attempt had the name of the first, whose parts were still being made an object."""
    files, place = Breaking(), Place("s3://bucket/p")
    monkeypatch.setattr(Place, "_files", files)
    monkeypatch.setattr(objects, "_AT_ONCE", 4)
    names = iter(("first", "second"))
    (tmp_path / "file").write_bytes(b"some bytes")
    with (tmp_path / "file").open("rb") as source:
        assert place.put_new(lambda: next(names), source) == "second"
    assert files.removed.wait(WAIT_S)
    assert ("closed", "bucket/p/second") in files.done
    first = [what for what, path in files.done if path == "bucket/p/first"]
    assert first == ["closed", "removed"]


def test_what_has_no_record_is_put_anew_and_swept(stream: Stream, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows of it whether its put has ended."""
    with monkeypatch.context() as patched:

        def fails(*_: object) -> None:
            raise RemoteError("the place", "it is down")

        patched.setattr(catalogue, "keep", fails)
        with pytest.raises(RemoteError):
            move_out(stream, place, older_than_ms=0)
    report = move_out(stream, place, older_than_ms=0)
    swept = sweep(stream._store, place, older_than_ms=0)
    assert [each.path.partition("-")[0] for each in swept.removed] == [report.segments[0].path.partition("-")[0]]
    assert swept.needed == len(report.segments)
    assert stream._store.verify(cold=True).ok


def test_objects_of_an_earlier_version_are_known_and_not_relied_on_again(
    stream: Stream, folder_place: str, tmp_path: Path
) -> None:
    """Their names were those of every attempt to put them."""
    first = move_out(stream, folder_place, older_than_ms=0)
    bring_back(stream)
    for number, each in enumerate(first.segments):
        before, _, _ = each.path.rpartition("-")
        (tmp_path / "place" / each.path).rename(tmp_path / "place" / f"{before}{f'-{number}' if number else ''}.seg")
    second = move_out(stream, folder_place, older_than_ms=0)
    assert len(second.segments) == len(first.segments)
    swept = sweep(stream._store, folder_place, older_than_ms=0)
    assert (len(swept.removed), swept.needed, swept.foreign) == (len(first.segments), len(second.segments), 0)
    assert stream._store.verify(cold=True).ok


def test_a_storage_that_spoils_everything_is_not_filled(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    (first, *_) = move_out(stream, folder_place, older_than_ms=0).segments
    bring_back(stream)
    whole = tmp_path / "place" / first.path
    for number in range(10):
        (whole.parent / f"{whole.name.partition('-')[0]}-{number:016x}.seg").write_bytes(b"spoilt")
    whole.unlink()
    with pytest.raises(ChangedError, match="10 objects of segment 1 are there"):
        move_out(stream, folder_place, older_than_ms=0)
    assert len(names_in(tmp_path / "place", ".seg")) == len(where(stream)) - 1 + 9
    sweep(stream._store, folder_place, older_than_ms=0)
    assert move_out(stream, folder_place, older_than_ms=0).segments


def test_a_sweep_that_was_broken_off_removes_nothing_that_is_relied_on_again(
    stream: Stream, door: Door, tmp_path: Path
) -> None:
    """Its removal of an object came after the segment had been moved anew, since the object was there, and sound."""
    before, url = rows(stream), door.url(tmp_path.name)
    move_out(stream, url, older_than_ms=0)
    bring_back(stream)
    late = Late("DELETE")
    door.fault = late.fault
    with pytest.raises(RemoteError):
        sweep(stream._store, url, older_than_ms=0)
    report = move_out(stream, url, older_than_ms=0)
    assert len(report.segments) == len(where(stream)) - 1
    late.comes()
    shutil.rmtree(tmp_path / "store" / "cold-cache", ignore_errors=True)
    assert rows(stream) == before
