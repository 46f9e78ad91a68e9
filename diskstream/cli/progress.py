"""Bars for work that passes over all entries of a store, or over so many bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

import diskstream
from diskstream.cli.output import error_console


class _Rate(ProgressColumn):
    """Entries a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


class _Written(ProgressColumn):
    """Bytes written so far."""

    def render(self, task: Task) -> Text:
        return Text(decimal(task.fields["more"]))


@contextmanager
def _counting_two(
    columns: tuple[ProgressColumn, ...], title: str, total: int | None
) -> Iterator[tuple[Callable[[int], None], Callable[[int, int], None]]]:
    """A bar that goes by one count and shows another, as `more`; yields what to call with the total, and with both."""
    with Progress(*columns, console=error_console(), transient=True) as progress:
        task = progress.add_task(title, total=total, more=0)
        shown = 0

        def on_both(by: int, more: int) -> None:
            nonlocal shown
            shown += more
            progress.update(task, advance=by, more=shown)

        yield (lambda found: progress.update(task, total=found)), on_both


@contextmanager
def entries_progress(
    store: diskstream.Store, title: str, stream: bytes | None = None
) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error; yields what to call with entries and bytes just written. Silent, and None, in a pipe."""
    console = error_console()
    if not console.is_interactive:
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Written(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with _counting_two(columns, title, _count(store, stream)) as (_, on_written):
        yield on_written


def _count(store: diskstream.Store, stream: bytes | None) -> int | None:
    """How many entries there are; unknown where a stream is damaged, which the work itself will tell."""
    try:
        return sum(len(store.stream(name)) for name in (store.streams() if stream is None else [stream]))
    except diskstream.DiskstreamError:
        return None


@contextmanager
def bytes_progress(title: str) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """The same for bytes; yields what to call with how many there will be, and with those just handled."""
    console = error_console()
    if not console.is_interactive:
        yield (lambda _: None), (lambda _: None)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield (lambda total: progress.update(task, total=total)), (lambda size: progress.advance(task, size))


@contextmanager
def reading_progress(title: str, total: Callable[[], int]) -> Iterator[Callable[[int, int], None] | None]:
    """A bar for work that reads all of so many bytes of files, which `total` counts where somebody looks.

    Yields what to call with entries and bytes just read. Silent, and None, in a pipe.
    """
    console = error_console()
    if not console.is_interactive:
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[more]:,} entries"),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with _counting_two(columns, title, total()) as (_, on_both):
        yield lambda entries, size_bytes: on_both(size_bytes, entries)


@contextmanager
def replay_progress(title: str) -> Iterator[tuple[Callable[[int], None], Callable[[int, int], None]]]:
    """A bar for a replay; yields what to call with how many entries there are, and with those just read and sent."""
    console = error_console()
    if not console.is_interactive:
        yield (lambda _: None), (lambda _, __: None)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[more]:,} sent"),
        _Rate(),
        TimeRemainingColumn(),
    )
    with _counting_two(columns, title, None) as (on_total, on_entries):
        yield on_total, on_entries
