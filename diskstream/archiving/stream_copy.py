"""One stream of a Redis, copied: a range is copied, made durable, read back, and only then trimmed at the source.

A round:

1. The groups of the source are read, then what it says of the stream: its last ID L and its count of entries added.
2. Entries behind the copy's last ID, up to L, are copied a reply at a time. Behind each *window* of them

   a. the copy is made durable,
   b. the window is read back from the copy's files, and its number of entries and digest are compared with those of the
      bytes that the source sent,
   c. the checkpoint takes it in,
   d. with `trim`, the source is trimmed up to there: see `trimming`.

3. All up to L is copied now. The difference of the source's counts of entries added, less what was copied since the
   last time, is what was removed before it was copied: a finding.
4. The copy is given the last ID L, the counters, and the groups of 1. The checkpoint says that it is drained up to L.

A kill can fall anywhere. What is copied is what the copy holds: its last ID says where to go on. What of it lies behind
the checkpoint may not have been read back: it is compared with the source, entry by entry where digests differ, before
anything else is done, by the next run or, where a connection alone broke off, by the next round. So is, with `trim`,
what earlier runs copied and the source still has: a run trims nothing that it has not compared itself. The checkpoint
is written before the first entry: a copy without one is somebody else's.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from diskstream.archiving.cold_parts import ColdParts
from diskstream.archiving.comparing import compare
from diskstream.archiving.counting import left_to_copy
from diskstream.archiving.entries import EntriesReader
from diskstream.archiving.group_states import groups_of
from diskstream.archiving.leasing import Lease
from diskstream.archiving.marks import Mark, load, save
from diskstream.archiving.options import ArchiveOptions
from diskstream.archiving.outages import PutOff
from diskstream.archiving.recognising import (
    check_copy,
    check_entries,
    check_kept,
    check_reached,
    check_server_is_same,
    check_source,
)
from diskstream.archiving.reports import ArchiveReport
from diskstream.archiving.server import Server, SourceEntry, StreamFacts
from diskstream.archiving.trimming import gone_since, trim_source
from diskstream.archiving.windows import take_windows
from diskstream.checkpoints import Checkpoints
from diskstream.copying import GroupState
from diskstream.digests import NOTHING, Digest
from diskstream.errors import ChangedError, IDOrderError, NoSuchStreamError, RemoteError, quoted
from diskstream.ids import MAX_ID, MIN_ID, EntryID
from diskstream.mirroring import mirror_groups
from diskstream.pace import Pace
from diskstream.plurals import number_of
from diskstream.redis_link import takes_no_writes
from diskstream.store import Store
from diskstream.wire_adding import PackedRows

__all__ = ["StreamCopy"]

_WINDOW_ENTRIES = 200_000
_WINDOW_BYTES = 64 << 20
_WINDOW_S = 5.0
# What was just added to a copy is there at once. Where it is not, the copy is gone, and it is not waited for.
_GONE_S = 1.0


class StreamCopy:
    """Copies one stream, round after round. One thread at a time."""

    def __init__(
        self,
        server: Server,
        store: Store,
        checkpoints: Checkpoints,
        key: bytes,
        *,
        options: ArchiveOptions,
        lease: Lease | None,
        pace: Pace,
        stop: threading.Event,
    ) -> None:
        self._server, self._checkpoints, self._options = server, checkpoints, options
        self._lease, self._pace, self._stop = lease, pace, stop
        self.copy = store.stream(key)
        self.report = ArchiveReport(key)
        self._mark: Mark | None = None
        self._identity: bytes | None = None  # of the copy
        self._groups: list[GroupState] | None = None
        self._windows: tuple[int, int] | None = None
        self._begun = False  # behind its checkpoint the copy has nothing but what this run copied
        self._put_off, self._cold = PutOff(), ColdParts(self.copy)
        self._unanswered: tuple[EntryID, EntryID] | None = None  # what a trim was to take that had no answer
        self._window = NOTHING  # what was counted and is not read back yet
        self._samples: tuple[SourceEntry | None, SourceEntry | None] = (None, None)

    @property
    def key(self) -> bytes:
        """The name of the stream, at the source and here."""
        return self.copy.name

    @property
    def drained_to(self) -> EntryID:
        """All the source had up to this ID is copied."""
        return MIN_ID if self._mark is None else self._mark.drained_to

    def begin_anew(self) -> None:
        """Has the next round begin as the first one did: what was known of the source may hold no more."""
        self._mark, self._groups, self._windows, self._samples = None, None, None, (None, None)

    def end(self) -> None:
        """Says what was left undone, once no round comes any more."""
        if self._put_off.why:
            self.report.find(f"what was copied is not trimmed: {self._put_off.why}")

    def round(self, reader: EntriesReader, *, groups: bool = True) -> int:
        """Copies what there is; see above. Returns entries copied.

        Args:
            reader: what to read with.
            groups: whether to carry the groups this time.

        Raises:
            ChangedError: the source or the copy is not what it was.
            RemoteError: the source failed or refused.
            StorageError: the disk said no; run it again when it can.
        """
        began, before = time.monotonic(), self.report.entries
        try:
            self._round(reader, groups=groups)
        except NoSuchStreamError:  # nothing of ours makes it again
            self._check_copy()
            raise
        finally:
            self.report.seconds += time.monotonic() - began
            self._tell()
        return self.report.entries - before

    def _round(self, reader: EntriesReader, *, groups: bool) -> None:
        states: list[GroupState] | None = None
        facts = self._server.stream(self.key)
        if facts is not None and groups:
            try:
                states = groups_of(self._server, self.key) if facts.groups else []
            except RemoteError:
                if self._server.stream(self.key) is not None:
                    raise
            facts = self._server.stream(self.key)
        if facts is None:
            mark = load(self._checkpoints, self.key) if self._mark is None else None
            if mark is not None:
                check_server_is_same(self._server, mark, self._options)
                check_reached(self.copy, mark, self._checkpoints)
            self._check_copy()
            self.report.gone = True
            if self._server.is_empty():
                self.report.note("the database of the source is empty: was it flushed?")
            self.report.note("the key is not at the source any more: it was deleted, or has expired; the copy stays")
            return
        self.report.gone = False
        self.report.source_entries, self.report.expires_ms = facts.length, facts.ttl_ms
        if self._mark is None:
            if not self._begin(reader, facts):
                return
        else:
            check_source(self._server, self._mark, facts, self._options, self._checkpoints)
            self._check_copy()
            if not self._take_up(reader, self._mark, facts):
                return
        if self._mark is not None and (facts.first, facts.last) != self._samples:
            check_entries(self._server, self.copy, self._mark, facts)
            self._samples = facts.first, facts.last
        self._copy(reader, facts)
        self._check_copy()
        if self._stop.is_set() and self.copy.last_id() < facts.last_id:
            return
        self._drained(facts)
        self._carry(facts, states)

    # --- beginning ----------------------------------------------------------------------------------------------------

    def _begin(self, reader: EntriesReader, facts: StreamFacts) -> bool:
        """Finds out where to go on, and that both sides are those of before. Returns whether it was not stopped."""
        self._take_lease()
        self._identity = self.copy.identity()
        mark = load(self._checkpoints, self.key)
        if mark is not None:
            mark = check_source(self._server, mark, facts, self._options, self._checkpoints)
        check_copy(self._server, self.copy, mark, facts, self._checkpoints)
        self._samples = facts.first, facts.last
        if mark is None:
            added = None if facts.entries_added is None else facts.entries_added - facts.length
            if added:
                self.report.note(
                    f"{number_of(added, 'entry was', 'entries were')} gone from the source before the archive began"
                )
            mark = Mark(
                self.key,
                self._server.shown,
                self._server.database,
                self._server.facts.replication_ids,
                drained_added=added,
            )
            save(self._checkpoints, mark)
        if self._options.on_expected is not None:
            self._options.on_expected(left_to_copy(mark, facts, self.copy) or 0)
        # What this run may trim it has compared itself, whatever was done to the source since the last one.
        first = MAX_ID if self._lease is None or facts.first is None else facts.first.id
        if first <= mark.verified_to:
            self._cold.check(first, mark.verified_to)
            if self._compare(reader, first, mark.verified_to) is None:
                return False
        if first <= mark.trimmed_to:
            self.report.note(
                f"entries that were trimmed are at the source again, from {first} on: it was restored, or a replica "
                "that had not heard of the trim took its place"
            )
            mark = replace(mark, trimmed_to=first.prev() or MIN_ID)
        return self._take_in(reader, mark)

    def _take_in(self, reader: EntriesReader, mark: Mark) -> bool:
        """Compares what the copy has behind its checkpoint, which takes it in. Returns whether it was not stopped."""
        last, following = self.copy.last_id(), mark.verified_to.next()
        tail = following is not None and following <= last
        compared = self._compare(reader, following, last) if tail and following else NOTHING
        if compared is None:
            return False
        if tail and self._begun:
            self._count(compared - self._window, None, last)  # frames of a reply that never was whole
        self._mark, self._begun = mark, True
        if tail:
            self._verified(last, compared)
        return True

    def _take_up(self, reader: EntriesReader, mark: Mark, facts: StreamFacts) -> bool:
        """What a round that broke off has added and not read back is held against the source, as that of a killed run.

        Returns whether it was not stopped.
        """
        if self.copy.last_id() <= mark.verified_to:
            return True
        check_copy(self._server, self.copy, mark, facts, self._checkpoints)
        return self._take_in(reader, mark)

    def _check_copy(self) -> None:
        """Makes sure that the copy is there still, and no other; see `check_reached`."""
        if self._mark is not None:
            check_reached(self.copy, self._mark, self._checkpoints, self._identity)

    def _compare(self, reader: EntriesReader, start: EntryID, end: EntryID) -> Digest | None:
        return compare(reader, self.copy, start, end, self.report, pace=self._pace, stop=self._stop)

    def _take_lease(self) -> None:
        if self._lease is not None and not self._lease.take(self.key, self._stop):
            self.report.note(
                "the source had no room for a lease, or took no writes: nothing but this store's lock kept others away"
            )

    # --- copying ------------------------------------------------------------------------------------------------------

    def _copy(self, reader: EntriesReader, facts: StreamFacts) -> None:
        self._window, opened = NOTHING, time.monotonic()
        after = self.copy.last_id()
        before = after
        ahead, there = self._options.rate is None, None if facts.last is None else facts.last.id
        replies = reader.read(self.key, after, facts.last_id, ahead=ahead, there=there)
        try:
            for frames, batch in replies:
                for frame in frames:
                    self._add(frame)
                if batch is None or batch.last_id is None:
                    continue
                self._window += batch.digest
                after = batch.last_id
                self._count(batch.digest, batch.first_id, batch.last_id)
                if (
                    self._window.entries >= _WINDOW_ENTRIES
                    or self._window.size_bytes >= _WINDOW_BYTES
                    or time.monotonic() - opened >= _WINDOW_S
                ):
                    self._read_back(before, after, self._window)
                    before, opened = after, time.monotonic()
                self._pace.passed(batch.digest.entries, self._stop.wait)
                if self._stop.is_set():
                    break
        except IDOrderError:
            self._check_copy()
            raise ChangedError(
                f"the copy of {quoted(self.key)}",
                "somebody else adds entries to it",
                "a copy is for reading: move what was added elsewhere, and archive to a new directory",
            ) from None
        finally:
            replies.close()
        if self._window.entries:
            self._read_back(before, after, self._window)
        elif self._lease is not None:
            self._trim()  # groups may have acknowledged what held it back

    def _add(self, rows: PackedRows) -> None:
        if self._identity is None:
            self.copy.add_rows(rows)
            self._identity = self.copy.identity()
        elif self.copy.add_rows(rows, nomkstream=True) is None:
            self._check_copy()

    def _count(self, digest: Digest, first: EntryID | None, last: EntryID) -> None:
        report = self.report
        report.entries += digest.entries
        report.size_bytes += digest.size_bytes
        report.first_id = report.first_id or first
        report.last_id = last
        if self._options.on_entries is not None:
            self._options.on_entries(digest.entries, digest.size_bytes)

    def _read_back(self, after: EntryID, upto: EntryID, sent: Digest) -> None:
        """Makes a range durable, reads it from its files, and compares it with what the source sent."""
        self._flush(upto)
        found = self.copy.digest(after.next() or upto, upto)
        if found != sent:
            check_kept(self.copy)
            self._check_copy()
            back = f"read back from {after} to {upto}"
            what = number_of(found.entries, f"entry {back} is", f"entries {back} are")
            raise ChangedError(
                f"the copy of {quoted(self.key)}",
                f"the {what} not the {sent.entries:,} that the source sent; nothing was trimmed",
                "somebody else may be changing the copy; otherwise run diskstream verify, and suspect the disk",
            )
        self._verified(upto, sent)

    def _flush(self, upto: EntryID) -> None:
        if not self.copy.wait_durable(upto, _GONE_S):
            self._check_copy()

    def _verified(self, upto: EntryID, digest: Digest) -> None:
        assert self._mark is not None
        self._check_copy()
        self._window = NOTHING
        self._mark = self._mark.with_verified(upto, digest)
        save(self._checkpoints, self._mark)
        self._trim()

    def _trim(self) -> None:
        mark = self._mark
        if self._lease is None or mark is None or mark.verified_to <= mark.trimmed_to:
            return
        if self._put_off.rests() and self._options.follow and not self._stop.is_set():
            return
        try:
            behind = self._settled(mark)
            done = trim_source(
                self._server,
                self._lease,
                self.copy,
                behind=behind,
                upto=mark.verified_to,
                least_added=None if mark.drained_added is None else max(0, mark.drained_added),
                unacknowledged=self._options.trim_unacknowledged,
                held_back=self.report.held_back,
                check=self._may_go,
                on_step=self._went,
                on_unanswered=self._was_unanswered,
            )
        except RemoteError as error:
            is_of_copy = error.where != self._server.shown and not isinstance(error, ChangedError)
            if not is_of_copy and not takes_no_writes(error):
                raise
            self._put_off.by(error)  # the copy goes on meanwhile: others may trim what it does not have
            self.report.note(f"a trim was put off: {error}")
            return
        finally:  # also what went before the connection broke off
            before, mark = mark, self._mark or mark
            if mark != before:
                save(self._checkpoints, mark)
        self._put_off = PutOff()
        if done.entries and not self._lease.holds(self.key):
            self._lease.take(self.key, self._stop)  # there may be room for it now
        self.report.held_back = done.held_back
        newest = self._samples[1]
        if mark.trimmed_to.next() == MAX_ID and newest is not None and newest.id == MAX_ID:
            self.report.note(
                f"its entry {MAX_ID} is not trimmed: a trim names the first ID that stays; XDEL takes it away"
            )

    def _may_go(self, first: EntryID, last: EntryID) -> None:
        """Before each step: all of them may take minutes, and the copy be removed meanwhile, with `rm` too."""
        self._flush(last)
        self._check_copy()
        self._cold.check(first, last)

    def _was_unanswered(self, first: EntryID, last: EntryID) -> None:
        self._unanswered = first, last

    def _settled(self, mark: Mark) -> EntryID:
        """Counts what a trim took whose answer never came: the source has been looked at since. Returns up to where all
        is trimmed."""
        if self._unanswered is None:
            return mark.trimmed_to
        entries, upto = gone_since(self._server, self.copy, *self._unanswered)
        self._unanswered, left = None, self.report.source_entries
        if entries:
            self._went(entries, upto)
            self.report.source_entries = left  # it was counted behind this trim
            gone = number_of(entries, "entry that it was to take is", "entries that it was to take are")
            self.report.note(f"the answer to a trim was lost: the {gone} gone, and counted as trimmed")
        return max(upto, mark.trimmed_to) if entries else mark.trimmed_to

    def _went(self, entries: int, upto: EntryID) -> None:
        assert self._mark is not None
        self.report.trimmed += entries
        self.report.source_entries = max(0, self.report.source_entries - entries)
        reached = max(upto, self._mark.trimmed_to)
        self._mark = replace(self._mark, trimmed_to=reached, trimmed=self._mark.trimmed + entries)

    # --- what is not entries ------------------------------------------------------------------------------------------

    def _drained(self, facts: StreamFacts) -> None:
        """All up to the source's last ID is here: counts what never came."""
        mark = self._mark
        assert mark is not None
        missed = 0
        if facts.entries_added is not None and mark.drained_added is not None:
            came = mark.verified.entries - mark.drained_verified
            missed = facts.entries_added - mark.drained_added - came
        elif facts.entries_added is None and mark.drained_to == MIN_ID and self.report.entries == mark.verified.entries:
            missed = facts.length - mark.verified.entries  # the first round knows how many there were
        if missed > 0:
            how = (
                "deleted or trimmed"
                if facts.max_deleted_id is not None and facts.max_deleted_id > mark.drained_to
                else "trimmed"
            )
            where, by = f"between {mark.drained_to} and {facts.last_id}", f"{how} at the source by others before"
            what = number_of(missed, f"entry {where} was {by} it was", f"entries {where} were {by} they were")
            self.report.find(f"a gap: {what} copied")
        elif missed < 0:
            self.report.find(
                f"{number_of(-missed, 'more entry', 'more entries')} came between {mark.drained_to} and "
                f"{facts.last_id} than were added: the source was made anew since, or lost some; the copy has those of "
                "before and of after"
            )
        fresh = replace(
            mark,
            drained_to=facts.last_id,
            drained_added=facts.entries_added,
            drained_verified=mark.verified.entries,
            missed=mark.missed + max(0, missed),
            verified_to=max(mark.verified_to, facts.last_id),
            replication_ids=self._server.facts.replication_ids,
            source=self._server.shown,
            database=self._server.database,
        )
        if fresh != mark or not self.copy.exists():
            self._set_counters(facts)
            self._flush(facts.last_id)  # what the checkpoint says must not outlive what it says it of
            save(self._checkpoints, fresh)
            self._mark = fresh

    def _set_counters(self, facts: StreamFacts) -> None:
        if self._identity is None:
            self.copy.create_group(b"\0archiving", "0", mkstream=True)
            self.copy.group(b"\0archiving", create=False).destroy()
            self._identity = self.copy.identity()
        info = self.copy.summary()
        added = facts.entries_added
        if added is not None and added < info.length:
            added = None
        deleted = facts.max_deleted_id if facts.max_deleted_id and facts.max_deleted_id <= facts.last_id else None
        if deleted is not None and deleted < info.max_deleted_entry_id:
            deleted = None  # entries were deleted from the copy
        if facts.last_id >= info.last_generated_id:
            self.copy.set_id(facts.last_id, entries_added=added, max_deleted_id=deleted)

    def _carry(self, facts: StreamFacts, states: list[GroupState] | None) -> None:
        if facts.windows != self._windows and take_windows(self.copy, facts):
            self._flush(facts.last_id)
        self._windows = facts.windows
        if states is None:
            return
        if states != self._groups and mirror_groups(self.copy, states):
            self._flush(facts.last_id)
        self._groups = states
        self.report.groups = len(states)
        self.report.pending = sum(len(state.pending) for state in states)

    def _tell(self) -> None:
        mark, report = self._mark, self.report
        if mark is None:
            return
        report.verified_to, report.verified_entries = mark.verified_to, mark.verified.entries
        report.digest = str(mark.verified)
        report.trimmed_to = mark.trimmed_to if mark.trimmed_to > MIN_ID else None
