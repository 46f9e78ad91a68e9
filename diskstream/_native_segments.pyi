"""Sealed segments and columns, as the native core shows them: the part of `_native.pyi` that has no room there."""

from collections.abc import Sequence
from typing import ClassVar, TypeAlias, final

import numpy as np
import numpy.typing as npt

from diskstream._native import Block, Entry, EntryID, LogFile
from diskstream._native_audit import AuditLog

_IDLike: TypeAlias = EntryID | str | bytes | int | tuple[int, int]

@final
class SegmentView:
    """What the log says of one segment at one moment."""

    @property
    def number(self) -> int: ...  # The segment's number
    @property
    def generation(self) -> int: ...  # How often it was compacted
    @property
    def entries(self) -> int: ...  # Entries in the file, gone ones included
    @property
    def live(self) -> int: ...  # Entries that are not gone
    @property
    def first(self) -> EntryID: ...  # The first ID in the file
    @property
    def last(self) -> EntryID: ...  # The last ID in the file
    def live_end(self, position: int) -> int: ...  # Behind the last live entry below it; 0: there is none
    def next_live(self, position: int) -> int: ...  # The first live one from there on; behind the last, as it stands
    @property
    def trimmed(self) -> int: ...  # Entries before this position are trimmed away
    @property
    def size_bytes(self) -> int: ...  # Bytes as frames
    @property
    def times_ms(self) -> tuple[int, int]: ...  # Least and greatest append time
    def emptied(self) -> SegmentView: ...  # The same with nothing left of it: `Log.replace` takes it off the list
    @staticmethod
    def compacted(then: Sequence[SegmentView], now: Sequence[SegmentView | None], footer: SealedSegment) -> SegmentView:
        """The view of a compacted segment, with what went while it was written."""

def segment_at(views: list[SegmentView], id: _IDLike) -> int:
    """The place, among segments in order, of the first that ends at `id` or behind it; their number where none does."""

@final
class RowSegment:
    """A rolled log file that is not sealed yet."""

    def __new__(cls, file: LogFile, view: SegmentView, uuid: bytes, text: bool) -> RowSegment: ...
    def read(
        self,
        position: int,
        start: _IDLike,
        end: _IDLike,
        max_entries: int,
        max_bytes: int,
        view: SegmentView | None = None,
    ) -> Block | None: ...  # Entries from `position` on; None behind the last
    def seek(self, id: _IDLike) -> int: ...  # The position of the first entry not below `id`
    @property
    def entries(self) -> int: ...  # Entries in the file
    def audit(self, path: str) -> AuditLog: ...  # Its frames of groups; `path` is for what is reported
    @property
    def link(self) -> tuple[int, int]: ...  # Sequence number and checksum of the last frame

@final
class NodeCache:
    """Decoded nodes, the most recently used ones, up to a number of bytes."""

    def __new__(cls, limit_bytes: int) -> NodeCache: ...
    @property
    def held_bytes(self) -> int: ...  # Bytes held

@final
class SealedSegment:
    """A sealed file: footer and index are checked when it is opened, each node whenever it is read.

    With `by_page` each page of the index is checked when it is first touched, and only its page rows at the opening.
    """

    def __new__(
        cls,
        fd: int,
        path: str,
        uuid: bytes,
        number: int,
        cache: NodeCache,
        text: bool = False,
        by_page: bool = False,
    ) -> SealedSegment: ...
    @staticmethod
    def at_hand(
        log_path: str, path: str, uuid: bytes, view: SegmentView, cache: NodeCache, text: bool
    ) -> SealedSegment | None:
        """Opens a segment's file by its path, checked by page; None where that is not all there is to be said or done.

        As where the log file that it was made from is still there, or it is missing, damaged or another stream's.
        """
    def node_of_id(self, id: _IDLike) -> int: ...  # The node that holds an ID, or would
    def live_node_back(self, number: int, view: SegmentView) -> int | None: ...  # The last up to there with one
    def live_node(self, number: int, view: SegmentView) -> int: ...  # The first from there on with a live entry
    def node_of_position(self, position: int) -> int: ...  # The node that holds a position
    def node_row(self, number: int) -> tuple[int, int, int, int, EntryID]: ...  # Offset, length, before, entries, first
    def read_block(
        self, number: int, start: _IDLike, end: _IDLike, view: SegmentView | None, cached: bool = True
    ) -> Block: ...  # One node, within `start..end`
    def read_blocks(
        self, first: int, stop: int, start: _IDLike, end: _IDLike, view: SegmentView, cached: bool = True
    ) -> list[Block]:
        """Nodes `first..stop` in one call, within `start..end`: one at least.

        At most some hundred kilobytes of packed nodes, or some megabytes of what they unpack to. Ends before one that
        cannot be read, unless that is the first.
        """
    def scan(
        self,
        layout: ScanLayout,
        first: int,
        stop: int,
        start: _IDLike,
        end: _IDLike,
        view: SegmentView,
        *,
        rows: int,
        size_bytes: int,
        cached: bool,
    ) -> tuple[ScanBatch, int]:
        """Live entries of nodes `first..stop` within `start..end` as one batch, and the first node that is not in it.

        Of one node at least, of no more than `rows` beside, nor of more than `size_bytes` of IDs and values. Ends
        before a node that cannot be read, unless that is the first.
        """
    def find(self, id: _IDLike, view: SegmentView) -> Entry | None: ...  # The live entry with this ID, or None
    def columns(
        self,
        start: _IDLike,
        end: _IDLike,
        view: SegmentView,
        fields: Sequence[bytes] | None,
        duplicates: str,
        threads: int,
    ) -> list[ColumnBatch]: ...  # Live entries as columns, one batch a thread, in order
    def verify(self, number: int) -> int: ...  # Reads and checks one node; its entries
    def verify_run(self, start: int, stop: int) -> tuple[int, int, list[tuple[int, Exception]]]:
        """Reads and checks nodes `start..stop`: entries, raw bytes, and (node, fault) for each that is bad."""
    def snapshot_copy(self) -> bytes: ...  # The checked copy of the successor's snapshot frame, or nothing
    @staticmethod
    def copy_of(fd: int, path: str) -> bytes: ...  # The same of a file whose stream is not known
    @property
    def nodes(self) -> int: ...  # Nodes
    @property
    def entries(self) -> int: ...  # Entries
    @property
    def generation(self) -> int: ...  # How often it was compacted
    @property
    def first(self) -> EntryID: ...  # The first ID
    @property
    def last(self) -> EntryID: ...  # The last ID
    @property
    def file_bytes(self) -> int: ...  # Size of the file
    @property
    def raw_bytes(self) -> int: ...  # Names and values before packing
    @property
    def times_ms(self) -> tuple[int, int]: ...  # Least and greatest append time

