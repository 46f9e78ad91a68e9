"""Mistakes for the simulator to catch: flushes left out, or not waited for; what a roll or the view forgets."""

import sys
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import lmdb
import pytest

from diskstream import Commit, Stream
from diskstream.engine import audit, roll, view_rows
from diskstream.engine.log import StreamLog
from diskstream.engine.page import FLAG_CHECK
from diskstream.engine.pending import StreamPending
from diskstream.engine.state import View
from tests.crash import ops
from tests.crash.events import Event, Flush, Pin, SyncDir, Tree
from tests.crash.recorder import RecordingFiles

__all__ = ["MISTAKES", "PATCHES", "left_unchecked"]

Drops = Callable[[Event], bool]


class _Deaf(list[Event]):
    """A trace that does not hear of some events: for the disk they never happened."""

    def __init__(self, events: Iterable[Event], drops: Drops) -> None:
        super().__init__(events)
        self._drops = drops

    def append(self, event: Event, /) -> None:
        if not self._drops(event):
            super().append(event)


class _Forgetful(RecordingFiles):
    """Forgets what `drops` says."""

    def __init__(self, root: Path, start: Tree | None, drops: Drops) -> None:
        super().__init__(root, start)
        self.events = _Deaf(self.events, drops)


class _FirstFlush:
    """The first flush of each file: for a new file that is the one before its rename."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def __call__(self, event: Event) -> bool:
        if not isinstance(event, Flush) or event.inode in self._seen:
            return False
        self._seen.add(event.inode)
        return True


def no_directory_flush(root: Path, start: Tree | None) -> RecordingFiles:
    """Names are never made durable."""
    return _Forgetful(root, start, lambda event: isinstance(event, SyncDir))


def no_flush(root: Path, start: Tree | None) -> RecordingFiles:
    """An acknowledgement before the flush: data are never made durable."""
    return _Forgetful(root, start, lambda event: isinstance(event, Flush))


def rename_before_flush(root: Path, start: Tree | None) -> RecordingFiles:
    """A new file gets its name before its contents are durable."""
    return _Forgetful(root, start, _FirstFlush())


def reservation_not_durable(root: Path, start: Tree | None) -> RecordingFiles:
    """IDs are issued above a frontier that is not on disk yet."""
    return _Forgetful(root, start, lambda event: isinstance(event, Pin))


MISTAKES: dict[str, Callable[[Path, Tree | None], RecordingFiles]] = {
    "no flush of directories": no_directory_flush,
    "acknowledged before the flush": no_flush,
    "renamed before the flush": rename_before_flush,
    "reservation not durable": reservation_not_durable,
}


# --- mistakes in what is done for groups and for writers that try again -----------------------------------------------


def _returns_before_its_flush(patch: pytest.MonkeyPatch, module: str) -> None:
    for name in ("flush", "settle"):
        patch.setattr(StreamLog, name, _unless_called_by(module, getattr(StreamLog, name)))


def _unless_called_by(module: str, whole: Callable[[StreamLog], None]) -> Callable[[StreamLog], None]:
    def wait(log: StreamLog) -> None:
        if sys._getframe(1).f_globals["__name__"] != module:
            whole(log)

    return wait


def delivered_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """Under `always`, entries are given out whose delivery is not durable."""
    _returns_before_its_flush(patch, "diskstream.delivering")


def changed_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """Under `always`, an acknowledgement or a claim returns when it is not durable."""
    _returns_before_its_flush(patch, "diskstream.membership")


def roll_forgets(patch: pytest.MonkeyPatch) -> None:
    """The snapshot of the next segment is without the pending entries of the view."""
    whole = StreamPending.for_roll

    def for_roll(pending: StreamPending) -> list[tuple[int, bytes]] | None:
        return None if whole(pending) is None else []

    patch.setattr(StreamPending, "for_roll", for_roll)


def roll_takes_the_view_as_it_is(patch: pytest.MonkeyPatch) -> None:
    """The snapshot of the next segment is without what changed since the view was written."""
    whole = StreamPending.for_roll

    def for_roll(pending: StreamPending) -> list[tuple[int, bytes]] | None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(StreamPending, "checkpoint", lambda *_, **__: None)
            return whole(pending)

    patch.setattr(StreamPending, "for_roll", for_roll)


def stale_view_trusted(patch: pytest.MonkeyPatch) -> None:
    """Whatever view is there is taken for the one that the log speaks of."""

    def stands(pending: StreamPending, txn: lmdb.Transaction) -> bool:
        return view_rows.read_place(txn, pending._uuid) is not None

    patch.setattr(StreamPending, "_stands", stands)


def rebuilt_and_not_written(patch: pytest.MonkeyPatch) -> None:
    """A view that should be made anew stays as it is."""
    whole = View.write

    def write(view: View, change: Callable[[lmdb.Transaction], object]) -> object:
        return whole(view, change) if "_rebuild" not in change.__qualname__ else None

    patch.setattr(View, "write", write)


def log_removed_before_its_audit_is_kept(patch: pytest.MonkeyPatch) -> None:
    """Of two logs in three that go, what groups did goes with them."""
    whole, calls = audit.write, count()

    def write(*given: Any) -> bool:
        return next(calls) % 3 == 0 and whole(*given)

    patch.setattr(audit, "write", write)
    patch.setitem(ops.WEIGHTS, ops.seal, 40)  # a log goes when it is sealed


def committed_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """A version is said to be complete when that is not durable."""
    _returns_before_its_flush(patch, "diskstream.committing")


def committed_behind_its_rows(patch: pytest.MonkeyPatch) -> None:
    """A commit stands in a frame of its own."""
    whole = Stream.add_many

    def add_many(stream: Stream, rows: Any, *, commit: Commit | None = None, **options: Any) -> Any:
        last = None if commit is None else stream.committed(commit.writer)
        if commit is not None and last is not None and last >= (commit.version, commit.part):
            return None
        added = whole(stream, rows, **options)
        if commit is not None:
            stream.note_commit(commit, durable=options.get("durable", False))
        return added

    patch.setattr(Stream, "add_many", add_many)


def ruled_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """A rule of retention is said to be set when it is not durable."""
    _returns_before_its_flush(patch, "diskstream.retention_rule")


def vouched_for_what_came_meanwhile(patch: pytest.MonkeyPatch) -> None:
    """Who flushes says that all is durable that is there when the flush returns, not when it began."""
    whole = StreamLog.flush

    def flush(log: StreamLog) -> None:
        whole(log)
        log.refresh()
        log.ctl.publish(*log.native.tail[:3])

    patch.setattr(StreamLog, "flush", flush)


def left_unchecked(patch: pytest.MonkeyPatch) -> None:
    """Whoever appends behind a death under the lock takes the log for what the dead one had published."""

    def revalidate(log: StreamLog) -> None:
        log._follow()
        log.ctl.clear_flags(FLAG_CHECK)

    patch.setattr(StreamLog, "_revalidate", revalidate)


def interrupted_roll_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Who was stopped in a roll goes on in the old segment, though the new one has its name."""
    whole = roll.begin_next

    def begin_next(log: StreamLog) -> None:
        try:
            whole(log)
        except BaseException:
            log.ctl.clear_flags(FLAG_CHECK)
            raise

    patch.setattr(roll, "begin_next", begin_next)


