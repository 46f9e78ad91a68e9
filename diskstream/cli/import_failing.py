"""How `diskstream import` ends where it is stopped or the disk fails: what of it is there, and how to have the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import diskstream
from diskstream.cli.failure import Failure
from diskstream.cli.output import text
from diskstream.plurals import number_of

__all__ = ["told_to_stop", "told_what_is_safe", "told_when_over"]

_Noting = Callable[[diskstream.Store, diskstream.Stream], AbstractContextManager[None]]


@contextmanager
def told_to_stop(*, can_go_on: bool) -> Iterator[None]:
    """Where the same cannot be gone on with, who stops it is not told to run it again.

    Raises:
        Failure: it was stopped, and what is in already would be there twice.
    """
    try:
        yield
    except KeyboardInterrupt:
        if can_go_on:
            raise
        raise Failure(
            "it was stopped before it was done",
            hint="what comes from a pipe cannot be gone on with, and the rows that are in already (diskstream len says "
            "how many) would be there twice: import all of it into another stream",
        ) from None


@contextmanager
def told_when_over(finishing: list[Callable[[], None]]) -> Iterator[None]:
    """Who meets a failure behind the last row, when it may be noted that the import is over, does not import all again.

    Nor does who stops it there: what is over is not gone on with.

    Raises:
        Failure: that could not be noted durably, or it was stopped meanwhile.
    """
    try:
        yield
    except (diskstream.DiskstreamError, KeyboardInterrupt) as error:
        if not finishing:
            raise
        what = "it was stopped when it was all but done" if isinstance(error, KeyboardInterrupt) else str(error)
        hint = "all rows are imported and on disk: the same, run again, may import them once more"
        raise Failure(what, hint=hint) from error


@contextmanager
def told_what_is_safe(*, can_go_on: bool) -> Iterator[_Noting]:
    """Who meets a failing disk is told which rows are on it, and that the same, run again, goes on behind them.

    Yields:
        What the import of a stream is done within: it looks at the stream while the store is still open, since closing
        one whose flush failed fails once more.

    Raises:
        Failure: the disk said no.
    """
    met: list[tuple[diskstream.StorageError, str]] = []

    @contextmanager
    def noting(store: diskstream.Store, stream: diskstream.Stream) -> Iterator[None]:
        try:
            yield
        except diskstream.StorageError as error:
            with suppress(diskstream.DiskstreamError):
                store.sync()  # of a disk that is full: behind a flush that failed there is no second one
            safe = f"how much of {text(stream.name)} is on disk is not known"
            with suppress(diskstream.DiskstreamError):
                safe = _safe(stream)
            met.append((error, safe))
            raise

    try:
        yield noting
    except diskstream.StorageError as last:
        if not met:
            raise
        error, safe = met[0]
        way_out = "run the same again: it looks which rows are there, and goes on behind them"
        if not can_go_on:
            way_out = "import all of it into another stream: what comes from a pipe cannot be gone on with"
        raise Failure(str(error), hint=f"{safe}; once the disk is well, {way_out}") from last


def _safe(stream: diskstream.Stream) -> str:
    """Which entries of a stream are on disk for sure."""
    upto, name = stream.durable_id(), text(stream.name)
    if upto == diskstream.EntryID(0, 0):
        return f"nothing of {name} is known to be on disk"
    entries = number_of(stream.count("-", upto), "entry", "entries")
    behind = "" if stream.last_id() == upto else ", and of those behind it nobody can tell yet"
    return f"{name} is on disk up to the ID {upto}, with {entries}{behind}"
