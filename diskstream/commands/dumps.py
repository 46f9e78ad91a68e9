"""What DUMP gives and RESTORE takes: a key as bytes, in a form of our own.

::

    "DSKS" | version u8 | zlib(JSON, UTF-8) | CRC-32 of all before it u32 little-endian

Bytes are text of Latin-1 within the JSON, an ID is ``[ms, seq]``. What of a stream is left behind says
`diskstream.copying`.
"""

import hashlib
import json
import zlib
from itertools import pairwise
from typing import Any

from diskstream._native import EntryID
from diskstream.commands.arguments import INT_MAX
from diskstream.commands.begun_anew import begun_anew
from diskstream.commands.replies import Failure
from diskstream.copying import (
    ConsumerState,
    GroupState,
    PendingState,
    StreamState,
    check_whole,
    of_one_stream,
    state_of,
)
from diskstream.errors import CorruptionError, NewerFormatError
from diskstream.retention_rule import RULE, RetentionRule
from diskstream.stream import Stream

__all__ = ["MAX_DUMP_BYTES", "Dumped", "digest", "dump_stream", "dump_values", "load"]

_MAGIC = b"DSKS\x01"
# Of the JSON, on both ways: what DUMP gives RESTORE takes. A payload may unpack to a thousand times its size, and what
# JSON says takes up to 25 times its own in memory (a list of lists with nothing in them): 1.6 GiB at worst.
MAX_DUMP_BYTES = 64 << 20
# What an entry's ID, brackets and commas take at least.
_ENTRY_BYTES = len("[[0,0],[]],")

Entries = list[tuple[EntryID, list[tuple[bytes, bytes]]]]
# A kind, with either the elements, or the state and the entries.
Dumped = tuple[str, tuple[bytes, ...], StreamState | None, Entries]


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _id(entry_id: EntryID) -> list[int]:
    return [entry_id.ms, entry_id.seq]


def _too_large() -> Failure:
    return Failure(f"ERR the key is over the limit of DUMP, {MAX_DUMP_BYTES} bytes as JSON: use COPY")


def _pack(body: Any) -> bytes:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) > MAX_DUMP_BYTES:
        raise _too_large()
    packed = _MAGIC + zlib.compress(text)
    return packed + zlib.crc32(packed).to_bytes(4, "little")


def _group(group: GroupState) -> list[Any]:
    consumers = [[_text(each.name), each.seen_ms, each.active_ms] for each in group.consumers]
    pending = [[_id(row.id), row.consumer, row.delivered_ms, row.deliveries] for row in group.pending]
    return [_text(group.name), _id(group.last_delivered_id), group.entries_read, consumers, pending]


def _body(stream: Stream) -> dict[str, Any]:
    check_whole(stream)
    state = state_of(stream)
    entries: list[Any] = []
    size = 0
    for entry in stream.range("-", state.last_id):
        size += _ENTRY_BYTES + sum(len(name) + len(value) for name, value in entry.pairs)
        if size > MAX_DUMP_BYTES:
            raise _too_large()
        words = [_text(word) for pair in entry.pairs for word in pair]
        entries.append([_id(entry.id), words])
    rule = stream.retention
    # A place is the operator's to name, not a client's who restores what it was given: such a rule stays behind.
    settings = [] if rule is None or rule.to is not None else [[_text(RULE), _text(rule.packed)]]
    return {
        "kind": "stream",
        "last": _id(state.last_id),
        "added": state.entries_added,
        "deleted": _id(state.max_deleted_id),
        "windows": list(state.windows),
        "groups": [_group(group) for group in state.groups],
        "entries": entries,
    } | ({"settings": settings} if settings else {})


def dump_stream(stream: Stream) -> bytes:
    """A stream as bytes.

    Raises:
        Failure: it is too large.
        NoSuchStreamError: there is none.
        ChangedError: others give its name from stream to stream all the time.
        CorruptionError: it is damaged.
    """

    def body() -> dict[str, Any]:
        with of_one_stream(stream):
            return _body(stream)

    return _pack(begun_anew(body))


