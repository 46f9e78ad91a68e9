"""Keys whose time has come: they go when somebody looks for them, and in sweeps that take a moment each."""

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from diskstream.commands.key_records import Key, KeyRecords, Record, gone
from diskstream.commands.statistics import Statistics
from diskstream.commands.versions import identity
from diskstream.copying import is_of_a_copy
from diskstream.errors import DiskstreamError
from diskstream.store import Store
from diskstream.stream import Stream

__all__ = ["SweepingKeys", "is_due"]

# Keys whose removal is written as one frame.
_AT_ONCE = 100
# A copy that is under way is open, and written to many times a second.
_ABANDONED_S = 3600.0

Fault = DiskstreamError | OSError


def is_due(record: Record, now: int) -> bool:
    """Whether the time of a key has come."""
    return record.expires is not None and record.expires <= now


class SweepingKeys:
    """The part of `Keyspace` that removes what has expired."""

    _records: KeyRecords
    statistics: Statistics
    sweeps: bool
    _stores: dict[int, Store]

    if TYPE_CHECKING:

        def now_ms(self) -> int: ...
        def _place_store(self, place: int) -> Store: ...
        def _plain(self, at: Key) -> Stream | None: ...

    def has_due(self) -> bool:
        """Whether the next `expire_due` has something to do, as far as is known here."""
        return self.sweeps and not self._records.read_only and self._records.has_due(self.now_ms())

    def expire_due(self, now: int | None = None, *, seconds: float = math.inf) -> list[tuple[int, bytes]]:
        """Removes keys that have expired, for so long; one at least. Returns (database, key) of those that were there.

        For the server's loop: otherwise a key goes when somebody looks for it.

        Raises:
            DiskstreamError: one could not be removed, and none was. Those that could not be are due as before.
        """
        if not self.sweeps or self._records.read_only:
            return []
        self._records.refresh()
        ended, fault = self._sweep(self.now_ms() if now is None else now, seconds)
        if fault is not None and not ended:
            raise fault
        return [(self._records.places.index(place), key) for place, key in ended]

    def remove_abandoned(self) -> int:
        """Removes what COPY, MOVE or RESTORE left that was killed on the way: nobody sees it, and it takes its room.

        Of the databases that are open. Returns how many streams that were.

        Raises:
            DiskstreamError: the disk said no.
        """
        removed = 0
        for store in list(self._stores.values()):
            for name in filter(is_of_a_copy, store.streams(unfinished=True)):
                if store._is_abandoned(name, _ABANDONED_S):  # a part of its store
                    removed += store._delete(name, None, files_may_stay=True)
        return removed

    def _sweep(self, now: int, seconds: float) -> tuple[list[Key], Fault | None]:
        """Which keys went, and what was in the way of others."""
        until = time.perf_counter() + seconds
        ended: list[Key] = []
        left: list[Key] = []
        fault: Fault | None = None
        while batch := self._records.due(now, _AT_ONCE):
            try:
                went, kept, wrong = self._expire_some(batch, now, until)
            except (DiskstreamError, OSError) as error:
                went, kept, wrong = [], batch, error
            ended += went
            left += kept
            fault = fault or wrong
            if time.perf_counter() > until:
                break
        self._records.due_again(left)  # only now: what cannot be removed is not tried over and over
        return ended, fault

    def _expire_some(self, batch: Sequence[Key], now: int, until: float) -> tuple[list[Key], list[Key], Fault | None]:
        """Which of these keys went, which are left, and why."""
        rows, ended = [], []
        left: list[Key] = []
        fault: Fault | None = None
        with self._records.changing():
            for number, at in enumerate(batch, 1):
                record = self._records.known.get(at)
                if record is None or not is_due(record, now):
                    continue
                try:
                    if self._ends(at, record):
                        ended.append(at)
                    rows.append(gone(at))
                except (DiskstreamError, OSError) as error:  # of a damaged stream, say: the others go all the same
                    left.append(at)
                    fault = fault or error
                if time.perf_counter() > until:
                    left += batch[number:]
                    break
            self._records.write(*rows)
        self.statistics.expired += len(ended)
        return ended, left, fault

    def _expire(self, at: Key, now: int) -> None:
        """Removes a key whose time has come."""
        with self._records.changing():
            record = self._records.known.get(at)
            if record is not None and is_due(record, now):
                ended = self._ends(at, record)
                self._records.write(gone(at))
                self.statistics.expired += ended

    def _end_unasked(self, at: Key) -> None:
        """Removes a key whose time has come, with whatever stream has its name: as a deletion does before that time."""
        with self._records.changing():
            ended = self._place_store(at[0])._delete(at[1], None, files_may_stay=True)
            self._records.write(gone(at))
            self.statistics.expired += ended

    def _ends(self, at: Key, record: Record) -> bool:
        """Whether there is something that ends with its record. A stream that does is removed."""
        if record.kind:
            return True
        # Asked again where nobody can put another stream there any more: that one's time has not come.
        return record.stream == identity(self._plain(at)) and self._place_store(at[0])._delete(
            at[1], lambda log: log.native.uuid == record.stream
        )