PATCHES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "delivered before the flush": delivered_before_the_flush,
    "changed before the flush": changed_before_the_flush,
    "a roll forgets what is pending": roll_forgets,
    "a roll takes an old view": roll_takes_the_view_as_it_is,
    "an index is trusted over the log: a stale view": stale_view_trusted,
    "rebuilt and not written": rebuilt_and_not_written,
    "a log removed before its audit is kept": log_removed_before_its_audit_is_kept,
    "committed before the flush": committed_before_the_flush,
    "committed behind its rows": committed_behind_its_rows,
    "ruled before the flush": ruled_before_the_flush,
    "a roll that was interrupted is forgotten": interrupted_roll_forgotten,
    "a flush vouches for what came meanwhile": vouched_for_what_came_meanwhile,
}

# Where those were caught that few traces show, tried before all others. A change of what is drawn, or of what is done,
# moves them: then they are looked for, which takes up to a minute.
CAUGHT_AT: dict[str, tuple[str, int]] = {
    "no flush of the directory behind a new stream": ("os", 2),
    "no flush of the directory behind a stub": ("interval=200", 6),
    "a second flush is believed": ("interval=200", 2),
    "a recovery that failed is forgotten": ("interval=200", 32),
    "changed before the flush": ("always", 2),
    "a roll takes an old view": ("always", 7),
    "a log removed before its audit is kept": ("interval=200", 21),
    "committed before the flush": ("everysec", 7),
    "a roll that was interrupted is forgotten": ("always", 10),
    "left by a death": ("everysec", 2),
}
