"""Moving segments out of a disk that has no room for a second copy of one: that is what makes room there."""

from pathlib import Path

import pytest

import diskstream
from diskstream.cold import move_out
from diskstream.engine import cold_cache
from diskstream.engine.files import Files, NewFile
from tests.cold.world import filled, opened, rows


class NoRoom(Files):
    """A disk that has room for a stub, and none for a segment."""

    def __init__(self) -> None:
        self.full = True

    def create(self, path: Path) -> NewFile:
        if self.full and path.parent.name == "cold-cache":
            raise diskstream.DiskFullError(str(path), "create", 28, "No space left on device")
        return super().create(path)


def test_what_is_read_back_wants_no_room_on_the_disk_that_is_full(tmp_path: Path) -> None:
    """Each segment was fetched into the cache, on the very disk, before its file went: nothing could be moved."""
    files = NoRoom()
    with opened(tmp_path / "s", files=files) as store:
        stream = filled(store)
        before = rows(stream)
        assert len(move_out(stream, f"file://{tmp_path}/place", keep_entries=100).segments) > 3
        info = stream.info()
        assert info.cold_segments > 3
        assert info.first_entry is None, "it is away, and there is no room to fetch it"
        assert store.verify(cold=True).ok
        files.full = False
        assert rows(stream) == before


def test_what_is_too_large_for_memory_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_cache, "MAX_IN_MEMORY_BYTES", 100)
    with opened(tmp_path / "s", files=NoRoom()) as store:
        stream = filled(store)
        with pytest.raises(diskstream.DiskFullError):
            move_out(stream, f"file://{tmp_path}/place", keep_entries=100)
        assert stream.info().cold_segments == 0
