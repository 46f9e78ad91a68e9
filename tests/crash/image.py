"""A rebuilt state as real files, with whatever the control pages may hold after a power cut."""

import random
import shutil
from pathlib import Path

from diskstream._native import CTL_BYTES
from tests.crash.events import Tree

__all__ = ["control_page", "materialise", "snapshot"]


def materialise(tree: Tree, target: Path, pages: dict[str, bytes]) -> None:
    """Writes a tree below `target`, which is emptied first, and the control pages of its directories."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path, data in tree.items():
        if data is None:
            (target / path).mkdir()
        else:
            (target / path).write_bytes(data)
    for directory, page in pages.items():
        if (target / directory).is_dir():
            (target / directory / "ctl").write_bytes(page)


def control_page(rng: random.Random, before: bytes | None) -> bytes | None:
    """What is left of a control page, which nobody ever flushes: nothing, anything, or a page of the boot before."""
    match rng.randrange(5):
        case 0:
            return None
        case 1:
            return rng.randbytes(CTL_BYTES)
        case 2:
            return bytes(rng.choice((0, 100, CTL_BYTES)))
        case 3 if before is not None:
            sectors = [before[at : at + 512] for at in range(0, CTL_BYTES, 512)]
            return b"".join(sector if rng.random() < 0.8 else rng.randbytes(512) for sector in sectors)
        case _:
            return before


def snapshot(root: Path) -> Tree:
    """What is below `root` now, control pages left out."""
    return {
        path.relative_to(root).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.name != "ctl"
    }
