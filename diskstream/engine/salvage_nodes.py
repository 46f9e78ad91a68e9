"""What can be read of a damaged segment that no longer changes, sealed or rolled, and what is missing.

A node counts by itself: two checksums, and the salt of its file. So nodes are found where the index says, or, without
one, behind one another from the header on. A node behind one that is gone is found by its salt again.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from diskstream._native import (
    FORMAT_VERSION,
    LOG_HEADER_BYTES,
    Block,
    EntryID,
    SealedSegment,
    SegmentView,
    checksum,
    unpack_node,
    unpack_rows,
)
from diskstream.engine import cold
from diskstream.engine.frames import Gap, find_salt, frame_at, halves, read_all, walk
from diskstream.engine.layouts import ENTRIES, FOOTER, INDEX_ROW, LOG_HEADER, NODE_HEAD, PAGE_ROW, SEGMENT_HEADER
from diskstream.engine.losses import Loss
from diskstream.engine.snapshots import Meta
from diskstream.engine.wire import ID
from diskstream.errors import CorruptionError, DiskstreamError, NewerFormatError

__all__ = [
    "Hole",
    "Piece",
    "Salvaged",
    "index_rows",
    "page_rows",
    "reads_whole",
    "refuse_later",
    "salvage_log",
    "salvage_sealed",
    "sealed_salt",
    "segment_meta",
]

_CODECS = 1  # the greatest that is known


@dataclass
class Piece:
    """A run of entries that can be read.

    Attributes:
        offset, size: where it stands.
        entries, first, last: of it.
        before: the position of its first entry; None where nobody knows.
        number: of the node; of the first ID of a frame where it is one.
        raw_bytes: of its names and values.
    """

    offset: int
    size: int
    entries: int
    first: EntryID
    last: EntryID
    number: int
    raw_bytes: int
    before: int | None = None


@dataclass
class Hole:
    """A run of entries that cannot be read; what is not known of it is None."""

    offset: int
    size: int
    what: str
    entries: int | None = None
    first: EntryID | None = None


@dataclass
class Salvaged:
    """What a file holds, in order.

    Attributes:
        salt: of its nodes or frames.
        parts: pieces and holes.
        times_ms: least and greatest append time.
        copy: the snapshot copy, where it is sound.
    """

    path: Path
    data: bytes
    salt: int
    parts: list[Piece | Hole] = field(default_factory=list)
    times_ms: tuple[int, int] = (0, 0)
    copy: bytes = b""
    is_log: bool = False

    @property
    def pieces(self) -> list[Piece]:
        """What can be read."""
        return [part for part in self.parts if isinstance(part, Piece)]

    @property
    def entries(self) -> int:
        """How many entries can be read."""
        return sum(piece.entries for piece in self.pieces)

    def block(self, piece: Piece, view: SegmentView | None) -> Block:
        """The entries of a piece; without those that `view` says are gone, where their positions are known."""
        known = view if piece.before is not None else None
        before = piece.before or 0
        if self.is_log:
            frame = frame_at(self.data, piece.offset, self.salt)
            assert frame is not None
            rows, _ = halves(frame, frame.payload(self.data))
            return unpack_rows(rows, frame.first, frame.entries, before, known)[0]
        data = self.data[piece.offset : piece.offset + piece.size]
        return unpack_node(data, self.salt, piece.number, piece.offset, before, known)[0]

    def place(self, entries: int, first: EntryID, last: EntryID) -> None:
        """Finds out the positions of all pieces, where the file had so many entries, from `first` to `last`."""
        for number, part in enumerate(self.parts):
            if isinstance(part, Piece) and (part.first < first or part.last > last):
                self.parts[number] = Hole(part.offset, part.size, "entries of another segment stand here")
        if self.parts and isinstance(self.parts[-1], Hole) and self.pieces and self.pieces[-1].last == last:
            self.parts.pop()
        unknown = [part for part in self.parts if isinstance(part, Hole) and part.entries is None]
        if len(unknown) == 1:
            known = sum(part.entries or 0 for part in self.parts)
            unknown[0].entries = max(entries - known, 0)
        at: int | None = 0
        for part in self.parts:
            if isinstance(part, Piece):
                part.before = at if part.before is None else part.before
                at = part.before if at is None else at
            at = None if at is None or part.entries is None else at + part.entries
        at = entries
        for part in reversed(self.parts):
            at = None if at is None or part.entries is None else at - part.entries
            if isinstance(part, Piece) and part.before is None and at is not None and at >= 0:
                part.before = at

    def losses(self, first: EntryID, last: EntryID) -> Iterator[Loss]:
        """What cannot be read, of a file whose entries went from `first` to `last`."""
        start: EntryID = first
        for number, part in enumerate(self.parts):
            if isinstance(part, Piece):
                start = part.last.next() or part.last
                continue
            later = next((each.first for each in self.parts[number + 1 :] if isinstance(each, Piece)), None)
            known = next(
                (each.first for each in self.parts[number + 1 : number + 2] if isinstance(each, Hole) and each.first),
                None,
            )
            stop = known or later
            end = last if stop is None else stop.prev() or stop
            begin = part.first or start
            if begin <= end:
                yield Loss(self.path, part.offset, part.size, part.what, str(begin), str(end), part.entries)


def sealed_salt(data: bytes) -> tuple[int | None, dict[str, object] | None, dict[str, object] | None]:
    """The salt of a sealed file, and its header and footer where they are sound."""
    header, footer = SEGMENT_HEADER.sound(data, 0), FOOTER.sound(data, len(data) - FOOTER.size)
    if header is not None:
        return header["salt"], header, footer
    if footer is not None:
        return footer["salt"], None, footer
    head = NODE_HEAD.sound(data, SEGMENT_HEADER.size)
    if head is not None:
        return head["salt"], None, None
    raw = SEGMENT_HEADER.read(data, 0)
    for candidate in ([raw["salt"]] if raw else []) + [row["salt"] for row in _any_heads(data)]:
        return candidate, None, None
    return None, None, None


def _any_heads(data: bytes) -> Iterator[dict[str, int]]:
    for offset in range(SEGMENT_HEADER.size, len(data) - NODE_HEAD.size + 1):
        if data[offset + 20] <= 1 and data[offset + 21 : offset + 24] == b"\0\0\0":
            head = NODE_HEAD.sound(data, offset)
            if head is not None:
                yield head
                return


def page_rows(data: bytes, footer: dict[str, object]) -> list[tuple[int, dict[str, int]]]:
    """The page rows before the index, each with its offset, as they stand there; none in a file without them."""
    rows, nodes = int(str(footer["page_rows"])), int(str(footer["nodes"]))
    count = -(-nodes // rows) if rows else 0
    end = int(str(footer["index_offset"]))
    start = end - count * PAGE_ROW.size
    if start < 0:
        return []
    found = [(at, PAGE_ROW.read(data, at)) for at in range(start, end, PAGE_ROW.size)]
    return [(at, row) for at, row in found if row is not None]


def index_rows(data: bytes, footer: dict[str, object] | None) -> list[dict[str, int]]:
    """The rows of the sparse index, where footer and index are sound; else none."""
    if footer is None:
        return []
    start, count = int(str(footer["index_offset"])), int(str(footer["nodes"]))
    index = data[start : start + count * INDEX_ROW.size]
    if len(index) != count * INDEX_ROW.size or checksum(index) != footer["index_crc"]:
        return []
    rows = [INDEX_ROW.read(index, at) for at in range(0, len(index), INDEX_ROW.size)]
    return [row for row in rows if row is not None]


def refuse_later(faults: Iterable[tuple[int, Exception]]) -> None:
    """Refuses nodes of a later version, among what is wrong with those of a file: they are no damage.

    Raises:
        NewerFormatError: there is one.
    """
    for _, fault in faults:
        if isinstance(fault, NewerFormatError):
            raise fault


def reads_whole(opened: SealedSegment, view: SegmentView) -> bool:
    """Whether all of a sealed file can be read, and is what the log lists.

    Raises:
        CorruptionError: its copy of the snapshot is damaged.
        NewerFormatError: a later version wrote a node of it.
    """
    entries, _, faults = opened.verify_run(0, opened.nodes)
    refuse_later(faults)
    if faults or entries != view.entries or (opened.first, opened.last) != (view.first, view.last):
        return False
    before = 64, 0
    for node in range(opened.nodes):
        offset, length, at, count, _ = opened.node_row(node)
        if (offset, at) != before:
            return False
        before = offset + length, at + count
    opened.snapshot_copy()
    return True


def _refuse_later_file(path: Path, *parts: Mapping[str, object] | None) -> None:
    """Refuses a file whose sound header or footer is a later version's: what is read of it by our rules is not it."""
    for part in parts:
        if part is not None and int(str(part["version"])) > FORMAT_VERSION:
            raise NewerFormatError(str(path), "the file", FORMAT_VERSION, part["version"])


