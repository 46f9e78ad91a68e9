"""The control page of a directory: who opens it alone, and who joins.

A descriptor on ``ctl`` holds a shared `flock` for as long as the directory is open. Who gets it exclusively is alone:
nobody else can be using the page, so it is made anew, and only then is the log repaired. The lock goes with the
descriptor, so a killed process leaves none behind.
"""

import contextlib
import errno
import fcntl
import os
import random
import secrets
import struct
import time
from pathlib import Path

from diskstream._native import CTL_BYTES, Ctl
from diskstream.engine.descriptors import means_are_short, tried_again
from diskstream.engine.files import Files, nameless_file, wrapped
from diskstream.engine.locks import CAN_TELL, Locks
from diskstream.engine.looks import status
from diskstream.engine.moved import FORKS
from diskstream.errors import NamespaceError, NewerFormatError, StorageError

__all__ = [
    "APPEND",
    "FLAG_CHECK",
    "FLAG_MOVED",
    "FLAG_ROTTEN",
    "FLUSH",
    "MAGIC",
    "MAINTENANCE",
    "POISONED",
    "VERSION",
    "Page",
    "boot_id",
]

APPEND, FLUSH, MAINTENANCE = 0, 1, 2
POISONED, FLAG_MOVED, FLAG_CHECK, FLAG_ROTTEN = 1, 2, 4, 8  # of the page's flags
MAGIC, VERSION = b"DSKCTL01", 1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FIRST_REST_S, _LONGEST_REST_S = 0.0001, 0.05
# How long to rest in all for somebody who has the `flock` and no record: for moments, as one comes or goes; for as long
# as he keeps the store, where a signal interrupted its closing. The first time is for a page of this boot.
_PATIENCE_S, _LONGEST_PATIENCE_S = 1.0, 10.0
_HEAD = struct.Struct("<8sI")  # docs/format/ctl.md


def boot_id() -> bytes:
    """Sixteen bytes that are new after each start of the machine.

    Raises:
        OSError: there are no descriptors, or no memory, to read them with.
    """
    try:
        text = tried_again(lambda: _BOOT_ID.read_text(encoding="ascii")).strip().replace("-", "")
        return bytes.fromhex(text)[:16].ljust(16, b"\0")
    except (OSError, ValueError) as error:
        if means_are_short(error):
            raise
        return secrets.token_bytes(16)  # not known: every opening counts as one after a power cut


def _is_vouched_for(locks: Locks, ctl: Ctl, rested_s: float) -> bool:
    """Whether a page that one is not alone with says what is so now: others use it, or are about to give it up.

    Where nobody does, it says what the last user left, who may have been killed. Of this boot that is better than to
    wait for ever, as it would be for somebody who cannot give up his lock.
    """
    is_hopeless = not CAN_TELL or rested_s >= _PATIENCE_S
    return locks.has_others_recorded() or (is_hopeless and bytes(ctl.boot) == boot_id())


def _rest(path: Path, rested_s: float, longest_s: float) -> float:
    """Waits for a moment by chance. Returns how long that is in all.

    Many who waited for one that died find a page like this together: each would find another there, again and again.

    Raises:
        StorageError: it was too long by then.
    """
    if rested_s >= _LONGEST_PATIENCE_S:
        why = "a process that does not use it has it locked, perhaps as its closing was interrupted: end that process"
        raise StorageError(str(path), "open", errno.EBUSY, why)
    rest_s = random.uniform(0, longest_s)
    time.sleep(rest_s)
    return rested_s + rest_s


def _refuse_strangers(fd: int, ctl: Ctl, path: Path) -> None:
    """Looks at a page that others use.

    Raises:
        NewerFormatError: they are of a later version. It never becomes ready: who waited for that would wait for ever.
        NamespaceError: they are of another PID namespace.
    """
    if ctl.ready:
        if not ctl.is_of_our_namespace:
            raise NamespaceError(str(path))
        return
    with wrapped(path, "read"):
        head = os.pread(fd, _HEAD.size, 0)
    if len(head) == _HEAD.size:
        magic, version = _HEAD.unpack(head)
        if magic == MAGIC and version > VERSION:
            raise NewerFormatError(str(path), "the control page", VERSION, version)


