"""What a subject is given: how long to measure, where to put data, where the real data is, and how to say so."""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
NOT_A_DISK = frozenset({"tmpfs", "ramfs", "devtmpfs"})


@dataclass(frozen=True)
class Scale:
    """How much is done.

    `seconds` a turn, `rounds` of turns, `entries` stored to be read, `wakes` a turn, entries `pending` in a group,
    entries added `per_second` where a server's latency is measured.
    """

    seconds: float
    rounds: int
    entries: int
    wakes: int
    pending: int
    per_second: int = 1500


# Meant to end within a quarter of an hour on two cores; the page says the seconds of each subject.
FULL = Scale(seconds=1.0, rounds=3, entries=1_000_000, wakes=500, pending=3_000_000)
QUICK = Scale(seconds=0.5, rounds=3, entries=200_000, wakes=100, pending=300_000)


@dataclass
class Context:
    """One run's settings and its scratch directory."""

    scale: Scale
    scratch: Path
    quiet: bool = False
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def seconds(self) -> float:
        return self.scale.seconds

    @property
    def rounds(self) -> int:
        return self.scale.rounds

    def say(self, text: str) -> None:
        """Progress, on standard error, in place of the line before where that is a terminal."""
        if not self.quiet:
            terminal = sys.stderr.isatty()
            print(
                f"\r\x1b[K  {text}" if terminal else f"  {text}",
                end="" if terminal else "\n",
                file=sys.stderr,
                flush=True,
            )

    @contextmanager
    def fresh(self, name: str) -> Iterator[Path]:
        """A path in the scratch directory where nothing is yet; whatever is there afterwards is removed."""
        path = self.scratch / f"{name}-{next(self._numbers)}"
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def real_data() -> Path | None:
    """The directory with the real data beside the checkout, if it is there."""
    path = CHECKOUT.parent / "shared" / "data"
    return path if (path / "nab.zip").exists() and (path / "loghub.zip").exists() else None


def file_system(path: Path) -> str:
    """The type of the file system that holds `path`, from the mount table."""
    best, kind = "", "unknown"
    target = str(path.resolve())
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        mount = before.split()[4].encode().decode("unicode_escape")
        inside = target == mount or target.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, after.split()[0]
    return kind


@contextmanager
def scratch_directory(parent: Path | None) -> Iterator[Path]:
    """A directory on the file system of the checkout (or in `parent`), removed afterwards. Memory is refused."""
    home = (parent or CHECKOUT / "bench").resolve()
    home.mkdir(parents=True, exist_ok=True)
    kind = file_system(home)
    if kind in NOT_A_DISK:
        raise SystemExit(
            f"bench: {home} is on {kind}, which has no disk to flush: give a directory on a disk with --dir"
        )
    path = Path(tempfile.mkdtemp(prefix=".data-", dir=home))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
