"""What a power cut may leave of a trace.

The disk model. At the moment of the cut, of each file

- everything is there that was written before its last flush (fsync, fdatasync), and each range that was pinned
  (RWF_DSYNC), with the size as of that flush;
- of what was written since, any part: each sector of 512 bytes is as it was after any of the writes that touched it,
  whatever became of other sectors, so writes are lost, reordered and torn (`Bytes.CACHED`: a sector goes to the disk as
  the page cache has it). Under `Bytes.LOOSE` it is worse than on any such disk: of the writes to a sector, any subset
  is
  there, in any order, as on memory that is written back in smaller pieces;
- a flush that failed made some pages durable and forgot the others: they stay as they were on the disk, whatever
  later flushes say, until they are written to again;
- the size is any between the flushed one and the last, and what was never written in between is zero, or, where a
  file system shows blocks before their contents reached them, the bytes of something else (`stale`).

Of names (entered, left, moved since their directory was last flushed) one of these is left:

- `Order.JOURNAL`: of each directory a first part of its changes, in order, as ext4 and xfs do it;
- `Order.LOOSE`: any of them, where only changes of one name keep their order. POSIX promises no more, and btrfs, which
  logs the names of a file that is flushed, leaves later changes without earlier ones.

A move is one step even between two directories, as all journalling file systems make it, and flushing either of them
makes it durable. The flush of a file says nothing about its name, the flush of a directory nothing about the contents
of its files, nor about its own name. Control pages are no part of this: `image.control_page` makes up what is left.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.crash.events import ROOT, Event, FailedFlush, Flush, NameChange, Names, Pin, SyncDir, Tree, Write

__all__ = ["SECTOR", "Bytes", "Disk", "Order"]

SECTOR = 512
_PAGE = 4096

# How much of what is not durable is left; None is a first part of a file's writes, the last one torn.
_SHARES = (0.0, 0.1, 0.5, 0.9, 1.0, None)


class Bytes(Enum):
    """What happens to unflushed writes of one sector."""

    CACHED = auto()
    LOOSE = auto()


class Order(Enum):
    """What happens to unflushed changes of names."""

    JOURNAL = auto()
    LOOSE = auto()


@dataclass
class _File:
    """A file: what is durable of it, and what was written since."""

    durable: bytes = b""
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    forgotten: dict[int, bytes] = field(default_factory=dict)  # pages by number: clean in the page cache alone
    size: int = 0

    def write(self, offset: int, data: bytes) -> None:
        if self.forgotten and data:
            for page in _pages(offset, len(data)):
                content = self.forgotten.pop(page, None)
                if content is not None:
                    self.pending.append((page * _PAGE, content))
        self.pending.append((offset, data))

    def flush(self) -> None:
        if self.pending:
            self.durable = self.cached()
            self.pending = []
        if len(self.durable) < self.size:
            self.durable += bytes(self.size - len(self.durable))

    def fail(self, seed: int, offset: int, size: int | None) -> None:
        """A flush that ends with an error."""
        rng = random.Random(seed)
        content = self.cached()
        pages = {page for at, data in self.pending for page in _pages(at, len(data))}
        if size is not None:
            pages &= set(_pages(offset, size))
        share = rng.choice((0.0, 0.5, 0.9))
        kept = bytearray(self.durable)
        for page in sorted(pages):
            part = content[page * _PAGE : (page + 1) * _PAGE]
            if rng.random() < share:
                _put(kept, page * _PAGE, part)
            else:
                self.forgotten[page] = part
        self.durable = bytes(kept)
        self.pending = [piece for piece in _cut_at(self.pending, _PAGE) if piece[0] // _PAGE not in pages]
        self.size = max(self.size, len(content))

    def cached(self) -> bytes:
        """What a flush makes durable."""
        content = bytearray(self.durable)
        for offset, data in self.pending:
            _put(content, offset, data)
        return bytes(content)

    def pin(self, offset: int, size: int) -> None:
        """Makes the last write durable; of earlier ones, what it did not cover stays as uncertain as it was."""
        at, data = self.pending.pop()
        assert (at, len(data)) == (offset, size), "a pin follows its write"
        assert offset + size <= len(self.durable), "a pinned write does not make a file grow"
        content = bytearray(self.durable)
        _put(content, offset, data)
        self.durable = bytes(content)
        end = offset + size
        parts: list[tuple[int, bytes]] = []
        for begin, earlier in self.pending:
            parts.append((begin, earlier[: max(offset - begin, 0)]))
            parts.append((max(begin, end), earlier[max(end - begin, 0) :]))
        self.pending = [part for part in parts if part[1]]


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset + len(data):
        content.extend(bytes(offset + len(data) - len(content)))
    content[offset : offset + len(data)] = data


def _pages(offset: int, size: int) -> range:
    """The pages that a write touches."""
    return range(offset // _PAGE, -(-(offset + size) // _PAGE))


def _cut_at(writes: Iterable[tuple[int, bytes]], unit: int) -> Iterator[tuple[int, bytes]]:
    """The writes, none of which goes beyond the end of a sector or page."""
    for offset, data in writes:
        at = 0
        while at < len(data):
            end = min(len(data), ((offset + at) // unit + 1) * unit - offset)
            yield offset + at, data[at:end]
            at = end


def _pieces(writes: Iterable[tuple[int, bytes]]) -> dict[int, list[tuple[int, bytes]]]:
    """The writes cut at sectors: for each sector its pieces, in order."""
    sectors: dict[int, list[tuple[int, bytes]]] = {}
    for offset, data in _cut_at(writes, SECTOR):
        sectors.setdefault(offset // SECTOR, []).append((offset, data))
    return sectors


class Disk:
    """A disk at one moment of a trace; it goes on event by event."""

    def __init__(self, start: Tree) -> None:
        self.names, contents = Names.of_tree(start)
        self._files = {inode: _File(data) for inode, data in contents.items()}
        self._pending: list[NameChange] = []

    def apply(self, event: Event) -> None:
        """Goes on by one event."""
        match event:
            case Write(inode, offset, data):
                self._files.setdefault(inode, _File()).write(offset, data)
            case Pin(inode, offset, size):
                self._files[inode].pin(offset, size)
            case Flush(inode):
                self._files.setdefault(inode, _File()).flush()
            case FailedFlush(inode, seed, offset, size):
                self._files.setdefault(inode, _File()).fail(seed, offset, size)
            case SyncDir(directory):
                self._sync(directory)
            case _:
                self._pending.append(event)

    def _sync(self, directory: int) -> None:
        """Makes a directory's names durable, and before them whatever they build on in other directories."""
        wanted: set[tuple[int, str]] = set()
        durable: set[int] = set()
        for index in reversed(range(len(self._pending))):
            keys = self._pending[index].keys
            if any(key in wanted or key[0] == directory for key in keys):
                wanted.update(keys)
                durable.add(index)
        for index in sorted(durable):
            self.names.apply(self._pending[index])
        self._pending = [change for index, change in enumerate(self._pending) if index not in durable]

    # --- the cut ------------------------------------------------------------------------------------------------------

    def cut(self, rng: random.Random) -> tuple[Tree, dict[int, str]]:
        """One of the states that a power cut may leave now: its files, and which directory has which number."""
        order = rng.choice((Order.JOURNAL, Order.LOOSE))
        way = rng.choice((Bytes.CACHED, Bytes.CACHED, Bytes.LOOSE))
        names = self._cut_names(rng, order)
        tree: Tree = {}
        directories: dict[int, str] = {ROOT: ""}
        usual = rng.choice(_SHARES)
        for path, inode in names.walk():
            if inode in names.directories:
                tree[path] = None
                directories[inode] = path
            else:
                share = usual if rng.random() < 0.7 else rng.choice(_SHARES)
                tree[path] = self._cut_file(rng, self._files.get(inode) or _File(), way, share)
        return tree, directories

    def _cut_names(self, rng: random.Random, order: Order) -> Names:
        names = self.names.copy()
        share = rng.choice((0.0, 0.5, 0.9, 1.0))
        blocked: set[tuple[int, str]] = set()
        for change in self._pending:
            # Under a journal a lost change takes all later ones of its directory along: its name stands for all.
            keys = {(inode, "") for inode, _ in change.keys} if order is Order.JOURNAL else set(change.keys)
            if blocked & keys or rng.random() >= share:
                blocked |= keys
            else:
                names.apply(change)
        return names

    def _cut_file(self, rng: random.Random, file: _File, way: Bytes, share: float | None) -> bytes:
        if not file.pending:
            return file.durable
        writes = file.pending
        if share is None:  # in order, and the last one torn
            writes = writes[: rng.randint(0, len(writes))]
        old = len(file.durable)
        size = max(old, max((offset + len(data) for offset, data in writes), default=0))
        if size > old and rng.random() < 0.5:
            size = rng.choice((old, rng.randint(old // SECTOR, size // SECTOR) * SECTOR, size))
            size = max(size, old)
        content = bytearray(file.durable)
        content.extend(bytes(size - len(content)))
        pieces = _pieces(writes)
        torn = max(pieces, default=0) if share is None else -1
        for sector, versions in pieces.items():
            if share is None:
                kept = versions if sector < torn or rng.random() < 0.7 else versions[:-1]
            else:
                kept = _survivors(rng, versions, way, share)
            for offset, data in kept:
                if offset < size:
                    _put(content, offset, data[: size - offset])
        if size > old and rng.random() < 0.2:
            self._show_stale(rng, content, old)
        return bytes(content)

    def _show_stale(self, rng: random.Random, content: bytearray, old: int) -> None:
        """Puts into some sectors that were never durable what stood there before: of a removed file, or anything."""
        removed = self._removed() or [b""]
        sectors = range(-(-old // SECTOR), len(content) // SECTOR)
        for sector in rng.sample(sectors, min(len(sectors), rng.randint(1, 6))):
            other = rng.choice(removed)
            places = len(other) // SECTOR
            start = rng.randrange(places) * SECTOR if places else 0
            stale = other[start : start + SECTOR] if places and rng.random() < 0.7 else rng.randbytes(SECTOR)
            _put(content, sector * SECTOR, stale)

    def _removed(self) -> list[bytes]:
        names = self.names.copy()
        for change in self._pending:
            names.apply(change)
        present = {inode for _, inode in names.walk()}
        return [file.durable for inode, file in self._files.items() if inode not in present and file.durable]


def _survivors(
    rng: random.Random, versions: list[tuple[int, bytes]], way: Bytes, share: float
) -> list[tuple[int, bytes]]:
    """What is left of the writes to one sector, in the order in which they reached the disk."""
    if way is Bytes.CACHED:
        count = sum(rng.random() < share for _ in versions)
        return versions[:count]
    left = [version for version in versions if rng.random() < share]
    rng.shuffle(left)
    return left
