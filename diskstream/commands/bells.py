"""What anybody appends to the keys that clients wait for: their bells, whatever database and type they are of."""

import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.waiters import Key
from diskstream.errors import DiskstreamError
from diskstream.options import Options
from diskstream.watching import Place, Watch

__all__ = ["Bells"]

# Keys that nobody waits for any more are watched on, since a consumer soon waits again; beyond so many they are let go.
_KEPT_KEYS = 64


class _Waited(Protocol):
    """The waiters, as far as the bells are concerned."""

    def __contains__(self, key: Key) -> bool: ...


class Bells:
    """The bells of the keys that are waited for. One thread asks what has changed; another may `wait`.

    Args:
        keyspace: where the keys are.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._watch = Watch()
        self._arranged = keyspace.arrangement()
        self._keys: dict[Key, Place] = {}
        # Of those that wait for lists; what changes one rings the bell of all records, which are in a stream.
        self._lists: set[Key] = set()
        self._records: Place | None = None

    def add(self, key: Key, *, is_list: bool = False) -> bool:
        """Watches a key. Returns whether it was not: then the stream, or the list, is to be looked at once more."""
        if is_list:
            self._lists.add(key)
        try:
            is_new = is_list and self._watch_records()
            if key not in self._keys:
                store = self._keyspace.store(key[0])
                self._watch.add(store, key[1])
                self._keys[key], is_new = (store, key[1]), True
        except (DiskstreamError, OSError):
            return False  # the command that waits has met it already, or will at its next look
        return is_new

    def add_each(self, keys: Iterable[Key], *, is_list: bool = False) -> Iterator[list[Key]]:
        """Watches keys, as many at a time as streams may be open; gives those that were not watched.

        Who looks at these before the next are watched opens none once more.
        """
        left = iter(keys)
        while part := list(islice(left, self.most_open)):
            yield [key for key in part if self.add(key, is_list=is_list)]

    @property
    def most_open(self) -> int:
        """How many streams of a database may be open at a time."""
        return int(self._keyspace.options.get("max_open_streams", Options().max_open_streams))

    def is_list(self, key: Key) -> bool:
        """Whether somebody waits, or has waited, for a list of that name."""
        return key in self._lists

    def is_open(self, key: Key) -> bool:
        """Whether the stream of a watched key is open here, so that a look at it costs little."""
        place = self._keys.get(key)
        return place is not None and self._watch.is_open(*place)

    def _watch_records(self) -> bool:
        """Watches the records of keys of other types. Returns whether it did not."""
        if self._records is not None:
            return False
        place = self._keyspace.records_place()
        if place is not None:
            self._watch.add(*place)
        self._records = place
        return place is not None

    def changed(self, waited: _Waited) -> list[Key]:
        """The keys that may have changed since the last call; those that nobody waits for are let go."""
        moved = self._moved()
        if len(self._keys) > _KEPT_KEYS:
            self._forget([key for key in self._keys if key not in waited])
            self._lists = {key for key in self._lists if key in waited}
        if not self._keys:
            return []
        found = self._watch.changed()
        return self._found(found) + self._found_lists(found, waited) + moved

    def pass_over(self, keys: list[Key]) -> None:
        """What has changed until now is not told by `changed`: for who is about to look at these keys anyway."""
        for key in keys:
            place = self._keys.get(key)
            if place is not None:
                self._watch.renew(*place)

    def _moved(self) -> list[Key]:
        """The keys that are in another store by now, after SWAPDB or a reopening: listens there."""
        arranged = self._keyspace.arrangement()
        if arranged[0] is self._arranged[0] and arranged[1] is self._arranged[1]:
            return []
        keys = list(self._keys)
        self.forget_all()
        for key in keys:
            self.add(key, is_list=self.is_list(key))
        self._arranged = arranged
        return keys

    def stale(self, waited: _Waited) -> list[Key]:
        """The keys whose page has become another one. For a look each second."""
        if not self._keys:
            return []
        found = self._watch.stale()
        return self._found(found) + self._found_lists(found, waited)

    def _found_lists(self, places: list[Place], waited: _Waited) -> list[Key]:
        """The lists that are there now and are waited for, where the records have changed."""
        if self._records is None or self._records not in places:
            return []
        self._lists = {key for key in self._lists if key in waited}
        if not self._lists:
            self._forget_records()
        with contextlib.suppress(DiskstreamError, OSError):  # whoever looks meets it
            return [key for key in self._lists if self._keyspace.kind(*key) == "list"]
        return list(self._lists)

    def _forget_records(self) -> None:
        if self._records is not None:
            self._watch.remove(*self._records)
            self._records = None

    def _found(self, places: list[Place]) -> list[Key]:
        if not places:
            return []
        found = set(places)
        return [key for key, place in self._keys.items() if place in found]

    def _forget(self, keys: list[Key]) -> None:
        for key in keys:
            store, name = self._keys.pop(key)
            self._watch.remove(store, name)

    def forget_all(self) -> None:
        """Lets go of every key: the stores are opened anew."""
        self._forget(list(self._keys))
        self._forget_records()

    def wait(self, timeout_s: float) -> bool:
        """Sleeps until something may have changed, `interrupt` is called, or the time is up. Whether one rang."""
        return self._watch.wait(timeout_s)

    def interrupt(self) -> None:
        """Ends a wait, this one or the next one. Safe from any thread."""
        self._watch.interrupt()

    def close(self) -> None:
        """Lets go of everything; nobody may be waiting."""
        self._watch.close()
