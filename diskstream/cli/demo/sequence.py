"""What the demo promises of every stream: the numbers of its entries have no gap, and their IDs grow."""

from __future__ import annotations

import diskstream

NUMBER = b"n"
SAMPLED_AT = b"monotonic_ns"


class OutOfSequenceError(Exception):
    """An entry is missing, doubled or out of place."""


class SequenceCheck:
    """Looks at entries as they come. The first may carry any number unless `after` says which came before it."""

    def __init__(self, stream: str, *, after: int | None = None) -> None:
        self.stream = stream
        self.last = after
        self._last_id: diskstream.EntryID | None = None

    def __call__(self, entry: diskstream.Entry) -> None:
        """Take the next entry. Raises OutOfSequenceError."""
        number = int(entry[NUMBER])
        if self.last is not None and number != self.last + 1:
            raise OutOfSequenceError(
                f"stream {self.stream}: entry {entry.id} has number {number} after number {self.last}"
            )
        if self._last_id is not None and entry.id <= self._last_id:
            raise OutOfSequenceError(f"stream {self.stream}: entry {entry.id} comes after {self._last_id}")
        self.last = number
        self._last_id = entry.id


def last_number(stream: diskstream.Stream) -> int:
    """The number of the newest entry, 0 where there is none."""
    newest = next(iter(stream.revrange(count=1)), None)
    return 0 if newest is None else int(newest[NUMBER])
