"""What a read as a consumer asks for, checked, and what of it is left."""

import threading
import time
from dataclasses import dataclass, field

from diskstream._native import Delivery
from diskstream.counts import check_block, check_count
from diskstream.errors import ArgumentError

__all__ = ["Wanted"]

_UNLIMITED = 2**62


@dataclass
class Wanted:
    """What a call asks for, checked, and what of it is left."""

    count: int | None
    block: float | None
    noack: bool
    claim_ms: int | None
    max_count: int | None
    max_bytes: int | None
    stop: threading.Event | None = None  # ends the wait
    left: int = field(init=False, default=0)
    spent: int = field(init=False, default=0)
    claims: bool = field(init=False, default=False)
    until: float | None = field(init=False, default=None)  # the end of the wait, by `time.monotonic`

    def __post_init__(self) -> None:
        """Checks the options.

        Raises:
            ArgumentError: out of range, in the words of Redis.
        """
        for name, value in (("COUNT", self.count), ("MAXCOUNT", self.max_count), ("MAXSIZE", self.max_bytes)):
            if value is not None:
                check_count(name, value)
        check_block(self.block)
        self.noack = bool(self.noack)
        words = "min-idle-time is not an integer or out of range"
        if self.claim_ms is not None and check_count("CLAIM", self.claim_ms, words) < 0:
            raise ArgumentError("min-idle-time must be a positive integer")
        if self.max_count is not None and self.max_count <= 0:
            raise ArgumentError("MAXCOUNT must be a positive integer")
        if self.max_bytes is not None and self.max_bytes <= 0:
            raise ArgumentError("MAXSIZE must be a positive integer")
        if self.max_count is not None and self.count is not None and self.max_count < self.count:
            raise ArgumentError("MAXCOUNT must be greater than or equal to COUNT")

    def begin(self) -> None:
        """Before each look at all streams."""
        self.left = _UNLIMITED if self.max_count is None else self.max_count
        self.spent = 0
        self.claims = self.claim_ms is not None

    @property
    def bytes_limit(self) -> int:
        """Bytes that one call returns, about."""
        return _UNLIMITED if self.max_bytes is None else self.max_bytes

    @property
    def room(self) -> int:
        """Entries that the next stream may give."""
        count = _UNLIMITED if self.count is None or self.count <= 0 else self.count
        return min(count, self.left)

    @property
    def over(self) -> bool:
        """Whether a wait has come to its end, or is to."""
        stopped = self.stop is not None and self.stop.is_set()
        return stopped or (self.until is not None and time.monotonic() >= self.until)

    @property
    def full(self) -> bool:
        """Whether a cap over all streams is reached."""
        return self.left <= 0 or (self.spent >= self.bytes_limit and self.spent > 0)

    def took(self, entries: list[Delivery]) -> None:
        """Counts what was given."""
        self.left -= len(entries)
