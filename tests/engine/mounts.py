"""Small file systems of a test's own, where this process may mount some."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _run(*command: str) -> str:
    """Empty, or why it failed."""
    if shutil.which(command[0]) is None:
        return f"there is no {command[0]}"
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


@contextmanager
def mounted(at: Path, *arguments: str) -> Iterator[Path]:
    """Mounts something at a new directory, and takes it away afterwards. Skips the test where that is not allowed."""
    at.mkdir(exist_ok=True)
    if why := _run("mount", *arguments, str(at)):
        pytest.skip(f"needs to mount a file system: {why}")
    try:
        yield at
    finally:
        _run("umount", "--lazy", str(at))


@contextmanager
def small_disk(at: Path, size: str = "1m") -> Iterator[Path]:
    """A file system of its own with little room."""
    with mounted(at, "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs") as disk:
        yield disk


@contextmanager
def unwritable(path: Path, at: Path) -> Iterator[Path]:
    """The same directory again at another place, where it is mounted for reading only."""
    with mounted(at, "--bind", str(path)) as view:
        if why := _run("mount", "-o", "remount,bind,ro", str(view)):
            pytest.skip(f"needs to mount for reading only: {why}")
        yield view


def fill(disk: Path) -> Path:
    """A file that takes all the room there is."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            with contextlib.suppress(OSError):
                while file.write(b"\xff" * size) == size:
                    pass
    return filler
