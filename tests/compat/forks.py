"""Processes that fork while their clients are in use: see `tests.engine.forks`."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from diskstream import compat
from diskstream.compat.sharing import OPEN
from tests.engine.children import LIMIT_S, say
from tests.engine.forks import ended, forked


def fork_while(held: Callable[[], AbstractContextManager[object]], work: Callable[[], None]) -> int:
    """Forks while another thread is inside `held`. Returns how the fork ended, which did `work`."""
    inside, release = threading.Event(), threading.Event()

    def hold() -> None:
        with held():
            inside.set()
            release.wait(LIMIT_S)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(LIMIT_S)
    try:
        return ended(forked(work))
    finally:
        release.set()
        thread.join()


def fork_among_commands(path: str) -> None:
    """Another thread is in the middle of a command, of a transaction, or of opening a client."""
    with compat.Redis(path) as client:
        client.xadd("s", {"by": "parent"})
        turns = client._link._shared.turns

        def add() -> None:
            client.xadd("s", {"by": "fork"})

        def add_alone() -> None:
            client.pipeline().xadd("s", {"by": "fork"}).execute()

        def open_and_add() -> None:
            with compat.Redis(path) as another:
                another.xadd("s", {"by": "fork"})

        say("command", fork_while(turns.shared, add_alone))
        say("transaction", fork_while(turns.alone, add))
        say("opening", fork_while(lambda: OPEN._mutex, open_and_add))
        client.pipeline().xadd("s", {"by": "parent"}).execute()
        say("entries", client.xlen("s"))
