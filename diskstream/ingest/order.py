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
from diskstream.errors import IDExhaustedError

Disorder = Literal["sort", "clamp", "error"]

_MAX_MS = _MAX_SEQ = 2**64 - 1


class BackwardsError(Exception):
    """The time lies before that of the last ID."""


class IDMaker:
    """Makes IDs of times, each greater than the one before and than `last`, that of the stream's newest entry."""

    def __init__(self, last: diskstream.EntryID, *, clamp: bool = False) -> None:
        # Of the row before: the ID's is later where the sequence numbers of that time were used up.
        self._time = last.ms
        self._ms = last.ms
        self._seq = last.seq
        self._clamp = clamp
        self.repeated = 0
        self.clamped = 0

    def __call__(self, ms: int) -> diskstream.EntryID:
        """The ID for a row of this time.

        Raises:
            BackwardsError: it lies before the row above, and is not clamped.
            IDExhaustedError: the greatest ID there can be has been given.
        """
        if ms == self._time:
            self.repeated += 1
        elif ms < self._time:
            if not self._clamp:
                raise BackwardsError
            self.clamped += 1
        if (self._ms, self._seq) == (_MAX_MS, _MAX_SEQ):
            raise IDExhaustedError
        self._time = max(self._time, ms)
        if ms > self._ms:
            self._ms, self._seq = ms, 0
        elif self._seq < _MAX_SEQ:
            self._seq += 1
        else:
            self._ms, self._seq = self._ms + 1, 0
        return diskstream.EntryID(self._ms, self._seq)
