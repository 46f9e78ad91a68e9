"""Writes a place with a file of every kind, and what must be read out of it: ``python -m tests.golden.generate``.

It is run once for each version of the format, and its files are then never written again. They are in ``v<version>/``:
``place.tar.gz`` and ``expected.json``. What came to a version later, and changes nothing for whoever does not know it,
has a store of its own in ``added/``: page rows of the index of a large segment.
"""

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

import diskstream
from diskstream._native import FORMAT_VERSION
from tests.golden.described import PLACE, described
from tests.rot import world

__all__ = ["PAGED", "PAGED_ENTRIES", "main", "paged_row"]

HERE = Path(__file__).resolve().parent
PAGED = HERE / "added" / "page-rows.tar.gz"
PAGED_ENTRIES = 700  # in nodes of two: three pages of the index, the last one not full


def _fill(root: Path) -> None:
    with world.fill_store(root / "store", PLACE) as store:
        world.archive_into(store)
        store.lease(["ruled"])
    world.serve_from(root / "store")
    world.back_up(root / "store", root / "backups")
    world.export_from(root / "store", root / "export")


def paged_row(number: int) -> dict[str, str]:
    """The fields of an entry of the store with page rows."""
    return {"n": str(number), "digest": hashlib.sha256(str(number).encode()).hexdigest()[:8]}


def _pages(root: Path) -> None:
    with diskstream.open(root / "store", seal="manual", node_max_entries=2, clock=world.counting_clock()) as store:
        stream = store.stream("paged")
        ids = [f"{number}-1" for number in range(1, PAGED_ENTRIES + 1)]
        stream.add_many([paged_row(number) for number in range(1, PAGED_ENTRIES + 1)], ids=ids)
        store.seal()
        stream.delete("3-1", "520-1")


def main(version: int = FORMAT_VERSION) -> None:
    """Writes it, unless it is there."""
    if not PAGED.exists():
        PAGED.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            _pages(Path(folder))
            with tarfile.open(PAGED, "w:gz", compresslevel=9) as packed:
                packed.add(Path(folder) / "store", "store")
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
