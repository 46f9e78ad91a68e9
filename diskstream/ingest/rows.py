"""What every parser yields: a row that became fields, or one that could not.

A parser never raises for a bad row. It yields `BadRow` in its place and goes on with the next, so that one broken line
costs one line, and whoever reads decides whether to stop.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from diskstream.entry_size import MAX_ENTRY_BYTES

Pairs = list[tuple[bytes, bytes]]

BYTES_A_BYTE: Final = {"csv": 2, "entries": 12, "jsonl": 6, "lines": 1}
"""What a byte of an entry takes at most: a quote is doubled, a byte of no text or a control character is `\\udcff`, and
twice that where a name is repeated and the value stands under `fields` and `pairs`."""

# Of 65,536 fields 18 bytes each, what stands between them twice; the ID; the name of the stream: 1.2 MiB.
_AROUND_BYTES: Final = 2 << 20

MAX_ROW_BYTES: Final = {kind: times * MAX_ENTRY_BYTES + _AROUND_BYTES for kind, times in BYTES_A_BYTE.items()}
"""The longest row that is read of each format: any entry has room in it, whatever it holds. There is an end to it, as a
quote that is never closed must not swallow a file larger than memory."""

LONGEST_ROW_BYTES: Final = max(MAX_ROW_BYTES.values())

UTF8_BOM = b"\xef\xbb\xbf"


class Row(NamedTuple):
    """One row: the line it begins on (from 1), its fields in order, and its bytes as they stood in the file."""

    line: int
    pairs: Pairs
    raw: bytes


class BadRow(NamedTuple):
    """A row that is not what its format says: where it begins, why, and its bytes (of an overlong one the first)."""

    line: int
    reason: str
    raw: bytes


def without_newline(line: bytes) -> bytes:
    """The line without its `\\n` or `\\r\\n`. A `\\r` that no `\\n` follows is data."""
    if line.endswith(b"\r\n"):
        return line[:-2]
    return line[:-1] if line.endswith(b"\n") else line
