"""Ctrl-C ends whatever waits, and leaves no lock behind."""

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Store
from diskstream.engine import page
from tests.engine.children import LIMIT_S, child, until
from tests.engine.sample import SMALL, log_of
from tests.engine.users import wait_for

WAITS = ["read", "read a missing stream", "read two", "tail", "read-only", "add", "add durably", "trim", "seal", "new stream"]


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


class Interrupted(KeyboardInterrupt):
    """What a signal handler raises, here at a chosen line of the engine."""


class Interruption:
    """Raises at the `nth` line of the library that is run, as a signal could that arrives there."""

    def __init__(self, nth: int) -> None:
        self.left, self.line = nth, ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if "diskstream" not in Path(frame.f_code.co_filename).parts:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.line = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise Interrupted
        return self


WORKS: dict[str, Callable[[Store], object]] = {
    "add, trimming": lambda store: store.stream("x").add({"n": "new"}, "90-1", maxlen=5),
    "delete entries": lambda store: store.stream("x").delete("3-0", "7-0"),
    "seal": lambda store: store.stream("x").seal(),
    "compact": lambda store: store.stream("x").compact(),
    "new stream": lambda store: store.stream("y").add({"n": "1"}, "1-0"),
    "delete": lambda store: store.delete("x"),
    "rename": lambda store: store.rename("x", "y"),
    "close": lambda store: store.close(),
}


def interrupted(store: Store, work: Callable[[Store], object], nth: int) -> str | None:
    """The line at which the work was interrupted; None where it was done before."""
    interruption = Interruption(nth)
    sys.settrace(interruption)
    try:
        work(store)
    except Interrupted:
        return interruption.line
    finally:
        sys.settrace(None)
    return None


def usable(path: Path) -> list[Exception | str]:
    """What another opening of the store gets done, in a thread of its own: a lock that nobody gives up stops it."""
    done: list[Exception | str] = []

    def use() -> None:
        try:
            with diskstream.open(path, **SMALL) as other:
                for name in other.streams():
                    other.stream(name).add({"n": "other"}, "900-0")
                    other.stream(name).seal()
                    assert next(other.stream(name).revrange(count=1)).id == EntryID(900, 0)
                other.stream("z").add({"n": "other"})
            done.append("all")
        except Exception as error:  # noqa: BLE001  # shown with the line that it came after
            done.append(error)

    user = threading.Thread(target=use, daemon=True)
    user.start()
    user.join(LIMIT_S / 4)
    return done


@pytest.mark.parametrize("name", WORKS)
def test_ctrl_c_at_any_line_leaves_the_store_usable(tmp_path: Path, name: str) -> None:
    """Not for who was interrupted only, who may have to open it again, but for all who share it."""
    nth, line = 1, ""
    while True:
        path = tmp_path / f"{nth}"
        store = diskstream.open(path, **SMALL)
        for number in range(10):
            store.stream("x").add({"n": str(number)}, EntryID(number + 1, 0))
            if number == 5:
                store.stream("x").seal()
        stopped_at = interrupted(store, WORKS[name], nth)
        line = stopped_at or line
        assert usable(path) == ["all"], f"after Ctrl-C at {line}"
        store.close()
        if stopped_at is None:
            break
        # Every line at first, then further and further apart: long works repeat themselves.
        nth += 1 + nth // 30
    assert nth > 10
