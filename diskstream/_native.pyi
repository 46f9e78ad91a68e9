"""The native core: formats, codecs and state in Rust, shared memory behind it.

Python sees streams, segments and nodes; each call here handles a frame, a batch, a node or a segment. Everything that
may wait or scan releases the GIL. Exceptions are those of `diskstream.errors`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, final

__all__ = [
    "CTL_BYTES",
    "FORMAT_VERSION",
    "LOG_HEADER_BYTES",
    "MAX_BATCH_BYTES",
    "MAX_ENTRY_BYTES",
    "TRIM_GRANULE_ENTRIES",
    "Block",
    "ColumnBatch",
    "Ctl",
    "Entry",
    "EntryID",
    "Guard",
    "Log",
    "LogFile",
    "NodeCache",
    "RowSegment",
    "SealedSegment",
    "Sealer",
    "SegmentView",
    "check_rows",
    "first_segment",
    "restore_entry",
    "wait_bells",
]

CTL_BYTES: Final[int]
FORMAT_VERSION: Final[int]
LOG_HEADER_BYTES: Final[int]
MAX_BATCH_BYTES: Final[int]
MAX_ENTRY_BYTES: Final[int]
TRIM_GRANULE_ENTRIES: Final[int]

_IDLike: TypeAlias = EntryID | str | bytes | int | tuple[int, int]

@final
class EntryID:
    """The ID of an entry: two unsigned 64-bit numbers, ordered as a pair. Immutable and hashable.

    `EntryID("5-3")`, `EntryID(5, 3)`, `EntryID("5")` is 5-0. Raises InvalidIDError.
    """

    def __new__(cls, value: _IDLike, seq: int | None = None) -> EntryID: ...
    @property
    def ms(self) -> int:
        """Milliseconds."""
    @property
    def seq(self) -> int:
        """Sequence within the millisecond."""
    def next(self) -> EntryID | None:
        """The ID right after this one, or None after the last possible one."""
    def prev(self) -> EntryID | None:
        """The ID right before this one, or None before 0-0."""
    def __bytes__(self) -> bytes: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: EntryID, /) -> bool: ...
    def __le__(self, other: EntryID, /) -> bool: ...
    def __gt__(self, other: EntryID, /) -> bool: ...
    def __ge__(self, other: EntryID, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Entry:
    """One entry: immutable, unpacked as it is asked for. `entry_id, fields = entry`."""

    @property
    def id(self) -> EntryID:
        """The entry's ID."""
    @property
    def fields(self) -> dict[Any, Any]:
        """Names and values as a dictionary; of a repeated name the last value. bytes, or str with decode_responses."""
    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """(name, value) in order, repeated names included."""
    @property
    def size_bytes(self) -> int:
        """Bytes of all names and values."""
    def get(self, name: str | bytes, default: Any = None) -> Any:
        """The value of a field, or `default`."""
    def __getitem__(self, name: str | bytes, /) -> Any: ...
    def __contains__(self, name: str | bytes, /) -> bool: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Block:
    """A run of entries of one segment. Its rows count gone entries too; `entries` leaves them out."""

    def __len__(self) -> int: ...
    def entries(self, reverse: bool = False, limit: int | None = None) -> list[Entry]:
        """The live entries, at most `limit`, from the end where `reverse`."""
    def entries_capped(self, limit: int, max_bytes: int, spent: int) -> tuple[list[Entry], int]:
        """Live entries until `spent` and their bytes reach `max_bytes`; and the sum."""
    def find(self, id: _IDLike) -> Entry | None:
        """The live entry with this ID, or None."""
    def positions(self, ids: Sequence[_IDLike]) -> list[tuple[EntryID, int]]:
        """(ID, position in the segment) of those of `ids` that are live entries here."""
    def lower_bound(self, id: _IDLike) -> int:
        """The position in the segment of the first entry not below `id`."""
    def id_at(self, row: int) -> EntryID:
        """The ID of a row; IndexError past the end."""
    @property
    def end_position(self) -> int:
        """The position behind the last row."""
    @property
    def row_count(self) -> int:
        """Rows, gone ones included."""

