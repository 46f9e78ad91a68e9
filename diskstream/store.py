"""The store: a directory of streams, shared by any number of processes."""

import contextlib
import dataclasses
import difflib
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, Unpack

from diskstream import idempotence
from diskstream._native import Delivery, Entry
from diskstream.arguments import path_of
from diskstream.cold_reads import cold_cache
from diskstream.dropped import Dropped
from diskstream.engine import directory, lease, names, replacing, store_page
from diskstream.engine.closing import close_idle
from diskstream.engine.descriptors import offer, uses
from diskstream.engine.files import Files
from diskstream.engine.keeper import Keeper, wait_for_last
from diskstream.engine.kept_open import SharedCache
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.looks import is_folder, refuse_link
from diskstream.engine.open_logs import OpenLogs
from diskstream.engine.page import POISONED, Page
from diskstream.engine.process_end import at_end
from diskstream.engine.recovery import RecoveryReport
from diskstream.engine.state import View, open_view
from diskstream.engine.threads import too_many
from diskstream.errors import ArgumentError, ArgumentTypeError, ClosedError, DiskstreamError, storage_error
from diskstream.group_calls import begin_call
from diskstream.ids import IDLike
from diskstream.options import OpenOptions, Options
from diskstream.reading import Name, positions_of, read_streams
from diskstream.removing import Removing
from diskstream.retainer import Retainer
from diskstream.stream import Stream
from diskstream.upkeep import Upkeep
from diskstream.wanted import Wanted

__all__ = ["Store", "open"]

# Only to reach them in a forked child, where their descriptors and threads are the parent's.
_STORES: "weakref.WeakSet[Store]" = weakref.WeakSet()

# How long is waited for who opens or moves a stream, where descriptors are missing.
_PATIENCE_S = 1.0


def open(  # `diskstream.open`, as `gzip.open` and `dbm.open`
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    create: bool = True,
    files: Files | None = None,
    **options: Unpack[OpenOptions],
) -> "Store":
    """Opens the store at `path`, making it where there is none.

    Args:
        path: the store's directory.
        read_only: change nothing, not even after a crash; works on a read-only mount and on a backup.
        create: make the store if the directory is missing or empty.
        files: what to write with; for tests that stand in for a disk.
        options: see `Options`.

    Raises:
        ArgumentError: no path, or an option that there is not, or with a value that it cannot have.
        NotAStoreError: the directory holds something else, or there is none and `create` is false.
        NewerFormatError: a later version wrote it.
        NetworkFilesystemError: it is on a network file system.
        NamespaceError: processes of another PID namespace have it open.
        ReadOnlyError: it cannot be written to, and `read_only` is false.
    """
    known = {field.name for field in dataclasses.fields(Options)}
    unknown = sorted(set(options) - known)
    if unknown:
        near = difflib.get_close_matches(unknown[0], known | {"read_only", "create"}, n=1)
        raise ArgumentError(f"no such option: {unknown[0]}" + (f"; did you mean {near[0]}?" if near else ""))
    return Store(path_of(path), Options(**options), read_only=read_only, create=create, files=files or Files())


