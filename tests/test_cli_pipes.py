"""What is printed into a pipe comes there whole, or the command ends with 1: quietly, where the reader has enough."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream

PROGRAM = [sys.executable, "-m", "diskstream"]
STREAMS = 300
PAGE = 4096  # of memory: the least that a pipe holds


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Of whatever is printed of it, much more than a pipe of one page holds."""
    with diskstream.open(tmp_path / "store", fsync="os") as filled:
        filled.stream("s").add_many([{"n": n, "noise": os.urandom(40).hex()} for n in range(2000)])
        for number in range(STREAMS):
            filled.stream(f"stream-{number}").add({"n": number}, id="1-0")
    return tmp_path / "store"


def read_a_byte(store: Path, *words: str, **extra: str) -> tuple[int, bytes]:
    """The verb into a pipe whose reader takes one byte and goes: its status, and what it said."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PAGE)
    environment = {**os.environ, "DISKSTREAM_DIR": str(store), **extra}
    with subprocess.Popen([*PROGRAM, *words], stdout=writer, stderr=subprocess.PIPE, env=environment) as process:
        os.close(writer)
        assert len(os.read(reader, 1)) == 1
        os.close(reader)
        _, said = process.communicate(timeout=60)
    return process.returncode, said


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [
        "range s",
        "range s --json",
        "tail s -n 1000",
        "tail s -n 1000 --json",
        "export s -o -",
        "export s -o - --format csv",
        "export s -o - --format arrow",
        "export s -o - --format parquet",
        "replay s --to -",
        "ls",
        "ls --json",
    ],
)
def test_a_reader_that_goes_before_all_was_written_ends_it_with_1(store: Path, words: str, unbuffered: str) -> None:
    """`tail` ended with 0; so did all that was unbuffered, as Python is in containers, whose last write fell short."""
    assert read_a_byte(store, *words.split(), PYTHONUNBUFFERED=unbuffered) == (1, b"")


@pytest.mark.parametrize(
    "words",
    [
        *("range s", "export s -o -", "tail s", "ls --json", "replay s --to -", "count s"),
        *("group ls s", "group pending s nobody --json", "group info s nobody", "consumer ls s nobody"),
        *("retention show", "cold ls", "backup ls backups"),
    ],
)
def test_what_has_nowhere_to_go_is_an_error(store: Path, words: str) -> None:
    """It went nowhere, with status 0: a script took the export for complete."""
    line = 'exec "$@" >&-'
    command = ["bash", "-c", line, "bash", *PROGRAM, *words.split()]
    environment = {**os.environ, "DISKSTREAM_DIR": str(store)}
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=environment, check=False, timeout=60)
    assert done.returncode == 1
    assert "error: standard output is closed: there is nowhere to write to" in done.stderr
    assert "hint: > /dev/null" in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_that_is_set_not_to_block_loses_nothing_in_silence(store: Path, unbuffered: str) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PAGE)
    os.set_blocking(writer, False)
    environment = {**os.environ, "DISKSTREAM_DIR": str(store), "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        [*PROGRAM, "range", "s"], stdout=writer, stderr=subprocess.PIPE, text=True, env=environment, check=False
    )
    os.close(writer)
    os.close(reader)
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
