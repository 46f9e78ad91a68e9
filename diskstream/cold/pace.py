"""A bound on bytes in a second."""

from __future__ import annotations

import math
import time

from diskstream.errors import ArgumentError

__all__ = ["Pace"]


class Pace:
    """Waits where more was handled than the time so far allows. What was not used is not saved up."""

    def __init__(self, bytes_per_s: float | None) -> None:
        """Sets the bound; None is none.

        Raises:
            ArgumentError: it is not above 0.
        """
        given: object = bytes_per_s
        if given is not None and (
            not isinstance(given, int | float) or isinstance(given, bool) or not math.isfinite(given) or given <= 0
        ):
            raise ArgumentError(f"bytes_per_s must be a number above 0, not {given!r}")
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0  # when the next byte may go

    def took(self, size_bytes: int) -> None:
        """Waits until so many bytes were allowed."""
        if self._bytes_per_s is None:
            return
        now = time.monotonic()
        self._free_s = max(self._free_s, now) + size_bytes / self._bytes_per_s
        time.sleep(self._free_s - now)
