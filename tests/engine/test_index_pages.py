"""A large sparse index is read and compared with its checksum a page at a time, an old one without pages as a whole."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import CorruptionError
from diskstream._native import checksum
from diskstream.engine.dissect import Depth, dissect_file
from diskstream.engine.hexdump import dump
from diskstream.engine.layouts import FOOTER, INDEX_ROW, PAGE_ROW
from diskstream.errors import DiskstreamError
from tests.slow_reader.sealed import Sealed

NODES, PAGE = 300, 128
PAGES = -(-NODES // PAGE)
SEALED, LOG = "00000001.seg", "00000001.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stream of 300 nodes of one entry, sealed, with the log that it was made from put beside the store."""
    folder = tmp_path / "s" / "streams" / "x"
    with diskstream.open(tmp_path / "s", node_max_entries=1, seal="manual") as store:
        stream = store.stream("x")
        stream.add_many([{"n": number} for number in range(NODES)], ids=[f"{number + 1}-0" for number in range(NODES)])
        shutil.copy(folder / LOG, tmp_path / LOG)
        stream.seal()
    assert [path.name for path in folder.glob("*.seg")] == [SEALED]
    return folder


def footer_of(folder: Path) -> dict[str, Any]:
    data = (folder / SEALED).read_bytes()
    footer = FOOTER.sound(data, len(data) - FOOTER.size)
    assert footer is not None
    return footer


def flip(folder: Path, offset: int) -> None:
    data = bytearray((folder / SEALED).read_bytes())
    data[offset] ^= 8
    (folder / SEALED).write_bytes(data)


def without_pages(folder: Path) -> None:
    """Makes of the file what earlier versions wrote."""
    data, footer = (folder / SEALED).read_bytes(), footer_of(folder)
    pages = PAGES * PAGE_ROW.size
    start = footer["index_offset"]
    old = dict(footer, index_offset=start - pages, file_length=footer["file_length"] - pages, page_rows=0, pages_crc=0)
    (folder / SEALED).write_bytes(data[: start - pages] + data[start : -FOOTER.size] + FOOTER.make(**old))


def answers(folder: Path) -> Iterator[int | None]:
    """For each entry by its ID what is read, None where that is refused."""
    with diskstream.open(folder.parent.parent, read_only=True) as store:
        stream = store.stream("x")
        for number in range(NODES):
            try:
                entry = stream.get(f"{number + 1}-0")
                assert entry is not None
                yield int(entry[b"n"])
            except CorruptionError:
                yield None


def numbers(folder: Path) -> list[int]:
    with diskstream.open(folder.parent.parent) as store:
        return [int(entry[b"n"]) for entry in store.stream("x").range()]


def test_a_file_has_a_row_for_each_page_of_its_index(folder: Path) -> None:
    footer, sealed = footer_of(folder), Sealed(folder / SEALED)
    assert (footer["nodes"], footer["page_rows"]) == (NODES, PAGE)
    assert sealed.index_at - sealed.pages_at == PAGES * PAGE_ROW.size
    assert [entry_id for entry_id, _ in sealed.read()] == [(number + 1, 0) for number in range(NODES)]
    assert list(answers(folder)) == numbers(folder) == list(range(NODES))