@final
class ColumnBatch:
    """Entries as columns, as bytes that numpy and Arrow wrap without a copy."""

    MAX_FIELDS: ClassVar[int]  # At most so many where none are named

    @staticmethod
    def of_blocks(blocks: Sequence[Block], fields: Sequence[bytes] | None, duplicates: str) -> ColumnBatch:
        """Columns of the live entries of blocks."""
    @property
    def rows(self) -> int: ...  # Rows
    @property
    def ms(self) -> bytes: ...  # Milliseconds, as little-endian 64-bit words
    @property
    def seq(self) -> bytes: ...  # Sequences, likewise
    @property
    def fields(self) -> list[tuple[bytes, bytes, bytes, bytes | None, int]]:
        """Name, rows + 1 offsets (32 bits, little-endian), bytes, validity bits or None, nulls: for each field."""

@final
class Sealer:
    """Packs entries into the nodes of a sealed segment; what it returns is appended to the file."""

    def __new__(
        cls, uuid: bytes, segment: int, generation: int, salt: int, *, max_entries: int, max_bytes: int, level: int
    ) -> Sealer: ...
    def push(self, block: Block) -> bytes: ...  # Takes the live entries of a block; bytes to append, often none
    def finish(self, snapshot: bytes, times_ms: tuple[int, int]) -> bytes: ...  # The last nodes, copy, index, footer
    @property
    def entries(self) -> int: ...  # Entries taken so far

_I4: TypeAlias = npt.NDArray[np.int32]
_U8: TypeAlias = npt.NDArray[np.uint8]
_FieldLists: TypeAlias = tuple[_I4, _I4, _U8, _I4, _U8]  # Ends, name offsets, names, value offsets, values

@final
class ScanLayout:
    """How entries become columns: said once, for all batches."""

    def __new__(
        cls,
        layout: str,
        fields: Sequence[tuple[bytes, str]],
        duplicates: str,
        *,
        exact: bool,
        metadata: bool,
        times: bool,
    ) -> ScanLayout:
        """Layout 'ids', 'fields', 'map', 'raw' or 'typed'; `fields` are names and types of the columns of 'typed'.

        With `exact` a value that would be rounded, cut or out of range counts as one that does not parse.
        """
    def batch(self, blocks: Sequence[Block]) -> ScanBatch: ...  # Batches may share arrays: nobody writes to them

@final
class ScanBatch:
    """Live entries as the columns of an Arrow record batch, in arrays. Bits: least significant first."""

    @property
    def rows(self) -> int: ...  # Rows
    @property
    def last_id(self) -> EntryID | None: ...  # The last one looked at, gone or out of range as it may be
    @property
    def ms(self) -> npt.NDArray[np.uint64]: ...  # Milliseconds of the IDs
    @property
    def seq(self) -> npt.NDArray[np.uint64]: ...  # Sequences
    @property
    def ts(
        self,
    ) -> tuple[npt.NDArray[np.int64], _U8 | None, int] | None: ...  # Microseconds, validity, nulls: past 2^63
    @property
    def places(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]: ...  # In the segment, sizes; `metadata`
    @property
    def listed(self) -> _FieldLists | None: ...  # For 'fields' and 'map'
    @property
    def raw(self) -> tuple[_I4, _U8] | None: ...  # For 'raw': offsets, bytes
    @property
    def typed(self) -> list[tuple[_U8, _I4 | None, _U8, int]]: ...  # Values, offsets of strings, validity, nulls
    @property
    def bad(self) -> _FieldLists | None: ...  # For 'typed': fields that did not parse, where any did not
    @property
    def first_bad(self) -> tuple[EntryID, bytes, bytes] | None: ...  # ID, name, value of the first
