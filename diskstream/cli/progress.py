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
        return Text(decimal(task.fields["written"]))


@contextmanager
def entries_progress(
    store: diskstream.Store, title: str, stream: bytes | None = None
) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error; yields what to call with entries and bytes just written. Silent, and None, in a pipe."""
    console = error_console()
    if not console.is_terminal:
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
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=_count(store, stream), written=0)
        written = 0

        def on_written(entries: int, size: int) -> None:
            nonlocal written
            written += size
            progress.update(task, advance=entries, written=written)

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
    if not console.is_terminal:
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
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[entries]:,} entries"),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=total(), entries=0)
        entries = 0

        def on_read(more: int, size_bytes: int) -> None:
            nonlocal entries
            entries += more
            progress.update(task, advance=size_bytes, entries=entries)

        yield on_read


@contextmanager
def replay_progress(title: str) -> Iterator[tuple[Callable[[int], None], Callable[[int, int], None]]]:
    """A bar for a replay; yields what to call with how many entries there are, and with those just read and sent."""
    console = error_console()
    if not console.is_terminal:
        yield (lambda _: None), (lambda _, __: None)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[sent]:,} sent"),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None, sent=0)
        total = 0

        def on_entries(read: int, sent: int) -> None:
            nonlocal total
            total += sent
            progress.update(task, advance=read, sent=total)

        yield (lambda entries: progress.update(task, total=entries)), on_entries
