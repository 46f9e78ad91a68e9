"""Which files are read, as what, and where in a row its timestamp stands."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from diskstream.ingest.csv_rows import csv_rows
from diskstream.ingest.entry_rows import entry_rows, is_exported
from diskstream.ingest.errors import InputError
from diskstream.ingest.jsonl_rows import jsonl_rows
from diskstream.ingest.kinds import HEAD_BYTES, Kind, Nuls, kind_of
from diskstream.ingest.line_rows import line_rows
from diskstream.ingest.lines import Lines, is_quiet, read_some, reading_lines
from diskstream.ingest.rows import MAX_ROW_BYTES, UTF8_BOM, BadRow, Pairs, Row
from diskstream.ingest.times import TimeParser

Format = Literal["arrow", "auto", "csv", "entries", "jsonl", "lines", "parquet"]

STDIN = "-"

_HEAD_S = 1.0

_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
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

    @property
    def is_csv(self) -> bool:
        """Whether its rows are read as CSV."""
        return self._by_name() == "csv"

    def size(self) -> int | None:
        """Its size in bytes; None for what has none, such as a pipe."""
        path = Path(self.path)
        return path.stat().st_size if self.path != STDIN and path.is_file() else None

    def rows(
        self, on_read: Callable[[int], None] | None = None, on_quiet: Callable[[], None] | None = None
    ) -> Iterator[Row | BadRow]:
        """The rows of the file. `on_read` is told of bytes as they are read, `on_quiet` that a pipe is waited for."""
        with self._opened() as file:
            head = self._head(file)
            lines = reading_lines(
                file, name=self.name, encoding=self.encoding, on_read=on_read, head=head, on_quiet=on_quiet
            )
            with lines as read:
                yield from self._parser(read)

    def check(self) -> None:
        """Look at what the file begins with, before anything is imported. What can be read but once is not touched.

        Raises:
            InputError: it cannot be opened or read, or is no text.
        """
        if self.path != STDIN and Path(self.path).is_file():
            with self._opened() as file:
                self._head(file)

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with ExitStack() as stack:
            try:
                file = sys.stdin.buffer if self.path == STDIN else stack.enter_context(Path(self.path).open("rb"))
            except OSError as error:
                raise InputError(f"cannot be opened: {error.strerror or error}", file=self.name) from error
            yield file

    def _head(self, file: BinaryIO) -> bytes:
        """What it begins with. Raises InputError where that is no text."""
        head, until = b"", time.monotonic() + _HEAD_S
        try:
            while len(head) < HEAD_BYTES and (more := read_some(file, HEAD_BYTES - len(head))):
                head += more
                if b"\n" in head and is_quiet(file, max(0.0, until - time.monotonic())):
                    break  # rows of a pipe that is slow: they are not kept back until there are so many bytes
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file=self.name) from error
        kind = kind_of(head, encoded=self.encoding is not None, nuls=self._nuls())
        if kind is not None:
            raise self._no_text(kind)
        return head

    def _by_name(self) -> Format:
        return _FORMATS.get(Path(self.path).suffix.lower(), "auto") if self.format == "auto" else self.format

    def _nuls(self) -> Nuls:
        chosen = self._by_name()
        return "data" if chosen == "lines" else "none" if chosen == "auto" else "values"

    def _no_text(self, kind: Kind) -> InputError:
        file_format = "" if self.format == "auto" else f" --format {self.format}"
        if kind.family == "compressed":
            hint = f"{kind.how} {self.name} | diskstream import -{file_format} ..."
            return InputError(f"is compressed ({kind.what})", file=self.name, hint=hint)
        if kind.family == "table":
            hint = f"--format {kind.how} reads it" + (", from a file: name one" if self.path == STDIN else "")
        elif kind.family == "encoding":
            hint = f"--encoding {kind.how} reads it and keeps it as UTF-8"
        else:
            hint = "make text of it first" + (
                "; --format lines keeps every byte as it is" if self.format == "auto" else ""
            )
        return InputError(f"is {kind.what}", file=self.name, hint=hint)

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
            where = None if found is None else found[self._pattern.groups]
            if where is None:  # also where the group is in a part of the pattern that may be left out
                raise ValueError(f"has no timestamp where the pattern looks for it: {shown(text)}")
            text = where
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
