"""Keys that are removed: one, several, all of a database."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from diskstream.commands.key_records import Key, KeyRecords, Record, clear
from diskstream.errors import CorruptionError
from diskstream.store import Store

__all__ = ["RemovingKeys"]


class RemovingKeys:
    """The part of `Keyspace` that removes keys."""

    _records: KeyRecords

    if TYPE_CHECKING:

        def _at(self, database: int, key: bytes) -> Key: ...
        def _changed(self, changes: Mapping[Key, Record | None]) -> AbstractContextManager[None]: ...
        def _end_unasked(self, at: Key) -> None: ...
        def _holds_stream(self, at: Key) -> bool: ...
        def _is_used(self, place: int) -> bool: ...
        def _living(self, at: Key) -> Record | None: ...
        def _place_store(self, place: int) -> Store: ...

    def delete(self, database: int, key: bytes) -> bool:
        """Removes a key with all that belongs to it. Returns whether there was one."""
        at = self._at(database, key)
        try:
            record = self._living(at)
        except CorruptionError:  # its time has come, and its stream cannot be asked whether it is the one
            self._end_unasked(at)
            return False
        if record is None:
            if not self._holds_stream(at):
                return False
            self._records.touches.note((database, key))
            return self._removed(at)
        with self._records.changing():
            record = self._records.known.get(at)  # another process may have been faster
            had = record is not None and bool(record.kind)
            with self._changed({at: None}):
                if self._holds_stream(at):
                    had = self._removed(at) or had
        return had

    def delete_all(self, database: int, keys: Iterable[bytes]) -> int:
        """The same for several keys. Returns how many of them there were.

        Raises:
            DiskstreamError: one could not be removed; others may be gone.
        """
        removed = 0
        plain: dict[Key, None] = {}
        for key in keys:
            at = self._at(database, key)
            if at in self._records.known:
                removed += self.delete(database, key)
            elif at not in plain and self._holds_stream(at):
                self._records.touches.note((database, key))
                plain[at] = None
        if len(plain) == 1:
            return removed + self._removed(*plain)
        for place in {at[0] for at in plain}:  # another process may have moved the database in between
            removed += self._place_store(place)._delete_all(at[1] for at in plain if at[0] == place)
        return removed

    def _removed(self, at: Key) -> bool:
        """Removes the stream of a place. Whether there was one: then it is gone, whatever its files are."""
        return self._place_store(at[0])._delete(at[1], None, files_may_stay=True)  # a part of its store

    def flush(self, database: int | None = None) -> None:
        """Removes all keys of a database, or of all."""
        self._records.refresh()
        for each in range(len(self._records.places)) if database is None else [database]:
            place = self._records.places[each]
            with self._records.changing():
                if self._is_used(place):
                    store = self._place_store(place)
                    names = store.streams(unfinished=True)
                    for name in names:
                        self._records.touches.note((each, name))
                    store._delete_all(names)  # a part of its store
                # Behind them: of those that could not be removed it is known still when they expire.
                if any(at[0] == place for at, _ in self._records.all()):
                    self._records.write(clear(place))
