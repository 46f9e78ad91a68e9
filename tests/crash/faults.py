"""What a disk refuses: writes that fail or come short, no room, flushes that fail once and then seem to succeed.

A failed flush is the worst of them. The kernel calls the pages clean that it could not write, so the next flush
succeeds and has written nothing of them (`events.FailedFlush` and `disk` say what is left). A failed flush of a
directory leaves its names as they were: not durable, and durable with the next one that succeeds.
"""

import errno
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from diskstream.errors import StorageError, storage_error

__all__ = ["Faults"]

_TAKES_ROOM = frozenset({"create", "write", "extend", "mkdir", "link"})
_WRITES = frozenset({"write", "pwrite", "pwrite_sync", "extend"})
_FLUSHES = frozenset({"flush", "sync", "pwrite_sync", "sync_dir"})
_NAMES = frozenset({"create", "rename", "link", "unlink", "mkdir", "rmdir"})
_ALL = _TAKES_ROOM | _WRITES | _FLUSHES | _NAMES


@dataclass(frozen=True)
class _Kind:
    """A way to fail: what it is called, which calls it befalls, with what error, and whether it stays so."""

    text: str
    calls: frozenset[str]
    code: int
    stays: bool = False


_KINDS = (
    _Kind("a flush failed once", _FLUSHES, errno.EIO),
    _Kind("a write failed or came short", _WRITES, errno.EIO),
    _Kind("a change of names failed", _NAMES, errno.EIO),
    _Kind("no room for one call", _ALL - {"unlink", "rmdir"}, errno.ENOSPC),
    _Kind("the disk was full for a while", _TAKES_ROOM, errno.ENOSPC, stays=True),
    _Kind("every flush failed for a while", _FLUSHES, errno.EIO, stays=True),
)
_LOG_FLUSH = _Kind("a flush failed once", frozenset({"flush"}), errno.EIO)


class Faults:
    """Lets calls of `Files` fail, as it was armed to.

    Attributes:
        fired: how many calls have failed since `forget`.
        no_room: how many of them, ever, ended with ENOSPC.
        counts: how often each way to fail was seen, ever.
    """

    def __init__(self) -> None:
        self.fired = self.no_room = 0
        self.counts: Counter[str] = Counter()
        self._kind: _Kind | None = None
        self._left = 0
        self._rng = random.Random(0)

    def arm(self, rng: random.Random, *, recovering: bool = False) -> str:
        """Lets some call fail that comes soon. Returns how, for whoever must understand a failure.

        Of a recovery, it is the flush of what a killed process left that tells most.
        """
        self._kind = _LOG_FLUSH if recovering and rng.random() < 0.7 else rng.choices(_KINDS, (6, 3, 2, 2, 3, 1))[0]
        self._left = min(int(rng.expovariate(1.0 if recovering else 0.25)), 30)
        self._rng = random.Random(rng.getrandbits(32))
        return f"soon: {self._kind.text}, {self._left}"

    @property
    def seed(self) -> int:
        """Of what became of a flush that failed."""
        return self._rng.getrandbits(32)

    def part_of(self, size: int) -> int:
        """How much of a write that failed was done."""
        return self._rng.choice((0, size, self._rng.randint(0, size)))

    def relieve(self) -> None:
        """The disk is well, and has room."""
        self._kind = None

    def forget(self) -> None:
        """What failed so far is no excuse any more."""
        self.fired = 0

    def hit(self, call: str, path: Path) -> StorageError | None:
        """The error that the call which begins now ends with; None where it succeeds."""
        kind = self._kind
        if kind is None or call not in kind.calls:
            return None
        self._left -= 1
        if self._left >= 0:
            return None
        if not kind.stays:
            self._kind = None
        self.fired += 1
        self.no_room += kind.code == errno.ENOSPC
        self.counts[kind.text] += 1
        return storage_error(str(path), call, kind.code, f"planted: {errno.errorcode[kind.code]}")
