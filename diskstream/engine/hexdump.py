"""Bytes of a file of a store, each with the field of the format that it belongs to."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine.dissect import kind_of
from diskstream.engine.dissect_hints import CTL, CTL_PLACES, PAGE_HEAD, PLACE, view_pages
from diskstream.engine.frames import Gap, find_salt, frame_at, read_all, walk
from diskstream.engine.layouts import (
    AUDIT_BLOCK_HEAD,
    AUDIT_FOOTER,
    AUDIT_HEADER,
    FOOTER,
    FRAME_HEADER,
    FRONTIER_SLOT,
    INDEX_ROW,
    KINDS,
    LEFT_BEHIND_MARK,
    LOG_HEADER,
    NODE_HEAD,
    PAGE_ROW,
    SEGMENT_HEADER,
    SLOT_OFFSETS,
    SNAPSHOT,
    Layout,
)
from diskstream.engine.salvage_nodes import index_rows, page_rows, sealed_salt
from diskstream.errors import NewerFormatError

__all__ = ["Line", "dump"]

_LINE_BYTES = 16
_MARK_OFFSET = 1536


@dataclass(frozen=True)
class Line:
    """Some bytes.

    Attributes:
        offset: of the first of them in the file.
        data: at most 16.
        of: the structure, and the field where it is of fixed size.
        value: of the field; None where it is not a number or not all of it is shown.
    """

    offset: int
    data: bytes
    of: str
    value: int | None = None


@dataclass(frozen=True)
class _Region:
    start: int
    end: int
    name: str
    layout: Layout | None = None


def dump(path: Path, offset: int, length: int, *, each_byte: bool = False) -> Iterator[Line]:
    """The bytes of a range, field by field; byte by byte where it is asked for.

    Raises:
        StorageError: the file cannot be read.
        FileNotFoundError: it is not there.
    """
    data, _ = read_all(path)
    end = min(offset + length, len(data))
    at = offset
    for region in _regions(path, data):
        if region.end <= at:
            continue
        if region.start >= end:
            break
        if region.start > at:
            yield from _plain(data, at, min(region.start, end), "padding", each_byte=each_byte)
            at = region.start
        stop = min(region.end, end)
        if region.layout is None:
            yield from _plain(data, at, stop, region.name, each_byte=each_byte)
        else:
            yield from _fields(data, at, stop, region, each_byte=each_byte)
        at = stop
    if at < end:
        yield from _plain(data, at, end, "behind all that is known", each_byte=each_byte)


def _plain(data: bytes, start: int, end: int, name: str, *, each_byte: bool) -> Iterator[Line]:
    step = 1 if each_byte else _LINE_BYTES
    for at in range(start, end, step):
        yield Line(at, data[at : min(at + step, end)], name)


def _fields(data: bytes, start: int, end: int, region: _Region, *, each_byte: bool) -> Iterator[Line]:
    assert region.layout is not None
    values: dict[str, Any] = region.layout.read(data, region.start) or {}
    for name, place, size in region.layout.places():
        first, behind = max(region.start + place, start), min(region.start + place + size, end)
        if first >= behind:
            continue
        of = f"{region.name}: {name}"
        value = values.get(name)
        if not each_byte and behind - first == size and isinstance(value, int):
            yield Line(first, data[first:behind], of, value)
        else:
            yield from _plain(data, first, behind, of, each_byte=each_byte)


def _regions(path: Path, data: bytes) -> Iterator[_Region]:
    """All structures of a file, in order."""
    kind = kind_of(path, data[:64])
    if kind == "log":
        yield from _of_log(data)
    elif kind == "sealed":
        yield from _of_sealed(data)
    elif kind == "audit":
        yield from _of_audit(data)
    elif kind == "stub":
        yield _Region(0, len(data), "stub")
    elif kind == "state" and (frame := frame_at(data, 0, None)) is not None:
        yield from _of_frame(0, frame.length, KINDS[frame.kind], frame.lsn)
    elif kind == "ctl":
        yield _at(CTL, 0)
        yield from (_at(PLACE, CTL.size + each * PLACE.size, f"place {each}") for each in range(CTL_PLACES))
    elif kind == "view":
        for start, size, name in view_pages(data):
            yield _at(PAGE_HEAD, start, f"{name} head")
            yield _Region(start + PAGE_HEAD.size, start + size, name)
    else:
        yield _Region(0, len(data), "a file that is no segment's")


def _at(layout: Layout, start: int, name: str = "") -> _Region:
    return _Region(start, start + layout.size, name or layout.name, layout)


def _of_log(data: bytes) -> Iterator[_Region]:
    yield _at(LOG_HEADER, 0)
    yield from (_at(FRONTIER_SLOT, offset) for offset in SLOT_OFFSETS)
    yield _at(LEFT_BEHIND_MARK, _MARK_OFFSET)
    header = LOG_HEADER.sound(data)
    salt = header["salt"] if header is not None else find_salt(data)
    if salt is None:
        return
    first = frame_at(data, LOG_HEADER_BYTES, salt)
    at, lsn = LOG_HEADER_BYTES, 0
    if first is not None and first.kind == SNAPSHOT:
        yield from _of_frame(at, first.length, "snapshot", first.lsn)
        at, lsn = first.end, first.lsn
    try:
        for piece in walk(data, salt, at, lsn):
            if isinstance(piece, Gap):
                yield _Region(piece.offset, piece.end, "damaged")
                at = piece.end
            else:
                yield from _of_frame(piece.offset, piece.length, KINDS[piece.kind], piece.lsn)
                at = piece.end
    except NewerFormatError as error:
        yield _Region(at, len(data), str(error))
        return
    yield _Region(at, len(data), "rest")


def _of_frame(offset: int, length: int, kind: str, lsn: int) -> Iterator[_Region]:
    name = f"frame {lsn} ({kind})"
    yield _at(FRAME_HEADER, offset, f"{name} header")
    start = offset + FRAME_HEADER.size
    yield _Region(start, start + length, f"{name} payload")


def _of_sealed(data: bytes) -> Iterator[_Region]:
    yield _at(SEGMENT_HEADER, 0)
    _, _, footer = sealed_salt(data)
    rows = index_rows(data, footer)
    at = SEGMENT_HEADER.size
    if rows:
        for number, row in enumerate(rows):
            yield _at(NODE_HEAD, row["offset"], f"node {number} head")
            at = row["offset"] + row["length"]
            yield _Region(row["offset"] + NODE_HEAD.size, at, f"node {number} body")
    else:
        number = 0
        while (head := NODE_HEAD.sound(data, at)) is not None:
            yield _at(NODE_HEAD, at, f"node {number} head")
            end = at + NODE_HEAD.size + head["body_length"]
            yield _Region(at + NODE_HEAD.size, end, f"node {number} body")
            at, number = end, number + 1
    end = len(data) - FOOTER.size
    if footer is not None:
        start = int(str(footer["index_offset"]))
        pages = page_rows(data, footer)
        copy_end = pages[0][0] if pages else start
        if copy_end > at:
            yield _at(FRAME_HEADER, at, "snapshot copy header")
            yield _Region(at + FRAME_HEADER.size, copy_end, "snapshot copy payload")
        for number, (page_at, _) in enumerate(pages):
            yield _at(PAGE_ROW, page_at, f"page row {number}")
        for number in range(max(end - start, 0) // INDEX_ROW.size):
            yield _at(INDEX_ROW, start + number * INDEX_ROW.size, f"index row {number}")
    elif at < end:
        yield _Region(at, end, "what cannot be told without a footer")
    yield _at(FOOTER, end)


def _of_audit(data: bytes) -> Iterator[_Region]:
    yield _at(AUDIT_HEADER, 0)
    at, number, end = AUDIT_HEADER.size, 0, len(data) - AUDIT_FOOTER.size
    while at < end and (head := AUDIT_BLOCK_HEAD.sound(data, at)) is not None:
        yield _at(AUDIT_BLOCK_HEAD, at, f"block {number} head")
        stop = at + AUDIT_BLOCK_HEAD.size + head["body_length"]
        yield _Region(at + AUDIT_BLOCK_HEAD.size, stop, f"block {number} body")
        at, number = stop, number + 1
    if at < end:
        yield _Region(at, end, "damaged")
    yield _at(AUDIT_FOOTER, end)
