"""An import whose rows could not be flushed: it says which are on disk, and run again it has each of them once.

The disk is one that forgets: what a failed flush was for counts as clean, so the next flush succeeds without it, and in
the end only what was really written is there."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.engine.files import Files, LogFileLike
from tests.engine.stand_ins import Watched, _WatchedLog, failure

ROWS = [b"v%04d %s" % (at, b"." * 40) for at in range(1500)]
_PAGE = 4096


class _ForgetfulLog(_WatchedLog):
    """A log of which the disk has those pages that a flush which succeeded found dirty."""

    def __init__(self, path: Path, log: LogFileLike, disk: "ForgetfulDisk") -> None:
        super().__init__(path, log, disk)
        self._dirty: set[int] = set()
        self._disk = disk
        disk.durable.setdefault(path, path.read_bytes())

    def _touch(self, offset: int, size_bytes: int) -> None:
        self._dirty.update(range(offset // _PAGE, -(-(offset + size_bytes) // _PAGE)))

    def store(self, offset: int, data: bytes) -> None:
        super().store(offset, data)
        self._touch(offset, len(data))

    def pwrite(self, offset: int, data: bytes) -> None:
        super().pwrite(offset, data)
        self._touch(offset, len(data))

    def pwrite_sync(self, offset: int, data: bytes) -> None:
        super().pwrite_sync(offset, data)
        before = self._disk.durable[self._path]
        self._disk.durable[self._path] = before[:offset] + data + before[offset + len(data) :]

    def extend(self, size_bytes: int) -> None:
        before = self.size_bytes
        super().extend(size_bytes)
        self._touch(before, size_bytes - before)

    def flush(self) -> None:
        dirty, self._dirty = self._dirty, set()
        super().flush()
        cached = self._path.read_bytes()
        durable = bytearray(self._disk.durable[self._path].ljust(len(cached), b"\0"))
        for page in dirty:
            durable[page * _PAGE : (page + 1) * _PAGE] = cached[page * _PAGE : (page + 1) * _PAGE]
        self._disk.durable[self._path] = bytes(durable)


class ForgetfulDisk(Watched):
    """Lets the flush of that number fail, counted from 1."""

    def __init__(self, nth: int) -> None:
        super().__init__(self)
        self.left, self.durable = nth, dict[Path, bytes]()

    def __call__(self, kind: str, path: Path) -> None:
        self.left -= kind == "flush"
        if kind == "flush" and self.left == 0:
            raise failure(path, kind, errno.EIO)

    def open_log(self, path: Path, *, writable: bool) -> LogFileLike:
        log = Files.open_log(self, path, writable=writable)
        return _ForgetfulLog(path, log, self) if writable else log

    def forget(self) -> None:
        """The page cache is gone."""
        for path, content in self.durable.items():
            if path.exists():
                path.write_bytes(content)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"ms,value\n" + b"".join(b"%d,%s\n" % (1_000_000 + at, row) for at, row in enumerate(ROWS)))
    return path


def imported(monkeypatch: pytest.MonkeyPatch, files: Files, *words: object, given: bytes | None = None) -> Result:
    real = diskstream.open

    def opened(path: Any, **options: Any) -> diskstream.Store:
        return real(path, files=files, segment_bytes=32 << 10, seal="manual", **options)

    with monkeypatch.context() as patched:
        patched.setattr(diskstream, "open", opened)
        command = ["import", "-s", "x", "--batch", "50", "-t", "ms", "--timestamp-format", "epoch-ms"]
        return CliRunner().invoke(main, [*command, *map(str, words)], input=given)


def values(store: Path) -> list[bytes]:
    with diskstream.open(store, read_only=True) as opened:
        return [entry["value"] for entry in opened.stream("x")]


def each_flush(monkeypatch: pytest.MonkeyPatch, place: Path, *words: object) -> Iterator[tuple[Path, Result]]:
    """The import with its first flush failing, its second, and so on; behind each the page cache goes."""
    for nth in range(1, 100):
        disk = ForgetfulDisk(nth)
        store = place / f"{nth}"
        result = imported(monkeypatch, disk, "-d", store, *words)
        if disk.left > 0:
            assert result.exit_code == 0
            return
        disk.forget()
        yield store, result
    raise AssertionError("no end of flushes")


@pytest.mark.parametrize("fsync", ["os", "always"])
def test_whichever_flush_fails_what_is_said_to_be_safe_is_and_the_same_again_has_each_row_once(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch, fsync: str
) -> None:
    """It said to close the store and open it again, and nothing of the rows."""
    told = set()
    for store, result in each_flush(monkeypatch, tmp_path, "--fsync", fsync, csv):
        assert result.exit_code == 1
        hint = " ".join(result.stderr.partition("hint:")[2].split())
        if "all rows are imported and on disk" in hint:  # only that it is over could not be noted
            assert values(store) == ROWS
            continue
        safe, _, way_out = hint.partition("; ")
        if safe == "nothing of x is known to be on disk":
            told.add("nothing")
        elif safe:
            told.add("some")
            ms = int(safe.partition("up to the ID ")[2].partition("-")[0])
            assert f"with {ms - 999_999:,} entries" in safe
            assert values(store)[: ms - 999_999] == ROWS[: ms - 999_999]
        if safe:
            assert "run the same again: it looks which rows are there, and goes on behind them" in way_out
        assert imported(monkeypatch, Files(), "-d", store, "--fsync", fsync, csv).exit_code == 0
        assert values(store) == ROWS
    assert "some" in told


def test_what_comes_from_a_pipe_is_not_told_to_be_gone_on_with(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = ForgetfulDisk(3)
    words = ("-d", tmp_path / "s", "--format", "csv", "--fsync", "os", "-")
    told = imported(monkeypatch, disk, *words, given=csv.read_bytes())
    assert told.exit_code == 1
    assert "x is on disk up to the ID 1000" in told.stderr
    assert "import all of it into another stream" in told.stderr
    assert "run the same again" not in told.stderr
