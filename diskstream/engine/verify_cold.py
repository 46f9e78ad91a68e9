"""Asking object storage for segments that are verified: a place that refuses again and again is not asked for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from diskstream.engine.cold import Stub
from diskstream.errors import RemoteError

__all__ = ["Refusals", "is_refusal"]

# One that is silent takes half a minute each time, and a stream may have thousands of segments there.
_MOST: Final = 3


def is_refusal(error: Exception) -> bool:
    """Whether it is the matter of a place, and passed on. What is missing there is that of one segment."""
    return isinstance(error, RemoteError) and isinstance(error.__cause__, RemoteError)


class Refusals:
    """What places have refused, one segment after the other, during one verification."""

    def __init__(self) -> None:
        self._in_a_row: dict[str, list[RemoteError]] = {}

    def heeded(self, fetched: Callable[[Stub], int]) -> Callable[[Stub], int]:
        """The same, but for a place that has refused too often in a row, which is not asked any more.

        Raises:
            RemoteError: it is such a place; and as `fetched`.
        """

        def fetch(stub: Stub) -> int:
            refused = self._in_a_row.setdefault(stub.url, [])
            if len(refused) >= _MOST:
                what = f"{stub.path} was not asked for, since {_MOST} others in a row were refused: {refused[-1].what}"
                raise RemoteError(stub.url, what, refused[-1].hint) from refused[-1]
            try:
                found = fetched(stub)
            except RemoteError as error:
                if is_refusal(error):
                    refused.append(error)
                raise
            refused.clear()
            return found

        return fetch
