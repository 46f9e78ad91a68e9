"""What the verbs that put a group somewhere share: the count that goes with the ID, and saying where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

import diskstream
from diskstream.cli.output import write_json

_F = TypeVar("_F", bound=Callable[..., Any])


def entries_read_option(function: _F) -> _F:
    """`--entries-read`."""
    return click.option(
        "--entries-read",
        type=click.IntRange(0, 2**63 - 1),
        metavar="N",
        help="How many entries there were up to that ID, where you know it: for the lag.",
    )(function)


def write_place(group: diskstream.Group, *, as_json: bool) -> None:
    """Print the ID behind which a group is."""
    info = group.info()
    if as_json:
        last, read = info.last_delivered_id, info.entries_read
        write_json({"stream": group.stream.name, "group": group.name, "last_delivered_id": last, "entries_read": read})
    else:
        click.echo(str(info.last_delivered_id))
