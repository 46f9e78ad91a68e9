"""A stream whose name cannot be read, in a backup of some streams: taken as it is, and told of if it may be meant."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diskstream.backups import Settings, find_backup, make_backup
from diskstream.engine import files, names
from diskstream.store_files import directory_of
from tests.backups.world import LONG, filled


def rots(name: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name.write_bytes(b"?")


def cannot_be_read(name: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = files.reading

    def failing(path: Path) -> Any:
        if path == name:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return whole(path)

    monkeypatch.setattr(names, "reading", failing)


@pytest.mark.parametrize("spoil", [rots, cannot_be_read], ids=lambda spoil: spoil.__name__)
@pytest.mark.parametrize(
    ("patterns", "is_meant"),
    [((b"x", b"long/*"), True), ((b"x", LONG), True), ((b"x",), False), ((b"long/*",), True), ((b"no*",), True)],
)
def test_it_is_not_missing_without_a_word(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path, pytest.MonkeyPatch], None],
    patterns: tuple[bytes, ...],
    is_meant: bool,
) -> None:
    """The backup had the others, said that all was well, and ended with status 0."""
    with filled(tmp_path / "store") as store:
        folder = store.path / "streams" / directory_of(LONG)
        spoil(folder / "name", monkeypatch)
        made = make_backup(store.path, tmp_path / "backups", Settings(patterns=patterns))
    kept = [each.path.rpartition("/")[2] for each in made.streams]
    assert (folder.name in kept) == is_meant
    assert len(made.damaged) == int(is_meant)
    header = find_backup(made.path).header
    assert header is not None
    assert header.damaged == int(is_meant)
    assert ("x" in kept) == (b"x" in patterns)
