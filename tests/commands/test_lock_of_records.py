"""Who changes what is known of keys is alone with it: whatever ended an earlier wait, and whoever was forked then."""

import contextlib
import fcntl
import os
from pathlib import Path

import pytest

from diskstream.commands.keyspace import Keyspace
from tests.engine.interruption import Interruption


def is_held(path: Path) -> bool:
    """Whether another opening of the lock's file has the lock."""
    fd = os.open(path / "keys" / "lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


class Interrupted(BaseException):
    """What a signal handler raises."""


def test_an_interrupted_wait_leaves_no_change_without_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(fd: int, operation: int) -> None:
        raise Interrupted

    with Keyspace(tmp_path, fsync="os") as keyspace:
        with monkeypatch.context() as patched, pytest.raises(Interrupted):
            patched.setattr(fcntl, "flock", interrupted)
            keyspace.put_values(0, b"k", "string", (b"1",))
        with keyspace.changing(), keyspace.changing():
            assert is_held(tmp_path)
        assert not is_held(tmp_path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file may be closed by being dropped
def test_an_interrupt_at_any_moment_leaves_the_lock_to_all(tmp_path: Path) -> None:
    nth, done = 0, False
    with Keyspace(tmp_path, fsync="os") as keyspace:
        while not done:
            nth += 1
            interruption = Interruption(nth)
            with contextlib.suppress(KeyboardInterrupt):
                interruption.begin()
                try:
                    with keyspace.changing():
                        pass
                finally:
                    interruption.end()
            done = interruption.left > 0
            assert not is_held(tmp_path), interruption.place
            with keyspace.changing():
                assert is_held(tmp_path), interruption.place
    assert nth > 20


def test_a_child_that_goes_on_for_long_keeps_nobody_from_changing(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with Keyspace(tmp_path, fsync="os") as keyspace:
        with keyspace.changing():
            child = os.fork()
            if child == 0:
                os.close(writer)
                os.read(reader, 1)  # until its parent says so
                os._exit(0)
        held = is_held(tmp_path)
        os.close(writer)
        os.close(reader)
        assert os.waitpid(child, 0)[1] == 0
    assert not held
