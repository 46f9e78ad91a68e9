"""Options and arguments that several verbs have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from diskstream.cli.amounts import SIZE

_F = TypeVar("_F", bound=Callable[..., Any])


def rate_option(function: _F) -> _F:
    """`--rate`, as `bytes_per_s`."""
    return click.option(
        "--rate", "bytes_per_s", type=SIZE, metavar="SIZE", help="At most so many bytes a second: 20MB."
    )(function)


def dry_run_option(function: _F) -> _F:
    """`--dry-run`."""
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")(function)
