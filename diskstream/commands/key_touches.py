"""When each key was last touched: what WATCH goes by, which is not to miss a change that was undone."""

from typing import Final

from diskstream.ids import MIN_ID, EntryID

__all__ = ["Key", "Touches"]

Key = tuple[int, bytes]

_AT_HAND: Final = 8192


class Touches:
    """For each key the ID of the entry that touched it last; for those that are forgotten, the greatest of theirs.

    As some are forgotten all of those seem touched: a WATCH of one of them was for nothing then, and is tried again.
    """

    def __init__(self) -> None:
        self._last: dict[Key, EntryID] = {}
        self._floor = MIN_ID

    def note(self, key: Key, entry_id: EntryID) -> None:
        """A key is touched by an entry; entries come in order."""
        self._last.pop(key, None)  # so that who was touched first is first
        self._last[key] = entry_id
        if len(self._last) > _AT_HAND:
            for old in list(self._last)[: _AT_HAND // 2]:
                self._floor = self._last.pop(old)

    def note_all(self, entry_id: EntryID) -> None:
        """An entry touches every key, those that are not there as well."""
        self._last.clear()
        self._floor = entry_id

    def of(self, key: Key) -> EntryID:
        """Another one after each touch of the key."""
        return self._last.get(key, self._floor)
