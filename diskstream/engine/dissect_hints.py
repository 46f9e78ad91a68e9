"""The control page and the view, part by part: no evidence of anything, and looked at when something is odd."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from diskstream.engine.layouts import Layout
from diskstream.engine.page import MAGIC
from diskstream.engine.view_check import is_row
from diskstream.engine.view_pages import MAGIC as LMDB_MAGIC
from diskstream.engine.view_pages import PagesDamaged, read_rows
from diskstream.plurals import number_of

__all__ = ["CTL", "CTL_PLACES", "PAGE_HEAD", "PLACE", "is_view", "of_ctl", "of_view", "view_pages"]

Row = dict[str, Any]

# docs/format/ctl.md; neither has a checksum.
CTL: Final = Layout(
    "control page",
    (
        ("magic", "8s"),
        ("version", "I"),
        ("flags", "I"),
        ("boot", "16s"),
        ("zero", "32s"),
        ("append lock", "64s"),
        ("flush lock", "64s"),
        ("maintenance lock", "64s"),
        ("written", "Q"),
        ("visible", "Q"),
        ("durable", "Q"),
        ("zero", "40s"),
        ("wake word", "I"),
        ("sleepers", "I"),
        ("zero", "56s"),
        ("flush word", "I"),
        ("flush sleepers", "I"),
        ("zero", "56s"),
        ("durable LSN", "Q"),
        ("generation", "Q"),
        ("last group", "Q"),
        ("entries", "Q"),
        ("waiters", "I"),
        ("zero", "4s"),
        ("tickets", "Q"),
        ("zero", "16s"),
        ("poison length", "I"),
        ("poison text", "252s"),
        ("zero", "256s"),
    ),
    MAGIC,
)
PLACE: Final = Layout(
    "place of the queue",
    (("state", "I"), ("group", "I"), ("ticket", "Q"), ("woken", "Q"), ("pid", "I"), ("namespace", "I")),
)
CTL_PLACES: Final = 96
_FLAGS: Final = ("poisoned", "moved", "check", "rotten")
_STATES: Final = ("free", "waiting", "woken", "taken")
_SHOWN: Final = ("version", "generation", "last group", "waiters", "tickets", "sleepers", "flush sleepers")
_OFFSET_BITS: Final = 40


def of_ctl(data: bytes) -> Iterator[Row]:
    """The page, and the places of its queue that are not free."""
    found = CTL.read(data)
    if found is None:
        yield {
            "is": "damaged",
            "offset": 0,
            "why": f"{number_of(len(data), 'byte is', 'bytes are')} no control page: it is made anew",
        }
        return
    positions = {
        name: {"segment": found[name] >> _OFFSET_BITS, "offset": found[name] & ((1 << _OFFSET_BITS) - 1)}
        for name in ("written", "visible", "durable", "entries")
    }
    poison = found["poison text"][: found["poison length"]].decode("utf-8", "backslashreplace")
    yield {
        "is": "control page",
        "ready": found["magic"] == MAGIC,
        "boot": found["boot"].hex(),
        "flags": [name for bit, name in enumerate(_FLAGS) if found["flags"] >> bit & 1],
        **positions,
        "durable_lsn": found["durable LSN"],
        **{name.replace(" ", "_"): found[name] for name in _SHOWN},
        **({"poison": poison} if poison else {}),
    }
    for number in range(CTL_PLACES):
        place = PLACE.read(data, CTL.size + number * PLACE.size)
        if place is not None and place["state"]:
            state = _STATES[place["state"]] if place["state"] < len(_STATES) else place["state"]
            yield {"is": "place", "number": number, **place, "state": state}


# --- the view ---------------------------------------------------------------------------------------------------------

# Of LMDB: see `view_pages`.
PAGE_HEAD: Final = Layout(
    "page", (("number", "Q"), ("unused", "H"), ("kind", "H"), ("lower", "H"), ("upper", "H")), b""
)
_PAGE_SIZE_AT: Final = PAGE_HEAD.size + 24
_KINDS: Final = {1: "branch", 2: "leaf", 4: "overflow", 8: "meta"}
_ORDERS: Final = ("by ID", "by consumer", "by time")
_UUID_BYTES: Final = 16
_PLACE: Final = struct.Struct("<QQQI")
_KEY: Final = struct.Struct(">BIQQQ")


def is_view(head: bytes) -> bool:
    """Whether a file begins as LMDB's do."""
    return int.from_bytes(head[PAGE_HEAD.size : PAGE_HEAD.size + 4], "little") == LMDB_MAGIC


def of_view(path: Path, *, parts: bool) -> Iterator[Row]:
    """Where the rows of each stream stand, and how many there are; with `parts` each chunk of rows."""
    streams: dict[bytes, dict[str, int]] = {}
    try:
        for key, value in read_rows(path):
            count = streams.setdefault(key[:_UUID_BYTES], {"chunks": 0, "bytes": 0})
            if len(key) == _UUID_BYTES:
                yield _place(key, value)
                continue
            count["chunks"] += 1
            count["bytes"] += len(value)
            if parts:
                yield _chunk(key, value)
    except PagesDamaged:
        yield {"is": "damaged", "offset": 0, "why": "a page is not what LMDB writes: the view is made anew"}
        return
    for uuid, count in streams.items():
        yield {"is": "rows", "uuid": _text(uuid), **count}


def _text(uuid: bytes) -> str:
    return str(UUID(bytes=uuid)) if len(uuid) == _UUID_BYTES else uuid.hex()


def _place(key: bytes, value: bytes) -> Row:
    row: Row = {"is": "place", "uuid": _text(key), "sound": is_row(key, value)}
    if row["sound"]:
        lsn, end, segment, link = _PLACE.unpack(value)
        row |= {"lsn": lsn, "end": end, "segment": segment, "link": f"{link:08x}"}
    return row


def _chunk(key: bytes, value: bytes) -> Row:
    row: Row = {"is": "chunk", "uuid": _text(key[:_UUID_BYTES]), "size_bytes": len(value)}
    if len(key) != _UUID_BYTES + _KEY.size:
        return row | {"sound": False}
    order, group, *first = _KEY.unpack(key[_UUID_BYTES:])
    name = _ORDERS[order] if order < len(_ORDERS) else order
    return row | {"sound": is_row(key, value), "order": name, "group": group, "first": first}


def view_pages(data: bytes) -> Iterator[tuple[int, int, str]]:
    """(offset, size, what it is) of each page of a view's file, by what its head says."""
    size = int.from_bytes(data[_PAGE_SIZE_AT : _PAGE_SIZE_AT + 4], "little")
    if not 512 <= size <= 1 << 16:  # noqa: PLR2004  # what LMDB can have
        yield 0, len(data), "a view whose size of pages cannot be told"
        return
    at = 0
    while at < len(data):
        head = PAGE_HEAD.read(data, at) or {"kind": 0, "number": 0, "lower": 0, "upper": 0}
        kind = _KINDS.get(head["kind"] & 15, "unused") if head["number"] * size == at else "unused"
        pages = head["lower"] | head["upper"] << 16 if kind == "overflow" else 1
        length = min(max(1, pages) * size, len(data) - at)
        yield at, length, f"page {at // size} ({kind})"
        at += length
