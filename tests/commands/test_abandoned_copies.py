"""What COPY, MOVE or RESTORE was making when it was killed: hidden from everybody, and removed by a server."""

import os
from pathlib import Path

import pytest

import diskstream
from diskstream.commands.key_sweeping import _ABANDONED_S
from diskstream.copying import UNFINISHED, temporary_name
from tests.server.turns import Turns

_RESTORED = UNFINISHED + b"restore-0123456789abcdef"  # which `diskstream restore` goes on with


def _age(store: Path, seconds: float) -> None:
    """Makes all files of the streams older."""
    for path in store.glob("streams/*/*"):
        at = path.stat().st_mtime - seconds
        os.utime(path, (at, at))


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A store with streams that nobody finished."""
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        for name in (b"s", temporary_name(), temporary_name(), _RESTORED):
            store.stream(name).add({"n": 1})
    return tmp_path / "store"


def test_what_a_killed_copy_left_goes_after_an_hour(left: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It stayed for good, of the size of the stream, and no command told of it."""
    _age(left, _ABANDONED_S + 60)
    with Turns(left) as turns:
        turns.second()
        assert turns.server.keyspace.store(0).streams(unfinished=True) == [_RESTORED, b"s"]
    assert "removed 2 streams that unfinished copies left" in caplog.text


def test_one_that_somebody_is_making_stays(left: Path) -> None:
    _age(left, _ABANDONED_S - 60)  # it may wait for its source
    with Turns(left) as turns:
        turns.second()
        assert len(turns.server.keyspace.store(0).streams(unfinished=True)) == 4
    _age(left, 120)
    with diskstream.open(left, fsync="os") as other:
        made = sorted({*other.streams(unfinished=True)} - {b"s", _RESTORED})
        assert len(other.stream(made[0])) == 1  # it has it open
        with Turns(left) as turns:
            turns.second()
            assert made[0] in other.streams(unfinished=True)
            assert made[1] not in other.streams(unfinished=True)
