"""Writes a place with a file of every kind, and what must be read out of it: ``python -m tests.golden.generate``.

It is run once for each version of the format, and its files are then never written again. They are in ``v<version>/``:
``place.tar.gz`` and ``expected.json``.
"""

import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from diskstream._native import FORMAT_VERSION
from tests.golden.described import PLACE, described
from tests.rot import world

__all__ = ["main"]

HERE = Path(__file__).resolve().parent


def _fill(root: Path) -> None:
    with world.fill_store(root / "store", PLACE) as store:
        world.archive_into(store)
        store.lease(["ruled"])
    world.serve_from(root / "store")
    world.back_up(root / "store", root / "backups")
    world.export_from(root / "store", root / "export")


def main(version: int = FORMAT_VERSION) -> None:
    """Writes it, unless it is there."""
    target = HERE / f"v{version}"
    if target.exists():
        raise SystemExit(f"{target} is there: what an older version has written is not written again")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.chdir(root)
        _fill(root)
        copy = root / "copy"
        copy.mkdir()
        with tarfile.open(root / "place.tar.gz", "w:gz", compresslevel=9) as packed:
            for name in ("store", "place", "backups", "export"):
                packed.add(root / name, name)
        with tarfile.open(root / "place.tar.gz") as packed:
            packed.extractall(copy, filter="data")
        os.chdir(copy)
        expected = described(copy)
        os.chdir(HERE)
        target.mkdir()
        shutil.copy(root / "place.tar.gz", target)
        (target / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
