"""Options and arguments that several verbs have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

import diskstream
from diskstream.cli.amounts import SIZE
from diskstream.cli.options import existing_stream

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
