"""Plain log lines: one field, `line`, with every byte of the line but its `\\n`.

A `\\r` before the `\\n` is kept, as is an empty line: the values joined with `\\n` are the file again, up to whether
its last line ended in one. A byte order mark at the beginning of a file is of its encoding, and of no line.
"""

from __future__ import annotations

from collections.abc import Iterator

from diskstream.ingest.lines import Lines
from diskstream.ingest.rows import UTF8_BOM, BadRow, Row
from diskstream.plurals import number_of

LINE_FIELD = b"line"


def line_rows(lines: Lines) -> Iterator[Row | BadRow]:
    """The lines of a log as rows."""
    while line := lines.next_line():
        if lines.number == 1:
            line = line.removeprefix(UTF8_BOM)
            if not line:  # and so the end: there is nothing else
                return
        if len(line) > lines.max_bytes:
            yield BadRow(lines.number, f"is longer than {number_of(lines.max_bytes, 'byte')}", line)
        else:
            yield Row(lines.number, [(LINE_FIELD, line.removesuffix(b"\n"))], line)
