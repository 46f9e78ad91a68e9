"""How far a trim with ACKED has looked for entries that no group needs: the next looks at none of them twice."""

from collections.abc import Iterable

from diskstream._native import EntryID

__all__ = ["Searched"]

_MOST_LEFT = 1 << 16


class Searched:
    """What one process knows of a stream; under the append lock.

    Invariant: of the live entries up to `until`, each that is not in `left` is pending in some group. It stays so until
    the log says that an entry is pending no more, which the native log notes.

    Attributes:
        until: the last entry looked at.
        left: IDs up to it that may be needed no more.
    """

    def __init__(self) -> None:
        self.until = EntryID(0, 0)
        self.left: set[EntryID] = set()

    def follow(self, freed: Iterable[EntryID] | None, given: EntryID) -> None:
        """Takes in what was freed since (None: any entry may have been), and how far each group was given entries."""
        if freed is None:
            self.until = EntryID(0, 0)
        self.until = min(self.until, given)  # what lies behind is needed, and may be again without being freed
        self.left = {entry_id for entry_id in (*self.left, *(freed or ())) if entry_id <= self.until}
        if len(self.left) > _MOST_LEFT:
            self.until, self.left = EntryID(0, 0), set()
