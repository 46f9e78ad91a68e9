"""Places that cannot be opened as a store are refused before anything is copied there."""

import os
from pathlib import Path

import pytest

from diskstream import ArgumentError
from diskstream.backups import find_backup, make_backup, plan, restore, restoring
from tests.backups.world import filled

NO_UTF_8 = os.fsdecode(b"kept\xff")


def test_a_backup_where_no_store_can_be_opened_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    """All was copied, and then refused as it was read back, under a hidden name; each attempt began that again."""
    filled(tmp_path / "store").close()
    with pytest.raises(ArgumentError, match="must be UTF-8") as refused:
        make_backup(tmp_path / "store", tmp_path / NO_UTF_8)
    assert ".new-" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_restore_to_where_no_store_can_be_opened_is_refused_and_so_is_its_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan said that it would do, and it was refused when all was copied."""

    def begun(_: Path) -> None:
        raise AssertionError("it has begun to copy")

    monkeypatch.setattr(restoring, "hidden", begun)
    filled(tmp_path / "store").close()
    make_backup(tmp_path / "store", tmp_path / "backups")
    for attempt in (plan, restore):
        with pytest.raises(ArgumentError, match="must be UTF-8"):
            attempt(find_backup(tmp_path / "backups"), tmp_path / "new" / NO_UTF_8)
    assert not (tmp_path / "new").exists()
