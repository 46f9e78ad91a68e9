"""Times of expiry of streams that were copied.

What is known of a key names the stream that expires by its UUID, so that no other one of that name does; and a copy is
another one. It keeps no UUID of what it is a copy of: archives, jobs and the view take streams with one UUID for one
history, and its segments are others. The records are those of docs/format/keys.md.
"""

from collections.abc import Mapping
from typing import Final

from diskstream.stream import Stream

__all__ = ["follow"]

Row = list[tuple[bytes, bytes]]

# Rows of one frame: each has a key of at most 4096 bytes, and some more.
_AT_ONCE: Final = 1024


def follow(records: Stream, copies: Mapping[bytes, bytes]) -> None:
    """Lets what is known of keys name copies instead of what they are copies of.

    Args:
        records: the changes of what is known, from the first to the last.
        copies: by the UUID of a stream, in hex, that of its copy.

    Raises:
        StorageError: the disk said no; some of it may be changed.
    """
    rows = list(_of_them(records, copies).values())
    for start in range(0, len(rows), _AT_ONCE):
        records.add_many(rows[start : start + _AT_ONCE])


def _of_them(records: Stream, copies: Mapping[bytes, bytes]) -> dict[tuple[bytes, bytes], Row]:
    """By place and key, what was last put there that names one of the streams, with its copy's name instead."""
    found: dict[tuple[bytes, bytes], Row] = {}
    for entry in records:
        row = entry.pairs
        word, name = row[0]
        if word == b"clear":
            found = {key: kept for key, kept in found.items() if key[0] != name}
        elif word in (b"put", b"gone"):
            fields = dict(row)
            key = fields.get(b"place", b""), name
            found.pop(key, None)
            stream = fields.get(b"stream", b"")
            if word == b"put" and stream in copies:
                found[key] = [(field, copies[stream] if field == b"stream" else value) for field, value in row]
    return found
