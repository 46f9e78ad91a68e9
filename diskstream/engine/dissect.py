"""What stands in one file of a store, structure by structure, as far as it can be told: also where it is damaged.

Each row is a mapping of plain values, with what it is of under ``is``. A place that is no structure is a row too: it is
shown where it begins and where something can be read again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diskstream._native import LOG_HEADER_BYTES, Block, EntryID, checksum, unpack_node, unpack_rows
from diskstream.engine import cold, dissect_hints, names
from diskstream.engine.frames import Frame, Gap, find_salt, frame_at, halves, read_all, walk
from diskstream.engine.layouts import (
    AUDIT_BLOCK_HEAD,
    AUDIT_FOOTER,
    AUDIT_HEADER,
    ENTRIES,
    FOOTER,
    FRAME_HEADER,
    FRONTIER_SLOT,
    GROUPS,
    INDEX_ROW,
    KINDS,
    LEFT_BEHIND_MARK,
    LOG_HEADER,
    NODE_HEAD,
    SEGMENT_HEADER,
    SLOT_OFFSETS,
    SNAPSHOT,
    Layout,
)
from diskstream.engine.records import Record, read_records
from diskstream.engine.salvage_nodes import index_rows, page_rows, sealed_salt
from diskstream.engine.snapshots import SECTIONS, read_snapshot
from diskstream.engine.wire import Cursor, WireError
from diskstream.errors import CorruptionError, DiskstreamError, NewerFormatError

__all__ = ["Depth", "Row", "dissect_file", "kind_of"]

Row = dict[str, Any]
_MARK_OFFSET = 1536
_MOST_SHAPES = 8


@dataclass(frozen=True)
class Depth:
    """How much is shown.

    Attributes:
        parts: each frame, node, index row and block.
        entries: each entry of them, and each record of groups.
    """

    parts: bool = False
    entries: bool = False


def kind_of(path: Path, head: bytes) -> str:
    """What a file is, by its first bytes, else by its name.

    One of ``log``, ``sealed``, ``stub``, ``audit``, ``ctl``, ``view``, ``state`` (by its name alone) and ``unknown``.
    """
    if dissect_hints.is_view(head):
        return "view"
    if head[: len(dissect_hints.CTL.magic)] == dissect_hints.CTL.magic or path.name == "ctl":
        return "ctl"
    if head[: len(cold.MAGIC)] == cold.MAGIC:
        return "stub"
    for layout, kind in ((LOG_HEADER, "log"), (SEGMENT_HEADER, "sealed"), (AUDIT_HEADER, "audit")):
        if head[: len(layout.magic)] == layout.magic:
            return kind
    stem = next((part for part in path.name.split("-") if "." in part), path.name)  # also of a file in quarantine
    parsed = names.parse_file(stem)
    if parsed is not None:
        return {"log": "log", "seg": "sealed", "cold": "stub"}[parsed[0]]
    if names.state_number(stem) is not None:
        return "state"
    return "audit" if names.audit_number(stem) is not None else "unknown"


def dissect_file(path: Path, depth: Depth) -> Iterator[Row]:
    """The rows of one file.

    Raises:
        StorageError: it cannot be read.
        FileNotFoundError: it is not there.
    """
    data, bad = read_all(path)
    kind = kind_of(path, data[:64])
    yield {"is": "file", "path": str(path), "kind": kind, "size_bytes": len(data), "unreadable_blocks": bad}
    if kind == "log":
        yield from _log(path, data, depth)
    elif kind == "sealed":
        yield from _sealed(data, depth)
    elif kind == "audit":
        yield from _audit(data, depth)
    elif kind == "stub":
        yield from _stub(path, data)
    elif kind == "state":
        yield from _state(data, depth)
    elif kind == "ctl":
        yield from dissect_hints.of_ctl(data)
    elif kind == "view":
        yield from dissect_hints.of_view(path, parts=depth.parts)


def _stub(path: Path, data: bytes) -> Iterator[Row]:
    try:
        stub = cold.unpacked(path, data)
    except CorruptionError as error:
        yield {"is": "damaged", "offset": error.offset, "why": f"expected {error.expected}, found {error.found}"}
        return
    except NewerFormatError as error:
        yield {"is": "newer", "why": str(error)}
        return
    shown = {name: str(value) if name in ("first", "last") else _plain(value) for name, value in vars(stub).items()}
    yield {"is": "stub", "sound": True, **shown}


def _state(data: bytes, depth: Depth) -> Iterator[Row]:
    frame = frame_at(data, 0, None)
    if frame is None:
        yield {"is": "damaged", "offset": 0, "why": "its frame header is not sound"}
        return
    yield _frame(frame, None)
    if frame.whole:
        yield from _contents(frame, frame.payload(data), depth)


def structure(layout: Layout, data: bytes, offset: int, **more: Any) -> Row:
    """The fields of a structure, and whether its magic and checksum are right."""
    fields = layout.read(data, offset)
    row: Row = {"is": layout.name, "offset": offset}
    if fields is None:
        return {**row, "sound": False, "why": "the file ends before it"}
    shown = {name: _plain(value) for name, value in fields.items() if name not in ("zero", "gap", "magic")}
    sound = layout.sound(data, offset) is not None
    row |= {"sound": sound, **shown, **more}
    if not sound:
        wanted = checksum(data[offset : offset + layout.size - 4])
        has_magic = data[offset : offset + len(layout.magic)] == layout.magic
        row["why"] = f"checksum {wanted:08x} wanted" if has_magic else "the magic is not there"
    return row


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _id(ms: int, seq: int) -> str:
    return f"{ms}-{seq}"


# --- logs -------------------------------------------------------------------------------------------------------------


def _log(path: Path, data: bytes, depth: Depth) -> Iterator[Row]:
    yield structure(LOG_HEADER, data, 0)
    for offset in SLOT_OFFSETS:
        if any(data[offset : offset + FRONTIER_SLOT.size]):
            yield structure(FRONTIER_SLOT, data, offset)
    if any(data[_MARK_OFFSET : _MARK_OFFSET + LEFT_BEHIND_MARK.size]):
        successor = int.from_bytes(data[_MARK_OFFSET + 8 : _MARK_OFFSET + 16], "little")
        yield {"is": LEFT_BEHIND_MARK.name, "offset": _MARK_OFFSET, "successor": successor}
    header = LOG_HEADER.sound(data)
    salt = header["salt"] if header is not None else find_salt(data)
    if salt is None:
        yield {"is": "damaged", "offset": LOG_HEADER_BYTES, "why": "no frame is sound, so its salt is not known"}
        return
    count: dict[str, int] = {}
    entries, chain, last = 0, None, None
    try:
        for piece in _frames(path, data, salt):
            if isinstance(piece, Gap):
                lost = {"frames_lost": piece.lost} if piece.lost is not None else {}
                size = piece.end - piece.offset
                yield {"is": "damaged", "offset": piece.offset, "size_bytes": size, **lost, **_headed(piece.header)}
                chain = None if piece.header is None else piece.header.crc
                continue
            count[KINDS[piece.kind]] = count.get(KINDS[piece.kind], 0) + 1
            entries += piece.entries
            if depth.parts or depth.entries or piece.kind == SNAPSHOT:
                yield _frame(piece, chain)
                yield from _contents(piece, piece.payload(data), depth)
            chain, last = piece.crc, piece
    except NewerFormatError as error:
        yield {"is": "newer", "why": str(error)}
        return
    end = last.end if last is not None else LOG_HEADER_BYTES
    row: Row = {"is": "frames", "count": count, "entries": entries, "end": end}
    if last is not None:
        row["last_lsn"] = last.lsn
    yield row
    yield {"is": "rest", "offset": end, "size_bytes": len(data) - end, "zero": not any(data[end:])}


def _frames(path: Path, data: bytes, salt: int) -> Iterator[Frame | Gap]:
    first = frame_at(data, LOG_HEADER_BYTES, salt, str(path))
    start, lsn = LOG_HEADER_BYTES, 0
    if first is not None and first.kind == SNAPSHOT:
        start, lsn = first.end, first.lsn
        yield first if first.whole else Gap(first.offset, first.end, first, 1)
    yield from walk(data, salt, start, lsn, str(path))


def _headed(frame: Frame | None) -> Row:
    if frame is None:
        return {}
    return {"header_says": KINDS[frame.kind], "lsn": frame.lsn, "entries": frame.entries, "first": _id(*frame.first)}


def _frame(frame: Frame, chain: int | None) -> Row:
    row: Row = {
        "is": "frame",
        "offset": frame.offset,
        "size_bytes": frame.size,
        "kind": KINDS[frame.kind],
        "lsn": frame.lsn,
        "synced": frame.synced,
        "time": frame.time,
        "payload_bytes": frame.length,
        "sound": frame.whole,
        "chained": None if chain is None else chain == frame.chain,
    }
    if frame.kind == ENTRIES:
        row |= {"entries": frame.entries, "first": _id(*frame.first), "records": bool(frame.flags)}
    return row


def _contents(frame: Frame, payload: bytes, depth: Depth) -> Iterator[Row]:
    try:
        if frame.kind == SNAPSHOT:
            yield from _snapshot(payload, depth)
        elif depth.entries and frame.kind == ENTRIES:
            rows, records = halves(frame, payload)
            yield from _entries(unpack_rows(rows, frame.first, frame.entries)[0])
            yield from map(_record, read_records(records))
        elif depth.entries and frame.kind == GROUPS:
            yield from map(_record, read_records(payload))
    except (WireError, DiskstreamError) as error:
        yield {"is": "damaged", "offset": frame.offset + FRAME_HEADER.size, "why": str(error)}


def _entries(block: Block) -> Iterator[Row]:
    for entry in block.entries():
        yield {"is": "entry", "id": str(entry.id), "fields": [list(pair) for pair in entry.pairs]}


def _record(record: Record) -> Row:
    row: Row = {"is": "record", "kind": record.kind}
    if record.is_of_group or record.kind == "create":
        row["group"] = record.group
    if record.consumer:
        row["consumer"] = record.consumer
    if record.name:
        row["name"] = record.name
    if record.kind in ("create", "position", "deliver"):
        row |= {"last": _id(*record.last), "read": record.read}
    if record.ids:
        row["ids"] = [_id(*each) for each in record.ids]
    if record.rows:
        row["ids"] = [_id(*each.id) for each in record.rows]
    return row


def _snapshot(payload: bytes, depth: Depth) -> Iterator[Row]:
    snapshot = read_snapshot(payload)
    yield {
        "is": "snapshot",
        "uuid": snapshot.uuid.hex(),
        "last_id": _id(*snapshot.last_id),
        "greatest_deleted": _id(*snapshot.greatest_deleted),
        "added": snapshot.added,
        "segments": len(snapshot.segments),
        "sections": {str(SECTIONS.get(tag, tag)): len(body) for tag, body in snapshot.others.items()},
    }
    groups = Cursor(snapshot.others.get(16, b"\0\0"))
    yield {"is": "groups", "next": groups.varint(), "count": groups.varint()}
    for meta in snapshot.segments if depth.parts else ():
        yield {
            "is": "listed",
            "number": meta.number,
            "generation": meta.generation,
            "entries": meta.entries,
            "first": _id(*meta.first),
            "last": _id(*meta.last),
            "trimmed": meta.trimmed,
            "deleted": len(meta.deleted),
        }


# --- sealed segments --------------------------------------------------------------------------------------------------


def _sealed(data: bytes, depth: Depth) -> Iterator[Row]:
    yield structure(SEGMENT_HEADER, data, 0)
    salt, _, footer = sealed_salt(data)
    rows = index_rows(data, footer)
    totals = {"nodes": 0, "damaged": 0, "entries": 0, "raw_bytes": 0, "stored_bytes": 0}
    at, number = SEGMENT_HEADER.size, 0
    end = int(str(footer["snapshot_offset"])) if footer is not None else len(data)
    while salt is not None and at < end and (not rows or number < len(rows)):
        if rows:
            at = rows[number]["offset"]
        head = NODE_HEAD.sound(data, at)
        if head is None and not rows:
            break
        yield from _node(data, at, number, int(salt), row=rows[number] if rows else None, depth=depth, totals=totals)
        size = rows[number]["length"] if rows else NODE_HEAD.size + (head or {"body_length": 0})["body_length"]
        at, number = at + size, number + 1
    yield {"is": "nodes", **totals, "end": at}
    if not rows:
        why = "the index cannot be read; nodes are shown one behind another from the header on, up to the first bad one"
        yield {"is": "damaged", "offset": at, "why": why}
    for place, (offset, page) in enumerate(page_rows(data, footer) if footer is not None and depth.parts else ()):
        first = _id(page["first_ms"], page["first_seq"])
        yield {"is": "page row", "offset": offset, "number": place, "first": first, "before": page["before"]}
    for place, row in enumerate(rows if depth.parts else ()):
        assert footer is not None
        offset = int(str(footer["index_offset"])) + place * INDEX_ROW.size
        first = _id(row["first_ms"], row["first_seq"])
        shown = {name: row[name] for name in ("before", "length", "entries")}
        yield {"is": "index row", "offset": offset, "number": place, "first": first, "node": row["offset"], **shown}
    if footer is not None and footer["snapshot_length"]:
        yield from _copy(data, int(str(footer["snapshot_offset"])), footer, depth)
    yield structure(FOOTER, data, max(len(data) - FOOTER.size, 0))


def _node(
    data: bytes, at: int, number: int, salt: int, *, row: dict[str, int] | None, depth: Depth, totals: dict[str, int]
) -> Iterator[Row]:
    head = structure(NODE_HEAD, data, at)
    size = row["length"] if row is not None else NODE_HEAD.size + head.get("body_length", 0)
    totals["nodes"] += 1
    totals["stored_bytes"] += size
    shown = {name: head.get(name) for name in ("entries", "raw_length", "body_length", "codec")}
    node: Row = {"is": "node", "offset": at, "number": number, "size_bytes": size, **shown}
    try:
        block, raw_bytes, shapes = unpack_node(data[at : at + size], salt, number, at)
    except DiskstreamError as error:
        totals["damaged"] += 1
        if row is not None:
            node["first"] = _id(row["first_ms"], row["first_seq"])
        yield {**node, "sound": False, "why": str(error)}
        return
    totals["entries"] += block.row_count
    totals["raw_bytes"] += raw_bytes
    if not depth.parts and not depth.entries:
        return
    fields = [{"rows": rows, "fields": list(of)} for of, rows in shapes[:_MOST_SHAPES]]
    last: EntryID = block.id_at(block.row_count - 1)
    yield {**node, "sound": True, "first": str(block.id_at(0)), "last": str(last), "values_bytes": raw_bytes} | {
        "shapes": len(shapes),
        "of_shapes": fields,
    }
    if depth.entries:
        yield from _entries(block)


def _copy(data: bytes, offset: int, footer: dict[str, object], depth: Depth) -> Iterator[Row]:
    frame = frame_at(data, offset, None)
    size = footer["snapshot_length"]
    copy = data[offset : offset + int(str(size))]
    if frame is None or not frame.whole or checksum(copy) != footer["snapshot_crc"]:
        yield {"is": "snapshot copy", "offset": offset, "size_bytes": size, "sound": False}
        return
    yield {"is": "snapshot copy", "offset": offset, "size_bytes": size, "sound": True, "lsn": frame.lsn}
    yield from _contents(frame, frame.payload(data), depth)


# --- audit files ------------------------------------------------------------------------------------------------------


def _audit(data: bytes, depth: Depth) -> Iterator[Row]:
    yield structure(AUDIT_HEADER, data, 0)
    at, blocks = AUDIT_HEADER.size, 0
    while at < len(data) - AUDIT_FOOTER.size:
        head = AUDIT_BLOCK_HEAD.sound(data, at)
        if head is None:
            yield structure(AUDIT_BLOCK_HEAD, data, at)
            break
        end = at + AUDIT_BLOCK_HEAD.size + head["body_length"]
        sound = checksum(data[at + AUDIT_BLOCK_HEAD.size : end]) == head["body_crc"]
        if depth.parts or depth.entries or not sound:
            yield structure(AUDIT_BLOCK_HEAD, data, at, body_sound=sound)
        at, blocks = end, blocks + 1
    yield {"is": "blocks", "count": blocks, "end": at}
    yield structure(AUDIT_FOOTER, data, max(len(data) - AUDIT_FOOTER.size, 0))
