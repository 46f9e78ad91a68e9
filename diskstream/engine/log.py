"""One stream on disk, as one process sees it: appending, rolling, following other writers.

The native `Log` does what happens for every append. Whatever needs a decision or a system call beyond the write
itself comes back as a reason, is dealt with here, and the append is tried again.
"""

import contextlib
import errno
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from diskstream._native import TRIM_GRANULE_ENTRIES, EntryID, RowSegment
from diskstream.engine import audit, closing, frontier, names, opening, recovery, roll, spare, superseded, torn
from diskstream.engine.files import Files, LogFileLike
from diskstream.engine.kept_open import SharedCache
from diskstream.engine.looks import names_in
from diskstream.engine.moved import ForkedError, GivenUpError, StreamMoved
from diskstream.engine.page import APPEND, FLAG_CHECK, FLAG_MOVED, FLAG_ROTTEN, FLUSH, MAINTENANCE, POISONED
from diskstream.engine.pending import StreamPending
from diskstream.engine.recovery import RecoveryReport
from diskstream.engine.segment import Segments
from diskstream.engine.state import View, open_view
from diskstream.engine.whereabouts import Whereabouts, refuse_elsewhere
from diskstream.errors import (
    ArgumentError,
    CorruptionError,
    DiskFullError,
    DiskstreamError,
    PoisonedError,
    ReadOnlyError,
    StorageError,
)
from diskstream.options import Options

__all__ = ["StreamLog", "StreamMoved"]

# Reasons, as native/python/src/errors.rs numbers them.
EXTEND, ROLL, FOLLOW, CHECK, MOVED, FRONTIER, ROTTEN, CLOSED = range(1, 9)

_HAS_NO_LOCK = ForkedError, GivenUpError  # the parent has it; nobody takes it any more

_MAX_STEP_BYTES = 4 << 20
# Under `always` the zeros are flushed together with the next commit, which must not wait for long.
_MAX_STEP_ALWAYS_BYTES = 1 << 20


def _gone() -> NoReturn:
    raise StreamMoved


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // 4096) * 4096


