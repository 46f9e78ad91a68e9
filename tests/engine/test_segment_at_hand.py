"""A sealed segment that is nothing but its file is opened in one native call; everything else goes the long way."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError, Store
from diskstream._native import NodeCache, SealedSegment, SegmentView
from diskstream.engine import names
from diskstream.engine.log import StreamLog


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A stream with two sealed segments, and another one beside it."""
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        for name in ("s", "other"):
            for first in (1, 101):
                ids = [f"{first + n}-1" for n in range(100)]
                store.stream(name).add_many([{"n": str(n)} for n in range(100)], ids=ids)
                store.stream(name).seal()
        yield store


@pytest.fixture
def log(store: Store) -> StreamLog:
    log = store._log(b"s", create=False)
    assert log is not None
    return log


def opened(log: StreamLog, view: SegmentView) -> SealedSegment | None:
    log_path, path = names.log_path(log.directory, view.number), names.segment_path(log.directory, view.number, 0)
    return SealedSegment.at_hand(str(log_path), str(path), log.native.uuid, view, NodeCache(0), False)


def test_a_sealed_file_is_opened(log: StreamLog) -> None:
    view = log.segments.views()[1]
    found = opened(log, view)
    assert found is not None
    assert found.entries == 100
    assert found.find("150-1", view) is not None


def _with_its_log(path: Path) -> None:
    names.log_path(path.parent, 1).touch()


def _of_another_stream(path: Path) -> None:
    path.write_bytes((path.parent.parent / "other" / path.name).read_bytes())


def _of_another_segment(path: Path) -> None:
    path.write_bytes(path.with_name("00000002.seg").read_bytes())


def _damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def _a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


STATES: dict[str, Callable[[Path], None]] = {
    "its log is there": _with_its_log,
    "it is missing": Path.unlink,
    "another stream's": _of_another_stream,
    "another segment's": _of_another_segment,
    "damaged": _damaged,
    "a pipe": _a_pipe,
    "empty": _empty,
}


@pytest.mark.parametrize("state", STATES)
def test_what_is_anything_else_is_left_to_the_long_way(log: StreamLog, state: str) -> None:
    view = log.segments.views()[0]
    STATES[state](names.segment_path(log.directory, view.number, 0))
    assert opened(log, view) is None
    assert opened(log, log.segments.views()[1]) is not None


SAYS = {"damaged": "footer", "another stream's": "of stream", "empty": "0 bytes"}


@pytest.mark.parametrize("state", SAYS)
def test_the_long_way_tells_what_is_wrong(store: Store, log: StreamLog, state: str) -> None:
    STATES[state](names.segment_path(log.directory, 1, 0))
    for view in log.segments.views():
        log.segments.forget(view.number, 0)
    with pytest.raises(CorruptionError, match=SAYS[state]):
        store.stream("s").get("50-1")
    assert store.stream("s").get("150-1") is not None
