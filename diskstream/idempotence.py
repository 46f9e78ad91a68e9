"""Idempotent appends: a message that its producer sends twice is added once, as with Redis 8.6's IDMP."""

import hashlib
from collections.abc import Iterable
from typing import Any

from diskstream._native import EntryID
from diskstream.counts import check_count
from diskstream.engine import reader
from diskstream.engine.log import StreamLog
from diskstream.entry_size import check_rows, stored
from diskstream.errors import ArgumentError
from diskstream.membership import as_member_name, check_room, locked, now_ms

__all__ = ["Message", "begin", "configure", "message_of", "record", "remembered"]

Message = tuple[bytes, bytes]  # the producer, and its ID of the message


def _content(fields: Any) -> bytes:
    """A hash of names and values as they are stored, whatever their order.

    Raises:
        ArgumentError, ArgumentTypeError: they are no fields.
    """
    check_rows([fields])
    pairs: Iterable[tuple[Any, Any]] = fields.items() if hasattr(fields, "items") else fields
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted((stored(name), stored(value)) for name, value in pairs):
        for part in (name, value):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.digest()


def message_of(
    producer: str | bytes | None, message_id: str | bytes | None, fields: Any, *, automatic: bool
) -> Message | None:
    """The message that an append is, None where it is not idempotent.

    Raises:
        ArgumentError: only one of both is there, one is empty, the entry's ID is not automatic, or its fields are none.
    """
    if producer is None:
        if message_id is not None:
            raise ArgumentError("syntax error, IDMP requires a non-empty producer ID")
        return None
    name = as_member_name("producer", producer)
    if not name:
        which = "IDMPAUTO" if message_id is None else "IDMP"
        raise ArgumentError(f"syntax error, {which} requires a non-empty producer ID")
    if message_id is not None and not message_id:
        raise ArgumentError("syntax error, IDMP requires a non-empty idempotent ID")
    if not automatic:
        raise ArgumentError("syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs")
    return name, _content(fields) if message_id is None else as_member_name("message", message_id)


def remembered(log: StreamLog, message: Message) -> EntryID | None:
    """The ID of a message that was added before; under the append lock."""
    found = log.native.find_message(*message, now_ms(log))
    if found is not None:
        log.native.note_duplicate()
    else:
        check_room(log)
    return found


def begin(log: StreamLog, duration_s: int, max_size: int) -> None:
    """Sets the windows of a stream that was just made, unless another process was faster and remembers something."""

    def change(log: StreamLog) -> None:
        _, _, _, _, messages_added, _ = log.native.windows(now_ms(log))
        if not messages_added:
            configure(log, duration_s, max_size)

    if tuple(log.native.windows(0)[:2]) != (duration_s, max_size):
        locked(log, change)


def configure(log: StreamLog, duration_s: int | None, max_size: int | None) -> None:
    """Sets the windows, as XCFGSET; under the append lock.

    Raises:
        ArgumentError: out of range, in the words of Redis.
    """
    if duration_s is None and max_size is None:
        raise ArgumentError("At least one parameter must be specified")
    if duration_s is not None and not 1 <= check_count("IDMP-DURATION", duration_s) <= 86_400:  # noqa: PLR2004  # a day
        raise ArgumentError("IDMP-DURATION must be between 1 and 86400 seconds")
    if max_size is not None and not 1 <= check_count("IDMP-MAXSIZE", max_size) <= 10_000:  # noqa: PLR2004  # Redis's
        raise ArgumentError("IDMP-MAXSIZE must be between 1 and 10000 entries")
    now = now_ms(log)
    duration, size, *_ = log.native.windows(now)
    wanted = ("windows", duration if duration_s is None else duration_s, size if max_size is None else max_size)
    if wanted[1:] != (duration, size):
        log.retry(lambda: log.native.change([wanted], now), held=True)


def record(log: StreamLog, message: Message, entry_id: EntryID) -> None:
    """Remembers a message for an entry that exists, as XIDMPRECORD; under the append lock.

    Raises:
        ArgumentError: there is no such entry, or the message is another's.
    """
    if reader.find(log, entry_id) is None:
        raise ArgumentError(f"No such message in stream: {entry_id}")
    now = now_ms(log)
    found = log.native.find_message(*message, now)
    if found is not None and found != entry_id:
        raise ArgumentError(f"IID already exists for this producer with a different stream ID: {found}")
    if found is None:
        check_room(log)
        log.retry(lambda: log.native.change([("message", *message, entry_id, now)], now), held=True)
