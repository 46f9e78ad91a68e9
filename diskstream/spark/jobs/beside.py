"""Work in a thread of its own, as long as a block runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["beside"]


@contextmanager
def beside(name: str, work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs `work` beside the block; it ends, and is waited for, when the event that it is given says so.

    Args:
        name: of the thread.
        work: looks at the event before each step.
    """
    done = threading.Event()
    thread = threading.Thread(target=work, args=(done,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