def _node(found: Salvaged, offset: int, number: int | None) -> Piece | None:
    """The node at an offset, if it is sound.

    Raises:
        NewerFormatError: a later version wrote it.
    """
    data, salt = found.data, found.salt
    head = NODE_HEAD.sound(data, offset)
    if head is None or head["salt"] != salt or (number is not None and head["number"] != number):
        return None
    size = NODE_HEAD.size + head["body_length"]
    if offset + size > len(data):
        return None
    try:
        block, raw_bytes, _ = unpack_node(data[offset : offset + size], salt, head["number"], offset)
    except NewerFormatError as error:
        raise NewerFormatError(str(found.path), f"the codec of the node at {offset}", _CODECS, error.found) from None
    except DiskstreamError:
        return None
    first, last = block.id_at(0), block.id_at(block.row_count - 1)
    return Piece(offset, size, block.row_count, first, last, head["number"], raw_bytes)


def salvage_sealed(path: Path) -> Salvaged | None:
    """What can be read of a sealed file; None where nothing says that it is one.

    Raises:
        NewerFormatError: a later version wrote it, or a node of it.
    """
    data, _ = read_all(path)
    salt, header, footer = sealed_salt(data)
    _refuse_later_file(path, header, footer)
    if salt is None:
        return None
    found = Salvaged(path, data, int(salt))
    if footer is not None:
        found.times_ms = int(str(footer["least_time"])), int(str(footer["greatest_time"]))
        start, length = int(str(footer["snapshot_offset"])), int(str(footer["snapshot_length"]))
        copy = data[start : start + length]
        found.copy = copy if length and checksum(copy) == footer["snapshot_crc"] else b""
    rows = index_rows(data, footer)
    if rows:
        for number, row in enumerate(rows):
            piece = _node(found, row["offset"], number)
            if piece is not None and piece.entries == row["entries"]:
                piece.before = row["before"]
                found.parts.append(piece)
            else:
                first = EntryID(row["first_ms"], row["first_seq"])
                what = f"node {number} is damaged"
                found.parts.append(Hole(row["offset"], row["length"], what, row["entries"], first))
        return _in_order(found)
    _walk_nodes(found)
    return _in_order(found)