@final
class LogFile:
    """An open log file and its mapping. The descriptor passed is duplicated."""

    def __new__(cls, fd: int, path: str, writable: bool) -> LogFile: ...
    def store(self, offset: int, data: bytes) -> None:
        """Copies `data` into the mapping."""
    def pwrite(self, offset: int, data: bytes) -> None:
        """Writes `data` by system call."""
    def pwrite_sync(self, offset: int, data: bytes) -> None:
        """Writes `data`, durable on return."""
    def extend(self, size_bytes: int) -> None:
        """Writes zeros up to `size_bytes` and maps them."""
    def flush(self) -> None:
        """fdatasync."""
    def start_flush(self, offset: int, size_bytes: int) -> None:
        """Asks for a range to be written back."""
    def read(self, offset: int, size_bytes: int) -> bytes:
        """Bytes of the mapping, as far as it goes."""
    def close(self) -> None:
        """Closes the descriptor; mappings that readers hold live on."""
    @property
    def size_bytes(self) -> int:
        """Bytes mapped."""
    @property
    def native(self) -> LogFile:
        """Itself."""

@final
class Ctl:
    """The shared page of a stream: locks (0 append, 1 flush, 2 maintenance), positions, bells, flags."""

    def __new__(cls, fd: int, path: str) -> Ctl: ...
    def init(self, generation: int, flags: int) -> None:
        """Makes the page anew, of no boot; nobody else may be using it."""
    def confirm(self, boot: bytes) -> None:
        """Says in which boot the log was put right: the last step of a recovery."""
    def raise_flags(self, flags: int) -> None:
        """Sets flags (1 poisoned, 2 moved, 4 check the tail, 8 rotten) and wakes readers."""
    def clear_flags(self, flags: int) -> None:
        """Clears flags."""
    def poison(self, reason: str) -> None:
        """Closes the stream to writers of every process."""
    def publish(self, segment: int, offset: int, lsn: int) -> None:
        """Sets written, visible and durable positions: after a recovery or a roll."""
    def locked(self, lock: int, wait: bool = True) -> Guard:
        """A guard for a lock. With `wait` false, what `with` gives says whether it has the lock."""
    def ring(self) -> None:
        """Wakes whoever waits for the page's bell."""
    @property
    def ready(self) -> bool:
        """Whether the page was made, by this version."""
    @property
    def boot(self) -> bytes:
        """The boot in which it was made: 16 bytes."""
    @property
    def generation(self) -> int:
        """A number that is new each time the page is made."""
    @property
    def flags(self) -> int:
        """The flags that are set."""
    @property
    def poison_text(self) -> str:
        """Why the stream is poisoned."""
    @property
    def written(self) -> tuple[int, int]:
        """(segment, offset) up to which frames are written."""
    @property
    def visible(self) -> tuple[int, int]:
        """The same for what readers may see."""
    @property
    def durable(self) -> tuple[int, int]:
        """The same for what is on disk."""
    @property
    def bell(self) -> int:
        """The word to remember before looking, and to wait for afterwards."""

