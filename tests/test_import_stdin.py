"""Standard input that is closed, or set not to block, and files that fail while they are read."""

import errno
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.ingest import Row, Source, lines


def test_a_closed_one_is_no_empty_one(tmp_path: Path) -> None:
    """No row was imported, with status 0."""
    words = ["import", "-", "-d", str(tmp_path / "s"), "-s", "k"]
    command = [sys.executable, "-c", "from diskstream.cli import main; main()", *words]
    closed = subprocess.run(["/bin/sh", "-c", '"$@" <&-', "sh", *command], check=False, capture_output=True, text=True)
    assert closed.returncode == 1, closed
    assert "standard input is closed" in closed.stderr
    assert not (tmp_path / "s").exists()


def test_one_that_does_not_block_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback where nothing was there yet."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    parts = [b"o", b"ne\ntw", b"o\n", None]

    def wait(*_: Any) -> None:
        part = parts.pop(0)
        if part is None:
            os.close(write)
        else:
            os.write(write, part)

    with os.fdopen(read, "rb") as file, monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", SimpleNamespace(buffer=file))
        patched.setattr(select, "select", wait)
        rows = list(Source("-").rows())
    assert [row.pairs for row in rows if isinstance(row, Row)] == [[(b"line", b"one")], [(b"line", b"two")]]
    assert not parts


def test_a_file_that_cannot_be_read_further_is_no_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "one.log"
    file.write_text("".join(f"{at:0600}\n" for at in range(5_000)))
    real, left = lines.read_some, [5]

    def read_some(*given: Any) -> bytes:
        left[0] -= 1
        if not left[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*given)

    words = ["import", str(file), "-d", str(tmp_path / "s"), "-s", "k"]
    with monkeypatch.context() as patched:
        patched.setattr(lines, "read_some", read_some)
        failed = CliRunner().invoke(main, words)
    assert failed.exit_code == 1, failed.exception
    told = " ".join(failed.output.split())
    assert "cannot be read: Input/output error hint: " in told
    assert "rows before it were imported; run the same again once that is mended" in told
    assert CliRunner().invoke(main, words).exit_code == 0
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert [entry[b"line"] for entry in store.stream("k")] == [b"%0600d" % at for at in range(5_000)]


def test_one_that_was_stopped_is_not_said_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint was to run it again, as with files: then the rows before were there twice."""
    real, left = diskstream.Stream.add_many, [2]

    def add(*given: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(*given, **named)

    monkeypatch.setattr(diskstream.Stream, "add_many", add)
    words = ["import", "-", "-d", str(tmp_path / "s"), "-s", "k", "--batch", "10"]
    result = CliRunner().invoke(main, words, input="".join(f"{n}\n" for n in range(50)))
    assert result.exit_code == 1
    assert "error: it was stopped before it was done" in result.stderr
    assert "would be there twice: import all of it into another stream" in result.stderr
    assert "run it again" not in result.stderr
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert len(store.stream("k")) == 20


IMPORT = [
    sys.executable,
    "-c",
    "from diskstream.cli import main; main()",
    "import",
    "-",
    "--format",
    "lines",
    "-s",
    "k",
]


def test_rows_of_a_pipe_that_stays_open_do_not_wait_for_more(tmp_path: Path) -> None:
    """Of `tail -f LOG | diskstream import -` nothing was there before 256 KiB had come, and a signal lost all of it."""
    with diskstream.open(tmp_path / "s") as store, importing(tmp_path / "s") as (running, pipe):
        seen: list[diskstream.Entry] = []
        for written, count in ((b"one\n", 1), (b"two\nthree\n", 3)):
            pipe.write(written)
            pipe.flush()
            while len(seen) < count:
                come = store.read({"k": seen[-1].id if seen else "0"}, block=30.0)
                assert come, seen
                seen += come[b"k"]
        running.terminate()
        assert running.wait(30) == 1
        assert [entry[b"line"] for entry in store.stream("k")] == [b"one", b"two", b"three"]


def test_nor_do_those_that_come_with_never_a_pause(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store, importing(tmp_path / "s") as (running, pipe):
        for _ in range(300):
            pipe.write(b"a line\n")
            pipe.flush()
            if store.read({"k": "0"}, block=0.1):
                break
        assert store.stream("k").exists()
        pipe.close()
        assert running.wait(30) == 0


@contextmanager
def importing(store: Path) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """An import into the stream `k` of what is written into the pipe."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen([*IMPORT, "-d", store], stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere) as running:
        assert running.stdin is not None
        try:
            yield running, running.stdin
        finally:
            running.kill()
