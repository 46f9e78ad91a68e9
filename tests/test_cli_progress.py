"""Bars of long work: on a terminal they say entries, bytes, rate and time left; in a pipe nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream
from diskstream.repairing import repair
from diskstream.verifying import bytes_to_verify, verify
from tests.terminal import shown_on_a_terminal

PROGRAM = [sys.executable, "-c", "from diskstream.cli import main; main()"]


def filled(path: Path) -> None:
    """A store with two streams of 4,000 entries each, none of them sealed."""
    with diskstream.open(path, segment_bytes=1 << 16, seal="manual") as store:
        for name in ("a", "b"):
            store.stream(name).add_many([{"n": n, "pad": "." * 50} for n in range(4000)])


def on_a_terminal(*words: str, **extra: str) -> str:
    """What a verb shows on standard error where that is a terminal of 200 columns."""
    environment = {**os.environ, "COLUMNS": "200", "TERM": "xterm", **extra}
    shown, status = shown_on_a_terminal([*PROGRAM, *words], environment, output_too=False)
    assert status == 0
    return shown.decode()


@pytest.mark.parametrize("verb", ["seal", "compact"])
def test_sealing_and_compacting_show_entries_bytes_rate_and_time_left(tmp_path: Path, verb: str) -> None:
    filled(tmp_path / "store")
    shown = on_a_terminal(verb, "--dir", str(tmp_path / "store"))
    assert "ing a (1 of 2)" in shown
    assert "ing b (2 of 2)" in shown
    assert "(1 of 1)" not in on_a_terminal(verb, "a", "--dir", str(tmp_path / "store"))
    assert "/8000" in shown or "/4000" in shown
    assert "kB" in shown or "bytes" in shown
    assert ":" in shown  # the time that is left


@pytest.mark.parametrize("verb", ["seal", "verify"])
def test_a_terminal_that_moves_no_cursor_has_no_bar(tmp_path: Path, verb: str) -> None:
    """There was an empty line for each: thousands, of as many streams."""
    filled(tmp_path / "store")
    assert on_a_terminal(verb, "--dir", str(tmp_path / "store"), TERM="dumb") == ""


@pytest.mark.parametrize("verb", ["seal", "compact"])
def test_in_a_pipe_there_is_no_bar(tmp_path: Path, verb: str) -> None:
    filled(tmp_path / "store")
    words = [*PROGRAM, verb, "--dir", str(tmp_path / "store")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout


@pytest.mark.parametrize("words", [["verify"], ["repair", "--dry-run"]])
def test_reading_all_of_a_store_shows_entries_bytes_rate_and_time_left(tmp_path: Path, words: list[str]) -> None:
    filled(tmp_path / "store")
    with diskstream.open(tmp_path / "store") as store:
        store.seal()
    shown = on_a_terminal(*words, "--dir", str(tmp_path / "store"))
    assert re.search(r"[1-9],?\d* entries", shown)
    assert re.search(r"\d/\d+\.\d kB", shown)
    assert "kB/s" in shown or "MB/s" in shown
    assert re.search(r"\d:\d\d", shown)
    in_a_pipe = subprocess.run(
        [*PROGRAM, *words, "--dir", str(tmp_path / "store")], capture_output=True, text=True, check=True, timeout=60
    )
    assert in_a_pipe.stderr == ""


@pytest.mark.parametrize("damaged", [False, True])
def test_what_is_counted_before_is_what_is_read(tmp_path: Path, damaged: bool) -> None:
    """Else a bar would stop short of its end, or go beyond it."""
    with diskstream.open(tmp_path / "store", segment_bytes=1 << 14, seal="manual") as store:
        for name in ("a", "b"):
            for begin in range(0, 4000, 100):
                store.stream(name).add_many([{"n": n, "pad": "." * 50} for n in range(begin, begin + 100)])
        store.seal("a")
        assert len(list((tmp_path / "store" / "streams" / "b").glob("*.log"))) > 2
    if damaged:
        path = min((tmp_path / "store" / "streams" / "a").glob("*.seg"))
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 1
        path.write_bytes(content)
    read: list[tuple[int, int]] = []
    report = verify(tmp_path / "store", progress=lambda *one: read.append(one))
    assert report.ok == (not damaged)
    expected = bytes_to_verify(tmp_path / "store")
    headers = 256 * report.segments  # and what a log has room for
    assert expected - headers - (1 << 16) <= sum(size for _, size in read) <= expected
    assert sum(entries for entries, _ in read) == 8000
    assert bytes_to_verify(tmp_path / "store", streams=["a"]) < expected
    reread: list[tuple[int, int]] = []
    list(repair(tmp_path / "store", dry_run=True, progress=lambda *one: reread.append(one)))
    assert sum(entries for entries, _ in reread) == 8000
    assert 0 < sum(size for _, size in reread) <= expected


def test_cold_storage_shows_bytes_rate_and_time_left(tmp_path: Path) -> None:
    place, store = f"file://{tmp_path}/place", tmp_path / "store"
    with diskstream.open(store, seal="manual") as made:
        for _ in range(3):
            made.stream("x").add_many([{"n": n, "pad": "." * 50} for n in range(4000)])
            made.seal()
    (tmp_path / "place").mkdir()
    moved = on_a_terminal("cold", "move", "--to", place, "--keep-entries", "0", "--dir", str(store))
    for stub in (store / "streams").rglob("*.cold"):
        stub.unlink()
    adopted = on_a_terminal("cold", "adopt", "--from", place, "--dir", str(store))
    fetched = on_a_terminal("cold", "fetch", "--dir", str(store))
    swept = on_a_terminal("cold", "sweep", "--at", place, "--older-than", "0s", "--force", "--dir", str(store))
    for shown in (moved, adopted, fetched, swept):
        assert re.search(r"\d/\d+\.\d kB", shown), shown
        assert re.search(r"\d:\d\d", shown), shown
    assert not list((tmp_path / "place").rglob("*.seg"))
