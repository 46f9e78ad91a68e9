"""Verbs that take something away for good: they say what, and ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from diskstream.cli.failure import Failure

_F = TypeVar("_F", bound=Callable[..., Any])


def consent_options(function: _F) -> _F:
    """`--dry-run` and `--force`."""
    force = click.option("-f", "--force", is_flag=True, help="Do not ask.")
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")(force(function))


def ask(question: str, *, force: bool) -> None:
    """Ask on standard error, unless told not to.

    Raises:
        Failure: the answer is no, or nobody is there to give one.
    """
    if force:
        return
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        raise Failure("there was no answer, so nothing was done", hint="--force does it without asking") from None
    if not agreed:
        raise Failure("nothing was done")
