"""The records of consumer groups in a log, taken apart and put together again: docs/format/groups.md."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from diskstream.engine.wire import (
    ID,
    Cursor,
    Row,
    WireError,
    put_any_step,
    put_id,
    put_name,
    put_optional,
    put_rows,
    put_varint,
)

_T = TypeVar("_T")

__all__ = ["TAGS", "Record", "put_record", "read_records"]

TAGS = {
    1: "create",
    2: "position",
    3: "destroy",
    4: "consumer",
    5: "dismiss",
    6: "deliver",
    7: "end",
    8: "assign",
    9: "refuse",
    10: "seen",
    11: "delete",
    12: "trim",
    13: "message",
    14: "windows",
    15: "commit",
    16: "setting",
}


@dataclass(frozen=True)
class Record:
    """One record.

    Attributes:
        kind: its name, a value of `TAGS`.
        group, consumer: numbers; 0 where the record has none.
        ids: of *deliver*, *end* and *refuse*.
        rows: of *assign*.
        owners: who had each entry before, of *end*, *assign* and *refuse*.
        raw: the record as it stands, tag included, where it need not be looked into.
    """

    kind: str
    group: int = 0
    consumer: int = 0
    name: bytes = b""
    last: ID = (0, 0)
    read: int | None = None
    active: int = 0
    first: int = 0
    ids: tuple[ID, ...] = ()
    owners: tuple[int | None, ...] = ()
    deliveries: tuple[int, ...] = ()
    rows: tuple[Row, ...] = ()
    body: bytes = b""
    place: tuple[int, int] = (0, 0)
    raw: bytes = field(default=b"", compare=False, repr=False)

    @property
    def is_of_group(self) -> bool:
        """Whether it is about a group that must be there."""
        return self.kind in ("position", "destroy", "consumer", "dismiss", "deliver", "end", "assign", "refuse", "seen")


def read_records(payload: bytes) -> list[Record]:
    """All records of a payload.

    Raises:
        WireError: it is none.
    """
    cursor = Cursor(payload)
    found = []
    while cursor.left:
        start = cursor.at
        record = _read(cursor)
        found.append(replace(record, raw=payload[start : cursor.at]))
    return found


def _read(cursor: Cursor) -> Record:
    tag = cursor.byte()
    kind = TAGS.get(tag)
    if kind is None:
        raise WireError(f"record {tag} is of a later version")
    if kind in ("delete", "setting"):
        return Record(kind, name=cursor.name() if kind == "setting" else b"", body=cursor.name())
    if kind == "trim":
        return Record(kind, place=(cursor.varint(), cursor.varint()))
    if kind == "message":
        producer, message = cursor.name(), cursor.name()
        return Record(kind, name=producer, body=message, last=cursor.id(), first=cursor.u64())
    if kind == "windows":
        return Record(kind, place=(cursor.varint(), cursor.varint()))
    if kind == "commit":
        return Record(kind, name=cursor.name(), place=(cursor.varint(), cursor.varint()), first=cursor.u64())
    group = cursor.varint()
    if kind == "create":
        return Record(kind, group, name=cursor.name(), last=cursor.id(), read=cursor.optional())
    if kind == "position":
        return Record(kind, group, last=cursor.id(), read=cursor.optional())
    if kind == "destroy":
        return Record(kind, group)
    if kind == "end":
        pairs = _steps(cursor, cursor.optional)
        return Record(kind, group, ids=tuple(pair[0] for pair in pairs), owners=tuple(pair[1] for pair in pairs))
    if kind == "refuse":
        first = cursor.varint()
        triples = _steps(cursor, lambda: (cursor.optional(), cursor.varint()))
        return Record(
            kind,
            group,
            first=first,
            ids=tuple(each[0] for each in triples),
            owners=tuple(each[1][0] for each in triples),
            deliveries=tuple(each[1][1] for each in triples),
        )
    return _read_of_consumer(cursor, kind, group)


def _read_of_consumer(cursor: Cursor, kind: str, group: int) -> Record:
    consumer = cursor.varint()
    if kind == "consumer":
        return Record(kind, group, consumer, name=cursor.name())
    if kind == "deliver":
        last, read = cursor.id(), cursor.optional()
        ids = tuple(each[0] for each in _steps(cursor, lambda: None))
        return Record(kind, group, consumer, last=last, read=read, ids=ids)
    if kind == "assign":
        active, rows = cursor.byte(), tuple(cursor.rows())
        return Record(kind, group, consumer, active=active, rows=rows, owners=tuple(cursor.optional() for _ in rows))
    return Record(kind, group, consumer)  # dismiss, seen


def _steps(cursor: Cursor, each: Callable[[], _T]) -> list[tuple[ID, _T]]:
    found = []
    before = (0, 0)
    for _ in range(cursor.count(cursor.left // 2)):
        before = cursor.any_step(before)
        found.append((before, each()))
    return found


def _put_steps(ids: tuple[ID, ...], tails: list[bytes]) -> bytes:
    out, before = bytearray(put_varint(len(ids))), (0, 0)
    for entry_id, tail in zip(ids, tails, strict=True):
        out += put_any_step(entry_id, before) + tail
        before = entry_id
    return bytes(out)


_NUMBERS = {name: tag for tag, name in TAGS.items()}


def put_record(record: Record) -> bytes:
    """A record as it stands in a log."""
    kind = record.kind
    out = bytes([_NUMBERS[kind]])
    if kind in ("delete", "setting"):
        return out + (put_name(record.name) if kind == "setting" else b"") + put_name(record.body)
    if kind in ("trim", "windows"):
        return out + put_varint(record.place[0]) + put_varint(record.place[1])
    if not record.is_of_group and kind != "create":
        return record.raw
    out += put_varint(record.group)
    if kind == "create":
        return out + put_name(record.name) + put_id(record.last) + put_optional(record.read)
    if kind == "position":
        return out + put_id(record.last) + put_optional(record.read)
    if kind == "destroy":
        return out
    if kind == "end":
        return out + _put_steps(record.ids, [put_optional(owner) for owner in record.owners])
    if kind == "refuse":
        tails = [put_optional(owner) + put_varint(n) for owner, n in zip(record.owners, record.deliveries, strict=True)]
        return out + put_varint(record.first) + _put_steps(record.ids, tails)
    out += put_varint(record.consumer)
    if kind == "consumer":
        return out + put_name(record.name)
    if kind == "deliver":
        return out + put_id(record.last) + put_optional(record.read) + _put_steps(record.ids, [b""] * len(record.ids))
    if kind == "assign":
        owners = b"".join(put_optional(owner) for owner in record.owners)
        return out + bytes([record.active]) + put_rows(record.rows) + owners
    return out
