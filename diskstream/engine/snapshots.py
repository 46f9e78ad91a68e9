"""The payload of a snapshot, taken apart and put together again: docs/format/state.md."""

from dataclasses import dataclass, field

from diskstream.engine.wire import ID, Cursor, WireError, put_bitmap, put_id, put_varint

__all__ = ["SECTIONS", "Meta", "Snapshot", "read_meta", "read_snapshot"]

SECTIONS = {1: "counters", 2: "segments", 16: "groups", 17: "pending", 18: "commits", 129: "trimmed"}
_COUNTERS, _SEGMENTS = 1, 2


@dataclass
class Meta:
    """What the log says of one segment: see `docs/format/state.md`."""

    number: int
    generation: int
    entries: int
    first: ID
    last: ID
    times_ms: tuple[int, int] = (0, 0)
    size_bytes: int = 0
    trimmed: int = 0
    deleted: set[int] = field(default_factory=set)

    def put(self) -> bytes:
        """As it stands in a log."""
        out = put_varint(self.number) + put_varint(self.generation) + put_varint(self.entries)
        out += put_id(self.first) + put_id(self.last)
        for value in (*self.times_ms, self.size_bytes, self.trimmed):
            out += put_varint(value)
        return out + put_bitmap(self.deleted)


@dataclass
class Snapshot:
    """The state of a stream at the beginning of a segment.

    Attributes:
        uuid: the stream's 16 bytes.
        last_id, greatest_deleted: IDs.
        added: entries ever added.
        segments: in order.
        others: the sections that nobody here looks into, by tag.
    """

    uuid: bytes
    last_id: ID = (0, 0)
    greatest_deleted: ID = (0, 0)
    added: int = 0
    segments: list[Meta] = field(default_factory=list)
    others: dict[int, bytes] = field(default_factory=dict)

    def put(self) -> bytes:
        """As the payload of a frame."""
        counters = put_id(self.last_id) + put_id(self.greatest_deleted) + self.added.to_bytes(8, "little") + self.uuid
        listed = put_varint(len(self.segments)) + b"".join(meta.put() for meta in self.segments)
        sections = {_COUNTERS: counters, _SEGMENTS: listed, **self.others}
        return b"".join(bytes([tag]) + put_varint(len(body)) + body for tag, body in sorted(sections.items()))


def read_meta(cursor: Cursor) -> Meta:
    """A meta as it stands in a log."""
    number, generation, entries = cursor.varint(), cursor.varint(), cursor.varint()
    first, last = cursor.id(), cursor.id()
    times_ms = cursor.varint(), cursor.varint()
    size_bytes, trimmed = cursor.varint(), cursor.varint()
    return Meta(number, generation, entries, first, last, times_ms, size_bytes, trimmed, cursor.bitmap(entries))


def read_snapshot(payload: bytes) -> Snapshot:
    """The snapshot in the payload of a frame.

    Raises:
        WireError: it is none.
    """
    cursor = Cursor(payload)
    found: dict[int, bytes] = {}
    while cursor.left:
        tag = cursor.byte()
        found[tag] = cursor.name()
    if _COUNTERS not in found or _SEGMENTS not in found:
        raise WireError("a snapshot without counters or without segments")
    counters, listed = Cursor(found.pop(_COUNTERS)), Cursor(found.pop(_SEGMENTS))
    last_id, greatest, added = counters.id(), counters.id(), counters.u64()
    snapshot = Snapshot(counters.take(16), last_id, greatest, added, others=found)
    snapshot.segments = [read_meta(listed) for _ in range(listed.count(listed.left))]
    return snapshot
