"""The view in LMDB: pending entries of consumer groups, by ID, by consumer and by time.

It is a view of the logs and nothing else: each stream's rows say behind which frame they stand, and rows that stand
elsewhere than the log are thrown away and made anew from the log's snapshot. LMDB runs without fsync, so after a power
cut (the file ``epoch`` names another boot, and not a clean close) the whole environment is.

::

    view/
      data.mdb, lock.mdb    LMDB: see view_rows.py
      users                 a flock, held shared by each process that has the view open
      epoch                 the boot in which the view is being written; "clean" once it was flushed and closed
"""

import contextlib
import errno
import fcntl
import functools
import io
import math
import os
import stat
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import lmdb

from diskstream.engine import forking, view_check, view_map
from diskstream.engine.belonging import give_folder
from diskstream.engine.descriptors import opened, says_nothing, tried_again
from diskstream.engine.files import open_regular, reading, size_of, wrapped
from diskstream.engine.locks import Locks
from diskstream.engine.looks import is_there, status
from diskstream.engine.moved import FORKS, ForkedError
from diskstream.engine.page import boot_id
from diskstream.engine.view_map import MAX_MAP_BYTES, UNWRITABLE, as_ours, make_room_for_slots, open_environment
from diskstream.errors import LimitError, ReadOnlyError, StorageError

__all__ = ["View", "ViewDamaged", "open_view"]

_T = TypeVar("_T")
_MAX_EPOCH_BYTES = 64
_CLEAN = "clean"

# Who is killed within a transaction keeps LMDB from using the pages anew that were freed since. He is looked for each
# time so many transactions have written.
_WRITES_BETWEEN_LOOKS = 256
_TOO_MANY = "Too many processes and threads look at what is pending, and each is alive: close some"
_WITHIN = "this is a signal handler that interrupted another call of the same thread: do it when that has returned"
# LMDB must not be opened twice by one process: a lock that one opening closes is closed for the other. So there is one
# View for each directory in each process, shared by whoever opens the store; it goes when the last one lets go.
_OPEN: "weakref.WeakValueDictionary[tuple[int, object], View]" = weakref.WeakValueDictionary()
_OPENING = threading.Lock()
# Environments of the parent in which a thread was as it forked: closing one would wait for that thread for ever.
_LEFT: list[lmdb.Environment] = []
# How long who closes an environment waits for the threads that are in it, how long of that he lets no other in at a
# time, and how long he sleeps between two looks.
_PATIENCE_S, _TURN_S, _LOOK_S = 5.0, 0.1, 0.0005


def open_view(path: Path) -> "View":
    """The view in directory `path`, as this process has it open; nothing is made before it is used."""
    with _OPENING:
        key = (os.getpid(), _place(path.parent))
        view = _OPEN.get(key)
        if view is None:
            view = _OPEN[key] = View(path)
        elif _place(view.path.parent) != key[1]:  # the store has been moved
            view.path = path
        return view


def _place(store: Path) -> object:
    """What a store's directory is, by whatever path: links, mounts and renamings are no matter."""
    try:
        found = store.stat()
    except OSError:
        return os.path.realpath(store)
    return found.st_dev, found.st_ino


def _after_fork() -> None:
    global _OPENING  # noqa: PLW0603  # a thread that is not here may have held it
    _OPENING = threading.Lock()
    for view in list(_OPEN.values()):
        view.after_fork()
    _OPEN.clear()


os.register_at_fork(after_in_child=_after_fork)


_DAMAGED = (
    lmdb.BadValsizeError,
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)


class ViewDamaged(Exception):  # noqa: N818  # not an error: throw the view away and begin again
    """The view cannot be read."""