class StreamLog:
    """An open stream directory.

    Safe under threads. A process that was forked must not use its parent's: the store opens a new one.
    """

    fault = torn.KeptFault()
    _lets_go = has_let_go = False  # it ends; nothing is open any more
    is_kept = False  # a store has it, and closes it also where it is dropped itself
    _opened: opening.Opened | None = None  # while it is opened

    def __init__(
        self,
        directory: Path,
        files: Files,
        options: Options,
        *,
        read_only: bool,
        made: bool = False,
        cache: SharedCache | None = None,
        view: View | None = None,
    ) -> None:
        self.directory, self.files, self.options, self.read_only = directory, files, options, read_only
        self.report: RecoveryReport | None
        self.is_damaged: bool  # whether there is a `fault`, which costs a reader nothing to ask
        self._mutex, self._closing = threading.RLock(), threading.RLock()
        self._closed = self._retired = False
        self.waits = True  # for the append lock: see closing.py
        self.was_used = False  # since a log was last to be closed for another
        self.on_roll: Callable[[], None] = lambda: None
        # Approximate trims remove whole runs of so many.
        self.run_entries: Callable[[], int] = lambda: TRIM_GRANULE_ENTRIES
        self._dropped: list[tuple[int, int]] = []  # number and generation: until their files are gone
        # What of these has to stay as long as the log of that number is the active one: no look need find it again.
        self._waiting: tuple[int, list[tuple[int, int]]] | None = None
        self.owed: set[StreamLog] | None = None  # where flushes are put off: the logs that owe one
        with contextlib.ExitStack() as undo:
            self._whereabouts = Whereabouts(directory, is_reader=read_only)
            undo.callback(self._whereabouts.close)
            with self._whereabouts.asked():
                # Held at once by what `__del__` looks at: an interrupt may come before anything else has it.
                opened = self._opened = opening.open_log(directory, files, options, read_only=read_only, made=made)
            undo.callback(opened.page.close)
            undo.callback(opened.file.close)
            self.page, self.native, self.opened_alone = opened.page, opened.native, opened.was_alone
            self.report, self.fault = opened.report, opened.fault
            self._logs: dict[int, LogFileLike] = {self.native.tail[0]: opened.file}
            self.ctl, self._opened = self.page.ctl, None
            # Adds an entry as plainly as most are; None once this is closed. Who keeps it keeps no closed log by it.
            self.direct: list[Callable[..., EntryID] | None] = [self.native.add]
            ours = weakref.ref(self)  # a strong one would be a cycle through native memory
            self.native.set_resolver(lambda reason, held: StreamLog.resolve(ours() or _gone(), reason, held=held))
            self.segments = Segments(directory, self.native, options, cache, self._whereabouts.asked)
            self.pending = StreamPending(self, view or open_view(directory.parent.parent / "view"))
            undo.pop_all()
        if not read_only:
            self._whereabouts.leave_to(self.page)
        self.first_seen: tuple[int, EntryID] | None = None  # the first live ID, as of a version: see reader.first_id
        self.marked_lsn = self._reserved_lsn = self.native.tail[2]

    # --- appending ----------------------------------------------------------------------------------------------------

    def locked(self) -> AbstractContextManager[bool]:
        """The append lock: nobody else, in any process, appends while it is held."""
        return self.ctl.locked(APPEND) if self.waits else closing.append_lock_at_once(self.ctl)

    def retry(self, attempt: Callable[[], int], *, held: bool = False) -> None:
        """Tries `attempt` until it gives no reason any more, dealing with each."""
        while reason := attempt():
            self.resolve(reason, held=held)

    def resolve(self, reason: int, *, held: bool = False) -> None:
        """Does what an append found missing.

        Raises:
            StreamMoved: the stream is gone from here.
            CorruptionError: the log is damaged.
            StorageError: the disk said no; nothing was appended.
        """
        if reason in (MOVED, CLOSED):
            raise StreamMoved
        if reason == ROTTEN:
            raise self.fault or CorruptionError(str(self.directory), "log", 0, "a sound log", "a damaged one")
        if self.read_only:
            raise ReadOnlyError(str(self.directory))
        with contextlib.nullcontext() if held else self.locked(), self._mutex:
            if reason == CHECK or self.ctl.flags & FLAG_CHECK:
                self._revalidate()
                return
            self._follow()
            if reason == EXTEND:
                self._extend()
            elif reason == ROLL:
                roll.begin_next(self)
            elif reason == FRONTIER:
                frontier.reserve(self.native, self.file, self.ctl, self.now())

    def now(self) -> int | None:
        """Milliseconds of the clock that was chosen; None where it is the system's.

        Raises:
            ArgumentError: it gives something else.
        """
        if self.options.clock is None:
            return None
        now: object = self.options.clock()
        if not isinstance(now, int) or isinstance(now, bool) or not 0 <= now < 1 << 64:
            raise ArgumentError(f"the clock must give milliseconds as an int of 64 bits, not {now!r}")
        return now

    def _extend(self) -> None:
        """Zero-fills ahead, in steps that double up to a limit: small streams stay small."""
        size = self.file.size_bytes
        needed = self.native.tail[1] + self.native.needed_bytes
        if needed <= size:
            return
        step = min(size, _MAX_STEP_ALWAYS_BYTES if self.options.is_always else _MAX_STEP_BYTES)
        try:
            self.file.extend(_whole_pages(max(needed, size + step)))
        except StorageError as error:
            too_large = error.errno == errno.EFBIG
            if not too_large and not isinstance(error, DiskFullError):
                raise
            # Ahead there is no room; for this one append there may be.
            if self.file.size_bytes >= needed:
                return
            try:
                self.file.extend(_whole_pages(needed))
            except StorageError:
                if not too_large or not self.native.active_entries:
                    raise
                roll.begin_next(self)  # in a file of its own (ulimit -f) there is

    def enter(self, number: int) -> None:
        """Goes on in segment `number`, keeping the one left behind for readers."""
        self._logs[number] = self.files.open_log(names.log_path(self.directory, number), writable=not self.read_only)
        left: RowSegment | None = self.native.advance(self._logs[number])
        if left is not None:
            self.segments.keep_rows(number - 1, left)
        for old in [each for each in self._logs if each < number]:
            self._logs.pop(old).close()

    @property
    def file(self) -> LogFileLike:
        """The file of the segment that the native log is in: both change in one step, whatever comes in between."""
        return self._logs[self.native.tail[0]]

    def roll(self) -> bool:
        """Begins the next segment if this one holds an entry. Returns whether it did."""
        with self.locked():
            self.prepare()
            return self.roll_held()

    def roll_held(self, *, even_empty: bool = False) -> bool:
        """The same for who has the append lock already, and is up to date."""
        if self.native.active_entries == 0 and not even_empty:
            return False
        with self._mutex:
            roll.begin_next(self)
        return True

    def greatest_stored_id(self) -> EntryID:
        """The greatest ID of which a file still has an entry, gone or not."""
        views = [*self.segments.views(), self.native.active_view()]
        return max((view.last for view in views if view.entries), default=EntryID(0, 0))

    def prepare(self) -> None:
        """Brings this process up to date and checks that appending is possible; the caller holds the append lock.

        Raises:
            StreamMoved: the stream is gone from here.
            ReadOnlyError, CorruptionError, StorageError: nothing may be appended.
        """
        if self.read_only:
            raise ReadOnlyError(str(self.directory))
        with self._mutex:
            if self.ctl.flags & FLAG_CHECK:
                self._revalidate()
            flags = self.ctl.flags
            if flags & POISONED:
                raise PoisonedError(str(self.directory), self.ctl.poison_text)
            if flags & FLAG_ROTTEN:
                self.resolve(ROTTEN, held=True)
            self._follow()

    def _revalidate(self) -> None:
        """A holder of the lock died: what it left behind the published position is checked, kept if whole, else cut."""
        if self.ctl.flags & POISONED:  # a flush now would prove nothing
            raise PoisonedError(str(self.directory), self.ctl.poison_text)
        self._follow()
        roll.finish(self)
        found = torn.settle_left(self.directory, self.files, self.file, self.native, self.ctl)
        number, end, lsn, _ = self.native.tail
        if found is not None:
            self.report = self.report or RecoveryReport(self.directory)
            self.report.findings.append(found)
            if found.kind == "rotten":  # what comes next would be written over it
                self.fault = torn.rot(self.directory, self.native, found)
                self.ctl.raise_flags(FLAG_ROTTEN)
        self.ctl.publish(number, end, lsn)
        self.ctl.clear_flags(FLAG_CHECK)

    # --- following ----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Applies what other processes have appended.

        Raises:
            StreamMoved: the stream is gone from here.
        """
        if self._closed:
            raise StreamMoved
        if self.read_only:
            self._look_again()
            return
        reason = self.native.catch_up()
        if reason == MOVED:
            raise StreamMoved
        if reason == FOLLOW:
            with self._mutex:
                self._follow()

    def _follow(self) -> None:
        """Goes on in the segments that others have begun.

        Raises:
            StreamMoved: the stream is gone from here.
            StorageError: somebody removed or moved its files by hand.
            CorruptionError: the next segment is missing, or another's.
        """
        while reason := self.native.catch_up():
            if reason != FOLLOW:
                raise StreamMoved
            number = self.ctl.written[0]
            if number < self.native.tail[0]:
                return  # a roll of ours that was interrupted before it was published
            try:
                with self._whereabouts.asked():
                    self.enter(number)
            except FileNotFoundError:
                if self.ctl.written[0] == number:  # else it was rolled again, and sealed, in between
                    path = str(names.log_path(self.directory, number))
                    raise CorruptionError(path, "next segment", 0, "a file that continues this log", "none") from None

    def _look_again(self) -> None:
        """A reader without the shared page looks at the file itself."""
        with self._mutex, self._whereabouts.asked():
            while True:
                self._whereabouts.check()
                self.native.follow()
                number, end, lsn, _ = self.native.tail
                following = recovery.next_log(self.directory, number)
                if self.is_damaged or following is None:
                    break
                with contextlib.suppress(FileNotFoundError):  # rolled again, and sealed, in between
                    self.enter(following)
            if self.ctl.written != (number, end):
                self.ctl.publish(number, end, lsn)
                self.native.catch_up()

    # --- durability ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Returns once all that was appended before is durable.

        Raises:
            StorageError: the flush failed; the stream takes no more writes until it is reopened.
        """
        closing.flush(self)

    def settle(self) -> None:
        """Under `always` an answer may rest on nothing that a power cut can take back, be it others' changes.

        Where flushes are put off, the answer is kept back, and this log owes one.
        """
        if self.options.is_always and not self.native.is_durable:
            if self.owed is None:
                self.flush()
            else:
                self.owed.add(self)

    def reserve_ahead(self) -> None:
        """Moves the frontier on if the stream is in use, so that no append has to wait for it."""
        if self.options.is_always or self.read_only or self.is_damaged:
            return
        lsn = self.native.tail[2]
        if lsn == self._reserved_lsn:
            return
        self._reserved_lsn = lsn
        with self.locked(), self._mutex:
            if not self.ctl.flags and self.native.catch_up() == 0:
                frontier.reserve(self.native, self.file, self.ctl, self.now())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def must_be_marked(self) -> bool:
        """Whether it is marked as sound when it is closed: see `closing.mark_clean`."""
        return not (self.read_only or self.is_damaged or self.ctl.flags & FLAG_MOVED)

    def close(self) -> None:
        """Makes everything durable, marks it so, and lets go of the directory."""
        with self._closing:  # its store may close a retired log while who used it last does
            self._close()

    def _close(self) -> None:
        with self._mutex:
            if self.has_let_go:  # where an interrupt ended the first, this goes on
                return
            self._closed = True
        # Not under `_mutex`: who appends takes the append lock first and that one second.
        try:
            if self._lets_go:
                return
            if self.ctl.flags & POISONED and not self.read_only:
                raise PoisonedError(str(self.directory), self.ctl.poison_text)
            if self.must_be_marked:
                self._close_cleanly()
        except StreamMoved:
            pass  # whoever moved it has flushed it
        finally:
            self._let_go()

    def retire(self) -> None:
        """Has the log closed by the last thread that uses it, and not under anybody's hands; who waits lets go."""
        self._retired, self.direct[0] = True, None  # who adds from now on opens it anew
        self.native.end_waits()
        with contextlib.suppress(DiskstreamError, StreamMoved):
            self.flush()  # nobody else sees to it from now on

    def __del__(self) -> None:
        if getattr(self, "_retired", False) and not self.has_let_go:
            with contextlib.suppress(DiskstreamError, StreamMoved):
                self.close()
            if not self.has_let_go:  # a garbage collection came to it in a thread that has the append lock
                closing.close_beside(self)
        elif self.is_kept and not (self.has_let_go or self.page.closed):
            # One garbage collection came to it and to its store, which closes it beside: without its page it would be
            # writing where others may be alone by then. Whoever comes second finds it closed.
            closing.close_beside(self)
        elif not self.has_let_go and not sys.is_finalizing():
            # A signal handler raised before anybody had it: what it holds by number alone goes by nothing else.
            held = self._opened or self
            if hasattr(held, "page"):
                held.page.close()

    _close_cleanly = closing.mark_clean

    def remove_dropped(self) -> int:
        """Removes the files of segments that are no longer listed, once the frame that says so is durable.

        The caller holds the maintenance lock and is up to date, so nobody is moving the stream away.

        Raises:
            StorageError: the disk said no, to some of them perhaps: the others are gone, and these are tried again.
        """
        # Before what is dropped is taken: what this rests on must be durable too when files go.
        oldest = audit.oldest(self.native)
        dropped = self._dropped = self._dropped + self.native.take_dropped()
        active = self.native.tail[0]
        if not dropped or (active, dropped) == self._waiting:
            return 0
        refuse_elsewhere(self.directory, self.page)
        self.flush()
        listed = {view.number: view.generation for view in self.native.segments()}
        present = names_in(self.directory)
        lost = superseded.compacted_and_lost(listed, present)
        has_copy = spare.keep(self.directory, self.files, active, listed.keys(), present)
        kept: dict[tuple[int, int], StorageError | None] = {}
        for number, generation in dropped:
            if number == active - 1 and not has_copy:
                kept[number, generation] = None  # a repair makes the damaged snapshot of the active log from it
                continue
            if listed.get(number) == generation or superseded.is_of_use(number, generation, listed, lost):
                continue  # a repaired log may list again what it dropped before
            self.segments.forget(number, generation)
            if self.options.audit and generation == 0 and number >= oldest:
                audit.rescue(self.directory, self.files, self.native, number, self.options.compression_level)
            try:
                self.files.unlink(names.segment_path(self.directory, number, generation))
                self.files.unlink(names.cold_path(self.directory, number, generation))  # the object is nobody's then
                if generation == 0:
                    self.files.unlink(names.log_path(self.directory, number))
            except StorageError as error:  # one that cannot be removed keeps no room of others
                kept[number, generation] = error
        audit.sweep(self.directory, self.files, self.native, oldest, present)
        self.files.sync_dir(self.directory)  # so that no later opening finds them again, and reports it
        self._dropped = list(kept)
        if not any(kept.values()):
            self._waiting = active, self._dropped
        for fault in filter(None, kept.values()):
            raise fault
        return len(dropped)

    def _let_go(self, *, waits: bool = True) -> None:
        self._lets_go, self.direct[0] = True, None
        self.native.close()
        # What another thread has under way ends first; whatever begins from now on finds the log closed.
        if waits and self.ctl.is_maintained_here:
            # Once nobody has the page open any more, who opens it next makes its locks anew, and one would be held. For
            # what another process has under way nobody waits: that one has the page open, too.
            with contextlib.suppress(*_HAS_NO_LOCK, ArgumentError), self.ctl.locked(MAINTENANCE):
                pass  # an ArgumentError says that this very thread has it, in a call that the log is closed from
        for lock in (APPEND, FLUSH) if waits else ():
            with contextlib.suppress(*_HAS_NO_LOCK), self.ctl.locked(lock):
                pass
        files = [file.close for file in self._logs.values()]
        for close in (self.pending.close, self.segments.close, *files, self.page.close, self._whereabouts.close):
            close()
        self.has_let_go = True

    leave = closing.leave

    def abandon(self, *, waits: bool = True) -> None:
        """Lets go without a word to the disk: the stream is gone from here. Who counts as killed waits for nobody."""
        self._closed = True
        with self._closing:  # a thread that closes it meanwhile has its descriptors: their numbers are others' then
            if not self.has_let_go:
                self._let_go(waits=waits)

    def after_fork(self) -> None:
        """Lets go of what is the parent's, touching no lock: a thread that is not here may have held it.

        A call in which a signal handler forked goes on here too, can change nothing, and is done anew: see moved.py.
        """
        self._closed = self.has_let_go = True
        self._closing = threading.RLock()
        self.direct[0] = None
        self.native.close(False)
        self.page.after_fork()
        self._whereabouts.close()
