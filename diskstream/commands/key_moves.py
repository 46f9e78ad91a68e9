"""Keys that get another name, or another database: RENAME, COPY, MOVE, SWAPDB."""

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from diskstream.commands.begun_anew import begun_anew
from diskstream.commands.caller import Caller
from diskstream.commands.failures import no_key
from diskstream.commands.key_records import Key, KeyRecords, Record, gone, places
from diskstream.commands.replies import Failure
from diskstream.commands.versions import identity, version, version_of
from diskstream.copying import copy_stream, temporary_name
from diskstream.errors import ChangedError, DiskstreamError, NoSuchStreamError, StreamExistsError
from diskstream.store import Store
from diskstream.stream import Stream

__all__ = ["MovingKeys"]

# Copies that MOVE makes of a stream that others write to, before it gives up.
_MOVES = 5


class MovingKeys:
    """The part of `Keyspace` that moves keys."""

    _records: KeyRecords

    if TYPE_CHECKING:

        def _at(self, database: int, key: bytes) -> Key: ...
        def _living(self, at: Key) -> Record | None: ...
        def _place_store(self, place: int) -> Store: ...
        def _plain(self, at: Key) -> Stream | None: ...
        def _changed(self, changes: Mapping[Key, Record | None]) -> AbstractContextManager[None]: ...
        def _put_over(self, at: Key, changes: Mapping[Key, Record | None], *, replace: bool) -> None: ...
        def delete(self, database: int, key: bytes) -> bool: ...
        def expires_at(self, database: int, key: bytes) -> int | None: ...
        def kind(self, database: int, key: bytes) -> str | None: ...
        def watchers(self) -> list[Caller]: ...

    def rename(self, database: int, old: bytes, new: bytes, *, replace: bool = True) -> bool:
        """Gives a key another name; its time of expiry goes with it. A key that has the name goes, or keeps it.

        Returns:
            Whether it was renamed: not where `replace` is false and the name is taken.

        Raises:
            Failure: there is no key `old`.
        """
        source, target = self._at(database, old), self._at(database, new)
        with self._records.changing():
            record = self._living(source)
            if self.kind(database, old) is None:
                raise no_key()
            if self.kind(database, new) is not None and not replace:
                return False
            if old == new:
                return True
            if record is not None and record.kind:
                return self._has_put(target, {target: record, source: None}, replace=replace)
            # A time of expiry is of one stream: until it has the new name, the record there is nobody's.
            self._records.touches.note((database, old))
            self._records.touches.note((database, new))
            try:
                with self._changed({target: record} if record is not None or target in self._records.known else {}):
                    self._place_store(source[0]).rename(old, new, replace=replace)
            except StreamExistsError:
                return False  # somebody who has the store open was faster
            if record is not None:
                self._records.write(gone(source))
        return True

    def copy(self, database: int, key: bytes, to: int, new: bytes, *, replace: bool = False) -> bool:
        """Copies a key, its time of expiry with it: see `diskstream.copying` for what of a stream cannot be carried.

        Returns:
            Whether it was: not where there is no such key, or the new name is taken and `replace` is false.
        """
        source, target = self._at(database, key), self._at(to, new)
        with self._records.changing():
            if not self._may_copy(source, target, replace=replace):
                return False
            record = self._records.known.get(source)
            if record is not None and record.kind:
                return self._has_put(target, {target: record}, replace=replace)
        expires = self.expires_at(database, key)
        with self._copied(source, target) as fresh, self._records.changing():
            if fresh is None or not self._may_copy(source, target, replace=replace):
                return False  # somebody was faster
            try:
                self._take(target, fresh, expires, replace=replace)
            except StreamExistsError:
                return False
        return True

    def _has_put(self, at: Key, changes: Mapping[Key, Record | None], *, replace: bool) -> bool:
        try:
            self._put_over(at, changes, replace=replace)
        except StreamExistsError:  # somebody who has the store open was faster
            return False
        return True

    def _kind_at(self, at: Key) -> str | None:
        return self.kind(self._records.places.index(at[0]), at[1])

    def _may_copy(self, source: Key, target: Key, *, replace: bool) -> bool:
        return self._kind_at(source) is not None and (replace or self._kind_at(target) is None)

    @contextlib.contextmanager
    def _copied(self, source: Key, target: Key) -> Iterator[Stream | None]:
        """A copy of a stream, in the store of `target`; unless it is given a name, it is gone afterwards.

        None where the stream is gone by now.
        """
        store = self._place_store(target[0])
        fresh, made = store.stream(temporary_name()), False

        def copy() -> None:
            try:
                copy_stream(self._place_store(source[0]).stream(source[1]), fresh)
            except ChangedError:
                store.delete(fresh.name)
                raise

        try:
            with contextlib.suppress(NoSuchStreamError):
                begun_anew(copy)
                made = True
            yield fresh if made else None
        finally:
            store.delete(fresh.name)

    def take(self, database: int, key: bytes, fresh: Stream, expires: int | None, *, replace: bool) -> None:
        """Gives a stream that was made in the same store under a temporary name its place.

        Raises:
            StreamExistsError: the place is taken, and `replace` is false.
        """
        self._take(self._at(database, key), fresh, expires, replace=replace)

    def _take(self, at: Key, fresh: Stream, expires: int | None, *, replace: bool) -> None:
        with self._records.changing():
            if not replace and self._kind_at(at) is not None:
                raise StreamExistsError(at[1])
            record = None if expires is None else Record(expires=expires, stream=identity(fresh))
            with self._changed({at: record} if record is not None or at in self._records.known else {}):
                self._place_store(at[0]).rename(fresh.name, at[1], replace=replace)

    def move(self, database: int, key: bytes, to: int) -> bool:
        """Moves a key into another database: as a copy, and a deletion if nobody has written to it meanwhile.

        After a crash in between it is in both; after an error where it was, or, if it is gone from there, in the other.

        Returns:
            Whether it did: not where there is no such key, or one there already.

        Raises:
            Failure: others write to the stream faster than it can be copied.
            StorageError: the disk said no.
        """
        source, target = self._at(database, key), self._at(to, key)
        if self.kind(database, key) != "stream":
            with self._records.changing():
                return self.copy(database, key, to, key) and self.delete(database, key)
        for _ in range(_MOVES):
            if not self._may_copy(source, target, replace=False):
                return False
            before, expires = version(self._plain(source)), self.expires_at(database, key)
            with self._copied(source, target) as fresh, self._records.changing():
                if fresh is None or not self._may_copy(source, target, replace=False):
                    return False
                copied = version(fresh)
                try:
                    self._take(target, fresh, expires, replace=False)
                    if self._withdraw(source, before):
                        self._records.write(gone(source))
                        return True
                except StreamExistsError:
                    return False
                except (DiskstreamError, OSError):
                    self._take_back(source, before, target, copied)
                    raise
                if not self._withdraw(target, copied):
                    break  # somebody writes to the copy already: both stay
        raise Failure("ERR the stream is being written to by another process: try again")

    def _take_back(self, source: Key, before: object, target: Key, copied: object) -> None:
        """Removes the copy that a move made which failed, if all of it is where it was: else it is in two places."""
        with contextlib.suppress(DiskstreamError, OSError):  # what hinders the move may hinder this
            if self._place_store(source[0]).exists(source[1]) and version(self._plain(source)) == before:
                self._withdraw(target, copied)

    def _withdraw(self, at: Key, before: object) -> bool:
        """Removes a stream if it is as it was `before`, which is looked at where nobody can write to it any more."""
        return self._place_store(at[0])._delete(at[1], lambda log: version_of(log) == before)

    def swap(self, first: int, second: int) -> None:
        """Swaps two databases: their numbers, not their directories."""
        with self._records.changing():
            numbers = list(self._records.places)
            numbers[first], numbers[second] = numbers[second], numbers[first]
            if first == second:
                return
            self._touch_swapped(first, second)
            self._records.write(places(numbers))

    def _touch_swapped(self, first: int, second: int) -> None:
        """Of what is watched in either of these databases, touches what there is in one of them."""
        watched = {key for caller in self.watchers() for place, key in list(caller.watched) if place in (first, second)}
        for key in watched:
            with contextlib.suppress(DiskstreamError, OSError):  # nobody can tell: whoever asks for it is told
                if self.kind(first, key) is None and self.kind(second, key) is None:
                    continue
            self._records.touches.note((first, key))
            self._records.touches.note((second, key))