class View:
    """The LMDB environment of a store, opened when it is first used. Safe under threads."""

    _env: lmdb.Environment | None = None  # where a signal handler raises before the next line is done

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.RLock()
        # The file `users`, locked. Not a descriptor: whatever interrupts a close, the lock goes with the view.
        self._users: io.FileIO | None = None
        self._inode = 0
        # Taken by who comes in, but not by who leaves. A plain lock and a dict are changed in one native step each: a
        # `Condition` and a count were left as they were by a signal handler that raised in the middle.
        self._gate = threading.RLock()
        self._inside: dict[object, int] = {}  # of each transaction under way its thread
        self._made_at = FORKS.count
        self._writes = 0

    # --- life ---------------------------------------------------------------------------------------------------------

    def _environment(self) -> lmdb.Environment:
        env = self._env
        if env is not None:
            return env
        with self._mutex:
            if self._made_at != FORKS.count:
                raise ForkedError
            if self._env is None:
                self._env = self._open()
            return self._env

    def _open(self) -> lmdb.Environment:
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            give_folder(self.path)
            self._check_owner()
            self._users = io.FileIO(open_regular(self.path / "users", os.O_RDWR | os.O_CREAT, 0o600), "r+")
            self._join(self._locks_of(self._users))
            return self._open_lmdb(self._locks_of(self._users))
        except BaseException as error:
            self._leave_users()
            if isinstance(error, PermissionError) or getattr(error, "errno", 0) == 30:  # noqa: PLR2004  # EROFS
                raise ReadOnlyError(str(self.path), why=UNWRITABLE) from error
            if isinstance(error, OSError) and not isinstance(error, StorageError):
                raise StorageError(str(self.path), "open", error.errno or 5, str(error)) from error
            if isinstance(error, lmdb.Error):
                raise as_ours(self.path, error) from error
            raise

    def _check_owner(self) -> None:
        """Refuses files of LMDB that somebody planted: what it maps it believes, to the last pointer.

        Who owns the store's directory may have made them, and root may; nobody else, though he may write there.
        """
        owners = {0, os.geteuid(), self.path.parent.stat().st_uid}
        for path in (self.path, self.path / "data.mdb", self.path / "lock.mdb"):
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                sort = stat.S_ISDIR if path == self.path else stat.S_ISREG
                if not sort(status.st_mode) or status.st_uid not in owners or status.st_mode & stat.S_IWOTH:
                    what = "it is not the owner's alone: remove the directory view, which is made anew"
                    raise StorageError(str(path), "open", errno.EPERM, what)

    def _locks_of(self, users: io.FileIO) -> Locks:
        return Locks(users.fileno(), self._made_at)

    def _join(self, users: Locks) -> None:
        """Takes the shared flock, with an epoch of this boot: whoever comes alone sets it, others find it set.

        Who is in has a record lock too. So he tells of this boot who finds another name for it in the epoch: where the
        system does not say which boot it is, each opening calls it otherwise.
        """
        boot = boot_id().hex()
        while True:
            if users.is_alone():
                self._begin_alone(boot)
                users.change(fcntl.LOCK_SH)
            epoch = self._epoch(must_tell=True)
            # Waited for the last one to close? Then the epoch says "clean", and must not while we write.
            if epoch == boot or (epoch != _CLEAN and users.has_others_recorded()):
                users.record(fcntl.F_RDLCK)
                return
            users.change(fcntl.LOCK_UN)
            time.sleep(_LOOK_S)

    def _leave_users(self) -> None:
        users, self._users = self._users, None
        if users is not None:
            users.close()  # and so unlocks it

    def _epoch(self, *, must_tell: bool = False) -> str:
        """Of which boot the view is; empty where there is no such file, or something else in its place.

        Raises:
            StorageError: it cannot be read, and `must_tell`: who asks until it says what it should would ask for ever.
        """
        try:
            with wrapped(self.path / "epoch", "read"), reading(self.path / "epoch") as file:
                return file.read(_MAX_EPOCH_BYTES).decode("ascii", "replace")
        except OSError as error:
            if must_tell and says_nothing(error):
                raise
            return ""

    def _begin_alone(self, boot: str) -> None:
        """Nobody else has the view open: what an earlier boot left is taken over only if it was closed cleanly."""
        before = self._epoch()
        # And LMDB ends the process on pages that it did not write: what a disk has damaged is not shown to it.
        if before not in (boot, _CLEAN) or view_check.unsound(self.path):
            self._remove_files()
        make_room_for_slots(self.path)
        if before != boot:
            # Durable before LMDB writes a page: a "clean" that outlived a power cut would vouch for torn pages.
            self._write_epoch(boot)

    def _write_epoch(self, text: str) -> None:
        temporary = self.path / "epoch.tmp"
        temporary.unlink(missing_ok=True)
        made = io.FileIO(open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        with io.BufferedWriter(made) as file:
            file.write(text.encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / "epoch")
        folder = opened(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _remove_files(self) -> None:
        for name in (str(self.path / "data.mdb"), str(self.path / "lock.mdb")):
            with contextlib.suppress(FileNotFoundError):
                if self._made_at != FORKS.count:
                    raise ForkedError
                os.unlink(name)  # noqa: PTH108  # no code runs between the look and the call

    def _open_lmdb(self, users: Locks) -> lmdb.Environment:
        for attempt in (0, 1):
            try:
                if not size_of(self.path / "lock.mdb"):
                    make_room_for_slots(self.path)
                size = size_of(self.path / "data.mdb")
                env = tried_again(functools.partial(open_environment, self.path, size))
            except (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError, lmdb.DiskError) as error:
                # Not an environment of ours: a view is never worth an error. Others that have it open hold a flock.
                if attempt or not users.is_alone():
                    raise StorageError(str(self.path), "open the view in", 5, str(error)) from error
                self._remove_files()
                users.change(fcntl.LOCK_SH)
            except lmdb.Error as error:
                raise as_ours(self.path, error) from error
            else:
                try:
                    env.reader_check()  # slots of processes that died
                    self._inode = self._data_inode()
                except BaseException:
                    env.close()  # whoever keeps the error would keep it open, and LMDB opens nothing twice
                    raise
                return env
        raise AssertionError("unreachable")

    def _data_inode(self) -> int:
        """What file data.mdb is: another one, where somebody threw the view away; 0 where there is none."""
        try:
            return status(self.path / "data.mdb").st_ino
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Lets go; whoever is the last to do so flushes the view and says that it may be used after the next boot.

        A thread that has opened the store since finds it open as it was, or waits, and opens it anew.
        """
        if self._env is not None:
            self._once_left(self._close_flushed, _PATIENCE_S)

    def _close_flushed(self) -> None:
        with self._mutex:
            env = self._env
            if env is None or self._users is None:
                return
            users = self._locks_of(self._users)
            try:
                if self._data_inode() == self._inode and users.is_alone():
                    env.sync(True)
                    env.close()
                    self._write_epoch(_CLEAN)
            except (OSError, lmdb.Error, ForkedError):
                pass  # it will be made anew
            finally:
                self._env = None
                env.close()
                users.give_up()  # a child that was just forked may hold it, too
                self._leave_users()

    def __del__(self) -> None:
        if self._env is not None:
            self.close()

    def _wait_for_others(self, patience_s: float) -> None:
        """Waits so long for other threads to leave their transactions. Who waits may be in one, in a signal handler."""
        ends, me = time.monotonic() + patience_s, threading.get_ident()
        while any(thread != me for thread in list(self._inside.values())) and time.monotonic() < ends:
            time.sleep(_LOOK_S)

    def after_fork(self) -> None:
        """Lets go of what is the parent's. Who forked in a transaction, in a signal handler, finds it ended."""
        me, inside = threading.get_ident(), self._inside
        self._mutex, self._gate, self._inside = threading.RLock(), threading.RLock(), {}
        env, self._env = self._env, None
        if env is not None:
            if any(thread != me for thread in inside.values()):
                _LEFT.append(env)  # closing it would end transactions of threads that are not here, and wait for them
            else:
                env.close()  # in a forked child this touches nothing that is shared
            self._leave_users()

    def discard(self) -> None:
        """Throws the view away. Whoever else has it open goes on with what has no name any more, which is no harm: each
        stream's rows say where they stand.
        """
        self._begin_again()
        with wrapped(self.path, "throw away the view in"):
            self._remove_files()

    def exists(self) -> bool:
        """Whether there is anything on disk."""
        return is_there(self.path / "data.mdb")

    # --- transactions -------------------------------------------------------------------------------------------------

    def read(self, look: Callable[[lmdb.Transaction], _T]) -> _T:
        """What `look` finds in one read transaction.

        Raises:
            StorageError: LMDB said no.
        """
        return self._run(look, write=False)

    def write(self, change: Callable[[lmdb.Transaction], _T]) -> _T:
        """Changes the view in one transaction; `change` is run again where the map had to grow.

        Raises:
            StorageError: LMDB said no.
        """
        return self._run(change, write=True)

    def _run(self, action: Callable[[lmdb.Transaction], _T], *, write: bool) -> _T:
        while True:
            if write and not is_there(self.path):
                self._begin_again()
            key = object()
            try:
                forking.begin(key)
                with self._gate:
                    self._inside[key] = threading.get_ident()
                env = self._environment()
                if write:
                    self._look_for_killed(env)
                with env.begin(write=write) as txn:
                    return action(txn)
            except lmdb.MapFullError:
                again = self._grow
            except lmdb.MapResizedError:
                again = self._follow_growth
            except lmdb.ReadersFullError as error:
                if self._environment().reader_check() == 0:
                    raise LimitError(
                        "a number of readers", view_map.MAX_READERS, view_map.MAX_READERS + 1, _TOO_MANY
                    ) from error
                continue
            except _DAMAGED as error:
                raise ViewDamaged from error
            except lmdb.Error as error:
                if self._made_at != FORKS.count:
                    raise ForkedError from error
                raise as_ours(self.path, error) from error
            finally:
                self._inside.pop(key, None)
                forking.end(key)
            # The map may only be moved while no thread is inside a transaction.
            try:
                self._once_left(again)
            except lmdb.Error as error:
                raise as_ours(self.path, error) from error

    def _once_left(self, then: Callable[[], None], patience_s: float = math.inf) -> None:
        """Calls `then` when the last thread has left its transaction, or after so long, and lets none in meanwhile.

        Raises:
            StorageError: the last one is this thread, which will not leave it before this returns.
        """
        ends, me, turn = time.monotonic() + patience_s, threading.get_ident(), object()
        while True:
            try:
                forking.begin(turn)
                with self._gate:
                    self._wait_for_others(_TURN_S)
                    if not self._inside or time.monotonic() >= ends:
                        then()
                        return
                    if patience_s == math.inf and all(thread == me for thread in list(self._inside.values())):
                        raise StorageError(str(self.path), "grow the view in", errno.EBUSY, _WITHIN)
            finally:
                forking.end(turn)
            time.sleep(_LOOK_S)  # a handler in a transaction may wait to begin another

    def _begin_again(self) -> None:
        """The directory was removed under us: what is open has no name any more, so it is opened anew.

        Not before the last thread has left its transaction; the caller is in none.
        """
        self._once_left(self._close_unflushed, _PATIENCE_S)

    def _close_unflushed(self) -> None:
        with self._mutex:
            env, self._env = self._env, None
            if env is not None and not self._inside:
                env.close()  # one that somebody is still in goes with him
            self._leave_users()

    def _look_for_killed(self, env: lmdb.Environment) -> None:
        self._writes += 1
        if self._writes % _WRITES_BETWEEN_LOOKS == 0:
            env.reader_check()

    def _follow_growth(self) -> None:
        with contextlib.suppress(lmdb.MemoryError):  # opened anew with as much as there is
            self._map_anew(self._environment(), 0)  # another process has grown it

    def _grow(self) -> None:
        env = self._environment()
        size = env.info()["map_size"] * 2
        if size > MAX_MAP_BYTES:
            raise LimitError("the size of the view", MAX_MAP_BYTES, size)
        self._map_anew(env, size)

    def _map_anew(self, env: lmdb.Environment, size_bytes: int) -> None:
        try:
            env.set_mapsize(size_bytes)
        except lmdb.MemoryError:
            self._close_unflushed()  # LMDB has let go of the map that it had
            raise
