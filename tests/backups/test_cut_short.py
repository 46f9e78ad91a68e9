"""A log that somebody cuts while it is copied: told, and not read from for ever."""

from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError, EntryID
from diskstream.engine import backup
from diskstream.engine.files import Files
from tests.streams.layers import log_of


@pytest.fixture
def cut(tmp_path: Path) -> backup.Cut:
    """All of a log, of which somebody has cut the half by now."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add_many([{"n": "x" * 100}] * 50)
        place = log_of(store).directory
    found = backup.find_cut(place, EntryID(2**64 - 1, 0))
    with found.path.open("r+b") as file:
        file.truncate(found.end // 2)
    return found


@pytest.mark.timeout(30)
def test_it_is_no_endless_copy(cut: backup.Cut, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with pytest.raises(CorruptionError, match="it was cut"):
        backup.cut_log(cut, tmp_path / "target", Files())
    with pytest.raises(CorruptionError, match="it was cut"):
        list(backup._frames(cut.path, cut.end))
