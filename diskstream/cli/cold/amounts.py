"""Options and arguments that several verbs have, and a bar for bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

import diskstream
from diskstream.cli.amounts import SIZE
from diskstream.cli.options import existing_stream
from diskstream.cli.output import error_console

_F = TypeVar("_F", bound=Callable[..., Any])


def rate_option(function: _F) -> _F:
    """`--rate`, as `bytes_per_s`."""
    return click.option(
        "--rate", "bytes_per_s", type=SIZE, metavar="SIZE", help="At most so many bytes a second: 20MB."
    )(function)


def dry_run_option(function: _F) -> _F:
    """`--dry-run`."""
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")(function)


def chosen_streams(store: diskstream.Store, name: bytes | None) -> list[diskstream.Stream]:
    """The stream of that name, which must be there; all of them where none is named."""
    return list(store) if name is None else [existing_stream(store, name)]


@contextmanager
def bytes_progress(title: str, total_bytes: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on standard error; yields what to call with bytes just handled. Silent, and None, in a pipe."""
    console = error_console()
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(title, total=total_bytes)
        yield lambda size_bytes: progress.advance(task, size_bytes)
