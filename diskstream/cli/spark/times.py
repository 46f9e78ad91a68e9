"""Durations and times on the command line."""

from __future__ import annotations

import click


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
