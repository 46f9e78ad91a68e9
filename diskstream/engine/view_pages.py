"""The pages of a view, read without LMDB: it ends the process on a page that is not what it wrote, we must not.

LMDB has no checksums. What it follows blindly are page numbers, offsets and lengths; and what it reuses blindly are the
pages that its list of free ones names. So before LMDB is given a file that a disk may have damaged, every page that it
could come upon is looked at here: each has the kind, the number and the keys that its place in the tree calls for, and
none is in two places. What rows hold is another matter: each chunk has a checksum of its own.

The format is that of LMDB 0.9 on a machine of 64 bits, little-endian::

    page    u64 number, u16, u16 kind, then u16 lower, u16 upper and offsets of nodes; of an overflow page u32 pages
    meta    u32 magic, u32 version, u64, u64 map size, two trees (free pages, rows), u64 last page, u64 transaction
    tree    u32 page size, u16 flags, u16 depth, u64 branches, u64 leaves, u64 overflow pages, u64 entries, u64 root
    node    u16 u16 u16 u16: of a leaf size of data (32 bits), flags, size of key; of a branch page number (48 bits),
            size of key; then the key, and of a leaf the data, or the number of its overflow page
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from diskstream.engine.descriptors import opened

__all__ = ["MAGIC", "PagesDamaged", "read_rows"]

_PAGE = struct.Struct("<QHHHH")
_META = struct.Struct("<IIQQ")
_TREE = struct.Struct("<IHHQQQQQ")
_LAST = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")
_NUMBER = struct.Struct("<Q")

_HEADER_BYTES = 16
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_BIG = 1  # a leaf's data is on pages of its own
_INTEGER_KEYS = 8
MAGIC, _VERSION = 0xBEEFC0DE, 1
_NO_ROOT = 2**64 - 1
_MAX_DEPTH = 32  # of LMDB's cursors
_MAX_KEY_BYTES = 511
_MOST_UNLISTED = 256  # none was seen; that many are no harm
_PAGE_SIZES = (4096, 8192, 16384, 32768)  # LMDB takes that of the system, and 32 KiB at most


class PagesDamaged(Exception):  # noqa: N818  # not an error: throw the view away and begin again
    """The file is not what LMDB wrote."""


@dataclass(frozen=True)
class _Tree:
    """A tree as a meta page has it."""

    flags: int
    depth: int
    branches: int
    leaves: int
    overflows: int
    entries: int
    root: int


def read_rows(data: Path) -> Iterator[tuple[bytes, bytes]]:
    """Every key with its value, in order, past every page that LMDB could come upon. Nobody may be writing meanwhile.

    Raises:
        PagesDamaged: a page is not what LMDB wrote.
        OSError: the file cannot be read.
    """
    with _opened(data) as file:
        yield from file.rows()


def _opened(data: Path) -> "_File":
    return _File(opened(data, os.O_RDONLY | os.O_NONBLOCK))  # what waits for a writer is no view


class _File:
    """The data file of an environment."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._page_bytes = _PAGE_SIZES[0]
        self._last = 1
        self._used = bytearray()
        self._unwritten: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Goes through the free pages and then the rows."""
        size = os.fstat(self._fd).st_size
        if size == 0:
            return  # LMDB makes it anew
        free, main, transaction = self._newest_meta()
        pages = min(self._last + 1, size // self._page_bytes)
        _insist(pages > 1)
        self._used = bytearray(pages)
        self._used[:2] = b"\1\1"
        before = -1
        for key, value in self._walk(free):
            number = _number(key)
            _insist(before < number < transaction or number == transaction > before)
            before = number
            self._take_free(value)
        yield from self._walk(main)
        # Behind the end of the file are pages that were taken and given back at once: they are listed as free. With a
        # last page further on LMDB would write there, into a file that is nearly all a hole.
        _insist(self._last + 1 - pages - len(self._unwritten) <= _MOST_UNLISTED)

    def _newest_meta(self) -> tuple[_Tree, _Tree, int]:
        """The trees of the last transaction, and its number."""
        found = []
        head = self._read(0, _HEADER_BYTES + _META.size + 4)
        (self._page_bytes,) = struct.unpack_from("<I", head, _HEADER_BYTES + _META.size)
        _insist(self._page_bytes in _PAGE_SIZES)
        for number in (0, 1):
            page = self._read(number * self._page_bytes, 256)
            its_number, _, kind, _, _ = _PAGE.unpack_from(page)
            magic, version, _, map_bytes = _META.unpack_from(page, _HEADER_BYTES)
            at = _HEADER_BYTES + _META.size
            page_bytes, *free = _TREE.unpack_from(page, at)
            unused, *main = _TREE.unpack_from(page, at + _TREE.size)
            last, transaction = _LAST.unpack_from(page, at + 2 * _TREE.size)
            _insist((its_number, kind, magic, version) == (number, _META_PAGE, MAGIC, _VERSION))
            _insist((page_bytes, unused) == (self._page_bytes, 0))
            # A transaction writes the meta page of its number; at first both are of number 0.
            _insist(transaction == 0 or transaction & 1 == number)
            trees = _Tree(*free), _Tree(*main)
            found.append((transaction, last, map_bytes, trees))
        transaction, self._last, map_bytes, (free, main) = found[found[0][0] < found[1][0]]
        # The file may end before that page: those that were taken and given back at once were never written.
        _insist(self._last > 0 and (self._last + 1) * self._page_bytes <= map_bytes)
        _insist(map_bytes % self._page_bytes == 0)
        _insist((free.flags, main.flags) == (_INTEGER_KEYS, 0))
        return free, main, transaction

    def _read(self, offset: int, size: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        _insist(len(data) == size)
        return data

    def _take(self, number: int, count: int = 1) -> None:
        """Notes where pages are, each of which may be in one place only."""
        end = number + count
        _insist(1 < number < end <= len(self._used) and not any(self._used[number:end]))
        self._used[number:end] = b"\1" * count

    def _take_free(self, value: bytes) -> None:
        _insist(len(value) >= _NUMBER.size and len(value) % _NUMBER.size == 0)
        count = _number(value[: _NUMBER.size])
        _insist(count < len(value) // _NUMBER.size)
        numbers = struct.unpack_from(f"<{count}Q", value, _NUMBER.size)
        for number, following in zip(numbers, (*numbers[1:], 0), strict=True):
            _insist(self._last >= number > following)  # LMDB merges lists that descend
            if number < len(self._used):
                self._take(number)
            else:
                _insist(number not in self._unwritten)
                self._unwritten.add(number)

    def _page(self, number: int, kind: int) -> bytes:
        page = self._read(number * self._page_bytes, self._page_bytes)
        its_number, _, its_kind, lower, upper = _PAGE.unpack_from(page)
        _insist((its_number, its_kind) == (number, kind))
        _insist(_HEADER_BYTES < lower <= upper <= self._page_bytes and lower % 2 == 0)
        return page

    def _walk(self, tree: _Tree) -> Iterator[tuple[bytes, bytes]]:
        """The nodes of all leaves, in order, if the tree is what its meta page says."""
        if tree.root == _NO_ROOT:
            _insist((tree.depth, tree.branches, tree.leaves, tree.overflows, tree.entries) == (0, 0, 0, 0, 0))
            return
        _insist(0 < tree.depth <= _MAX_DEPTH)
        branches = leaves = overflows = entries = 0
        integers = bool(tree.flags & _INTEGER_KEYS)
        before: bytes | None = None
        # Pages still to be read, the next one last: number, depth, and the keys that theirs lie between.
        ahead: list[tuple[int, int, bytes | None, bytes | None]] = [(tree.root, 1, None, None)]
        while ahead:
            number, depth, low, high = ahead.pop()
            self._take(number)
            if depth < tree.depth:
                branches += 1
                children = self._branch(number, low, high, integers=integers)
                ahead += [(child, depth + 1, above, below) for child, above, below in reversed(children)]
                continue
            leaves += 1
            for key, size, flags, place in self._leaf(number):
                _insist(before is None or _is_less(before, key, integers=integers))
                _insist(low is None or not _is_less(key, low, integers=integers))
                _insist(high is None or _is_less(key, high, integers=integers))
                before = key
                entries += 1
                if flags == _BIG:
                    overflows += self._take_overflow(place, size)
                yield key, self._read(place * self._page_bytes + _HEADER_BYTES if flags == _BIG else place, size)
        _insist((branches, leaves, overflows, entries) == (tree.branches, tree.leaves, tree.overflows, tree.entries))

    def _nodes(self, page: bytes) -> Iterator[tuple[int, int, int, int, bytes]]:
        """The four numbers and the key of each node, and where what follows the key begins."""
        _, _, _, lower, upper = _PAGE.unpack_from(page)
        count = (lower - _HEADER_BYTES) // 2
        for at in struct.unpack_from(f"<{count}H", page, _HEADER_BYTES):
            _insist(upper <= at <= len(page) - _NODE.size and at % 2 == 0)
            low, middle, flags, key_bytes = _NODE.unpack_from(page, at)
            begin = at + _NODE.size
            _insist(key_bytes <= _MAX_KEY_BYTES and begin + key_bytes <= len(page))
            yield low | middle << 16, flags, begin + key_bytes, count, page[begin : begin + key_bytes]

    def _branch(
        self, number: int, low: bytes | None, high: bytes | None, *, integers: bool
    ) -> list[tuple[int, bytes | None, bytes | None]]:
        """The children of a branch page, each with the keys that its own lie between."""
        nodes = list(self._nodes(self._page(number, _BRANCH)))
        _insist(len(nodes) > 1)
        keys: list[bytes | None] = [low, *(key for *_, key in nodes[1:]), high]
        for first, second in pairwise(keys):
            _insist(first is None or second is None or not _is_less(second, first, integers=integers))
        return [(node[0] | node[1] << 32, keys[at], keys[at + 1]) for at, node in enumerate(nodes)]

    def _leaf(self, number: int) -> Iterator[tuple[bytes, int, int, int]]:
        """Of each node of a leaf: key, size of the data, flags, and the page or offset where that begins."""
        page = self._page(number, _LEAF)
        taken: list[tuple[int, int]] = []
        for size, flags, begin, _, key in self._nodes(page):
            _insist(flags in (0, _BIG) and len(key) > 0)
            end = begin + (_NUMBER.size if flags else size)
            _insist(end <= len(page))
            taken.append((begin - len(key) - _NODE.size, end))
            if flags:
                yield key, size, flags, _number(page[begin:end])
            else:
                yield key, size, flags, number * self._page_bytes + begin
        taken.sort()
        _insist(all(first[1] <= second[0] for first, second in pairwise(taken)))

    def _take_overflow(self, number: int, size: int) -> int:
        """How many pages a value has, whose first one says so too."""
        count = (_HEADER_BYTES - 1 + size) // self._page_bytes + 1
        self._take(number, count)
        head = self._read(number * self._page_bytes, _HEADER_BYTES)
        its_number, _, kind, low, high = _PAGE.unpack(head)
        _insist((its_number, kind, low | high << 16) == (number, _OVERFLOW, count))
        return count


def _number(data: bytes) -> int:
    _insist(len(data) == _NUMBER.size)
    return int(_NUMBER.unpack(data)[0])


def _is_less(first: bytes, second: bytes, *, integers: bool) -> bool:
    return _number(first) < _number(second) if integers else first < second


def _insist(holds: object) -> None:
    if not holds:
        raise PagesDamaged
