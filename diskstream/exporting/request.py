"""What is to be exported, and as what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from diskstream.errors import ArgumentError
from diskstream.ids import IDLike
from diskstream.plurals import number_of

__all__ = ["COMPRESSIONS", "FORMATS", "MAX_COLUMNS", "Column", "ExportRequest", "parse_columns"]

FORMATS: Final = ("csv", "jsonl", "arrow", "parquet")
# The first of each is what is taken where none is named.
COMPRESSIONS: Final = {
    "csv": ("none", "gzip", "zstd"),
    "jsonl": ("none", "gzip", "zstd"),
    "arrow": ("none", "lz4", "zstd"),
    "parquet": ("zstd", "none", "snappy", "gzip", "lz4"),
}
# A column costs four bytes a row even where no entry has it: so many of them in a piece of 4,096 rows are 16 MiB.
MAX_COLUMNS: Final = 1000

_TYPE: Final = r"bool|int8|int16|int32|int64|float|double|decimal\(\d{1,2},\s*\d{1,2}\)|timestamp|date|string|binary"
_TYPED: Final = re.compile(rf"(?P<name>.*):(?P<kind>{_TYPE})", re.DOTALL)
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
_MOST_DIGITS: Final = 38  # of Arrow's 128 bits
_COMMA: Final = re.compile(r",(?![^(]*\))")


class Column(NamedTuple):
    """A field that becomes a column, and its type: see `Stream.scan`."""

    name: bytes
    kind: str = "binary"


@dataclass(frozen=True)
class ExportRequest:
    """What is to be exported.

    Attributes:
        streams: names of streams, each once; of several each entry says which it is of.
        format: one of `FORMATS`.
        start, end: as of `Stream.range`; what is added after the beginning is left out in any case.
        columns: the fields wanted, for CSV, Arrow and Parquet as columns; none: all fields, losslessly but in CSV.
        duplicates: which value a column has where an entry holds a name twice: ``first``, ``last``, or ``fail``.
        compression: one of `COMPRESSIONS` of the format; empty for the first of them.
    """

    streams: Sequence[bytes]
    format: str
    start: IDLike = "-"
    end: IDLike = "+"
    columns: Sequence[Column] = field(default_factory=tuple)
    duplicates: str = "fail"
    compression: str = ""

    def __post_init__(self) -> None:
        """Checks what can be checked without a store.

        Raises:
            ArgumentError: something makes no sense.
        """
        if self.format not in FORMATS:
            raise ArgumentError(f"the format is one of {', '.join(FORMATS)}, not {self.format!r}")
        if self.chosen_compression not in COMPRESSIONS[self.format]:
            possible = ", ".join(COMPRESSIONS[self.format])
            raise ArgumentError(f"{self.format} is compressed as one of {possible}, not {self.compression!r}")
        if not self.streams or len(set(self.streams)) < len(self.streams):
            raise ArgumentError("name at least one stream, and each only once")
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise ArgumentError("a column is named twice")
        if len(names) > MAX_COLUMNS:
            raise ArgumentError(
                f"{number_of(len(names), 'column is', 'columns are')} more than {MAX_COLUMNS:,}: name fewer"
            )
        typed = next((column for column in self.columns if column.kind != "binary"), None)
        if typed is not None and self.format in ("csv", "jsonl"):
            raise ArgumentError(f"{self.format} is text and has no types: name the column without {typed.kind}")
        impossible = next((column.kind for column in self.columns if not _is_possible(column.kind)), None)
        if impossible is not None:
            what = f"a decimal has 1 to {_MOST_DIGITS} digits, and no more than these behind the point"
            raise ArgumentError(f"no column is a {impossible}: {what}")
        if self.duplicates not in ("first", "last", "fail"):
            raise ArgumentError("duplicates must be 'first', 'last' or 'fail'")

    @property
    def chosen_compression(self) -> str:
        """The compression, also where none was named."""
        return self.compression or COMPRESSIONS[self.format][0]

    @property
    def suffix(self) -> str:
        """How the name of a file of this format ends."""
        packed = {"gzip": ".gz", "zstd": ".zst"} if self.format in ("csv", "jsonl") else {}
        return f".{self.format}{packed.get(self.chosen_compression, '')}"


def _is_possible(kind: str) -> bool:
    """Whether there is a decimal of so many digits, of which so many are behind the point; any other type is."""
    named = _DECIMAL.fullmatch(kind)
    return named is None or (1 <= int(named[1]) <= _MOST_DIGITS and int(named[2]) <= int(named[1]))


def parse_columns(given: bytes) -> tuple[Column, ...]:
    """``name,name:type``: names of fields, each with a type behind a colon where it is to have one.

    Raises:
        ArgumentError: an empty name.
    """
    found = []
    for part in _COMMA.split(given.decode("utf-8", "surrogateescape")):
        typed = _TYPED.fullmatch(part)
        name, kind = (typed["name"], typed["kind"].replace(" ", "")) if typed else (part, "binary")
        if not name:
            raise ArgumentError("a column has no name: they are separated by one comma each")
        found.append(Column(name.encode("utf-8", "surrogateescape"), kind))
    return tuple(found)
