"""The streaming read: positions in streams as offsets, micro-batches as slices of the live store."""

import logging
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from diskstream.errors import ArgumentError, DataLossError, DiskstreamError, NoSuchStreamError
from diskstream.ids import MIN_ID, EntryID
from diskstream.spark import offsets
from diskstream.spark.acknowledge import acknowledge_in
from diskstream.spark.admission import Admission
from diskstream.spark.losses import UNREADABLE, check_same, is_same
from diskstream.spark.names import as_text
from diskstream.spark.options import Bounds, ReadOptions
from diskstream.spark.partitions import EntriesPartition
from diskstream.spark.planning import chosen_streams, is_chosen, open_for_planning, partitioned
from diskstream.spark.schemas import plan
from diskstream.spark.shared_columns import handed
from diskstream.spark.tasks import read_entries
from diskstream.spark.unopened import Unopened
from diskstream.store import Store
from diskstream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EntriesStreamReader"]

_log = logging.getLogger("diskstream.spark")

_Mark = tuple[int, int, int]
# Spark asks for the latest offset up to a hundred times a second; new streams are looked for less often.
_LIST_EVERY_S = 1.0


class EntriesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read of entries. One instance plans in a process of the driver's, copies of it read in tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        for name in ("ending_ids", "ending_timestamp"):
            if getattr(options, name) is not None:
                raise ArgumentError("a streaming read has no end: endingIds and endingTimestamp are for batch reads")
        self.options, self.plan = options, plan(schema, options)
        self._store: Store | None = None
        self._mark: _Mark | None = None
        self._let_go: Callable[[], object] | None = None
        self._initial: dict[str, str] | None = None
        self._admission = Admission(options)
        self._unopened = Unopened(options)
        self._listed: tuple[float, list[bytes]] = (0.0, [])
        self._target: dict[bytes, EntryID] | None = None

    # --- in the driver's process --------------------------------------------------------------------------------------

    def _opened(self) -> Store:
        if self._store is None:
            self._mark = _mark_of(self.options.path)
            self._store = open_for_planning(self.options.path)
            self._let_go = weakref.finalize(self, self._store.close)  # not everybody who drops a reader stops it
        return self._store

    def _open_what_is_there(self) -> None:
        """Lets go of a store that is not at the path any more: nothing comes to it that the query is to read."""
        if self._store is not None and _mark_of(self.options.path) != self._mark:
            self.stop()
            self._listed = (0.0, [])

    def _names(self) -> list[bytes]:
        at, names = self._listed
        now = time.monotonic()
        if not names or (not self.options.streams and now - at > _LIST_EVERY_S):
            with suppress(NoSuchStreamError):  # one that was named may come later, or come back
                names = chosen_streams(self._opened(), self.options)
            self._listed = (now, names)
        return names or list(self.options.streams)

    def _first_id(self, name: bytes) -> EntryID | str:
        """What the options say of where the read of a stream begins: a word, or the ID behind which it reads."""
        if self.options.starting_timestamp is not None:
            return EntryID(self.options.starting_timestamp, 0).prev() or MIN_ID
        at = (self.options.starting_ids or Bounds("latest")).of(name) or "latest"
        return at if isinstance(at, str) else at.prev() or MIN_ID

    def _begin(self, stream: Stream) -> EntryID:
        """Where the read of a stream begins: the ID behind which it reads."""
        at = self._first_id(stream.name)
        if at == "latest":
            end = self._end(stream)
            return max(end, self._trimmed(stream, end))  # of what is sealed nothing may be left
        if isinstance(at, str):
            return self._trimmed(stream)
        # A time may be before all that there is; an ID that was trimmed away is missed.
        return at if self.options.starting_timestamp is None else max(at, self._trimmed(stream, at))

    def _begin_later(self, stream: Stream, reached: Mapping[bytes, EntryID]) -> EntryID:
        """The same for a stream that had not the name when the query began: one that was renamed goes on, and all of
        another came later than that."""
        named = self.options.starting_ids.by_stream if self.options.starting_ids else {}
        before = reached.get(stream.identity() or b"")
        if before is None and isinstance(named.get(stream.name), EntryID):
            return self._begin(stream)
        return before or self._trimmed(stream)

    def _trimmed(self, stream: Stream, behind: EntryID = MIN_ID) -> EntryID:
        return stream.trimmed_to(behind, damaged=self.options.on_corruption == "skip") or MIN_ID

    def _end(self, stream: Stream) -> EntryID:
        if self.options.include_tail:
            return stream.written_to()
        pieces = stream.splits(tail=False, damaged=self.options.on_corruption == "skip")
        return pieces[-1].last if pieces else MIN_ID

    def _offset(
        self,
        positions: dict[bytes, EntryID],
        known: Mapping[bytes, bytes] | None = None,
        new: Mapping[bytes, EntryID] | None = None,
    ) -> dict[str, str]:
        store = self._opened()
        streams = dict(known or {})
        for name, at in positions.items():
            stream = store.stream(name)
            identity = None if self._unopened.has(stream, at) else stream.identity()
            if identity is not None:  # one that is gone may come back as it was
                streams[name] = identity
        return offsets.encode(positions, str(store.path), self.options.group, streams=streams, new=new)

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  # Spark's name
        """Where a new query begins; asked more than once, it answers the same."""
        if self._initial is None:
            store = self._opened()
            names = self._names()
            for name in self.options.streams:
                if not store.exists(name):
                    raise NoSuchStreamError(name)
            named = self.options.starting_ids.by_stream if self.options.starting_ids else {}
            unknown = sorted(name for name in named if not is_chosen(name, self.options))
            if unknown:
                raise ArgumentError(f"there are bounds for {unknown[0]!r}, which is none of the streams that are read")
            opened = [each for each in map(store.stream, names) if not self._unopened.has(each)]
            self._initial = self._offset({each.name: self._begin(each) for each in opened})
            self._have_followed([each.name for each in opened])
        return self._initial

    def _have_followed(self, names: list[bytes]) -> None:
        """Makes the group in streams that the query will read: what no group has to read a trim with ACKED takes. Where
        they are read from is told with their first batch, as Spark may ask for that more than once."""
        if names and self.options.group:
            try:
                acknowledge_in(self._opened(), self._offset(dict.fromkeys(names, MIN_ID)))
            except DiskstreamError as error:  # what is to be read may be read all the same
                _log.warning("a group is not in all streams of its query yet: %s", error)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """That there are limits, where the options have some. Spark knows one of them at a time, and hands it back but
        for a trigger that takes no heed of limits (Once)."""
        options = self.options
        if options.max_entries_per_trigger:
            return ReadMaxRows(options.max_entries_per_trigger)
        if options.max_bytes_per_trigger:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadMinRows(options.min_entries_per_trigger) if options.min_entries_per_trigger else ReadAllAvailable()

    def _latest(self, start: dict[bytes, EntryID]) -> dict[bytes, EntryID]:
        store, latest = self._opened(), dict(start)
        for name in [*start, *(each for each in self._names() if each not in start)]:
            stream = store.stream(name)
            if not self._unopened.has(stream, start.get(name, MIN_ID)):
                latest[name] = max(start.get(name, MIN_ID), self._end(stream))
        return latest

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802  # Spark's name
        """Where the next micro-batch ends; `start` where there is nothing for one. All limits of the options hold, or,
        where Spark asks for all that is available, none.

        Raises:
            ArgumentError: the query read streams that are not chosen any more.
            DataLossError: of one that was not read to its end there is none any more, or less.
            NotAStoreError: there is no store at the path any more.
        """
        self._open_what_is_there()
        begun, known = offsets.decode(start), offsets.identities(start)
        dropped = sorted(name for name in begun if not is_chosen(name, self.options))
        if dropped:
            raise ArgumentError(
                f"the checkpoint is of a query that read the stream {as_text(dropped[0])} too, which is none of those "
                "that are named or match now: name it, or begin with a new checkpoint"
            )
        store, reached = self._opened(), _reached(begun, known)
        if known:  # a stream that is gone makes no batch, at which it would be missed
            self._check_losses(store, begun, start, start)
        new = self._made_anew(begun, known, reached)
        begun |= new
        come = list(new)
        if start == self._initial:
            new = dict(begun)  # noted, as Spark asks anew where the query begins when it repeats its first batch
        latest = self._latest(begun)
        if self._target is not None:
            latest = {name: min(at, self._target.get(name, MIN_ID)) for name, at in latest.items()}
        for name in list(latest):
            # A stream that was not there before is read from its beginning, unless it was named with an ID.
            if name not in begun:
                new[name] = begun[name] = self._begin_later(store.stream(name), reached)
                come.append(name)
            latest[name] = max(latest[name], begun[name])
        self._have_followed(come)
        ends = latest
        if not isinstance(limit, ReadAllAvailable):
            ends = self._admission.end(store, begun, latest, draining=self._target is not None)
        ended = self._offset(ends, known, {name: at for name, at in new.items() if name in ends})
        # `%streams` may be missing in a checkpoint of an earlier version: that alone is no batch.
        same = ends == offsets.decode(start) and (not known or offsets.identities(ended) == known)
        return start if same else ended

    def _made_anew(
        self, begun: Mapping[bytes, EntryID], known: Mapping[bytes, bytes], reached: Mapping[bytes, EntryID]
    ) -> dict[bytes, EntryID]:
        """Where streams begin that are others than the query knows by their names, or were read on under another one.

        Where a loss is an error there are none: behind the old position it is found when the batch is planned.
        """
        if self.options.fail_on_data_loss:
            return {}
        found = {}
        for name, before in known.items():
            stream = self._opened().stream(name)
            if self._unopened.has(stream, begun[name]):
                continue
            now = stream.identity()
            if now is not None and (now != before or reached.get(now, MIN_ID) > begun[name]):
                self._listed = (0.0, [])  # what it was may have a new name: with this batch its place is forgotten
                found[name] = reached.get(now) or self._trimmed(stream)
        return found

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802  # Spark's name
        """Where the streams end now: what the progress of a query shows as the latest offset."""
        return self._offset(self._latest({}))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Remembers where the streams end: a query with AvailableNow reads no further."""
        self._target = self._latest({})

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Slices of what lies between two offsets.

        Raises:
            DataLossError: some of it was trimmed away, or a stream was deleted or replaced.
        """
        store, begun = self._opened(), {**offsets.decode(start), **offsets.new_ones(end)}
        ranges: list[tuple[bytes, EntryID, EntryID]] = []
        meant = offsets.identities(end)
        read = {
            name: (first, last)
            for name, last in offsets.decode(end).items()
            if (first := begun.get(name, MIN_ID).next()) is not None and first <= last
        }
        for name, (first, last) in read.items():
            # What has the name of a stream that is gone is read by a later batch, from its beginning, and not here too.
            stream = store.stream(name)
            there: bytes | None = name
            if not self._unopened.has(stream, last) and not is_same(stream, meant.get(name)):
                there = self._renamed_to(meant[name], {each for each in read if meant.get(each) == meant[name]})
            if there is not None:
                ranges.append((there, first, last))
        path = str(store.path)
        self._check_losses(store, begun, start, end)
        # Where the batch ends was decided when it was planned: a query that is started again may have other options.
        runs = partitioned(store, ranges, replace(self.options, include_tail=True))
        self._check_losses(store, begun, start, end)  # what went meanwhile is in no slice, and no task would miss it
        return [EntriesPartition(path, path, run, leased=False) for run in runs] or [
            EntriesPartition(path, path, (), leased=False)
        ]

    def _renamed_to(self, identity: bytes, its_own: Collection[bytes]) -> bytes | None:
        """The name that a stream of a planned batch has now, where that is read too, and not in this batch by one of
        `its_own`."""
        others = (self._opened().stream(each) for each in self._names() if each not in its_own)
        return next(
            (each.name for each in others if not self._unopened.has(each) and each.identity() == identity), None
        )

    def _check_losses(
        self, store: Store, begun: Mapping[bytes, EntryID], start: dict[str, str], end: dict[str, str]
    ) -> None:
        if not self.options.fail_on_data_loss:
            return
        new, before = offsets.new_ones(end), offsets.identities(start)
        known = {**offsets.identities(end), **{name: each for name, each in before.items() if name not in new}}
        for name, last in offsets.decode(end).items():
            after, identity = begun.get(name), known.get(name)
            # A stream that is not yet where the read begins has lost nothing.
            if last <= (after or MIN_ID) == self._first_id(name):
                continue
            if last > MIN_ID or identity is not None:  # else it may not have been there
                if self._unopened.has(store.stream(name), last):
                    continue
                damaged = self.options.on_corruption == "skip"
                _check_loss(store.stream(name), after, last, identity, damaged=damaged)

    def commit(self, end: dict[str, str]) -> None:
        """Moves the group on. Spark calls it when the next batch is planned: the listener of `register` is earlier.

        Raises:
            NotAStoreError: there is no store at the path any more. For others see `acknowledge_in`.
        """
        if offsets.followed(end) is not None:
            self._open_what_is_there()
            store, at = self._opened(), offsets.decode(end)
            passed = {as_text(name) for name in at if self._unopened.has(store.stream(name), at[name])}
            try:
                acknowledge_in(store, {name: each for name, each in end.items() if name not in passed})
            except UNREADABLE as error:
                if self.options.on_corruption == "fail":
                    raise
                _log.warning("a group did not follow its query: %s", error)  # a damaged stream is not written to

    def stop(self) -> None:
        """Closes the store."""
        if self._let_go is not None:
            self._let_go()
        self._store = self._let_go = None

    # --- in tasks -----------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Reads one partition."""
        return handed(partition, self._batches)

    def _batches(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, EntriesPartition)
        if partition.slices:
            yield from read_entries(partition, self.plan, self.options)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_store": None, "_let_go": None, "_initial": None}


def _mark_of(path: str) -> _Mark | None:
    """What tells a store from another one, or a copy of it, that is at its path later; None where there is none."""
    try:
        found = Path(path, "store.json").stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns  # a number is used again for another file


def _reached(begun: Mapping[bytes, EntryID], known: Mapping[bytes, bytes]) -> dict[bytes, EntryID]:
    """How far each stream was read, whatever its name is now."""
    found: dict[bytes, EntryID] = {}
    for name, identity in known.items():
        found[identity] = max(found.get(identity, MIN_ID), begun[name])
    return found


def _check_loss(stream: Stream, after: EntryID | None, last: EntryID, identity: bytes | None, *, damaged: bool) -> None:
    """Looks for what went unread: behind `after`, where that is known, up to `last`, of the stream of that identity."""
    trimmed = None if after is None else stream.trimmed_to(after, damaged=damaged)
    if after is not None and trimmed is not None and trimmed > after:
        raise DataLossError(as_text(stream.name), f"entries up to {trimmed} were trimmed away", f"what follows {after}")
    if identity is None or (after or MIN_ID) < last or not is_same(stream, identity):
        check_same(stream, (after or MIN_ID, last), identity)