def _walk_nodes(found: Salvaged) -> None:
    """Nodes behind one another; past a damaged one the next is found by its salt, or where the head says."""
    data, word = found.data, found.salt.to_bytes(4, "little")
    at, number = SEGMENT_HEADER.size, 0
    while at < len(data):
        piece = _node(found, at, number)
        if piece is not None:
            found.parts.append(piece)
            at, number = at + piece.size, number + 1
            continue
        following = at + 1
        later: Piece | None = None
        while later is None and (following := data.find(word, following)) >= 0:
            later = _node(found, following, None)
            if later is None or later.number <= number:
                later, following = None, following + 1
        if later is None:
            break
        head = NODE_HEAD.sound(data, at)
        alone = later.number == number + 1
        entries = head["entries"] if head is not None and alone and head["salt"] == found.salt else None
        what = f"node {number} is damaged" if alone else f"nodes {number} to {later.number - 1} are damaged"
        found.parts.append(Hole(at, following - at, what, entries))
        at, number = following, later.number
    # Behind the last node stand copy, index and footer. Whether a node is missing there is told by `place`.
    found.parts.append(Hole(at, max(len(data) - at, 0), "what follows the last sound node cannot be read", None))


def _in_order(found: Salvaged) -> Salvaged:
    """Leaves out what does not rise: a node that stands in the wrong place."""
    last: EntryID | None = None
    for at, part in enumerate(found.parts):
        if isinstance(part, Piece):
            if last is not None and part.first <= last:
                found.parts[at] = Hole(part.offset, part.size, "a node out of order", part.entries)
            else:
                last = part.last
    return found


