"""What became of an export, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ExportReport", "Progress", "ignore"]

# Called with entries and bytes (of names and values, about) just written.
Progress = Callable[[int, int], None]


def ignore(entries: int, size_bytes: int) -> None:  # the signature is what is called
    """Nobody wants to know."""


@dataclass
class ExportReport:
    """What became of an export.

    Attributes:
        format: of the files.
        entries: how many were written, by this run and those before it.
        expected: how many there were when the export began.
        size_bytes: of the files, or of what went into a pipe.
        files: how many there are; of a pipe none.
        resumed_entries: of the entries, those that an earlier run had written.
        complete_before: whether there was nothing left to do.
        empty_columns: names that were asked for as columns, and that no entry written by this run has.
    """

    format: str
    entries: int = 0
    expected: int = 0
    size_bytes: int = 0
    files: int = 0
    resumed_entries: int = 0
    complete_before: bool = False
    empty_columns: tuple[bytes, ...] = ()

    @property
    def missing(self) -> int:
        """Entries that were trimmed or deleted before they could be written."""
        return max(0, self.expected - self.entries)