@final
class Guard:
    """Holds a lock for the length of a `with` block; signals are handled while waiting, and never in between."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *_details: object) -> None: ...

@final
class Log:
    """The active segment of a stream.

    An append that finds something missing (room, the next segment, ...) calls the resolver with a reason, then tries
    again; other calls return the reason as an int, 0 where there is none.
    """

    def __new__(
        cls,
        ctl: Ctl,
        file: Any,
        path: str,
        *,
        number: int,
        always: bool,
        segment_bytes: int,
        text: bool = False,
        copy: bytes | None = None,
    ) -> Log: ...
    def scan(self) -> dict[str, Any] | None:
        """Applies whole frames to the end of the file; what follows them: None (zeros), or torn or rotten."""
    def close(self, wait: bool = True) -> None:
        """Refuses every later append; with `wait`, returns when those under way are done."""
    def set_resolver(self, resolver: Callable[[int, bool], None]) -> None:
        """Takes what is called, with a reason and whether the lock is held, when an append finds something missing."""
    def catch_up(self) -> int:
        """Applies what others have written. 0, or a reason."""
    def add(
        self,
        fields: Any,
        id: _IDLike | None = None,
        within_ms: int | None = None,
        durable: bool = False,
        held: bool = False,
        now: int | None = None,
    ) -> EntryID:
        """Appends one entry."""
    def add_many(
        self,
        rows: Iterable[Any],
        ids: Iterable[_IDLike] | None = None,
        durable: bool = False,
        held: bool = False,
        now: int | None = None,
    ) -> list[EntryID]:
        """Appends entries as one frame."""
    def trim(self, segment: int, position: int) -> int:
        """Trims to a place, under the append lock. 0, or a reason."""
    def delete(self, greatest: _IDLike, places: Sequence[tuple[int, int]]) -> int:
        """Marks (segment, position) as deleted, in order, under the append lock."""
    def set_id(self, last: _IDLike, entries_added: int, max_deleted: _IDLike) -> int:
        """Sets the counters, under the append lock."""
    def replace(self, inputs: Sequence[int], output: SegmentView) -> int:
        """Lets a compacted segment take the place of its inputs, under the append lock."""
    def mark(self) -> int:
        """Appends a mark that carries the durable sequence number, under the append lock."""
    def plan_trim(self, keep: int, approximate: bool, limit: int) -> tuple[int, int, int] | None:
        """(segment, position, entries that go) to keep `keep` entries, or None."""
    def live_before(self, segment: int, position: int) -> int:
        """Live entries before a place."""
    def flush(self) -> int:
        """Makes all written so far durable, sharing a flush with whoever else waits. 0, or a reason."""
    def next_segment(self, number: int, salt: int) -> tuple[bytes, bytes]:
        """Header block and snapshot frame of the next segment; the frontier slot included."""
    def advance(self, file: Any) -> RowSegment | None:
        """Goes on in the next segment; the one left behind, where it was next to it."""
    def frontier_slot(self, frontier_ms: int, floor_ms: int) -> tuple[int, bytes]:
        """Offset and bytes of the next frontier slot."""
    def read_frontier(self) -> tuple[int, int]:
        """Frontier and floor (milliseconds) as they stand in the file now."""
    def next_auto_ms(self, now: int | None) -> int:
        """What the next automatic ID will not be below."""
    def read(
        self, segment: int, position: int, start: _IDLike, end: _IDLike, max_entries: int, max_bytes: int
    ) -> tuple[bool, Block | None]:
        """Visible entries from `position` on; False where `segment` is not active any more."""
    def seek(self, segment: int, id: _IDLike) -> int | None:
        """The position of the first visible entry not below `id`; None where `segment` is not active any more."""
    def visible_entries(self) -> int:
        """Visible entries of the active segment, gone ones included."""
    def segments(self) -> list[SegmentView]:
        """The sealed and rolled segments in order."""
    def active_view(self) -> SegmentView:
        """The active segment."""
    def take_dropped(self) -> list[tuple[int, int]]:
        """(number, generation) of files no longer listed; they are forgotten here."""
    def counters(self) -> tuple[int, EntryID, int, EntryID]:
        """Length, last ID, entries added, greatest deleted ID, of what is visible."""
    def written_length(self) -> int:
        """Live entries of all that is written, visible or not: what a trim is planned by."""
    def length(self) -> int:
        """Live entries."""
    @property
    def version(self) -> int:
        """Grows whenever a sealed segment changes."""
    @property
    def tail(self) -> tuple[int, int, int, int]:
        """Segment number, end offset, sequence number, bytes of the snapshot."""
    @property
    def salt(self) -> int:
        """The salt of the active segment."""
    @property
    def uuid(self) -> bytes:
        """The stream's 16 bytes."""
    @property
    def needed_bytes(self) -> int:
        """Bytes that the last append found missing."""
    @property
    def is_durable(self) -> bool:
        """Whether all that is written is durable."""
    @property
    def active_entries(self) -> int:
        """Entries of the active segment, gone ones included."""

@final
class SegmentView:
    """What the log says of one segment at one moment."""

    @property
    def number(self) -> int:
        """The segment's number."""
    @property
    def generation(self) -> int:
        """How often it was compacted."""
    @property
    def entries(self) -> int:
        """Entries in the file, gone ones included."""
    @property
    def live(self) -> int:
        """Entries that are not gone."""
    @property
    def first(self) -> EntryID:
        """The first ID in the file."""
    @property
    def last(self) -> EntryID:
        """The last ID in the file."""
    @property
    def trimmed(self) -> int:
        """Entries before this position are trimmed away."""
    @property
    def size_bytes(self) -> int:
        """Bytes as frames."""
    @property
    def times_ms(self) -> tuple[int, int]:
        """Least and greatest append time."""
    @staticmethod
    def compacted(then: Sequence[SegmentView], now: Sequence[SegmentView | None], footer: SealedSegment) -> SegmentView:
        """The view of a compacted segment, with what went while it was written."""

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
    ) -> Block | None:
        """Entries from `position` on; None behind the last."""
    def seek(self, id: _IDLike) -> int:
        """The position of the first entry not below `id`."""
    @property
    def entries(self) -> int:
        """Entries in the file."""
    @property
    def link(self) -> tuple[int, int]:
        """Sequence number and header checksum of the last frame, which the successor's snapshot frame follows."""

