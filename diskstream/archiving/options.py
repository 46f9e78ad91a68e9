"""What an archiver is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from diskstream.errors import ArgumentError
from diskstream.pace import check_pace

__all__ = ["ArchiveOptions"]

_MOST_JOBS = 64
_MOST_BATCH = 100_000


@dataclass(frozen=True)
class ArchiveOptions:
    """How to archive.

    Attributes:
        trim: trim the source of what was read back.
        trim_unacknowledged: also of what groups of the source still need.
        follow: go on as new entries and keys come.
        rate: entries a second, all streams together; None is no limit.
        jobs: streams side by side.
        batch: entries of one reply, at most.
        accept_changed: go on though the source is at another address, or was made anew.
        on_entries: called with entries and bytes just copied.
        on_expected: called with entries that are about to be copied, as far as the source tells.
        on_remark: called with a stream and what was found or noted about it, as soon as it is known.
        on_away: with `follow`, called with why the server is waited for, and once that is over.
    """

    trim: bool = False
    trim_unacknowledged: bool = False
    follow: bool = False
    rate: float | None = None
    jobs: int = 2
    batch: int = 4000
    accept_changed: bool = False
    on_entries: Callable[[int, int], None] | None = None
    on_expected: Callable[[int], None] | None = None
    on_remark: Callable[[bytes, str], None] | None = None
    on_away: Callable[[str], None] | None = None

    def check(self) -> None:
        """Raises an `ArgumentError` for what makes no sense."""
        check_pace("rate", self.rate)
        if not 1 <= self.jobs <= _MOST_JOBS:
            raise ArgumentError(f"there are 1 to {_MOST_JOBS} jobs, not {self.jobs}")
        if not 1 <= self.batch <= _MOST_BATCH:
            raise ArgumentError(f"a batch has 1 to {_MOST_BATCH:,} entries, not {self.batch}")
        if self.trim_unacknowledged and not self.trim:
            raise ArgumentError("trimming what is not acknowledged means nothing without trimming")
