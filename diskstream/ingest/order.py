"""How timestamps become IDs, which only grow, when timestamps do not.

Rows of one millisecond get sequence numbers 0, 1, 2, … in the order they came. A row that lies before its predecessor
is, by policy,

- `sort`: put where it belongs. All rows are read before the first is written (`sorting`), so nothing is written at all
  when one of them is bad. Rows of one time keep their order.
- `clamp`: kept in its place, with the time of its predecessor and the next sequence number.
- `error`: refused, with the file and the line.

Under each of them every row becomes one entry with all its fields, the timestamp's own column among them.
"""

from __future__ import annotations

from typing import Literal

import diskstream

Disorder = Literal["sort", "clamp", "error"]

_MAX_SEQ = 2**64 - 1


class BackwardsError(Exception):
    """The time lies before that of the last ID."""


class IDMaker:
    """Makes IDs of times, each greater than the one before and than `last`, that of the stream's newest entry."""

    def __init__(self, last: diskstream.EntryID, *, clamp: bool = False) -> None:
        self._ms = last.ms
        self._seq = last.seq
        self._clamp = clamp
        self.repeated = 0
        self.clamped = 0

    def __call__(self, ms: int) -> diskstream.EntryID:
        """The ID for a row of this time. Raises BackwardsError where it does not clamp."""
        if ms > self._ms:
            self._ms, self._seq = ms, 0
        else:
            if ms == self._ms:
                self.repeated += 1
            elif self._clamp:
                self.clamped += 1
            else:
                raise BackwardsError
            self._seq += 1
            if self._seq > _MAX_SEQ:
                self._ms, self._seq = self._ms + 1, 0
        return diskstream.EntryID(self._ms, self._seq)