class Store(Removing, Upkeep):
    """An open store. Safe under threads; a forked child goes on with an opening of its own.

    Raises:
        ClosedError: any method of a store, its streams, groups and consumers raises this, once the store is closed.
        ArgumentError: so too, where a name, a number or an ID is none; nothing was changed.
        ReadOnlyError: what would change something, where the store is open for reading only.
        StorageError: a system call failed. The kinds of it, `DiskFullError` say, tell what to do.
        CorruptionError: what was asked for is damaged on disk.
    """

    _closed = True  # where opening it fails
    _half_closed = False  # while it is being closed, and where an interrupt ended that
    _is_parents = False  # closed only as this process was forked, and has not used it

    def __init__(self, path: Path, options: Options, *, read_only: bool, create: bool, files: Files) -> None:
        self.path, self.options, self.read_only, self._files = path, options, read_only, files
        self.recoveries: list[RecoveryReport] = []
        self._streams = path / "streams"
        self._run_entries: Callable[[], int] | None = None  # see `StreamLog.run_entries`; None is the default
        # Of streams that are made from now on: seconds and messages of a producer. None is the defaults.
        self._windows_of_new: Callable[[], tuple[int, int]] | None = None
        self._is_lease = read_only and lease.is_lease(path)
        directory.open_store(path, files, create=create, read_only=read_only)
        self._closed = True  # until it is open: else it would be one that was dropped
        self._begin_empty()
        self._open_page()
        self._closed = False
        offer(self._give_up, logs=True)
        _STORES.add(self)

    def _begin_empty(self) -> None:
        """What an opening has of its own in each process, as long as it has nothing open. Does nothing on the disk."""
        self._mutex, self._closing = threading.RLock(), threading.RLock()
        self._logs = OpenLogs()
        self._view: View | None = None
        self._keeper: Keeper | None = None
        self._owed: set[StreamLog] | None = None  # see settling.py
        self._retainer = Retainer(self)
        fetched = cold_cache(self.path, self.options, self._files, read_only=self.read_only)
        self._cache = SharedCache(self.options.cache_bytes, fetched)

    def _open_page(self) -> None:
        self._view = open_view(self.path / "view")
        self._pid = os.getpid()
        self._page = Page.private() if self.read_only else store_page.open_page(self.path, self._files)

    def _after_fork(self) -> None:
        """Lets go of what is the parent's. What is asked of the store first in this process opens it again.

        Not here: what a signal handler raises in this is lost, and who daemonizes closes all descriptors behind it.
        """
        if self._pid == os.getpid() or (self._closed and not (self._half_closed or self._is_parents)):
            return
        self._is_parents, self._closed, self._half_closed = not self._half_closed, True, False
        for log in self._logs.all():
            log.after_fork()
        self._logs.clear()  # threads that are not here have it too, for ever
        self._page.after_fork()
        self._files = self._files.of_this_process()
        self._begin_empty()

    # --- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._check_open()  # where a block begins on a store that another one has closed, not at its first call
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        """Nobody holds it any more, and nobody closed it: that is told, and its background lets go of what is open."""
        if (self._closed and not self._half_closed) or sys.is_finalizing():
            return  # a process that ends has flushed what was to be
        told = f"{'not closed to the end:' if self._closed else 'unclosed'} {self!r}"
        self._closed, self._half_closed = True, False
        dropped = Dropped(self._logs, self._page, self._cache, self._retainer)
        try:
            if self._keeper is not None:
                self._keeper.end_with(dropped.let_go)
            else:
                dropped.let_go()  # it has no log that is written to: there is nothing to wait for
        finally:
            warnings.warn(told, ResourceWarning, stacklevel=1, source=self)

    def __repr__(self) -> str:
        return f"<diskstream.Store {str(self.path)!r}{' closed' if self.closed else ''}>"

    def __reduce__(self) -> NoReturn:
        """Nor do streams, groups and consumers go to another process, or into a copy.

        Raises:
            ArgumentTypeError: always.
        """
        what = "an open store, and what is of it, is not copied or sent to another process"
        raise ArgumentTypeError(f"{what}: send the path {str(self.path)!r}, and open it there")

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed and not self._is_parents

    def close(self) -> None:
        """Makes everything durable and lets go of the directory. Closing twice is fine.

        Raises:
            StorageError: a last flush failed. The store is closed all the same.
        """
        with self._closing:  # a second thread waits for the first; where an interrupt ended that one, this goes on
            with self._mutex:
                self._is_parents = False
                if self._closed and self._view is None:
                    return
                self._closed = self._half_closed = True
            try:
                self._let_go()
            finally:
                self._end_view()

    def _let_go(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        self._retainer.stop()
        logs = list(self._logs.all())
        for log in logs:
            log.native.end_waits()
        for ctl in (self._page.ctl, *(log.ctl for log in logs)):
            ctl.ring()  # whoever waits in this process finds the store closed
            ctl.wake_queue(1 << 20)
        with contextlib.ExitStack() as stack:
            stack.callback(self._note_end)
            stack.callback(self._cache.cold.close)
            stack.callback(self._page.close)
            for log in logs:
                stack.callback(log.close)

    def _note_end(self) -> None:
        """Behind all else. What an interrupt kept from being let go of is so by who closes or drops it next."""
        for name in [name for name, log in list(self._logs.items()) if log.has_let_go]:
            del self._logs[name]
        if not self._logs and self._page.closed:
            self._keeper, self._half_closed = None, False

    def _end_view(self) -> None:
        """Flushes it where nobody else has it: what a signal handler raises in its finalizer would be lost."""
        if not self._half_closed:
            held, self._view = [self._view], None
            if held[0] is not None and not uses(held):
                held[0].close()

    def _check_open(self) -> None:
        if self._closed:
            self._open_again()

    def _open_again(self) -> None:
        with self._mutex:
            if not self._closed:
                return  # another thread has
            if not self._is_parents:
                raise ClosedError(f"the store {self.path}")
            try:
                self._open_page()
            except (DiskstreamError, OSError) as error:  # its directory may be gone
                raise ClosedError(f"the store {self.path}, which a fork could not open again ({error}),") from error
            self._closed = False
            self._is_parents = False

    # --- streams ------------------------------------------------------------------------------------------------------

    def stream(self, name: str | bytes) -> Stream:
        """The stream of that name. Nothing is made before something is added."""
        self._check_open()
        return Stream(self, names.as_name(name))

    def __iter__(self) -> Iterator[Stream]:
        return (self.stream(name) for name in self.streams())

    def exists(self, name: str | bytes) -> bool:
        """Whether there is a stream of that name. One without entries is one."""
        self._check_open()
        key = names.as_name(name)
        log = self._logs.get(key)
        if log is not None and not self.read_only:
            with contextlib.suppress(StreamMoved):  # one that is open here says so itself where it is moved
                log.refresh()
                return True
        return is_folder(replacing.place_of(self._streams, key))

    __contains__ = exists

    def _log(self, name: bytes, *, create: bool) -> StreamLog | None:
        """The open log of a stream, opening (and making) it where needed; None where there is none."""
        log = self._logs.get(name)
        if log is not None and not log.closed:
            log.was_used = True
            return log
        with self._mutex:
            self._check_open()
            log = self._logs.get(name)
            if log is not None and not log.closed:
                return log
            while True:
                where = self._place(name)
                try:
                    is_there, made = is_folder(where), False
                    if not is_there:
                        if not create:
                            if self._is_lease:
                                lease.check(self.path)  # of a lease nothing goes but all of it
                            directory.check_there(self.path)
                            return None
                        self._begun_keeper()  # where there can be none, no stream is left empty
                        made = self._create(name)
                    log = self._open_log(name, where, made=made)
                    if not is_there and self._windows_of_new is not None:
                        idempotence.begin(log, *self._windows_of_new())
                    return log
                except StreamMoved:
                    continue

    def _open_log(self, name: bytes, where: Path, *, made: bool) -> StreamLog:
        refuse_link(where)
        while len(self._logs) >= self.options.max_open_streams and self._retire_one():
            pass
        try:
            log = StreamLog(
                where,
                self._files,
                self.options,
                read_only=self.read_only,
                made=made,
                cache=self._cache,
                view=self._view,
            )
        except FileNotFoundError as error:  # a symbolic link to nothing, say
            raise storage_error(str(error.filename or where), "open", error.errno or 2, str(error)) from error
        log.ctl.set_hub(self._page.ctl)
        log.owed = self._owed
        log.run_entries = self._run_entries or log.run_entries
        if log.report is not None:
            self.recoveries.append(log.report)
        if not self.read_only:
            try:
                log.on_roll = self._begun_keeper().rolled
            except BaseException:
                log.close()
                raise
        log.is_kept = True
        self._logs[name] = log  # not before: what is added to a log that nobody looks after is not flushed in time
        return log

    def _begun_keeper(self) -> Keeper:
        if self._keeper is None:
            seals = self.options.seal == "background"
            self._keeper = Keeper(self._logs.all, self.options.interval_ms, seals=seals, notice=self._retainer.notice)
        try:
            self._keeper.begin()
        except BaseException as error:
            self._keeper = None
            if isinstance(error, RuntimeError):  # there are too many threads
                raise too_many(str(self.path), error) from error
            raise
        return self._keeper

    def _retire_one(self) -> bool:
        """Closes one log, as soon as no thread uses it any more; False where each has to stay.

        One that was not used since it was last passed over goes: streams that are each looked at once do not close the
        one that is used all the time. One whose flush failed stays: who uses it next, or closes, must learn of that.
        """
        for _ in range(2 * len(self._logs)):
            name = next(iter(self._logs))
            log = self._logs[name]
            if not log.was_used:
                with contextlib.suppress(DiskstreamError, StreamMoved):
                    log.flush()
                if log.read_only or not log.ctl.flags & POISONED:
                    del log  # so that nobody uses it
                    self._logs.retire(name)
                    return True
            log.was_used = False
            self._logs[name] = self._logs.pop(name)
        return False

    def _give_up(self, count: int) -> int:
        """Closes up to so many logs that nobody uses, to be opened again when they are used. Returns how many.

        First go those that were not used since this was last asked, in the order in which they were opened.
        """
        # Who has the mutex may wait for the lock of a stream that the caller has.
        if not self._mutex.acquire(timeout=_PATIENCE_S):
            return 0
        closed = 0
        try:
            for name in [] if self._closed else 2 * list(self._logs):
                if closed == count:
                    break
                if name not in self._logs or uses([self._logs[name]]) > 1:
                    continue
                if self._logs[name].was_used:
                    self._logs[name].was_used = False
                    continue
                held = [self._logs.pop(name)]
                held[0].is_kept = False
                if uses(held) == 0 and close_idle(held[0]):
                    closed += 1
                else:
                    held[0].is_kept = True
                    self._logs[name] = held[0]  # as one just used
        finally:
            self._mutex.release()
        return closed

    def _forget(self, name: bytes, log: StreamLog) -> None:
        """Lets go of a log that is not the stream's any more."""
        with self._mutex:
            log.is_kept = False
            if self._logs.get(name) is log:
                del self._logs[name]
            log.abandon()

    # --- reading several streams --------------------------------------------------------------------------------------

    def read(
        self,
        positions: Mapping[Name, IDLike],
        *,
        count: int | None = None,
        max_count: int | None = None,
        max_bytes: int | None = None,
        block: float | None = None,
    ) -> dict[bytes, list[Entry]]:
        """Entries behind a position in each of several streams, as XREAD.

        Args:
            positions: for each stream the ID behind which to read, ``$`` for its end as of now, ``+`` for its last
                entry.
            count: entries of each stream, at most.
            max_count: entries of all streams together, at most.
            max_bytes: stop once names and values of all entries together reach this; one entry always comes.
            block: wait this many seconds where there is nothing yet; 0 waits for ever, None not at all.

        Returns:
            The entries of those streams that have any, in the order of `positions`; empty after a timeout.
        """
        self._check_open()
        keys = {names.as_name(name): after for name, after in positions_of(positions, block)}
        return read_streams(self, keys, count=count, max_count=max_count, max_bytes=max_bytes, block=block)

    def read_group(
        self,
        group: str | bytes,
        consumer: str | bytes,
        positions: Mapping[Name, IDLike],
        *,
        count: int | None = None,
        max_count: int | None = None,
        max_bytes: int | None = None,
        block: float | None = None,
        noack: bool = False,
        claim_ms: int | None = None,
        stop: threading.Event | None = None,
    ) -> dict[bytes, list[Delivery]]:
        """Reads as a consumer of a group that each of the streams has, as XREADGROUP.

        Args:
            group, consumer: the names of both.
            positions: for each stream ``>`` for what no consumer of the group was given yet, or an ID: this consumer's
                own pending entries behind it.
            count, max_count, max_bytes, block: as `read`. Waiting consumers of a group are served in the order in
                which they began to wait.
            noack: what is given counts as acknowledged.
            claim_ms: first of all, what others have had for so long without acknowledging it, or have given back.
            stop: an event that ends the wait within a moment, with nothing.

        Returns:
            The entries of those streams that have any; a stream whose history was asked for is always there.

        Raises:
            NoGroupError: a stream has no such group; also where it is removed while this waits.
        """
        wanted = Wanted(count, block, noack, claim_ms, max_count, max_bytes, stop)
        with begin_call(self, group, consumer, positions, wanted) as call:
            return call.run()


def _after_fork() -> None:
    for store in list(_STORES):
        store._after_fork()  # the class's own module


os.register_at_fork(after_in_child=_after_fork)


def _at_exit() -> None:
    """A process that ends without closing keeps what it has promised: nobody is left to flush after the interval."""
    for store in list(_STORES):
        if store._keeper is not None:
            store._keeper.end()
    wait_for_last()


at_end(_at_exit)
