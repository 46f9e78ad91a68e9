"""What every parser yields: a row that became fields, or one that could not.

A parser never raises for a bad row. It yields `BadRow` in its place and goes on with the next, so that one broken line
costs one line, and whoever reads decides whether to stop.
"""

from __future__ import annotations

from typing import NamedTuple

Pairs = list[tuple[bytes, bytes]]

MAX_ROW_BYTES = 16 * 1024 * 1024
"""The longest row that is read. A quote that is never closed must not swallow a file larger than memory."""

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
