"""A bar for entries that are being removed, whose number is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from diskstream.cli.output import error_console

__all__ = ["removing"]


@contextmanager
def removing(title: str, entries: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; yields what to call with entries just removed. Silent in a pipe."""
    console = error_console()
    if not console.is_interactive or not entries:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=entries)
        yield lambda gone: progress.advance(task, gone)