class Page:
    """An open control page.

    Attributes:
        ctl: the mapped page.
        alone: whether nobody else had it open; then `settle` must be called.
        same_boot: whether the page was last made since the machine started.
        was_visible: up to where readers saw the log before it was made anew.
        was_poisoned: whether it said so then.
        was_new: whether nobody had ever made it, and so nobody opened what it is of.
    """

    def __init__(self, locks: Locks, ctl: Ctl, *, alone: bool, path: Path = Path("ctl")) -> None:
        fd = locks.fd
        self._path = path
        self._fd, self._locks, self.ctl, self.alone = fd, locks, ctl, alone
        ours = os.fstat(fd)
        self._identity = ours.st_dev, ours.st_ino  # a number of a descriptor may be another file's later
        self.same_boot = ctl.ready and bytes(ctl.boot) == boot_id()
        self.was_visible = ctl.visible
        self.was_new = not ctl.generation
        self.was_poisoned = bool(ctl.flags & POISONED)  # even if who made it anew was killed before it was ready

    @classmethod
    def open(cls, files: Files, path: Path) -> "Page":
        """Opens the page, waiting while another process is alone with it.

        Raises:
            NewerFormatError: others use it, and they are of a later version.
            NamespaceError: others use it, and they are of another PID namespace.
            StorageError: it cannot be opened.
        """
        rested_s, longest_s = 0.0, _FIRST_REST_S
        while True:
            before = FORKS.count
            fd, ctl = files.open_ctl(path)
            try:
                locks = Locks(fd, before)
            except BaseException:  # of a signal handler
                os.close(fd)
                raise
            try:
                with wrapped(path, "lock"):
                    alone = locks.is_alone()
                    is_vouched_for = alone or _is_vouched_for(locks, ctl, rested_s)
                    if is_vouched_for:  # else this opening would vouch for it to another that comes like it
                        locks.record(fcntl.F_RDLCK, wait=True)
                if is_vouched_for and not alone:
                    _refuse_strangers(fd, ctl, path)
                # Not the file of that name any more: its directory was moved away before we had the lock.
                # Not ready: who was alone with it died before it was done. Ready, and in use by nobody: he died, or
                # found that he could not go on, before he began, or repaired the store: what it says is of the past.
                if cls._is_at(fd, path) and (alone or (ctl.ready and is_vouched_for)):
                    with wrapped(path, "look at"):
                        return cls(locks, ctl, alone=alone, path=path)
            except BaseException:
                locks.close()
                raise
            locks.close()
            rested_s = _rest(path, rested_s, longest_s)
            longest_s = min(2 * longest_s, _LONGEST_REST_S)

    def becomes_last(self) -> bool:
        """Whether nobody else has the page open, which stays so until `lets_others`: who comes waits for that.

        False of one that was given up: the number of its descriptor may be that of another page, for which whoever
        comes would wait for ever.

        Raises:
            StorageError: nobody can say.
        """
        if self._fd < 0:
            return False
        with wrapped(self._path, "lock"):
            return self._locks.record(fcntl.F_WRLCK)

    def lets_others(self) -> None:
        """Ends what `becomes_last` began; nothing otherwise. It never waits.

        Raises:
            StorageError: the system said no.
        """
        if self._fd >= 0:
            with wrapped(self._path, "lock"):
                self._locks.record(fcntl.F_RDLCK)

    @staticmethod
    def _is_at(fd: int, path: Path) -> bool:
        with wrapped(path, "look at"):
            ours = os.fstat(fd)
        with contextlib.suppress(FileNotFoundError):
            there = status(path)
            return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
        return False

    def is_at(self, path: Path) -> bool:
        """Whether the page still is the file at `path`."""
        return self._is_at(self._fd, path)

    def was_removed(self) -> bool:
        """Whether the page has no name any more: another that is made in its place would share no lock with it."""
        with contextlib.suppress(OSError):  # closed by another thread just now
            found = os.fstat(self._fd)
            return found.st_nlink == 0 and (found.st_dev, found.st_ino) == self._identity
        return False

    def is_elsewhere(self) -> bool:
        """Whether no file has its name any more, or another one has: what it is of was moved or removed by hand.

        Raises:
            StorageError: nobody can say.
        """
        try:
            there = status(self._path)
        except FileNotFoundError:
            return True
        return (there.st_dev, there.st_ino) != self._identity

    def is_in_place(self) -> bool:
        """Whether what has it has it still: it was not moved, and no other is where it was.

        Also of a page that is closed here and still mapped, which is why no other file has its number. Of a private one
        nobody can say so.
        """
        if self.ctl.flags & FLAG_MOVED:
            return False
        with contextlib.suppress(OSError):
            return not self.is_elsewhere()
        return False

    def is_same_as(self, other: "Page") -> bool:
        """Whether both are the same file, opened twice perhaps."""
        return self._identity == other._identity

    @classmethod
    def private(cls) -> "Page":
        """A page of nobody else's, for reading a store that must not be written to.

        There is nobody to lock out, so the mapping alone stays: it takes no descriptor.

        Raises:
            StorageError: the system has none to make it with, or no memory.
        """
        fd = nameless_file()
        try:
            with wrapped(Path("a control page in memory"), "make"):
                os.ftruncate(fd, CTL_BYTES)
                page = cls(Locks(fd, FORKS.count), Ctl(fd, "ctl"), alone=True)
        finally:
            os.close(fd)
        page._fd = -1
        page.renew()
        page.ctl.confirm(boot_id())
        return page

    def renew(self) -> int:
        """Makes the page anew; only for who is alone. Returns its generation.

        It is of no boot, and as poisoned as it was, until `settle`: a recovery that is killed is done again in full.
        """
        generation = secrets.randbits(63) | 1
        self.ctl.init(generation, POISONED if self.was_poisoned else 0)
        return generation

    def settle(self, generation: int) -> bool:
        """Lets others in. False where one was faster and made the page anew: open it again."""
        self.ctl.clear_flags(POISONED)
        self.ctl.confirm(boot_id())
        self._locks.change(fcntl.LOCK_SH)
        self.alone = False
        return self.ctl.ready and self.ctl.generation == generation

    @property
    def closed(self) -> bool:
        """Whether it has no descriptor: it was given up, or is private."""
        return self._fd < 0

    def close(self) -> None:
        """Gives up the page: none of its locks is taken any more, and the descriptor goes with the last one held."""
        if self._fd < 0:
            return
        if self.ctl.give_up(self._fd):
            self._locks.forget()
            self._fd = -1
            return
        try:
            self._locks.give_up()
        finally:
            fd, self._fd = self._fd, -1  # an interrupt comes before this, or when it is closed
            try:  # an interrupt would come as `suppress` begins
                if fd >= 0:
                    os.close(fd)
            except OSError:
                pass  # it is closed, whatever the system says, and nothing of it has to be durable

    def after_fork(self) -> None:
        """Lets go of the descriptor only: the lock behind it is the parent's."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
