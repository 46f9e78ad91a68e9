"""What the verbs of `diskstream spark` have in common: the session, durations and times."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from diskstream.cli.failure import Failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_F = TypeVar("_F", bound=Callable[..., Any])


def master_option(function: _F) -> _F:
    """`--master`."""
    return click.option(
        "--master", metavar="URL", help="Spark's master, as spark://host:7077.  [default: all cores of this machine]"
    )(function)


def check_pyspark() -> None:
    """Says what is missing before anything is imported that needs it."""
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("this needs pyspark, which is not installed", hint="pip install 'diskstream[spark]'")


def start(name: str, master: str | None) -> SparkSession:
    """The session of a verb."""
    check_pyspark()
    from diskstream.spark.jobs.session import session

    if master is None or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers are whatever `python3` there is
    return session(name, master=master or "local[*]")


def milliseconds(value: str | None, option: str) -> int | None:
    """A duration such as 500ms, 10s, 15m, 2h, 1d, in ms."""
    if value is None:
        return None
    from diskstream.spark.options import parse_duration_s

    try:
        return round(parse_duration_s(value) * 1000)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not {error}", param_hint=option) from None


def time_ms(value: str | None, option: str) -> int | None:
    """A time in ISO 8601, or ms since 1970, in ms."""
    if value is None:
        return None
    from diskstream.errors import ArgumentError
    from diskstream.spark.options import ReadOptions

    try:
        parsed: ReadOptions = ReadOptions.parse({"startingTimestamp": value})
    except ArgumentError:
        raise click.BadParameter(
            f"{value!r} is not a time as 2026-11-21T10:00:00Z, or ms since 1970", param_hint=option
        ) from None
    return parsed.starting_timestamp