@pytest.mark.parametrize("page", range(PAGES))
def test_a_damaged_page_takes_its_own_entries_alone(folder: Path, page: int) -> None:
    flip(folder, footer_of(folder)["index_offset"] + page * PAGE * INDEX_ROW.size + 50)
    assert list(answers(folder)) == [None if number // PAGE == page else number for number in range(NODES)]
    with diskstream.open(folder.parent.parent) as store:
        stream = store.stream("x")
        assert len(stream) == NODES
        with pytest.raises(CorruptionError, match="page of the sparse index"):
            list(stream.range())
        assert [problem.path for problem in store.verify().problems] == [folder / SEALED]
    assert [report.losses for report in diskstream.repair(folder.parent.parent)] == [[]]
    assert numbers(folder) == list(range(NODES))


@pytest.mark.parametrize("offset", [0, PAGE_ROW.size + 20, PAGES * PAGE_ROW.size - 1])
def test_damaged_page_rows_are_seen_by_whoever_opens_the_file(folder: Path, offset: int) -> None:
    flip(folder, footer_of(folder)["index_offset"] - PAGES * PAGE_ROW.size + offset)
    assert list(answers(folder)) == [None] * NODES
    assert [report.losses for report in diskstream.repair(folder.parent.parent)] == [[]]
    assert numbers(folder) == list(range(NODES))


def test_a_file_of_an_earlier_version_is_read_as_it_is(folder: Path) -> None:
    without_pages(folder)
    assert [entry_id for entry_id, _ in Sealed(folder / SEALED).read()][-1] == (NODES, 0)
    assert list(answers(folder)) == numbers(folder) == list(range(NODES))
    with diskstream.open(folder.parent.parent) as store:
        assert store.verify().problems == []


def test_all_of_an_index_without_pages_is_compared_at_the_opening(folder: Path) -> None:
    without_pages(folder)
    flip(folder, footer_of(folder)["index_offset"] + 250 * INDEX_ROW.size)
    assert list(answers(folder)) == [None] * NODES


@pytest.mark.parametrize("old", [False, True])
def test_while_the_log_is_there_it_is_read_instead_of_a_damaged_file(folder: Path, tmp_path: Path, old: bool) -> None:
    if old:
        without_pages(folder)
    flip(folder, footer_of(folder)["index_offset"] + 250 * INDEX_ROW.size)
    shutil.copy(tmp_path / LOG, folder / LOG)
    assert list(answers(folder)) == list(range(NODES))


def test_page_rows_are_shown_as_what_they_are(folder: Path) -> None:
    start = footer_of(folder)["index_offset"] - PAGES * PAGE_ROW.size
    shown = [row for row in dissect_file(folder / SEALED, Depth(parts=True)) if row["is"] == "page row"]
    assert [(row["offset"], row["first"], row["before"]) for row in shown] == [
        (start + number * PAGE_ROW.size, f"{number * PAGE + 1}-0", number * PAGE) for number in range(PAGES)
    ]
    names = {line.of.split(":")[0] for line in dump(folder / SEALED, start, PAGES * PAGE_ROW.size)}
    assert names == {f"page row {number}" for number in range(PAGES)}
    assert {line.of for line in dump(folder / SEALED, start - 16, 16)} == {"snapshot copy payload"}


_CUT = """
import os, sys
import diskstream
folder, by_page = sys.argv[1], sys.argv[2] == "by_page"
with diskstream.open(folder) as store:
    stream = store.stream("x")
    if by_page:
        assert stream.get("5-0") is not None
    sealed = folder + "/streams/x/00000001.seg"
    size = os.stat(sealed).st_size
    os.truncate(sealed, 4096)
    try:
        stream.get("290-0")
    except diskstream.DiskstreamError as error:
        print(type(error).__name__, "shorter" in str(error))
    os.truncate(sealed, size)
"""


@pytest.mark.parametrize(("when", "said"), [("by_page", "StorageError True"), ("at once", "CorruptionError False")])
def test_a_page_that_the_disk_does_not_give_is_an_error_and_no_death(folder: Path, when: str, said: str) -> None:
    """The first touch of a mapping of what is not there ended the process with SIGBUS."""
    command = [sys.executable, "-c", _CUT, str(folder.parent.parent), when]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, said), done.stderr


def _more_pages(footer: dict[str, Any]) -> None:
    footer["page_rows"] = 1


def _another_checksum(footer: dict[str, Any]) -> None:
    footer["pages_crc"] = checksum(b"others")


@pytest.mark.parametrize("forge", [_more_pages, _another_checksum])
def test_a_footer_that_tells_of_other_pages_is_refused(folder: Path, forge: Callable[[dict[str, Any]], None]) -> None:
    data, footer = (folder / SEALED).read_bytes(), footer_of(folder)
    forge(footer)
    (folder / SEALED).write_bytes(data[: -FOOTER.size] + FOOTER.make(**footer))
    with diskstream.open(folder.parent.parent, read_only=True) as store, pytest.raises(DiskstreamError):
        store.stream("x").get("5-0")
