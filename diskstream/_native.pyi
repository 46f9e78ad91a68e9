"""The native core: formats, codecs and state in Rust, shared memory behind it.

Python sees streams, segments and nodes; each call here handles a frame, a batch, a node or a segment. Everything that
may wait or scan releases the GIL. Exceptions are those of `diskstream.errors`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, final

from typing_extensions import disjoint_base

from diskstream._native_audit import AuditFile as AuditFile
from diskstream._native_audit import AuditLog as AuditLog
from diskstream._native_digest import RowDigests as RowDigests
from diskstream._native_packing import PackedRows as PackedRows
from diskstream._native_packing import pack_columns as pack_columns
from diskstream._native_packing import pack_pairs as pack_pairs
from diskstream._native_segments import ColumnBatch as ColumnBatch
from diskstream._native_segments import NodeCache as NodeCache
from diskstream._native_segments import RowSegment as RowSegment
from diskstream._native_segments import ScanBatch as ScanBatch
from diskstream._native_segments import ScanLayout as ScanLayout
from diskstream._native_segments import SealedSegment as SealedSegment
from diskstream._native_segments import Sealer as Sealer
from diskstream._native_segments import SegmentView as SegmentView
from diskstream._native_segments import segment_at as segment_at
from diskstream._native_wire import AddRun as AddRun
from diskstream._native_wire import CommandRun as CommandRun
from diskstream._native_wire import EntriesReply as EntriesReply
from diskstream._native_wire import Receiver as Receiver
from diskstream._native_wire import ReplyEncoder as ReplyEncoder
from diskstream._native_wire import RequestParser as RequestParser
from diskstream._native_wire import send_each as send_each

__all__ = ["CTL_BYTES", "FORMAT_VERSION", "LOG_HEADER_BYTES", "MAX_BATCH_BYTES", "MAX_CONSUMERS", "MAX_ENTRY_BYTES"]
__all__ += ["MAX_GROUPS", "MAX_NAMES_BYTES", "MAX_NAME_BYTES", "MAX_SETTING_BYTES", "TRIM_GRANULE_ENTRIES"]
__all__ += ["Block", "Changes", "Ctl", "Delivery", "Entry", "EntryID", "Guard", "Log", "LogFile", "RowSegment", "Turn"]
__all__ += ["AuditFile", "AuditLog", "ColumnBatch", "NodeCache", "PackedRows", "SealedSegment", "Sealer"]
__all__ += ["LOOK_MS", "SEEN_EVERY_MS", "RowDigests", "ScanBatch", "ScanLayout", "Unknown", "forked", "AddRun"]
__all__ += ["SegmentView", "are_plain", "check_rows", "delivery", "first_segment", "pack_columns", "pack_pairs"]
__all__ += ["CommandRun", "EntriesReply", "Receiver", "ReplyEncoder", "RequestParser", "checksum", "entry_lists"]
__all__ += ["restore_entry", "segment_at", "send_each", "unpack_node", "unpack_rows", "wait_bells", "wait_turns"]

CTL_BYTES: Final[int]
FORMAT_VERSION: Final[int]
LOG_HEADER_BYTES: Final[int]
LOOK_MS: Final[int]
MAX_BATCH_BYTES: Final[int]
MAX_CONSUMERS: Final[int]
MAX_ENTRY_BYTES: Final[int]
MAX_GROUPS: Final[int]
MAX_NAMES_BYTES: Final[int]
MAX_NAME_BYTES: Final[int]
MAX_SETTING_BYTES: Final[int]
SEEN_EVERY_MS: Final[int]
TRIM_GRANULE_ENTRIES: Final[int]

_IDLike: TypeAlias = EntryID | str | bytes | int | tuple[int, int]
_Key: TypeAlias = tuple[int, int, int]  # of a pending entry in one of the orders 0 (ID), 1 (consumer), 2 (time)
_Chunk: TypeAlias = tuple[bytes, bytes]  # of the view: the key of its first row as 24 bytes, and the rows
_Pending: TypeAlias = tuple[EntryID, int, int, int]  # ID, number of the consumer, time in ms, deliveries

@final
class EntryID:
    """The ID of an entry: two unsigned 64-bit numbers, ordered as a pair. Immutable and hashable.

    `EntryID("5-3")`, `EntryID(5, 3)`, `EntryID("5")` is 5-0. Raises InvalidIDError.
    """

    def __new__(cls, value: _IDLike, seq: int | None = None) -> EntryID: ...
    @property
    def ms(self) -> int: ...  # Milliseconds
    @property
    def seq(self) -> int: ...  # Sequence within the millisecond
    def next(self) -> EntryID | None: ...  # The ID right after this one, or None after the last possible one
    def prev(self) -> EntryID | None: ...  # The ID right before this one, or None before 0-0
    def __bytes__(self) -> bytes: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: EntryID, /) -> bool: ...
    def __le__(self, other: EntryID, /) -> bool: ...
    def __gt__(self, other: EntryID, /) -> bool: ...
    def __ge__(self, other: EntryID, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@disjoint_base
class Entry:
    """One entry: immutable, unpacked as it is asked for. `entry_id, fields = entry`."""

    @property
    def id(self) -> EntryID: ...  # The entry's ID
    @property
    def fields(self) -> dict[Any, Any]:
        """Names and values as a dictionary; of a repeated name the last value. bytes, or str with decode_responses."""
    @property
    def pairs(self) -> list[tuple[Any, Any]]: ...  # (name, value) in order, repeated names included
    @property
    def size_bytes(self) -> int: ...  # Bytes of all names and values
    def get(self, name: str | bytes, default: Any = None) -> Any: ...  # The value of a field, or `default`
    def __getitem__(self, name: str | bytes, /) -> Any: ...
    def __contains__(self, name: str | bytes, /) -> bool: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Delivery(Entry):
    """An entry as a consumer of a group was given it. Pickled it has no group: it is acknowledged there by its ID."""

    def ack(self) -> bool: ...  # Acknowledges the entry. Returns whether it was pending
    def nack(self, mode: str = "FAIL") -> bool: ...  # Gives it back: see `Group.nack`. Returns whether it was pending
    @property
    def gone(self) -> bool: ...  # Whether the entry is gone from the stream: only its ID is left
    @property
    def idle_ms(self) -> int: ...  # How long ago it had been delivered before; 0 for a new one, -1 where nobody had it
    @property
    def deliveries(self) -> int: ...  # How often it had been delivered before; 0 for a new one
    def __copy__(self) -> Delivery: ...
    def __deepcopy__(self, memo: Any, /) -> Delivery: ...

@final
class Block:
    """A run of entries of one segment. Its rows count gone entries too; `entries` leaves them out."""

    def __len__(self) -> int: ...
    def entries(self, reverse: bool = False, limit: int | None = None) -> list[Entry]:
        """The live entries, at most `limit`, from the end where `reverse`."""
    def entries_capped(self, limit: int, max_bytes: int, spent: int) -> tuple[list[Entry], int]:
        """Live entries until `spent` and their bytes reach `max_bytes`; and the sum."""
    def find(self, id: _IDLike) -> Entry | None: ...  # The live entry with this ID, or None
    def find_many(self, ids: list[EntryID], at: int, found: dict[EntryID, Entry]) -> int:
        """Puts what `ids`, rising from place `at` on, has here into `found`; where those behind the block begin."""
    def positions(self, ids: Sequence[_IDLike]) -> list[tuple[EntryID, int]]:
        """(ID, position in the segment) of those of `ids` that are live entries here."""
    def lower_bound(self, id: _IDLike) -> int: ...  # The position in the segment of the first entry not below `id`
    def id_at(self, row: int) -> EntryID: ...  # The ID of a row; IndexError past the end
    def digest(self) -> tuple[int, int, int, int]:
        """The digest of the live entries: their number, bytes of names and values, and two words."""
    @staticmethod
    def reply(blocks: list[Block], count: int) -> bytes: ...  # XRANGE's answer: their live entries, at most `count`
    @property
    def value_bytes(self) -> int: ...  # Bytes of values and IDs, about
    @property
    def end_position(self) -> int: ...  # The position behind the last row
    @property
    def row_count(self) -> int: ...  # Rows, gone ones included
    @property
    def last_id(self) -> EntryID: ...  # The ID of the last row; IndexError without any

@final
class LogFile:
    """An open log file and its mapping. The descriptor passed is duplicated."""

    def __new__(cls, fd: int, path: str, writable: bool) -> LogFile: ...
    def store(self, offset: int, data: bytes) -> None: ...  # Copies `data` into the mapping
    def pwrite(self, offset: int, data: bytes) -> None: ...  # Writes `data` by system call
    def pwrite_sync(self, offset: int, data: bytes) -> None: ...  # Writes `data`, durable on return
    def extend(self, size_bytes: int) -> None: ...  # Writes zeros up to `size_bytes` and maps them
    def flush(self) -> None: ...  # fdatasync
    def read(self, offset: int, size_bytes: int) -> bytes: ...  # Bytes of the mapping, as far as it goes
    def close(self) -> None: ...  # Closes the descriptor; mappings that readers hold live on
    @property
    def size_bytes(self) -> int: ...  # Bytes mapped
    @property
    def native(self) -> LogFile: ...  # Itself

@final
class Ctl:
    """The shared page of a stream: locks (0 append, 1 flush, 2 maintenance), positions, bells, flags."""

    def __new__(cls, fd: int, path: str) -> Ctl: ...
    def init(self, generation: int, flags: int) -> None: ...  # Anew, of no boot; nobody else may be using the page
    def confirm(self, boot: bytes) -> None: ...  # Says in which boot the log was put right: the last step of a recovery
    def raise_flags(self, flags: int) -> None: ...  # 1 poisoned, 2 moved, 4 check the tail, 8 rotten; wakes readers
    def clear_flags(self, flags: int) -> None: ...  # Clears flags
    def poison(self, reason: str) -> None: ...  # Closes the stream to writers of every process
    def publish(self, segment: int, offset: int, lsn: int, rings: bool = True) -> None: ...  # Sets all positions
    def locked(self, lock: int, wait: bool = True) -> Guard: ...  # `wait` false: what `with` gives says whether it has
    def give_up(self, fd: int) -> bool: ...  # No lock any more; whether a thread has one: `fd` is closed with the last
    def set_hub(self, hub: Ctl) -> None: ...  # The store's page: who waits for very many pages sleeps there
    def ring(self) -> None: ...  # Wakes whoever waits for the page's bell
    def join_queue(self, group: int) -> Turn | None: ...  # At the queue's end; None where all places are taken
    def promised(self, group: int, mine: Turn | None = None) -> int: ...  # Promised to waiters other than `mine`
    def wake_queue(self, count: int, group: int | None = None) -> None: ...  # Who wait longest; None: of each group
    @property
    def ready(self) -> bool: ...  # Whether the page was made, by this version
    @property
    def is_of_our_namespace(self) -> bool: ...  # Whether it was made in this PID namespace, as far as anybody knows
    @property
    def is_maintained_here(self) -> bool: ...  # Whether a thread of this process has the maintenance lock, or waits
    @property
    def boot(self) -> bytes: ...  # The boot in which it was made: 16 bytes
    @property
    def generation(self) -> int: ...  # A number that is new each time the page is made
    @property
    def flags(self) -> int: ...  # The flags that are set
    @property
    def poison_text(self) -> str: ...  # Why the stream is poisoned
    @property
    def written(self) -> tuple[int, int]: ...  # (segment, offset) up to which frames are written
    @property
    def visible(self) -> tuple[int, int]: ...  # The same for what readers may see
    @property
    def durable(self) -> tuple[int, int]: ...  # The same for what is on disk
    @property
    def bell(self) -> int: ...  # The word to remember before looking, and to wait for afterwards

@final
class Guard:
    """Holds a lock for the length of a `with` block; signals are handled while waiting, and never in between."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *_details: object) -> None: ...

