"""Streams that others remove or rename while all of a store is verified are gone: no fault, and none of the system."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Store, Stream, VerifyReport
from diskstream.engine import recovery
from diskstream.engine import verify as verification
from tests.engine.sample import SMALL

Verify = Callable[[Path, Callable[[int, int], None]], VerifyReport]


def inside(path: Path, progress: Callable[[int, int], None]) -> VerifyReport:
    with diskstream.open(path, **SMALL) as store:
        return store.verify(progress=progress)


def outside(path: Path, progress: Callable[[int, int], None]) -> VerifyReport:
    return diskstream.verify(path, progress=progress)


def removed(store: Store, name: str) -> None:
    store.delete(name)


def renamed(store: Store, name: str) -> None:
    store.rename(name, f"{name}2")


def replaced(store: Store, name: str) -> None:
    store.delete(name)
    store.stream(name).add({"n": "another"})


@pytest.mark.parametrize("verify", [inside, outside])
@pytest.mark.parametrize("goes", [removed, renamed, replaced])
@pytest.mark.parametrize("name", ["a", "b"])  # the one that is being read, and the one after it
def test_a_stream_that_goes_is_no_fault(
    tmp_path: Path, verify: Verify, goes: Callable[[Store, str], None], name: str
) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        for stream in (store.stream("a"), store.stream("b")):
            for _ in range(3):
                stream.add_many([{"n": number} for number in range(9)])
                stream.seal()
        went = False

        def progress(_: int, __: int) -> None:
            nonlocal went
            if not went:
                went = True
                goes(store, name)

        assert verify(tmp_path / "s", progress).problems == []
        assert went


@pytest.mark.parametrize("verify", [inside, outside])
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_damaged_stream_that_gets_another_name_is_told_of_by_that(tmp_path: Path, verify: Verify, name: str) -> None:
    """Its damage was told of neither: the one name was gone by then, and the other not there yet."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        for each in "ab":
            for _ in range(3):
                store.stream(each).add_many([{"n": number} for number in range(9)])
                store.seal()
        segment = sorted((tmp_path / "s/streams" / name).glob("*.seg"))[1]
        segment.write_bytes(segment.read_bytes()[:200] + b"\xee" + segment.read_bytes()[201:])
        went = 0

        def progress(_: int, __: int) -> None:
            nonlocal went
            went += 1
            if went == 1:
                store.rename(name, f"{name}2")

        report = verify(tmp_path / "s", progress)
        (problem,) = report.problems
        assert problem.stream == f"{name}2".encode()
        assert problem.path.parent == tmp_path / "s/streams" / f"{name}2"
        assert report == verify(tmp_path / "s", lambda *_: None), "nothing is counted twice"


@pytest.mark.parametrize("verify", [inside, outside])
def test_a_stream_that_gets_one_name_after_another_is_told_as_not_read(
    tmp_path: Path, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, at = verification._verify_active, "0"
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("0").add({"n": 1})

        def read(*given: Any) -> None:
            nonlocal at
            before, at = at, f"{int(at) + 1}"
            store.rename(before, at)
            whole(*given)
            raise FileNotFoundError

        monkeypatch.setattr(verification, "_verify_active", read)
        report = verify(tmp_path / "s", lambda *_: None)
        assert [note.rpartition(": ")[2] for note in report.notes] == ["renamed again and again, so it was not read"]
        assert report.streams == 1


@pytest.mark.parametrize("verify", [inside, outside])
@pytest.mark.parametrize("goes", [removed, renamed, replaced])
def test_a_stream_that_goes_just_before_its_active_segment_is_read_is_no_fault(
    tmp_path: Path, verify: Verify, goes: Callable[[Store, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`FileNotFoundError` came out of the verification."""
    whole = verification._verify_active
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        for name in ("a", "b"):
            store.stream(name).add_many([{"n": number} for number in range(9)])

        def read(name: bytes, *given: Any) -> None:
            if name == b"a":
                goes(store, "a")
            whole(name, *given)

        monkeypatch.setattr(verification, "_verify_active", read)
        report = verify(tmp_path / "s", lambda *_: None)
        assert report.problems == []
        assert report.streams == 2


@pytest.mark.parametrize("verify", [inside, outside])
def test_a_stream_that_goes_and_comes_back_is_read(
    tmp_path: Path, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`FileNotFoundError` came out of the verification, which found the stream where it had been."""
    whole = recovery.look
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("a").add_many([{"n": number} for number in range(9)])
        store.stream("a").seal()
        expected = verify(tmp_path / "s", lambda *_: None)
        asked = 0

        def look(directory: Path, *given: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == 1 + (verify is outside):  # there the first is that of the opening
                (tmp_path / "s/streams/a").rename(tmp_path / "s/streams/b")
                try:
                    return whole(directory, *given)
                finally:
                    (tmp_path / "s/streams/b").rename(tmp_path / "s/streams/a")
            return whole(directory, *given)

        monkeypatch.setattr(recovery, "look", look)
        assert verify(tmp_path / "s", lambda *_: None) == expected


@pytest.mark.parametrize("use", [len, lambda stream: stream.get("1-0")])
def test_a_stream_that_goes_and_comes_back_while_a_reader_opens_it_is_there(
    tmp_path: Path, use: Callable[[Stream], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an error of the disk: no such directory."""
    whole = recovery.look
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("a").add({"n": 1}, "1-0")

    def look(directory: Path, *given: Any) -> Any:
        monkeypatch.undo()
        directory.rename(directory.with_name("b"))
        try:
            return whole(directory, *given)
        finally:
            directory.with_name("b").rename(directory)

    with diskstream.open(tmp_path / "s", read_only=True) as store:
        monkeypatch.setattr(recovery, "look", look)
        assert use(store.stream("a"))


@pytest.mark.parametrize("verify", [inside, outside])
def test_a_file_that_is_missing_is_a_fault_of_a_stream_that_stays(tmp_path: Path, verify: Verify) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        for _ in range(3):
            store.stream("a").add({"n": 1})
            store.seal()
    sorted((tmp_path / "s/streams/a").glob("*.seg"))[1].unlink()
    assert [problem.what for problem in verify(tmp_path / "s", lambda _, __: None).problems] == ["the file is missing"]
