"""How far a trim with ACKED has looked for entries that no group needs: the next looks at none of them twice."""

import heapq
from collections.abc import Iterable

from diskstream._native import EntryID

__all__ = ["Searched"]

_MOST_LEFT = 1 << 16


class Searched:
    """What one process knows of a stream; under the append lock.

    Invariant: of the live entries up to `until`, each that is not left is pending in some group. It stays so until the
    log says that an entry is pending no more, which the native log notes.

    Attributes:
        until: the last entry looked at.
    """

    def __init__(self) -> None:
        self.until = EntryID(0, 0)
        self._left: list[EntryID] = []  # a heap; IDs may stand in it twice

    def forget(self) -> None:
        """Nothing is known: something ended a trim in its midst."""
        self.until, self._left = EntryID(0, 0), []

    def follow(self, freed: Iterable[EntryID] | None, given: EntryID) -> None:
        """Takes in what was freed since (None: any entry may have been), and how far each group was given entries."""
        if freed is None:
            self.forget()
        elif given < self.until:  # what lies behind is needed, and may be needed no more without being freed
            self._left = [entry_id for entry_id in self._left if entry_id <= given]
            heapq.heapify(self._left)
        self.until = min(self.until, given)
        for entry_id in freed or ():
            if entry_id <= self.until:
                heapq.heappush(self._left, entry_id)
        if len(self._left) > _MOST_LEFT:
            self.forget()

    def take(self, end: EntryID, count: int) -> list[EntryID]:
        """The first `count` up to `end` that may be needed no more, in order; whoever takes them removes those that are
        not needed.
        """
        taken: list[EntryID] = []
        while self._left and len(taken) < count and self._left[0] <= end:
            entry_id = heapq.heappop(self._left)
            if not taken or entry_id != taken[-1]:
                taken.append(entry_id)
        return taken
