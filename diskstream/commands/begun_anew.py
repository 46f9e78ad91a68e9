"""Looks at a whole stream that another process removes or renames in their midst."""

from collections.abc import Callable
from typing import TypeVar

from diskstream.errors import ChangedError

__all__ = ["begun_anew"]

# Looks at a name that others give from stream to stream, before it is given up.
_LOOKS = 5
_T = TypeVar("_T")


def begun_anew(look: Callable[[], _T]) -> _T:
    """What a look finds, of which nobody has been given a part yet; one that was cut short is done once more.

    Raises:
        ChangedError: each one was cut short.
    """
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except ChangedError:
            continue
    return look()