@final
class Turn:
    """A place in the queue of those who wait for a group's next entry; given up when it goes."""

    def leave(self, served: bool = False) -> None: ...  # Gives the place up; once is enough
    def again(self) -> bool: ...  # Waits on in the old order. False where the place was lost: take another.
    def wake_before(self) -> None: ...  # Wakes the one that waits longest for the group, if it has waited longer
    @property
    def called(self) -> bool: ...  # Whether it was woken, or lost its place

@final
class Changes:
    """What a group's overlay changes in the view. Order 0 (by ID) comes first: it tells the others what goes."""

    def next_key(self, order: int) -> bytes | None: ...  # The least key that is still to be changed; None: done
    def merge(self, order: int, chunk: bytes | None, until: bytes | None) -> list[_Chunk]:
        """What takes the place of `chunk`, with all changes of keys before `until`."""

@final
class Unknown:
    """IDs that a group's overlay says nothing of, in order."""

    def __len__(self) -> int: ...
    def key(self, at: int) -> bytes | None: ...  # The key of number `at` in the index by ID; None behind the last

@final
class Log:
    """The active segment of a stream: what an append lacks it has the resolver do, by a reason, and is tried again.

    Other calls return the reason as an int, 0 where there is none.
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
        pending_rows: int = 4096,
        apart: bool = False,
    ) -> Log: ...
    def scan(self) -> dict[str, Any] | None:
        """Applies whole frames to the end of the file; what follows them: None (zeros), or torn or rotten."""
    def follow(self) -> None: ...  # Applies whole frames to the end of the file, and judges nothing of what follows
    def close(self, wait: bool = True) -> None: ...  # Refuses appends; may `wait` for those under way
    def end_waits(self) -> None: ...  # Those of `take` go the long way: this opening is about to be closed
    def set_resolver(self, resolver: Callable[[int, bool], None]) -> None:
        """Takes what is called, with a reason and whether the lock is held, when an append finds something missing."""
    def catch_up(self) -> int: ...  # Applies what others have written. 0, or a reason.
    def add(
        self,
        fields: Any,
        id: _IDLike | None = None,
        within_ms: int | None = None,
        durable: bool = False,
        held: bool = False,
        now: int | None = None,
        message: tuple[bytes, bytes] | None = None,
    ) -> EntryID:
        """Appends one entry; with `message`, the producer and its ID of the message are remembered with it."""
    def add_many(
        self,
        rows: Iterable[Any],
        ids: Iterable[_IDLike] | None = None,
        durable: bool = False,
        held: bool = False,
        now: int | None = None,
        commit: tuple[bytes, int, int] | None = None,
    ) -> list[EntryID] | None: ...  # Appends entries as one frame; None: `commit`, a part, was committed before
    def add_packed(
        self,
        rows: PackedRows,
        durable: bool = False,
        held: bool = False,
        now: int | None = None,
        commit: tuple[bytes, int, int] | None = None,
    ) -> tuple[EntryID, EntryID] | None: ...  # The same for packed rows: the first ID and the last
    def trim(self, segment: int, position: int) -> int: ...  # Trims to a place, under the append lock. 0, or a reason.
    def delete(self, greatest: _IDLike, places: Sequence[tuple[int, int]]) -> int: ...  # Marks as deleted, in order
    def set_id(self, last: _IDLike, entries_added: int, max_deleted: _IDLike) -> int: ...  # Sets the counters
    def replace(self, inputs: Sequence[int], output: SegmentView) -> int:
        """Lets a compacted segment take the place of its inputs, under the append lock."""
    def mark(self) -> int: ...  # Appends a mark that carries the durable sequence number, under the append lock
    def plan_trim(self, keep: int, approximate: bool, limit: int) -> tuple[int, int, int] | None:
        """(segment, position, entries that go) to keep `keep` entries, or None."""
    def live_before(self, segment: int, position: int) -> int: ...  # Live entries before a place
    def flush(self) -> int: ...  # Makes all written so far durable, sharing a flush with others. 0, or a reason.
    def next_segment(
        self, number: int, salt: int, pending: list[tuple[int, bytes]] | None = None
    ) -> tuple[bytes, bytes]:
        """Header block, frontier slot included, and snapshot frame of the next segment; `pending`: (group, chunk)."""
    def advance(self, file: Any) -> RowSegment | None: ...  # Goes on in the next segment; the one left behind
    def frontier_slot(self, frontier_ms: int, floor_ms: int) -> tuple[int, bytes]: ...  # Of the next: offset, bytes
    def read_frontier(self) -> tuple[int, int]: ...  # Frontier and floor (milliseconds) as they stand in the file now
    def next_auto_ms(self, now: int | None) -> int: ...  # What the next automatic ID will not be below
    def read(
        self, segment: int, position: int, start: _IDLike, end: _IDLike, max_entries: int, max_bytes: int
    ) -> tuple[bool, Block | None]:
        """Visible entries from `position` on; False where `segment` is not active any more."""
    def seek(self, segment: int, id: _IDLike, written: bool = False) -> int | None:
        """The position of the first visible entry not below `id`; None where `segment` is not active any more."""
    def visible_entries(self, durable: bool = False) -> int: ...  # Of the active segment, gone ones too; or on disk
    def audit(self) -> AuditLog: ...  # The frames of groups of the active segment, as of what is visible now
    def segments(self) -> list[SegmentView]: ...  # The sealed and rolled segments in order
    def active_view(self) -> SegmentView: ...  # The active segment
    def take_dropped(self) -> list[tuple[int, int]]: ...  # (number, generation) of files not listed any more
    def counters(self) -> tuple[int, EntryID, int, EntryID]: ...  # Length, last ID, added, greatest deleted ID
    def written_length(self) -> int: ...  # Live entries of all that is written, visible or not
    def length(self) -> int: ...  # Live entries
    def newer(self, after: _IDLike, limit: int) -> list[Entry] | None:
        """Visible entries of the active segment behind `after`; None: go the long way, by `refresh` and `read`."""
    # Groups: what is known of them, and what changes it. All of it under the append lock.
    def change(self, records: list[tuple[Any, ...]], now_ms: int) -> int:
        """Appends one frame with records, each (word, arguments...). 0, or a reason."""
    def deliver(
        self,
        group: int,
        consumer: int,
        blocks: list[Block] | None,
        wanted: tuple[int, int, int, int, bool],
        first: _IDLike,
        now_ms: int,
        owner: Any,
        asked: bool = False,
    ) -> tuple[int, list[Delivery], int]:
        """Gives new entries: of `blocks`, or of the active segment. A reason, or 0; what was given; bytes spent.

        `wanted` is (count, promised to others, max_bytes, spent, noack); `first` is the stream's first ID.
        """
    def acknowledge(self, group: int, ids: list[EntryID], now_ms: int, asked: bool = False) -> tuple[int, int]:
        """(0 or a reason, count); `asked` says that the view was asked for the IDs."""
    # The short way of both, which takes the append lock itself.
    def take(
        self,
        group: bytes,
        consumer: bytes,
        count: int,
        block_s: float | None,
        owner: Any,
        first_seen: tuple[int, _IDLike] | None,
        most_rows: int,
        now_ms: int | None,
        stop: Any = None,
    ) -> tuple[list[Delivery] | None, Turn | None, bool]:
        """New entries, waited for up to `block_s` (0: for ever); None, with a place in the queue: go the long way.

        The bool says that the overlays hold more than `most_rows`. `first_seen`: the first live ID, as of a version;
        `stop`: a `threading.Event` that ends the wait.
        """
    def finish(
        self, group: bytes, ids: list[EntryID], most_rows: int, now_ms: int | None, consumer: bytes | None = None
    ) -> tuple[int, bool] | None: ...  # How many were pending (of the consumer), and that bool; None: the long way
    def acknowledge_runs(
        self, group: int, runs: list[CommandRun], now_ms: int, asked: bool = False
    ) -> tuple[int, list[bytes]]:
        """The same for runs of XACK in one frame; the replies to each run."""
    def deliver_runs(
        self,
        group: int,
        readers: list[tuple[int, CommandRun, bool]],
        blocks: list[Block] | None,
        limit: int,
        cut: bool,
        first: _IDLike,
        now_ms: int,
        asked: bool = False,
    ) -> tuple[int, list[tuple[int, bytes]], bool]:
        """Gives new entries for runs of XREADGROUP: (consumer's number, run, whether for RESP3) in one frame.

        `limit` entries are looked for; `blocks` are not all there is where `cut`. A reason, or 0; of each run how many
        commands were answered, and the replies; whether there is more for the others.
        """
    @property
    def names_bytes(self) -> int: ...  # That names of groups, consumers and messages take, about
    def past_names_bytes(self, now_ms: int) -> int: ...  # Of these, what the next message has forgotten
    @property
    def group_count(self) -> tuple[int, bool]: ...  # Groups, and whether there ever was one or an idempotent message
    def groups(self, only: int | None = None) -> list[tuple[int, bytes, EntryID, int | None, int, int, int]]:
        """(number, name, last delivered ID, entries read, consumers, pending, refused), in order of names."""
    def groups_holding(self) -> list[int]: ...  # The groups that have something pending
    def least_delivered(self) -> EntryID | None: ...  # The least last delivered ID of all groups
    def group_number(self, name: bytes) -> int | None: ...  # The number of a group
    def last_delivered(self, group: int) -> EntryID | None: ...  # The last delivered ID of a group
    def progress(self, group: int, first: _IDLike) -> tuple[int | None, int | None]: ...  # Entries read, lag
    def first_id(self) -> EntryID | None: ...  # The stream's first ID; None where a sealed segment must be read for it
    def consumers(self, group: int) -> list[tuple[int, bytes, int, int | None, int]]:
        """(number, name, seen ms, active ms, pending), in order of names."""
    def consumer_number(self, group: int, name: bytes) -> int | None: ...  # The number of a consumer
    def consumer_name(self, group: int, consumer: int) -> bytes | None: ...  # The name of one
    def consumer_count(self, group: int) -> int: ...  # How many consumers a group has
    def consumer_seen(self, group: int, consumer: int) -> int | None: ...  # When it was seen last, in ms
    def find_message(self, producer: bytes, message: bytes, now_ms: int) -> EntryID | None: ...  # If remembered
    def committed(self, writer: bytes) -> tuple[int, int] | None: ...  # Version and part that it committed last
    def setting(self, name: bytes) -> bytes | None: ...  # What was set under a name
    def settings(self) -> list[tuple[bytes, bytes]]: ...  # All of them, in byte order of their names
    def note_duplicate(self) -> None: ...  # Counts a message that was there already
    def windows(self, now_ms: int) -> tuple[int, int, int, int, int, int]:
        """Duration (s), size, producers, messages tracked, messages added, duplicates."""
    # Pending entries: overlays in memory over the view, which Python keeps.
    def unknown(self, group: int, ids: list[EntryID]) -> Unknown: ...  # Those that the view alone can know
    def adopt(self, unknown: Unknown, at: int, chunk: bytes | None, following: bytes | None) -> int:
        """Takes rows from `at` on, before key `following`, out of a chunk, or that there is none. Where to go on."""
    def take_freed(self) -> list[EntryID] | None: ...  # Pending no more since the last call; None: any may be
    def find_pending(self, group: int, ids: list[EntryID]) -> list[_Pending | None]: ...  # After asking `unknown`
    def is_viewed(self, group: int) -> bool: ...  # Whether the view holds rows of a group
    def pending_rows(
        self, group: int, order: int, start: _Key, until: _Key | None, chunk: bytes | None, limit: int
    ) -> list[_Pending]:
        """Rows from `start` on and before `until`: those of a chunk of the view as they are now, and newer ones."""
    def gone_before(self, group: int) -> list[_Key]: ...  # By time: what comes before is gone (nobody's, owned)
    def note_gone(self, group: int, before: _Key, owned: bool) -> None: ...  # They were found to be
    @property
    def overlay_rows(self) -> int: ...  # IDs that the overlays name
    def is_complete(self, chunks: list[tuple[int, bytes]]) -> bool: ...  # As many rows as are counted for each group
    def last_in_overlay(self, group: int) -> EntryID | None: ...  # The greatest pending ID that an overlay names
    def changes(self) -> list[tuple[int, Changes]]: ...  # What the overlay of each group changes in the view
    def viewed(self) -> int: ...  # Appends a frame: the view holds all before it. 0, or a reason.
    @property
    def base(self) -> tuple[int, int] | None: ...  # (sequence number, checksum) of where the overlays begin
    @property
    def link(self) -> tuple[int, int, int]: ...  # (sequence number, end offset, checksum) of the last frame
    @property
    def link_before(self) -> tuple[int, int]: ...  # (sequence number, checksum) of the last frame before this segment
    def rebase(self, lsn: int, offset: int, link: int) -> bool: ...  # Begins anew; False: not of this log
    def rebase_to_snapshot(self) -> None: ...  # Begins the overlays anew behind the snapshot
    def snapshot_view(self) -> list[tuple[int, int, list[_Chunk]]]: ...  # (group, order, chunks)
    @property
    def trimmed_to(self) -> EntryID | None: ...  # The greatest ID that a trim took with its whole segment
    @property
    def version(self) -> int: ...  # Grows whenever a sealed segment changes
    @property
    def tail(self) -> tuple[int, int, int, int]: ...  # Segment, end offset, sequence number, bytes of snapshot
    @property
    def salt(self) -> int: ...  # The salt of the active segment
    @property
    def uuid(self) -> bytes: ...  # The stream's 16 bytes
    @property
    def needed_bytes(self) -> int: ...  # Bytes that the last append found missing
    @property
    def is_durable(self) -> bool: ...  # Whether all that is written is durable
    @property
    def active_entries(self) -> int: ...  # Entries of the active segment, gone ones included

def forked() -> None: ...  # Says so: what changes pages and log files opened before raises ForkedError from now on
def wait_bells(bells: Sequence[tuple[Ctl, int]], timeout_s: float | None) -> bool:
    """Sleeps until a bell is not as it was read, or the time is up. Whether one rang. Signals are handled."""

def wait_turns(turns: list[Turn], bells: list[tuple[Ctl, int]], timeout_s: float) -> bool:
    """Sleeps until a turn is called or a bell rings, a minute at most. Whether one did. Signals are handled."""

def delivery(
    entry: Entry | None, id: _IDLike, owner: Any, idle_ms: int, deliveries: int, text: bool = False
) -> Delivery:
    """A delivery made of an entry, or of its ID alone where the entry is gone; `owner` is its `Group`, or None."""

def entry_lists(blocks: Iterable[Block], reverse: bool = False, limit: int | None = None) -> Iterator[list[Entry]]:
    """Live entries in lists of a few. What nobody holds when the next list is taken may be another entry then."""

def restore_entry(id: _IDLike, pairs: Sequence[tuple[bytes, bytes]], text: bool = False) -> Entry:
    """An entry from its parts: what unpickling calls."""

def are_plain(rows: list[Any] | tuple[Any, ...]) -> bool: ...  # dicts, lists and tuples themselves, no code to run
def check_rows(rows: Iterable[Any], ids: Iterable[_IDLike] | None = None) -> None:
    """Raises what appending these rows would, as far as the stream does not matter."""

def checksum(data: bytes) -> int: ...  # CRC32C
def unpack_node(
    data: bytes, salt: int, number: int, offset: int, before: int = 0, view: SegmentView | None = None
) -> tuple[Block, int, list[tuple[list[bytes], int]]]:
    """A node by itself: its entries from position `before` on, bytes of names and values, names and rows of shapes."""

def unpack_rows(
    data: bytes, first: tuple[int, int], entries: int, before: int = 0, view: SegmentView | None = None
) -> tuple[Block, int]:
    """The rows of an entries frame by themselves, likewise."""

def first_segment(uuid: bytes, salt: int, now_ms: int) -> tuple[bytes, bytes]:
    """Header block and snapshot frame of a new stream's first segment."""
