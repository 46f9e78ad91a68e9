"""Streams listed, made, removed and renamed: so that every process notices, and that a death on the way loses none."""

import contextlib
import fnmatch
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream._native import Guard
from diskstream.engine import directory, names, ownership, replacing, stream_folders, stream_names
from diskstream.engine.descriptors import means_are_short
from diskstream.engine.directory_lock import DirectoryLock
from diskstream.engine.files import Files
from diskstream.engine.locks import is_held
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.looks import children, is_there, status
from diskstream.engine.making_way import wanting
from diskstream.engine.open_logs import OpenLogs
from diskstream.engine.page import APPEND, FLAG_CHECK, FLAG_MOVED, MAINTENANCE, POISONED, Page
from diskstream.errors import (
    DiskstreamError,
    NamespaceError,
    NoSuchStreamError,
    ReadOnlyError,
    StorageError,
    StreamExistsError,
)

__all__ = ["Naming", "forget_groups"]


class Naming:
    """The part of `Store` that says and changes which streams there are."""

    path: Path
    read_only: bool
    _streams: Path
    _files: Files
    _logs: OpenLogs
    _mutex: threading.RLock
    _page: Page
    _is_lease: bool

    if TYPE_CHECKING:

        def exists(self, name: str | bytes) -> bool: ...
        def _check_open(self) -> None: ...
        def _forget(self, name: bytes, log: StreamLog) -> None: ...
        def _log(self, name: bytes, *, create: bool) -> StreamLog | None: ...

    def streams(self, pattern: str | bytes | None = None, *, unfinished: bool = False) -> list[bytes]:
        """The names of all streams, in byte order; of those that match a glob pattern, where one is given.

        Args:
            pattern: as of `fnmatch`, upper and lower case apart.
            unfinished: also what a copy or a restore is making under a name of its own, or left when it was killed.

        Raises:
            ArgumentError: the pattern can be the name of no stream, or is no text.
        """
        self._check_open()
        found = stream_folders.list_streams(self._streams)
        if not unfinished:
            found = list(filterfalse(names.is_unfinished, found))
        if pattern is None:
            return found
        wanted = names.as_name(pattern) if pattern or not isinstance(pattern, str | bytes) else b""
        return [name for name in found if fnmatch.fnmatchcase(name, wanted)]

    def delete(self, name: str | bytes) -> bool:
        """Removes a stream with all that belongs to it. Returns whether there was one."""
        return self._delete(names.as_name(name), None)

    def _delete(self, key: bytes, is_it: Callable[[StreamLog], bool] | None, *, files_may_stay: bool = False) -> bool:
        """The same, if the stream is the one that is meant: this is asked where nobody can change it any more.

        With `files_may_stay` all is well once there is no such stream, durably: files that the disk did not let go of
        are removed by who next makes or removes one.

        Raises:
            DiskstreamError: there is something to ask, and the stream cannot be opened: it stays as it is.
        """
        with self._awaited(key), self._mutex, self._lock_names():
            self._settle(key)
            if not self.exists(key):
                return False
            if is_it is not None:
                self._log(key, create=False)  # of one that cannot be opened nobody knows whether it is the one
            try:
                hidden = self._hide(key, is_it)
            except _OtherError:
                return False
            claim = None
            with contextlib.suppress(*[StorageError] * files_may_stay), self._ended_later():
                claim = self._remove_few(hidden)
        self._page.ctl.ring()
        with contextlib.suppress(*[StorageError] * files_may_stay):
            self._remove_many(hidden, claim)
        return True

    def rename(self, old: str | bytes, new: str | bytes, *, replace: bool = True) -> None:
        """Gives a stream another name; a stream that has it goes, as with Redis's RENAME.

        Raises:
            NoSuchStreamError: there is no stream `old`.
            StreamExistsError: there is a stream `new`, and `replace` is false.
        """
        source, target = names.as_name(old), names.as_name(new)
        with self._awaited(source, target), self._mutex, self._lock_names():
            self._settle(source)
            self._settle(target)
            if not self.exists(source):
                raise NoSuchStreamError(source)
            if source == target:
                return
            if not replace and self.exists(target):
                raise StreamExistsError(target)

            def give_name(_: StreamLog | None) -> Path:
                stream_folders.note_names(self._streams, source, target, self._files)
                if self.exists(target):  # it goes only now, when all that may fail before has not
                    self._put_aside(target)
                try:
                    return stream_folders.rename_stream(self._streams, source, target, self._files)
                except BaseException:
                    with contextlib.suppress(StorageError):  # what hinders the caller hinders this: the first is told
                        replacing.give_back(self._streams, target, self._files)
                    raise

            self._move(source, give_name, flush=True)
            removed, claim = None, None
            # It is renamed, durably; the next use of a name tries again.
            with contextlib.suppress(StorageError), self._ended_later():
                removed = replacing.let_go(self._streams, target, self._files)
                if removed is not None:
                    claim = self._remove_few(removed)
        self._page.ctl.ring()
        if removed is not None:
            with contextlib.suppress(StorageError):
                self._remove_many(removed, claim)

    @contextlib.contextmanager
    def _awaited(self, *moving: bytes) -> Iterator[None]:
        """Waits until nobody is at the files of streams that are to be moved, before anybody has to wait for this call.

        Who seals or compacts them makes way, unless it is stopped, say, in the middle.
        """
        with contextlib.ExitStack() as wanted:
            for name in [] if self.read_only else moving:
                with contextlib.suppress(DiskstreamError, StreamMoved):  # the move finds it, too, and tells it
                    log = self._log(name, create=False)
                    if log is not None:
                        wanted.enter_context(wanting(log.directory))
                        with log.ctl.locked(MAINTENANCE):
                            pass
            yield

    def _lock_names(self) -> Guard:
        """The store's lock: nobody else makes, renames or removes a stream meanwhile."""
        self._check_open()
        if self.read_only:
            raise ReadOnlyError(str(self.path))
        if self._page.is_elsewhere():  # another store may be there, which has a lock of its own
            raise directory.gone(self.path, "change the streams of")
        return self._page.ctl.locked(APPEND)

    def _hide(self, name: bytes, is_it: Callable[[StreamLog], bool] | None) -> Path:
        """Takes a stream's name away. Returns where its files are, which are to be removed."""

        def hide(log: StreamLog | None) -> Path:
            if is_it is not None and (log is None or not is_it(log)):
                raise _OtherError
            forget_groups(log)
            return stream_folders.hide_stream(self._streams, name, self._files)

        return self._move(name, hide, flush=False)

    def _put_aside(self, name: bytes) -> None:
        """Takes a stream's name away until another has it: whoever dies on the way leaves all of the one that was."""

        def put(log: StreamLog | None) -> Path:
            forget_groups(log)
            return replacing.put_aside(self._streams, name, self._files)

        self._move(name, put, flush=True)

    def _settle(self, name: bytes) -> None:
        """Ends what somebody who died has begun with a name; the caller holds the store's lock.

        And what the dead have left half made or half removed: a store may be open for years, and all of it would stay.
        """
        ctl = self._page.ctl
        if ctl.flags & FLAG_CHECK:
            with contextlib.suppress(StorageError):  # of a stream that is none of the caller's; the flag stays
                self._files.sync_dir(self._streams)  # what goes from a stream must not come before its name goes
                stream_folders.sweep(self._streams, self._files)
                ctl.clear_flags(FLAG_CHECK)
        removed = replacing.settle(self._streams, name, self._files)
        if removed is not None:
            with contextlib.suppress(StorageError), self._ended_later():  # of a stream that is none of the caller's
                stream_folders.remove_hidden(removed, self._files)

    def _remove_few(self, hidden: Path) -> DirectoryLock | None:
        """Removes a stream's files, where they are few. Of many nobody waits for the end who makes or renames another.

        Returns what says that this process is about to, where it is left to `_remove_many`.
        """
        claim = stream_folders.claimed(hidden)
        if claim is None:
            stream_folders.remove_hidden(hidden, self._files)
        else:
            self._page.ctl.raise_flags(FLAG_CHECK)  # where this process dies on the way, who comes next ends it
        return claim

    def _remove_many(self, hidden: Path, claim: DirectoryLock | None) -> None:
        """The rest of that, without the store's lock."""
        if claim is not None:
            try:
                stream_folders.remove_hidden(hidden, self._files)
            finally:
                claim.close()

    @contextlib.contextmanager
    def _ended_later(self) -> Iterator[None]:
        """Says so where this does not come to its end, as the death of who holds the store's lock does by itself."""
        try:
            yield
        except BaseException:
            self._page.ctl.raise_flags(FLAG_CHECK)
            raise

    def _move(self, name: bytes, move: Callable[[StreamLog | None], Path], *, flush: bool) -> Path:
        """Moves a stream's directory, so that every process notices: see `StreamLog.leave`. Returns its new place.

        `move` is given the log, locked; None of a stream that is damaged.

        Raises:
            DiskstreamError: the disk said no; or the stream cannot be opened here, and others have it open.
        """
        places: list[Path] = []
        log: StreamLog | None = None

        def once() -> Path:
            places.append(move(log))
            return places[0]

        while not places:
            try:
                log = self._log(name, create=False)
            except DiskstreamError as error:
                log = None  # a damaged stream can be deleted or renamed all the same
                if self._is_written(name):
                    raise error from None
            if log is None:
                self._logs.pop(name, None)
                return once()
            try:
                log.leave(once, flush=flush)
            except StreamMoved:
                pass
            except BaseException:
                if places or log.ctl.flags & FLAG_MOVED:
                    self._forget(name, log)
                raise  # where it has not moved it stays open: what was added is still to be flushed
            self._forget(name, log)
        return places[0]

    def _is_written(self, name: bytes) -> bool:
        """Whether others have a stream open, and can add to it, that this process cannot open, for want of memory, say.

        They are told by its log that it is moved: without that they would go on where it is now, as if it were not.
        """
        path = replacing.place_of(self._streams, name) / "ctl"
        try:
            if not is_there(path):
                return False  # nobody has it, and a full disk may have no room for one
            page = Page.open(self._files, path)
        except FileNotFoundError:
            return False
        except StorageError as error:
            if isinstance(error, NamespaceError) or means_are_short(error):
                raise
            # That this user may not open it says nothing of others; who may read it can see whether they have it open.
            forbidden = isinstance(error, ReadOnlyError)
            if forbidden and (is_held(path) or not os.access(path, os.R_OK, effective_ids=True)):
                raise
            return False  # what nobody can open as it is can go
        try:
            return not page.alone and not page.ctl.flags & POISONED
        finally:
            page.close()

    def _create(self, name: bytes) -> bool:
        with self._lock_names():
            self._settle(name)
            made = stream_folders.create_stream(self._streams, name, self._files)
        self._page.ctl.ring()
        return made

    def _delete_unused(self, name: bytes) -> None:
        """Removes a stream of which nothing but its making is known: there was no room for what it was made for.

        Whoever made it: another process that is about to add to it finds it moved, and makes it anew.
        """
        with contextlib.suppress(DiskstreamError, OSError):  # the caller has one to tell
            self._delete(name, _is_unused)

    def _is_abandoned(self, name: bytes, seconds: float) -> bool:
        """Whether nobody has a stream open, and nobody has written to it for so long."""
        place = replacing.place_of(self._streams, name)
        with contextlib.suppress(FileNotFoundError):  # it is gone by now
            last = max((status(path).st_mtime for path in children(place)), default=time.time())
            return last + seconds < time.time() and not is_held(place / "ctl")
        return False

    def _place(self, name: bytes) -> Path:
        """Where a stream is, or would be. Where one is put aside, this waits for whoever did that, or ends it."""
        place = replacing.place_of(self._streams, name)
        if self.read_only or not replacing.is_aside(place):
            return place
        with self._lock_names():
            self._settle(name)
        self._page.ctl.ring()
        return replacing.place_of(self._streams, name)

    def _missing(self, wanted: Iterable[bytes]) -> set[bytes]:
        """Some, or none, of those names that no stream has: that they came is told by the store's bell, read before."""
        self._check_open()
        if self._is_lease:
            return set()  # of a lease nothing goes but all of it, which the look for a name tells
        return stream_folders.missing_names(self._streams, [name for name in wanted if name not in self._logs])

    def _look_again(self, known: Mapping[str, bytes]) -> dict[str, bytes]:
        """What `streams` says, by directory: of those `known`, as this said it before, none is looked at again."""
        self._check_open()
        return stream_names.look_again(self._streams, known)

    def _identity_unopened(self, name: bytes) -> bytes | None:
        """What `Stream.identity` says of a stream that is not open here; None where it is, or must be to know it."""
        self._check_open()
        return None if name in self._logs else ownership.identity_in(replacing.place_of(self._streams, name))


class _OtherError(Exception):
    """The stream is not the one that was meant."""


def _is_unused(log: StreamLog) -> bool:
    """Whether nothing was ever done with a stream: its log holds the frame that it was made with, and no other."""
    number, _, lsn, _ = log.native.tail
    return number == 1 and lsn == 1


def forget_groups(log: StreamLog | None) -> None:
    """Removes what the view knows of the groups of a stream that is about to go, if there is anything."""
    if log is not None and log.native.group_count[1]:
        with contextlib.suppress(DiskstreamError):  # the view is made anew where this or what follows fails
            log.pending.forget()
