"""Which files are read, as what, and where in a row its timestamp stands."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from diskstream.ingest.csv_rows import csv_rows
from diskstream.ingest.entry_rows import entry_rows, is_exported
from diskstream.ingest.errors import InputError
from diskstream.ingest.jsonl_rows import jsonl_rows
from diskstream.ingest.line_rows import line_rows
from diskstream.ingest.lines import Lines, reading_lines
from diskstream.ingest.rows import MAX_ROW_BYTES, UTF8_BOM, BadRow, Pairs, Row
from diskstream.ingest.times import TimeParser

Format = Literal["arrow", "auto", "csv", "entries", "jsonl", "lines", "parquet"]

STDIN = "-"

_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}

# What begins so is no text, and no row of it means anything.
_MAGIC_BYTES = 4
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gzip -dc"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc"),
    b"\xfd7zXZ\x00": ("xz", "xz -dc"),
    b"PK\x03\x04": ("zip", "unzip -p"),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A file to import, and how to read it."""

    path: str
    format: Format = "auto"
    delimiter: bytes | None = None
    columns: tuple[bytes, ...] | None = None
    encoding: str | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return "<stdin>" if self.path == STDIN else os.fsencode(self.path).decode("utf-8", "backslashreplace")

    def size(self) -> int | None:
        """Its size in bytes; None for what has none, such as a pipe."""
        path = Path(self.path)
        return path.stat().st_size if self.path != STDIN and path.is_file() else None

    def rows(self, on_read: Callable[[int], None] | None = None) -> Iterator[Row | BadRow]:
        """The rows of the file. `on_read` is told of bytes as they are read."""
        with ExitStack() as stack:
            try:
                file = sys.stdin.buffer if self.path == STDIN else stack.enter_context(Path(self.path).open("rb"))
            except OSError as error:
                raise InputError(f"cannot be opened: {error.strerror or error}", file=self.name) from error
            self._refuse_compressed(file)
            lines = reading_lines(file, name=self.name, encoding=self.encoding, on_read=on_read)
            yield from self._parser(stack.enter_context(lines))

    def _refuse_compressed(self, file: Any) -> None:
        head = file.peek(_MAGIC_BYTES) if hasattr(file, "peek") else b""
        for magic, (kind, program) in _COMPRESSED.items():
            if head.startswith(magic):
                file_format = "" if self.format == "auto" else f" --format {self.format}"
                hint = f"{program} {self.name} | diskstream import -{file_format} ..."
                raise InputError(f"is compressed ({kind})", file=self.name, hint=hint)

    def _parser(self, lines: Lines) -> Iterator[Row | BadRow]:
        suffix = Path(self.path).suffix.lower()
        chosen = self._guess(lines, suffix) if self.format == "auto" else self.format
        lines.max_bytes = MAX_ROW_BYTES[chosen]
        if chosen == "csv":
            delimiter = self.delimiter or (b"\t" if suffix == ".tsv" else b",")
            return csv_rows(lines, delimiter=delimiter, columns=self.columns)
        if chosen == "entries":
            return entry_rows(lines)
        return jsonl_rows(lines) if chosen == "jsonl" else line_rows(lines)

    def _guess(self, lines: Lines, suffix: str) -> Format:
        """By the name; standard input, which has none, by whether its first line begins as a JSON object does.

        Raises:
            InputError: it is an export of ours: which of the two ways to read it is meant, nobody knows.
        """
        chosen = _FORMATS.get(suffix, "lines")
        if self.path != STDIN and chosen != "jsonl":
            return chosen
        first = lines.next_line()
        lines.push_back([first] if first else [])
        if not first.lstrip().removeprefix(UTF8_BOM).startswith(b"{"):
            return chosen
        if is_exported(first):
            what = "holds entries as diskstream export writes them, with the IDs that they had"
            hint = "--format entries keeps their IDs and fields; --format jsonl makes new entries with a field `fields`"
            raise InputError(what, file=self.name, hint=hint)
        return "jsonl"


class Timestamps:
    """Finds the timestamp of a row: the values of `columns`, joined by a blank, or what `pattern` finds in them."""

    def __init__(self, columns: Sequence[bytes], parser: TimeParser, pattern: re.Pattern[bytes] | None = None) -> None:
        if pattern is not None and pattern.groups > 1:
            raise ValueError("the pattern of the timestamp has more than one group")
        self._columns = columns
        self._parser = parser
        self._pattern = pattern

    def __call__(self, pairs: Pairs) -> int:
        """Milliseconds since 1970. Raises ValueError, saying what is wrong with the row."""
        text = b" ".join([_value(pairs, column) for column in self._columns])
        if self._pattern is not None:
            found = self._pattern.search(text)
            if found is None:
                raise ValueError(f"has no timestamp where the pattern looks for it: {shown(text)}")
            text = found[self._pattern.groups]
        try:
            return self._parser(text.decode("utf-8"))
        except ValueError as error:
            raise ValueError(f"has the timestamp {shown(text)}, which cannot be read: {error}") from error


def _value(pairs: Pairs, column: bytes) -> bytes:
    """The value of the column; of a repeated name the first."""
    for name, value in pairs:
        if name == column:
            return value
    raise ValueError(f"has no column {shown(column)} (it has {', '.join(shown(name) for name, _ in pairs)})")


def shown(value: bytes, limit: int = 60) -> str:
    """A value as a message shows it: short, in quotes, without control characters."""
    text = value[:limit].decode("utf-8", "backslashreplace")
    return repr(text + ("…" if len(value) > limit else ""))
