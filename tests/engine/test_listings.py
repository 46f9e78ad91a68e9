"""A directory of a stream may hold thousands of files: it is listed where it must be, and no oftener."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.engine import names, recovery
from diskstream.engine.page import MAINTENANCE
from tests.streams.layers import log_of

SMALL: dict[str, Any] = {"segment_bytes": 8192, "seal": "manual", "fsync": "os"}
Listings = Callable[[], int]


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch, no_keepers: None) -> Listings:
    """How often directories of streams were listed since the last time it was asked, not in the background."""
    whole, seen = os.scandir, []

    def scandir(path: Any = ".") -> Any:
        if Path(path).parent.name == "streams":
            seen.append(path)
        return whole(path)

    def asked() -> int:
        count = len(seen)
        seen.clear()
        return count

    monkeypatch.setattr(os, "scandir", scandir)
    return asked


def fill(stream: diskstream.Stream, rolls: int) -> None:
    for _ in range(rolls):
        stream.add_many([{"pad": "x" * 100} for _ in range(100)])
        stream.add({"last": 1})  # which no longer fits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        fill(store.stream("x"), 5)
        store.stream("x").seal()
        fill(store.stream("x"), 3)
    return tmp_path / "s"


def test_an_opening_lists_once(path: Path, listings: Listings) -> None:
    for read_only in (False, True):
        with diskstream.open(path, read_only=read_only) as store:
            assert len(store.stream("x")) == 8 * 101
            assert listings() == 1


def test_a_reader_without_the_page_lists_only_where_the_log_has_rolled(path: Path, listings: Listings) -> None:
    with diskstream.open(path, **SMALL) as store, diskstream.open(path, read_only=True) as reader:
        written, read = store.stream("x"), reader.stream("x")
        written.seal()  # so that what follows fits
        assert len(read) == 8 * 101
        listings()
        for number in range(20):
            assert written.get(written.add({"n": number})) is not None
            assert len(read) == 8 * 101 + number + 1
            assert read.get(read.last_id()) is not None
        assert listings() == 0
        fill(written, 2)
        assert len(read) == 10 * 101 + 20
        assert 1 <= listings() <= 4
        assert len(read) == 10 * 101 + 20
        assert listings() == 0


def test_the_files_of_segments_that_were_trimmed_away_go_after_one_listing(path: Path, listings: Listings) -> None:
    with diskstream.open(path, **SMALL) as store:
        log = log_of(store)
        assert store.stream("x").trim(maxlen=101) == 7 * 101
        listings()
        with log.ctl.locked(MAINTENANCE):
            assert log.remove_dropped() > 0
        assert listings() == 1
        assert len(os.listdir(path / "streams" / "x")) < 8


def test_the_successor_is_found_whatever_goes_while_one_looks(path: Path) -> None:
    """Both a log and its successor may be gone by the time that one looks for the second: a newer one is there."""
    directory = path / "streams" / "x"
    logs = sorted(
        number for kind, number, _ in filter(None, map(names.parse_file, os.listdir(directory))) if kind == "log"
    )
    assert len(logs) >= 3
    assert recovery.next_log(directory, logs[-1]) is None
    assert recovery.next_log(directory, logs[0]) == logs[-1]
    assert recovery.next_log(directory, logs[0] - 1) == logs[-1]
    names.log_path(directory, logs[1]).unlink()  # as one without entries goes, before the one that it follows
    assert recovery.next_log(directory, logs[0]) == logs[-1]
    names.log_path(directory, logs[0]).unlink()
    assert recovery.next_log(directory, logs[0]) == logs[-1]


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000012.log", ("log", 12, 0)),
        ("00000012.seg", ("seg", 12, 0)),
        ("00000012.cold", ("cold", 12, 0)),
        ("00000012.g3.seg", ("seg", 12, 3)),
        ("123456789.log", ("log", 123456789, 0)),
        ("0000012.log", None),
        ("-0000012.log", None),
        ("0000_012.log", None),
        ("00000012.audit", None),
        ("00000012.log.tmp", None),
        ("00000012", None),
        (".log", None),
        ("log", None),
    ],
)
def test_the_name_of_a_file_says_what_it_is(name: str, parsed: tuple[str, int, int] | None) -> None:
    assert names.parse_file(name) == parsed
