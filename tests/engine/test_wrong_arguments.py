"""What is no path, no pattern, no policy and no clock is told so in our own words, when it is given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, ArgumentTypeError, DiskstreamError, NotAStoreError


@pytest.mark.parametrize("below", ["", "more"])
@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_a_link_to_nothing_or_to_itself_is_no_place_for_a_store(tmp_path: Path, target: str, below: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / target)
    with pytest.raises(DiskstreamError, match="link") as caught:
        diskstream.open(tmp_path / "link" / below)
    assert isinstance(caught.value, NotAStoreError | OSError)


def test_a_path_is_text(tmp_path: Path) -> None:
    with pytest.raises(ArgumentTypeError, match="not int"):
        diskstream.open(5)  # type: ignore[arg-type]  # refused: of a wrong kind


@pytest.mark.parametrize("fsync", ["interval=" + "9" * 5000, "interval=٣", "interval=5\n", "interval=", "interval=-1"])
def test_an_interval_is_a_number_of_milliseconds(tmp_path: Path, fsync: str) -> None:
    with pytest.raises(ArgumentError, match="interval=MS"):
        diskstream.open(tmp_path / "s", fsync=fsync)


def test_a_clock_is_a_function(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="clock"):
        diskstream.open(tmp_path / "s", clock=5)  # type: ignore[arg-type]  # what is to be refused


@pytest.mark.parametrize("says", [lambda: True, lambda: "5", lambda: -1, lambda: 5.0])
def test_a_clock_gives_milliseconds(tmp_path: Path, says: Callable[[], Any]) -> None:
    with (
        diskstream.open(tmp_path / "s", clock=says) as store,
        pytest.raises(ArgumentError, match="the clock must give milliseconds"),
    ):
        store.stream("a").add({"n": "1"})


def test_a_pattern_is_text_or_bytes_as_a_name_is(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store:
        store.stream(b"a\xff").add({"n": "1"})
        assert store.streams("a*") == store.streams(b"a\xff") == store.streams("a\udcff") == [b"a\xff"]
        assert store.streams("") == []
        with pytest.raises(ArgumentTypeError):
            store.streams(5)  # type: ignore[arg-type]  # refused: of a wrong kind
        with pytest.raises(ArgumentError):
            store.streams("\ud800")