def salvage_log(path: Path) -> Salvaged | None:
    """What can be read of a rolled log file; None where nothing says that it is one.

    Raises:
        NewerFormatError: a later version wrote it, or a frame of it.
    """
    data, _ = read_all(path)
    header = LOG_HEADER.sound(data)
    _refuse_later_file(path, header)
    salt = header["salt"] if header is not None else find_salt(data)
    if salt is None:
        return None
    found = Salvaged(path, data, int(salt), is_log=True)
    snapshot = frame_at(data, LOG_HEADER_BYTES, found.salt)
    start = LOG_HEADER_BYTES if snapshot is None else snapshot.end
    times: list[int] = []
    pieces = walk(data, found.salt, start, 0 if snapshot is None else snapshot.lsn, str(path))
    for piece in pieces:
        if isinstance(piece, Gap):
            header_ = piece.header
            if header_ is not None and header_.kind != ENTRIES:
                continue
            entries = None if header_ is None else header_.entries
            first = None if header_ is None else EntryID(*header_.first)
            # Before the first frame, a file without a sound snapshot has bytes that were never entries.
            found.parts.append(Hole(piece.offset, piece.end - piece.offset, "damaged frames", entries, first))
        elif piece.kind == ENTRIES:
            rows, _ = halves(piece, piece.payload(data))
            try:
                block, raw_bytes = unpack_rows(rows, piece.first, piece.entries)
            except CorruptionError:
                found.parts.append(Hole(piece.offset, piece.size, "a frame that cannot be unpacked", piece.entries))
                continue
            first, last = block.id_at(0), block.id_at(block.row_count - 1)
            found.parts.append(Piece(piece.offset, piece.size, block.row_count, first, last, piece.lsn, raw_bytes))
            times.append(piece.time)
    found.parts.append(Hole(len(data.rstrip(b"\0")), 0, "what follows the last sound frame is missing", None))
    found.times_ms = (min(times), max(times)) if times else (0, 0)
    return _in_order(found)


def segment_meta(
    path: Path, number: int, generation: int, uuid: bytes, seen: dict[int, Salvaged] | None = None
) -> Meta | None:
    """What the list of segments says of a file, as far as its entries can be read; None where none can.

    Where the file itself does not say it, it is noted in `seen` what was read instead.
    """
    if path.suffix == ".cold":
        return _stub_meta(path, number, generation, uuid)
    data, _ = read_all(path)
    if path.suffix == ".log":
        found = salvage_log(path)
    else:
        _, header, footer = sealed_salt(data)
        _refuse_later_file(path, header, footer)
        owners = {bytes(part["uuid"]) for part in (header, footer) if part is not None}  # type: ignore[call-overload]  # a field of bytes
        if owners and uuid not in owners:
            return None
        if footer is not None and footer["segment"] == number and footer["generation"] == generation:
            first = int(str(footer["first_ms"])), int(str(footer["first_seq"]))
            last = int(str(footer["last_ms"])), int(str(footer["last_seq"]))
            times = int(str(footer["least_time"])), int(str(footer["greatest_time"]))
            return Meta(number, generation, int(str(footer["entries"])), first, last, times, len(data))
        found = salvage_sealed(path)
    pieces = found.pieces if found is not None else []
    if found is None or not pieces:
        return None
    if seen is not None:
        seen[number] = found
    first_id: ID = (pieces[0].first.ms, pieces[0].first.seq)
    last_id: ID = (pieces[-1].last.ms, pieces[-1].last.seq)
    return Meta(number, generation, found.entries, first_id, last_id, found.times_ms, len(data))


def _stub_meta(path: Path, number: int, generation: int, uuid: bytes) -> Meta | None:
    """The same of a stub: when its entries were added it does not say."""
    with contextlib.suppress(CorruptionError):
        stub = cold.read(path)
        if stub is not None and (stub.uuid, stub.number, stub.generation) == (uuid, number, generation):
            first, last = (stub.first.ms, stub.first.seq), (stub.last.ms, stub.last.seq)
            return Meta(number, generation, stub.entries, first, last, size_bytes=stub.size_bytes)
    return None