@final
class NodeCache:
    """Decoded nodes, the most recently used ones, up to a number of bytes."""

    def __new__(cls, limit_bytes: int) -> NodeCache: ...
    @property
    def held_bytes(self) -> int:
        """Bytes held."""

@final
class SealedSegment:
    """A sealed file: footer and index are checked when it is opened, each node whenever it is read."""

    def __new__(
        cls, fd: int, path: str, uuid: bytes, number: int, cache: NodeCache, text: bool = False
    ) -> SealedSegment: ...
    def node_of_id(self, id: _IDLike) -> int:
        """The node that holds an ID, or would."""
    def node_of_position(self, position: int) -> int:
        """The node that holds a position."""
    def node_row(self, number: int) -> tuple[int, int, int, int, EntryID]:
        """Offset, length, entries before, entries and first ID of a node."""
    def read_block(
        self, number: int, start: _IDLike, end: _IDLike, view: SegmentView | None, cached: bool = True
    ) -> Block:
        """One node, within `start..end`."""
    def find(self, id: _IDLike, view: SegmentView) -> Entry | None:
        """The live entry with this ID, or None."""
    def columns(
        self,
        start: _IDLike,
        end: _IDLike,
        view: SegmentView,
        fields: Sequence[bytes] | None,
        duplicates: str,
        threads: int,
    ) -> list[ColumnBatch]:
        """Live entries as columns, one batch a thread, in order."""
    def verify(self, number: int) -> int:
        """Reads and checks one node; its entries."""
    def snapshot_copy(self) -> bytes:
        """The checked copy of the successor's snapshot frame, or nothing."""
    @staticmethod
    def copy_of(fd: int, path: str) -> bytes:
        """The same of a file whose stream is not known."""
    @property
    def nodes(self) -> int:
        """Nodes."""
    @property
    def entries(self) -> int:
        """Entries."""
    @property
    def generation(self) -> int:
        """How often it was compacted."""
    @property
    def first(self) -> EntryID:
        """The first ID."""
    @property
    def last(self) -> EntryID:
        """The last ID."""
    @property
    def file_bytes(self) -> int:
        """Size of the file."""
    @property
    def raw_bytes(self) -> int:
        """Names and values before packing."""
    @property
    def times_ms(self) -> tuple[int, int]:
        """Least and greatest append time."""

@final
class ColumnBatch:
    """Entries as columns, as bytes that numpy and Arrow wrap without a copy."""

    @staticmethod
    def of_blocks(blocks: Sequence[Block], fields: Sequence[bytes] | None, duplicates: str) -> ColumnBatch:
        """Columns of the live entries of blocks."""
    @property
    def rows(self) -> int:
        """Rows."""
    @property
    def ms(self) -> bytes:
        """Milliseconds, as little-endian 64-bit words."""
    @property
    def seq(self) -> bytes:
        """Sequences, likewise."""
    @property
    def fields(self) -> list[tuple[bytes, bytes, bytes, bytes | None, int]]:
        """Name, rows + 1 offsets (32 bits, little-endian), bytes, validity bits or None, nulls: for each field."""

@final
class Sealer:
    """Packs entries into the nodes of a sealed segment; what it returns is appended to the file."""

    def __new__(
        cls,
        uuid: bytes,
        segment: int,
        generation: int,
        salt: int,
        *,
        max_entries: int,
        max_bytes: int,
        level: int,
    ) -> Sealer: ...
    def push(self, block: Block) -> bytes:
        """Takes the live entries of a block; bytes to append, often none."""
    def finish(self, snapshot: bytes, times_ms: tuple[int, int]) -> bytes:
        """The last nodes, the copy of the snapshot frame, index and footer."""
    @property
    def entries(self) -> int:
        """Entries taken so far."""

def wait_bells(bells: Sequence[tuple[Ctl, int]], timeout_s: float | None) -> bool:
    """Sleeps until a bell is not as it was read, or the time is up. Whether one rang. Signals are handled."""

def restore_entry(id: _IDLike, pairs: Sequence[tuple[bytes, bytes]], text: bool = False) -> Entry:
    """An entry from its parts: what unpickling calls."""

def check_rows(rows: Iterable[Any], ids: Iterable[_IDLike] | None = None) -> None:
    """Raises what appending these rows would, as far as the stream does not matter."""

def first_segment(uuid: bytes, salt: int, now_ms: int) -> tuple[bytes, bytes]:
    """Header block and snapshot frame of a new stream's first segment."""
