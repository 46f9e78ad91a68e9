"""A view that is thrown away, or a fork, while other threads are in its transactions."""

import errno
import os
import threading
import time
from pathlib import Path

import lmdb
import pytest

from diskstream import StorageError
from diskstream.engine.state import View, open_view
from tests.engine.children import LIMIT_S


def _in_a_transaction(view: View) -> tuple[threading.Thread, threading.Event]:
    """A thread that is in one until the event says that it may leave."""
    inside, leave = threading.Event(), threading.Event()

    def stay(txn: object) -> None:
        inside.set()
        leave.wait(LIMIT_S)

    thread = threading.Thread(target=view.read, args=(stay,))
    thread.start()
    assert inside.wait(LIMIT_S)
    return thread, leave


def test_a_view_is_thrown_away_when_the_last_thread_has_left_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = open_view(tmp_path / "view")
    view.write(lambda txn: txn.put(b"key", b"value"))
    thread, leave = _in_a_transaction(view)
    waits = threading.Event()
    monkeypatch.setattr(time, "sleep", lambda _: waits.set())
    discards = threading.Thread(target=view.discard)
    discards.start()
    assert waits.wait(LIMIT_S)
    assert view._env is not None
    leave.set()
    for each in (thread, discards):
        each.join(LIMIT_S)
        assert not each.is_alive()
    assert view.read(lambda txn: txn.get(b"key")) is None
    view.close()


def test_a_thread_that_comes_as_the_view_is_closed_waits_and_opens_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told of an attempt to operate on a closed object, for as long as the flushes behind that took."""
    view, found = open_view(tmp_path / "view"), list[bool]()
    view.read(lambda _: True)
    whole = View._write_epoch
    comes = threading.Thread(target=lambda: found.append(view.read(lambda _: True)))

    def noted(closing: View, text: str) -> None:
        whole(closing, text)
        if comes.ident is None:
            comes.start()
            comes.join(0.05)  # where it does not wait for this thread, it is done by then

    monkeypatch.setattr(View, "_write_epoch", noted)
    view.close()
    comes.join(LIMIT_S)
    assert found == [True]
    view.close()


def test_a_handler_within_a_transaction_is_told_that_the_view_cannot_grow_now(tmp_path: Path) -> None:
    """It waited for ever for the transaction that it had interrupted."""
    view, told = open_view(tmp_path / "view"), list[StorageError]()

    def full(txn: object) -> None:
        raise lmdb.MapFullError("full")

    def interrupted(txn: object) -> None:
        with pytest.raises(StorageError, match="signal handler") as caught:
            view.write(full)
        told.append(caught.value)

    thread = threading.Thread(target=view.read, args=(interrupted,), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert [error.errno for error in told] == [errno.EBUSY]
    view.write(lambda txn: txn.put(b"key", b"value"))
    assert view.read(lambda txn: txn.get(b"key")) == b"value"
    view.close()


def test_a_fork_waits_for_the_threads_in_a_transaction_and_the_child_goes_on(tmp_path: Path) -> None:
    view = open_view(tmp_path / "view")
    view.write(lambda txn: txn.put(b"key", b"value"))
    thread, leave = _in_a_transaction(view)
    threading.Timer(0.05, leave.set).start()
    pid = os.fork()
    if pid == 0:
        found = open_view(tmp_path / "view").read(lambda txn: txn.get(b"key"))
        os._exit(0 if found == b"value" else 1)
    assert not thread.is_alive() or leave.is_set()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    thread.join(LIMIT_S)
    assert view.read(lambda txn: txn.get(b"key")) == b"value"  # and so does the parent
    another, leave = _in_a_transaction(view)  # and its other threads
    leave.set()
    another.join(LIMIT_S)
    view.close()
