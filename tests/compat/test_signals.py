"""A signal handler that uses the client which it has interrupted: it is told so, and nothing waits for itself."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis

from diskstream.commands.caller import Caller
from diskstream.commands.replies import Reply
from diskstream.commands.table import Table
from diskstream.commands.waiting import Waiting
from diskstream.compat import turns
from diskstream.compat.turns import Turns
from tests.compat.backends import Compat

PATIENCE_S = 20


@contextmanager
def handled_by(handler: Callable[[], None]) -> Iterator[None]:
    """SIGUSR1 calls it, in this thread; which would else wait for itself for ever, and does so for a while at most."""

    def give_up(*_: object) -> None:
        raise AssertionError("waited in vain")

    before = signal.signal(signal.SIGUSR1, lambda *_: handler()), signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGALRM, before[1])


@pytest.fixture
def local(tmp_path: Path) -> Any:
    made = Compat(tmp_path / "store")
    yield made
    made.close()


def signalled(local: Compat) -> None:
    """From now on SIGUSR1 comes in the middle of each XADD to ``s``."""
    dispatch, table = local.options["commands"]

    def interrupted(table: Table, caller: Caller, words: list[bytes]) -> Reply | Waiting:
        if words[:2] == [b"XADD", b"s"]:
            signal.raise_signal(signal.SIGUSR1)
        return dispatch(table, caller, words)

    local.options["commands"] = interrupted, table


@pytest.mark.parametrize("what", ["xadd", "transaction", "close"])
def test_a_handler_in_the_middle_of_a_command_is_refused(local: Compat, what: str) -> None:
    signalled(local)
    client = local.client()
    use: dict[str, Callable[[], object]] = {
        "xadd": lambda: client.xadd("handled", {"a": 1}),
        "transaction": lambda: client.pipeline().xadd("handled", {"a": 1}).execute(),
        "close": client.close,
    }
    refused: list[str] = []

    def handler() -> None:
        with pytest.raises(redis.RedisError) as error:
            use[what]()
        refused.append(str(error.value))

    with handled_by(handler):
        client.xadd("s", {"a": 1})
        client.pipeline().xadd("s", {"a": 2}).execute()
    assert len(refused) == 2
    assert "not from a signal handler" in refused[0]
    assert client.xlen("s") == 2
    assert client.exists("handled") == 0
    use[what]()  # it is not in the middle of anything any more


def test_a_handler_appends_while_a_read_waits(local: Compat) -> None:
    """A wait is no command under way: it holds nothing between its looks."""
    client = local.client()

    handled: list[bytes] = []
    over = threading.Semaphore(0)

    def send() -> None:
        local.until_one_waits()
        while not handled:  # the signal may have come in the middle of a look
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            assert over.acquire(timeout=PATIENCE_S)

    def handler() -> None:
        with suppress(redis.RedisError):
            handled.append(client.xadd("s", {"a": 1}, id="1-1"))
        over.release()

    sender = threading.Thread(target=send)
    with handled_by(handler):
        sender.start()
        assert client.xread({"s": "0"}, block=PATIENCE_S * 1000) == [[b"s", [(b"1-1", {b"a": b"1"})]]]
    sender.join()


@pytest.mark.parametrize("way", ["shared", "alone"])
def test_a_handler_comes_at_any_line(way: str) -> None:
    """Of taking a turn and of giving it back: it is refused or has a turn, and never waits for its own thread."""
    contended, came = Turns(), []

    def handler(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != turns.__file__:
            return None
        if event == "line":
            for turn in (contended.shared, contended.alone):
                try:
                    with turn():
                        came.append("served")
                except redis.RedisError:
                    came.append("refused")
        return handler

    def work() -> None:
        sys.settrace(handler)
        try:
            with getattr(contended, way)():
                pass
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert set(came) == {"served", "refused"}
    with contended.alone():
        assert not contended._within - {threading.get_ident()}
