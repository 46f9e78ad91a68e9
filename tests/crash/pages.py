"""The control pages that a store has open, and what a process that dies leaves on them."""

import contextlib
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["LOCKS", "Pages"]

# Where the three robust mutexes stand (`native/sys/src/ctl.rs`), and how the C library lays one out: the word that says
# who holds it, and, behind the count and the owner, how many use it.
LOCKS = (64, 128, 192)
_MUTEX_BYTES = 64
_WORD = struct.Struct("<I")
_USERS_AT = 12
_OWNER_DIED = 0x4000_0000  # what the kernel writes into the word of who dies with it

Lock = tuple[int, int]
"""Number of the page's file, and which of `LOCKS`."""


@dataclass
class _Page:
    """An open control page, known by its descriptor as long as that is what it was."""

    path: Path
    descriptor: int
    owner: int
    identity: tuple[int, int] | None = field(init=False)

    def __post_init__(self) -> None:
        self.identity = self._look()

    def _look(self) -> tuple[int, int] | None:
        try:
            found = os.fstat(self.descriptor)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @property
    def number(self) -> int:
        return self.identity[1] if self.identity else 0

    def is_open(self) -> bool:
        return self._look() == self.identity

    def again(self) -> int:
        """Another descriptor, which shares no lock with the first."""
        return os.open(f"/proc/self/fd/{self.descriptor}", os.O_RDWR)


class Pages:
    """All that are open, by whoever has the store open.

    Python goes on where a process would be dead: it leaves `with` blocks, and unlocks. So the pages are noted at the
    moment of death, and put back as they were; a lock that the dead one held is given to nobody, as the kernel does it.

    Attributes:
        owner: which opening of the store acts.
        lent: the locks of the other one, which waits in the middle of something.
    """

    def __init__(self) -> None:
        self.owner = 0
        self.lent: frozenset[Lock] = frozenset()
        self._pages: list[_Page] = []
        self._left: list[tuple[int, int, bytes]] = []

    def opened(self, path: Path, descriptor: int) -> None:
        """The opening that acts has this page open."""
        self._pages = [page for page in self._pages if page.is_open() and page.descriptor != descriptor]
        self._pages.append(_Page(path, descriptor, self.owner))

    def images(self) -> dict[Path, bytes]:
        """What they look like, by their paths."""
        return {page.path: page.path.read_bytes() for page in self._pages if page.path.exists()}

    def held(self) -> frozenset[Lock]:
        """The locks that somebody holds."""
        return frozenset(
            (page.number, lock)
            for page in self._pages
            if page.is_open()
            for lock in LOCKS
            if _word(os.pread(page.descriptor, _MUTEX_BYTES, lock))
        )

    def die(self) -> None:
        """Whoever acts is dead: this is how its pages stay."""
        left = {page.number: page for page in self._pages if page.is_open()}
        for number, page in left.items():
            descriptor = page.again()
            self._left.append((number, descriptor, os.pread(descriptor, 4096, 0)))

    def bury(self) -> None:
        """Puts the pages back as they were, and closes the dead one's descriptors, with which its `flock`s go."""
        for number, descriptor, image in self._left:
            os.pwrite(descriptor, self._as_left(number, image, os.pread(descriptor, 4096, 0)), 0)
            os.close(descriptor)
        self._left = []
        for page in self._pages:
            if page.owner == self.owner and page.is_open():
                with contextlib.suppress(OSError):
                    os.close(page.descriptor)
        self._pages = [page for page in self._pages if page.is_open()]

    def _as_left(self, number: int, image: bytes, now: bytes) -> bytes:
        """The page at the moment of death, but for the mutexes, which are linked with those that the living hold."""
        page = bytearray(image)
        for lock in LOCKS:
            mutex = bytearray(now[lock : lock + _MUTEX_BYTES])
            if _word(image[lock:]) and (number, lock) not in self.lent:
                _WORD.pack_into(mutex, 0, _OWNER_DIED)
                _WORD.pack_into(mutex, _USERS_AT, 1)
            page[lock : lock + _MUTEX_BYTES] = mutex
        return bytes(page)


def _word(mutex: bytes) -> int:
    word: int = _WORD.unpack_from(mutex)[0]
    return word
