"""A call that may wait long, awaited: it has a thread of its own.

The threads of `asyncio.to_thread` are few, and all that reads a disk shares them: readers that wait must not hold up
the append that they wait for.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from diskstream.engine.threads import begun, too_many

__all__ = ["waited"]

_T = TypeVar("_T")


async def waited(call: Callable[[], _T], *, must_be_done: bool = False) -> _T:
    """What a call returns, or raises. A task that is cancelled does not wait for it.

    Args:
        call: what is done.
        must_be_done: where there is no thread for it, all tasks wait for it instead.

    Raises:
        StorageError: there are too many threads.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_T] = loop.create_future()
    context = contextvars.copy_context()

    def tell(say: Callable[[Any], None], what: object) -> None:
        def unless_cancelled() -> None:
            if not answer.done():
                say(what)

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            loop.call_soon_threadsafe(unless_cancelled)

    def run() -> None:
        try:
            found = context.run(call)
        except BaseException as error:  # noqa: BLE001  # raised again in the task that waits
            tell(answer.set_exception, error)
        else:
            tell(answer.set_result, found)

    try:
        begun(threading.Thread(target=run, name="diskstream waiting"))
    except RuntimeError as error:
        if not must_be_done:
            raise too_many("a call that waits", error) from error
        run()
    return await answer
