"""Ctrl-C ends whatever waits, and leaves no lock behind."""

import signal
from pathlib import Path

import pytest

import diskstream
from diskstream.engine import page
from diskstream.engine.state import View
from tests.engine.children import child, until
from tests.engine.half_closed import ENDS, let_go_everywhere
from tests.engine.interruption import (
    WORKS,
    interrupt_as_another_gives_way,
    interrupt_as_one_is_alone_with_a_file,
    interrupt_everywhere,
    open_below,
)
from tests.engine.sample import SMALL, log_of
from tests.engine.users import add_from_a_handler, end_without_closing, wait_for

WAITS = [
    "read",
    "read a missing stream",
    "read two",
    "tail",
    "read-only",
    "add",
    "add durably",
    "trim",
    "seal",
    "new stream",
]


@pytest.mark.parametrize("waiting", WAITS)
def test_ctrl_c_ends_a_wait_and_the_process_goes_on(tmp_path: Path, waiting: str) -> None:
    """Reads wait for entries; writes wait for a lock that this test holds."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "0"})
        log = log_of(store)
        with child(wait_for, tmp_path / "s", waiting) as waiter:
            assert waiter.hear() == "open"
            with log.ctl.locked(page.APPEND), store._page.ctl.locked(page.APPEND):
                waiter.tell()
                assert waiter.hear() == "waiting"
                until(lambda: asleep(waiter.pid))
                waiter.process.send_signal(signal.SIGINT)
                assert waiter.hear() == "KeyboardInterrupt"
            waiter.tell()
            assert waiter.hear() == "added"
            assert waiter.wait() == 0
        store.stream("x").add({"n": "2"})


def asleep(pid: int) -> bool:
    """Whether a process waits, as far as that can be seen from outside."""
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize("name", WORKS)
def test_ctrl_c_at_any_moment_leaves_the_store_usable(name: str) -> None:
    """Not for who was interrupted only, who may have to open it again, but for all who share it."""
    with child(interrupt_everywhere, name) as worker:
        *complaints, last = [line for line in worker.rest() if not line.startswith("at ")] or ["died"]
        assert worker.wait() == 0
    assert complaints == []
    word, count = last.split()
    assert word == "moments"
    assert int(count) > 30, "too few moments to mean anything"


@pytest.mark.parametrize("end", ENDS)
def test_a_store_whose_closing_was_interrupted_lets_go_of_all_when_it_is(end: str) -> None:
    """Dropped, it kept its threads and files until the process ended, as it was closed already."""
    with child(let_go_everywhere, end) as worker:
        *complaints, last = [line for line in worker.rest() if not line.startswith("at ")] or ["died"]
        assert worker.wait() == 0
    assert complaints == []
    word, count = last.split()
    assert word == "moments"
    assert int(count) > 30, "too few moments to mean anything"


def test_ctrl_c_is_heard_as_a_stream_is_closed_for_another_one() -> None:
    """It was printed and lost: that was done as the log was collected. What a collection does now are single steps."""
    with child(interrupt_as_another_gives_way) as worker:
        moments, lost = map(int, worker.hear().split())
        assert worker.wait() == 0
    assert moments > 100
    assert lost * 20 < moments


def test_ctrl_c_is_heard_as_one_is_alone_with_a_file() -> None:
    """What says that a fork is to wait went in a finalizer, in which an interrupt was printed, and lost."""
    with child(interrupt_as_one_is_alone_with_a_file) as worker:
        moments, lost = map(int, worker.hear().split())
        assert worker.wait() == 0
    assert moments > 10, "too few moments to mean anything"
    assert lost == 0


def test_ctrl_c_is_heard_as_the_view_is_flushed_with_the_last_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was flushed in a finalizer, in which an interrupt was printed, and lost: as long as two flushes take."""

    def interrupted(_view: View, _text: str) -> None:
        raise KeyboardInterrupt

    store = diskstream.open(tmp_path / "s", **{**SMALL, "pending_rows": 1})
    store.stream("x").add_many([{"n": n} for n in range(8)])
    assert len(store.stream("x").group("g", start="0").consumer("c").read()) == 8
    with monkeypatch.context() as patch:
        patch.setattr(View, "_write_epoch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.close()
    assert store.closed
    assert open_below(tmp_path / "s") == []
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert store.stream("x").group("g", create=False).pending().total == 8


def test_a_signal_handler_that_uses_the_stream_it_interrupts_gets_an_error_not_a_deadlock() -> None:
    """It may come while its own thread holds the lock. The interrupted call goes on."""
    with child(add_from_a_handler) as worker:
        assert worker.hear() == "ArgumentError"
        assert worker.hear() == "0 1 2 3"


def test_a_process_ends_while_its_threads_wait(tmp_path: Path) -> None:
    """Threads that sleep in native code, and a store that nobody closed, are no trouble to the interpreter's end."""
    with child(end_without_closing, tmp_path / "s") as worker:
        assert worker.hear() == "ending"
        assert worker.wait() == 0
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert store.recoveries == []
        assert len(store.stream("x")) >= 1