def dump_values(kind: str, values: tuple[bytes, ...]) -> bytes:
    """A key of another type as bytes."""
    return _pack({"kind": kind, "values": [_text(value) for value in values]})


def digest(stream: Stream) -> str:
    """Forty digits that are the same for streams of the same content."""
    return hashlib.sha1(json.dumps(_body(stream)).encode(), usedforsecurity=False).hexdigest()


# --- reading ----------------------------------------------------------------------------------------------------------


def _inflate(packed: bytes) -> Any:
    """The JSON; what would be larger than any dump of ours is not even unpacked."""
    unpack = zlib.decompressobj()
    data = unpack.decompress(packed, MAX_DUMP_BYTES)
    if not unpack.eof or unpack.unused_data:
        raise ValueError("cut")
    return json.loads(data)


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def _entry_id(pair: list[int]) -> EntryID:
    ms, seq = pair
    return EntryID(ms, seq)


def _number(value: object, least: int = 0, most: int = INT_MAX) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r} instead of a number from {least} to {most}")
    return value


def _maybe(value: object) -> int | None:
    return None if value is None else _number(value)


def _load_group(group: list[Any]) -> GroupState:
    name, last, read, consumers, pending = group
    listed = [ConsumerState(_bytes(each), _number(seen), _maybe(active)) for each, seen, active in consumers]
    rows = [
        PendingState(_entry_id(at), _number(who, -1, len(listed) - 1), _number(when), _number(count))
        for at, who, when, count in pending
    ]
    if any(row.id >= following.id for row, following in pairwise(rows)):
        raise ValueError("pending entries out of order")
    if len({consumer.name for consumer in listed}) < len(listed):
        raise ValueError("two consumers of one name")
    return GroupState(_bytes(name), _entry_id(last), _maybe(read), listed, rows)


def _load_setting(name: str, value: str) -> tuple[bytes, bytes]:
    """A rule of retention that removes: none of ours dumps anything else."""
    if _bytes(name) != RULE:
        raise ValueError(f"no setting {name!r}")
    try:
        rule = RetentionRule.unpack(_bytes(value), "DUMP")
    except (CorruptionError, NewerFormatError) as error:
        raise ValueError(str(error)) from error
    if rule.to is not None:
        raise ValueError("a rule that names a place")
    return RULE, rule.packed


def load(payload: bytes) -> Dumped:
    """What a payload holds.

    Raises:
        Failure: it is none of ours, or damaged.
    """
    if not payload.startswith(_MAGIC) or zlib.crc32(payload[:-4]).to_bytes(4, "little") != payload[-4:]:
        raise Failure("ERR DUMP payload version or checksum are wrong")
    try:
        body = _inflate(payload[len(_MAGIC) : -4])
        if body["kind"] in ("string", "list", "set"):
            values = tuple(_bytes(value) for value in body["values"])
            if not values or (body["kind"] == "string" and len(values) > 1):
                raise ValueError("no such value")  # noqa: TRY301  # one way out
            return body["kind"], values, None, []
        duration, size = body["windows"]
        state = StreamState(
            _entry_id(body["last"]),
            _number(body["added"]),
            _entry_id(body["deleted"]),
            (_number(duration), _number(size)),
            [_load_group(group) for group in body["groups"]],
            dict(_load_setting(*setting) for setting in body.get("settings", [])),
        )
        if len({group.name for group in state.groups}) < len(state.groups):
            raise ValueError("two groups of one name")  # noqa: TRY301  # one way out
        entries = [
            (
                _entry_id(at),
                [(_bytes(name), _bytes(value)) for name, value in zip(words[::2], words[1::2], strict=True)],
            )
            for at, words in body["entries"]
        ]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, AttributeError, zlib.error) as error:
        raise Failure("ERR Bad data format") from error
    return "stream", (), state, entries
