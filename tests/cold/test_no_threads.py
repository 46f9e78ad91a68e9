"""Object storage where the system gives a process no more threads."""

import threading
from pathlib import Path

import pytest

from diskstream import Stream
from diskstream.cold import bring_back, move_out
from diskstream.errors import RemoteError
from tests.cold.s3_server import Door
from tests.cold.world import rows, where


def refuse(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_what_is_in_a_folder_is_read_without_a_thread(
    stream: Stream, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that had been read whole could not be closed beside, and that ended the read with a RuntimeError."""
    before = rows(stream)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        move_out(stream, folder_place, older_than_ms=0)
        assert "cold" in where(stream)
        assert rows(stream) == before


def test_a_storage_that_cannot_be_asked_is_told_as_one_that_does_not_answer(
    stream: Stream, door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a RuntimeError, which no caller catches and no command tells."""
    before = rows(stream)
    move_out(stream, door.url(tmp_path.name), older_than_ms=0)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RemoteError, match="could not start a thread: can't start new thread"):
            bring_back(stream)
    assert rows(stream) == before
