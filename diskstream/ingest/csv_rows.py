"""CSV as RFC 4180 has it, in bytes: quotes, doubled quotes, delimiters and newlines inside quotes.

    record = field *(delimiter field) newline      field = quoted / plain
    quoted = '"' *(any byte but '"', or '""') '"'  plain = *(any byte but delimiter and newline), not beginning with '"'

A quote in the midst of a plain field is data, as most writers of CSV mean it. A blank line is no row, unless there is
but one column. The first record names the columns unless names are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diskstream.ingest.errors import InputError
from diskstream.ingest.lines import Lines
from diskstream.ingest.rows import UTF8_BOM, BadRow, Row, without_newline
from diskstream.plurals import number_of

_QUOTE = 0x22
_NO_HEADER = "mend it, or name the columns with --columns"


class _MalformedError(Exception):
    """The record breaks the grammar."""


class _Record:
    """One record, fed line by line until it is whole. Every byte is looked at once, however many lines it spans."""

    def __init__(self, delimiter: bytes) -> None:
        self.raw = bytearray()
        self.fields: list[bytes] = []
        self._delimiter = delimiter
        self._at = 0  # where the field begins that is being read
        self._scan = 0  # how far its closing quote has been looked for

    def feed(self, line: bytes) -> bool:
        """Take one more line. True when the record ends with it."""
        self.raw += line
        end = len(self.raw) - (len(line) - len(without_newline(line)))
        while True:
            if self._at < len(self.raw) and self.raw[self._at] == _QUOTE:
                close = self._closing_quote()
                if close < 0:
                    return False
                self.fields.append(bytes(self.raw[self._at + 1 : close]).replace(b'""', b'"'))
                after = close + 1
                if after < end and self.raw[after : after + 1] != self._delimiter:
                    raise _MalformedError(f"column {len(self.fields)} goes on after its closing quote")
            else:
                after = self.raw.find(self._delimiter, self._at, end)
                after = end if after < 0 else after
                self.fields.append(bytes(self.raw[self._at : after]))
            if after >= end:
                return True
            self._at = self._scan = after + 1

    def _closing_quote(self) -> int:
        at = max(self._scan, self._at + 1)
        while (at := self.raw.find(b'"', at)) >= 0:
            if self.raw[at + 1 : at + 2] != b'"':
                return at
            at += 2
        self._scan = len(self.raw)
        return -1


def csv_rows(
    lines: Lines, *, delimiter: bytes = b",", columns: Sequence[bytes] | None = None
) -> Iterator[Row | BadRow]:
    """The rows of a CSV file. `columns` names the fields of a file that has no header of its own."""
    names = None if columns is None else list(columns)
    first = True
    while line := lines.next_line():
        if first and line.startswith(UTF8_BOM):
            line = line[len(UTF8_BOM) :]
        first = False
        start = lines.number
        body = without_newline(line)
        if not body and (names is None or len(names) > 1):
            continue
        if len(line) > lines.max_bytes:
            fields, raw, reason = list[bytes](), line, f"is longer than {number_of(lines.max_bytes, 'byte')}"
        elif b'"' in line:
            fields, raw, reason = _quoted(lines, line, delimiter)
        else:
            fields, raw, reason = body.split(delimiter), line, ""
        if names is None:
            if not reason and b'"' not in line and b"\r" in body:
                reason = "ends its rows with carriage returns alone: make newlines of them (tr '\\r' '\\n')"
            if reason:
                # Without the names of its columns nothing of a file can be read: this is no row to be left out.
                raise InputError(f"{reason} (the header)", file=lines.name, line=start, hint=_NO_HEADER)
            names = fields
        elif reason:
            yield BadRow(start, reason, raw)
        elif len(fields) != len(names):
            yield BadRow(start, f"has {number_of(len(fields), 'column')} where the header has {len(names):,}", raw)
        else:
            yield Row(start, list(zip(names, fields, strict=True)), raw)


def _quoted(lines: Lines, line: bytes, delimiter: bytes) -> tuple[list[bytes], bytes, str]:
    """Fields, bytes and, where it is malformed, the fault of the record that begins with `line`.

    Of a malformed record only its first line is lost: the others are pushed back, since the quote that swallowed them
    may have been the fault.
    """
    record = _Record(delimiter)
    more: list[bytes] = []
    reason = ""
    try:
        while not record.feed(more[-1] if more else line):
            following = lines.next_line() if len(record.raw) <= lines.max_bytes else b""
            if not following or len(following) > lines.max_bytes:
                reason = f"opens a quote in column {len(record.fields) + 1} that is never closed"
                more += [following] if following else []
                break
            more.append(following)
    except _MalformedError as error:
        reason = str(error)
    if reason:
        lines.push_back(more)
        return [], line, reason
    return record.fields, bytes(record.raw), ""
