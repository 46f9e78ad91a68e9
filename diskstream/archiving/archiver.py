"""Archiving streams of a Redis into a store: which ones, side by side, once or for as long as new entries come."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from diskstream.archiving.entries import EntriesReader
from diskstream.archiving.leasing import OURS, Lease
from diskstream.archiving.options import ArchiveOptions
from diskstream.archiving.outages import Outage, rest_s
from diskstream.archiving.reports import ArchiveReport
from diskstream.archiving.server import Server, has_wildcard
from diskstream.archiving.stream_copy import StreamCopy
from diskstream.checkpoints import Checkpoints
from diskstream.errors import ArgumentError, ChangedError, CorruptionError, DiskstreamError, FormatError, RemoteError
from diskstream.pace import Pace
from diskstream.redis_link import is_demoted, is_passing
from diskstream.store import Store

__all__ = ["NO_MATCH", "OWN_NAME", "ArchiveResult", "Archiver", "check_server"]

NO_MATCH = "no stream has a name like this"
OWN_NAME = "streams of this name are made by archive and restore for themselves, and not archived"
_RENAME = "what is in one that was left can be archived under another name: RENAME it there"
_CUT_OFF = "the source is a replica that was cut off from its primary as this began: it may lack what that one has"
_PATTERNS = "patterns are those of KEYS: *, ?, [ab]"
_GROUPS_EVERY_S = 5.0
_GROUPS_SHARE = 5  # very long lists of pending entries are carried for a sixth of the time, at most
_KEYS_EVERY_S = 1.0
# A list of keys costs the server more the more there are: it is asked for no more than a twentieth of the time.
_KEYS_SHARE = 20
_WAIT_MS = 500
_MOST_WAITED_FOR = 256
_MOST_SKIPPED = 100
_FEW_ENTRIES = 1000
_PAUSE_S = 0.1
_MOST_BREAKS = 4  # in a row, of a stream whose connection breaks off while the server is there


@dataclass
class ArchiveResult:
    """What one run did.

    Attributes:
        reports: one of each stream; and of each pattern that no stream has, with an error.
        skipped: keys of other types that a pattern matched, and their types; the first of very many.
        stopped: whether it was told to stop before all was copied.
    """

    reports: list[ArchiveReport] = field(default_factory=list)
    skipped: list[tuple[bytes, str]] = field(default_factory=list)
    stopped: bool = False

    @property
    def is_good(self) -> bool:
        """Whether there is nothing to be looked into."""
        return all(report.is_good for report in self.reports)


def check_server(server: Server, *, trim: bool) -> None:
    """Raises a `RemoteError` where this server is not one to archive from."""
    if server.facts.is_cluster:
        raise RemoteError(
            server.shown,
            "it is a node of a cluster, which holds a part of the keys and gives them away at any time",
            "archive from a copy that is no cluster: restore a backup of each node into a server of its own",
        )
    if trim and server.facts.is_replica:
        import redis

        what = "it is a replica, which cannot be trimmed"
        # As it would answer: it may have been the primary, and who follows waits for the new one at its address.
        refused = redis.exceptions.ReadOnlyError("role:slave")
        raise RemoteError(server.shown, what, "name the primary, or leave --trim") from refused
    if trim and server.facts.is_ours:
        raise RemoteError(
            server.shown,
            "it is a diskstream serve, which runs no scripts, and a trim is one",
            "leave --trim; its own streams are trimmed by diskstream trim, or moved away by diskstream retention",
        )


class Archiver:
    """Copies the streams that some patterns name; nobody else archives into the store meanwhile."""

    def __init__(self, server: Server, store: Store, patterns: Sequence[bytes], options: ArchiveOptions) -> None:
        """Checks what it is told.

        Args:
            server: the Redis; the caller closes it.
            store: what to archive into.
            patterns: names of keys; with wildcards as KEYS has them.
            options: how.

        Raises:
            ArgumentError: options that make no sense, no patterns.
            RemoteError: it is not a server to archive from.
        """
        options.check()
        if not patterns or not all(patterns):
            raise ArgumentError("name at least one key, or a pattern of keys")
        self._patterns, self._options, self._store = list(patterns), options, store
        self._server = server
        check_server(server, trim=options.trim)
        self._checkpoints = Checkpoints(store)
        self._pace = Pace(options.rate)
        self._copies: dict[bytes, StreamCopy] = {}
        self._failed: dict[bytes, ArchiveReport] = {}
        self._awaited: dict[bytes, ArchiveReport] = {}
        # Of patterns, as the two before are of keys: a key may have the very name of a pattern that does not match it.
        self._unmatched: dict[bytes, ArchiveReport] = {}
        self._awaited_patterns: dict[bytes, ArchiveReport] = {}
        self._finished: set[bytes] = set()
        self._breaks: dict[bytes, tuple[int, float]] = {}
        self._skipped: dict[bytes, str] = {}
        self._told: dict[bytes, set[str]] = {}
        self._lease: Lease | None = None
        self._local = threading.local()
        self._readers: list[EntriesReader] = []

    def run(self, stop: threading.Event | None = None) -> ArchiveResult:
        """Archives: once, or with `follow` until `stop` is set.

        What goes wrong with one stream stands in its report, and the others go on.

        Raises:
            ChangedError: somebody else archives into the store.
            RemoteError: the server went away; one that comes back is waited for with `follow`. Run it again: it goes
                on where it stopped.
            StorageError: the disk said no, likewise.
        """
        halt = stop or threading.Event()
        try:
            with (
                self._checkpoints.locked() as identity,
                self._leased(identity),
                ThreadPoolExecutor(self._options.jobs) as pool,
            ):
                try:
                    stopped = self._lasting(pool, halt)
                except BaseException:
                    halt.set()  # the other threads end at the next batch
                    raise
        finally:
            for reader in self._readers:
                reader.close()
        for copy in self._copies.values():
            copy.end()
            if copy.key in self._breaks:  # the last round too, which was tried whether it rested or not
                copy.report.find("not all was copied: the connection broke off each time; see the notes")
            if self._server.facts.is_cut_off and not self._options.follow:  # who follows copies it once it has come
                copy.report.find(_CUT_OFF)
        return self._result(stopped=stopped)

    def broken_off(self, error: DiskstreamError) -> ArchiveResult:
        """What a run did until an error ended it, which is that of each stream it had not finished.

        Args:
            error: what `run` raised.
        """
        for copy in self._copies.values():
            if copy.report.error is None and (self._options.follow or copy.key not in self._finished):
                _give_up(copy.report, error)
        return self._result(stopped=True)

    def _result(self, *, stopped: bool) -> ArchiveResult:
        others = (self._failed, self._awaited, self._unmatched, self._awaited_patterns)
        reports = [
            *(copy.report for copy in self._copies.values()),
            *(each for some in others for each in some.values()),
        ]
        reports.sort(key=lambda report: report.stream)
        return ArchiveResult(reports, sorted(self._skipped.items()), stopped)

    @contextlib.contextmanager
    def _leased(self, identity: str) -> Iterator[None]:
        if not self._options.trim:
            yield
            return
        self._lease = Lease(self._server, identity)
        try:
            yield
        finally:
            self._lease.release()

    # --- rounds -------------------------------------------------------------------------------------------------------

    def _lasting(self, pool: ThreadPoolExecutor, stop: threading.Event) -> bool:
        """The rounds, and where it follows again and again as the server goes away and comes back."""
        outage = Outage(stop, self._options.on_away)
        anew = False
        while True:
            try:
                if anew:
                    self._begin_anew()
                return self._rounds(pool, stop, outage)
            except RemoteError as error:
                if not self._options.follow:
                    raise
                if stop.is_set():
                    if anew and is_passing(error):
                        return True  # told to end while it asked again, as if it had rested
                    raise
                anew = True
                if not outage.rest(error):
                    return True

    def _begin_anew(self) -> None:
        """What came back may be another server, or have lost something: nothing that was known of it holds.

        Nor does any connection: those of the readers would go on reading what the one before has.
        """
        for reader in self._readers:
            reader.close()
        self._server.look_again()
        check_server(self._server, trim=self._options.trim)
        self._breaks.clear()
        for copy in self._copies.values():
            copy.begin_anew()

    def _rounds(self, pool: ThreadPoolExecutor, stop: threading.Event, outage: Outage) -> bool:
        self._find_keys(stop, others=True)
        self._round(pool, stop, groups=True)
        outage.over()
        if not self._options.follow:
            return stop.is_set()
        found_at, cost = time.monotonic(), 0.0
        carry_at = found_at + _GROUPS_EVERY_S
        while not stop.is_set() and (self._going() or self._awaited or any(map(has_wildcard, self._patterns))):
            now = time.monotonic()
            if now - found_at >= max(_KEYS_EVERY_S, _KEYS_SHARE * cost):
                self._find_keys(stop, others=False)
                found_at = time.monotonic()
                cost = found_at - now
            groups = time.monotonic() >= carry_at
            began = time.monotonic()
            copied = self._round(pool, stop, groups=groups)
            if groups:
                ended = time.monotonic()
                carry_at = ended + max(_GROUPS_EVERY_S, _GROUPS_SHARE * (ended - began))
            if copied < _FEW_ENTRIES:
                stop.wait(_PAUSE_S)  # lest each entry be a round of its own, with flushes of its own
            if not copied:
                self._wait(stop)
        self._round(pool, stop, groups=True)  # ends at once where much is new; else leaves the groups as they are
        return False

    def _going(self) -> list[StreamCopy]:
        return [copy for copy in self._copies.values() if copy.report.error is None]

    def _round(self, pool: ThreadPoolExecutor, stop: threading.Event, *, groups: bool) -> int:
        under_way = [pool.submit(self._one, copy, stop, groups=groups) for copy in self._going()]
        try:
            return sum(each.result() for each in under_way)
        except RemoteError:
            for each in under_way:
                each.cancel()
            wait(under_way)  # whoever goes on after this has the copies for itself
            raise

    def _one(self, copy: StreamCopy, stop: threading.Event, *, groups: bool) -> int:
        if stop.is_set() and not self._options.follow:
            return 0
        breaks, rested_at = self._breaks.get(copy.key, (0, 0.0))
        if breaks and time.monotonic() < rested_at and not stop.is_set():
            return 0
        copied = 0
        while True:
            try:
                copied += self._round_of(copy, groups=groups)
            finally:
                self._remark(copy.report)
            breaks, rested_at = self._breaks.get(copy.key, (0, 0.0))
            if not breaks and not stop.is_set():
                self._finished.add(copy.key)
            if not breaks or self._options.follow or stop.wait(rested_at - time.monotonic()):
                return copied

    def _round_of(self, copy: StreamCopy, *, groups: bool) -> int:
        try:
            copied = copy.round(self._reader(), groups=groups)
            self._breaks.pop(copy.key, None)
            return copied
        except (ChangedError, CorruptionError, FormatError, ArgumentError) as error:
            _give_up(copy.report, error)
        except RemoteError as error:
            if is_demoted(error):
                raise  # all streams are at another server now
            self._server.is_there()  # then it is this stream alone
            self._broke(copy, error)
        return 0

    def _broke(self, copy: StreamCopy, error: RemoteError) -> None:
        """A connection that breaks off is made anew, after a rest; who was refused is not asked again."""
        breaks = self._breaks.get(copy.key, (0, 0.0))[0] + 1
        if not is_passing(error) or (breaks >= _MOST_BREAKS and not self._options.follow):
            self._breaks.pop(copy.key, None)
            _give_up(copy.report, error)
            return
        self._breaks[copy.key] = breaks, time.monotonic() + rest_s(breaks)
        copy.report.note(f"tried again: {error}")

    def _remark(self, report: ArchiveReport) -> None:
        """Tells what is new of a stream."""
        if self._options.on_remark is None:
            return
        remarks = [*(f"finding: {finding}" for finding in report.findings), *report.notes]
        if report.error is not None:
            remarks.append(f"given up: {report.error}" + (f"; {report.hint}" if report.hint else ""))
        told = self._told.setdefault(report.stream, set())
        for remark in remarks:
            if remark not in told:
                told.add(remark)
                self._options.on_remark(report.stream, remark)

    def _reader(self) -> EntriesReader:
        reader: EntriesReader | None = getattr(self._local, "reader", None)
        if reader is None:
            rate = self._options.rate
            # A batch is paid for when it was read: one of a quarter of a second keeps the pace even.
            most = self._options.batch if rate is None else min(self._options.batch, max(1, int(rate / 4)))
            reader = EntriesReader(self._server, most)
            self._local.reader = reader
            self._readers.append(reader)
        return reader

    def _wait(self, stop: threading.Event) -> None:
        """Until one of the streams has something new, or a moment has passed."""
        going = self._going()
        if not going or len(going) > _MOST_WAITED_FOR or self._options.rate is not None:
            stop.wait(_WAIT_MS / 1000)
            return
        keys = [copy.key for copy in going]
        after = [bytes(copy.drained_to) for copy in going]
        try:
            self._server.call("wait for entries", "XREAD", "COUNT", 1, "BLOCK", _WAIT_MS, "STREAMS", *keys, *after)
        except RemoteError as error:
            if not str(error.__cause__).startswith("WRONGTYPE"):  # a key may have that word in its name
                raise
            stop.wait(_WAIT_MS / 1000)  # the round says which one it is

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _find_keys(self, stop: threading.Event, *, others: bool) -> None:
        """Adds the streams that are not known yet; with `others`, what is none is remembered."""
        for pattern in self._patterns:
            exact, matched = not has_wildcard(pattern), False
            for key, kind in self._server.named(pattern, others=others):
                matched = matched or (kind == "stream" and not key.startswith(OURS))
                if key in self._copies or key in self._failed or (key.startswith(OURS) and not exact):
                    continue
                if key.startswith(OURS):
                    self._failed[key] = ArchiveReport(key, error=OWN_NAME, hint=_RENAME)
                    self._remark(self._failed[key])
                    continue
                if kind != "none":
                    self._awaited.pop(key, None)
                if kind == "stream" or (exact and kind == "none" and self._checkpoints.has(key)):
                    self._add(key, stop)
                elif exact and kind == "none" and self._options.follow:
                    self._await(self._awaited, key, "there is no such key")
                elif exact:
                    what = "there is no such key" if kind == "none" else f"the key is a {kind}, not a stream"
                    hint = _PATTERNS if kind == "none" else None
                    self._failed[key] = ArchiveReport(key, error=what, hint=hint)
                    self._remark(self._failed[key])
                elif others and kind != "none" and len(self._skipped) < _MOST_SKIPPED:
                    self._skipped[key] = kind
            if not exact:
                self._matched(pattern, matched=matched, first=others)

    def _matched(self, pattern: bytes, *, matched: bool, first: bool) -> None:
        """A pattern that no stream has is as a key that is not there: perhaps it is mistyped."""
        if matched:
            self._awaited_patterns.pop(pattern, None)
        elif first and self._options.follow:
            self._await(self._awaited_patterns, pattern, NO_MATCH)
        elif first:
            self._unmatched[pattern] = ArchiveReport(pattern, error=NO_MATCH, hint=_PATTERNS)
            self._remark(self._unmatched[pattern])

    def _await(self, awaited: dict[bytes, ArchiveReport], name: bytes, what: str) -> None:
        if name not in awaited:
            awaited[name] = ArchiveReport(name, error=what, hint="it was waited for")
            if self._options.on_remark is not None:
                self._options.on_remark(name, f"{what} yet: it is waited for")

    def _add(self, key: bytes, stop: threading.Event) -> None:
        try:
            self._copies[key] = StreamCopy(
                self._server,
                self._store,
                self._checkpoints,
                key,
                options=self._options,
                lease=self._lease,
                pace=self._pace,
                stop=stop,
            )
        except ArgumentError as error:  # a name that no stream of ours can have
            self._failed[key] = ArchiveReport(key, error=str(error))
            self._remark(self._failed[key])


def _give_up(report: ArchiveReport, error: DiskstreamError) -> None:
    report.error, report.hint = str(error), getattr(error, "hint", None)
