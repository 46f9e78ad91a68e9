"""Times and sizes as people write them, places, and a bar for bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

import diskstream
from diskstream.cli.options import existing_stream
from diskstream.cli.output import error_console

_F = TypeVar("_F", bound=Callable[..., Any])
_TIMES = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SIZES = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZES |= {f"{letter}b": size for letter, size in _SIZES.items() if letter not in ("", "b")}
_SIZES |= {f"{letter}ib": 1 << 10 * power for power, letter in enumerate("kmgt", 1)}
_MOST = 2**63


def as_duration_ms(argument: str) -> int:
    """``30d``, ``12h``, ``90s``, ``1500ms``; a type for click."""
    match = re.fullmatch(r"(\d{1,18})\s*([a-z]+)", argument.strip().lower())
    if match is None or match[2] not in _TIMES or int(match[1]) * _TIMES[match[2]] >= _MOST:
        raise click.BadParameter(f"{argument!r} is no time such as 30d, 12h, 45min or 90s")
    return int(match[1]) * _TIMES[match[2]]


def as_size_bytes(argument: str) -> int:
    """``10GB``, ``512MiB``, ``1000000``; a type for click."""
    match = re.fullmatch(r"(\d{1,18})\s*([a-z]*)", argument.strip().lower())
    if match is None or match[2] not in _SIZES or int(match[1]) * _SIZES[match[2]] >= _MOST:
        raise click.BadParameter(f"{argument!r} is no size such as 10GB, 512MiB or 1000000")
    return int(match[1]) * _SIZES[match[2]]


def rate_option(function: _F) -> _F:
    """`--rate`, as `bytes_per_s`."""
    return click.option(
        "--rate", "bytes_per_s", type=as_size_bytes, metavar="SIZE", help="At most so many bytes a second: 20MB."
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
