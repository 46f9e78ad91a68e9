"""Methods of `diskstream.aio` that are those of the classes behind it, each in a thread: their arguments are these."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["in_thread"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def in_thread(
    behind: str, method: Callable[Concatenate[Any, _P], _T]
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """A method to be awaited that does what `method` does, with the same arguments, answer and errors.

    Args:
        behind: the attribute of the asyncio object that has the one to do it with.
        method: of the class of that one.
    """

    @functools.wraps(method)
    async def awaited(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        found: Callable[_P, _T] = getattr(getattr(self, behind), method.__name__)
        return await asyncio.to_thread(found, *args, **kwargs)

    return awaited
