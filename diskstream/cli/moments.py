"""Where to begin and to end, as an operator says it: an ID, a time, or how long ago."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

import click

import diskstream
from diskstream.ids import MAX_ID, MIN_ID, EntryID, parse_add_id, parse_end, parse_id, parse_start
from diskstream.ingest import TimeParser

_ID: Final = re.compile(r"\(?\d+(-\d+)?|[-+]")
# No ID is printed so, and as one it is of 1970: a range would be empty, or be everything, without a word.
_MONTH: Final = re.compile(r"\(?(?P<year>\d{4})-0(?P<month>\d)")


def since(span: int) -> str:
    """The ID with which the time begins that is so many ms long and ends now."""
    return str(EntryID(max(0, time.time_ns() // 1_000_000 - span), 0))


def start_bound(given: str) -> str:
    """An ID, `-`, `+`, `(` and an ID, or a time in ISO 8601 (UTC unless it says otherwise), as the lower bound.

    Raises:
        click.BadParameter: none of these.
    """
    return _bound(given, is_end=False)


def end_bound(given: str) -> str:
    """The same as the upper bound: a time takes in all of its millisecond.

    Raises:
        click.BadParameter: none of these.
    """
    return _bound(given, is_end=True)


def check_order(start: str, end: str) -> None:
    """That a range has its lower bound first. One that has just nothing left is no mistake: paging comes to it.

    Raises:
        click.UsageError: it is reversed.
    """
    first, last = parse_start(start.removeprefix("(")), parse_end(end.removeprefix("("))
    if first > last and (first.ms, first.seq) != (last.ms, last.seq + 1):
        raise click.UsageError(
            f"the range is reversed, and so is empty: {start} lies above {end}; give the lower bound first "
            "(for the newest first: diskstream range --reverse, which has the lower bound first too)"
        )


def single_id(given: str) -> str:
    """An ID, or a time as the first ID of its millisecond; not `-`, `+`, or one after `(`.

    Raises:
        click.BadParameter: none of these.
    """
    if given[:1] in ("-", "+", "("):
        raise click.BadParameter(f"{given!r} is neither an ID nor a time such as 2026-01-31T12:00Z")
    return start_bound(given)


def known_id(given: str) -> str:
    """The ID of an entry that is there.

    Raises:
        click.BadParameter: it is none.
    """
    return _checked(parse_id, given)


def new_id(given: str) -> str:
    """The ID of a new entry: whole, `ms-*` or `*`.

    Raises:
        click.BadParameter: none of these.
    """
    return _checked(parse_add_id, given)


def place_of_group(given: str) -> str:
    """Where a group is put: `-`, `+`, `$`, an ID, or just before a time.

    Raises:
        click.BadParameter: none of these.
    """
    return given if given in ("-", "+") else start_of_group(given)


def start_of_group(given: str) -> str:
    """Where a group begins: `$`, an ID, or just before a time.

    Raises:
        click.BadParameter: none of these.
    """
    if given == "$":
        return given
    first = single_id(given)
    if _ID.fullmatch(given):
        return given
    return str(EntryID(parse_start(first).ms - 1, MAX_ID.seq)) if parse_start(first).ms else str(MIN_ID)


def _checked(check: Callable[[str], object], given: str) -> str:
    try:
        check(given)
    except diskstream.InvalidIDError:
        raise click.BadParameter(f"{given!r} is no ID, such as 1714521600000-0 or 1714521600000") from None
    return given


known_id.__name__ = new_id.__name__ = "ID"
single_id.__name__ = place_of_group.__name__ = start_of_group.__name__ = "ID or time"
start_bound.__name__ = end_bound.__name__ = "ID or time"


def _bound(given: str, *, is_end: bool) -> str:
    if month := _MONTH.fullmatch(given):
        also = f"{month['year']}-{month['month']}"
        raise click.BadParameter(
            f"{given!r} looks like a month, and is the ID {also} too: write {given.lstrip('(')}-01 for the time, or "
            f"{also} for the ID"
        )
    if _ID.fullmatch(given):
        try:
            (parse_end if is_end else parse_start)(given)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
        return given
    try:
        return str(TimeParser("iso")(given))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{given!r} is neither an ID nor a time such as 2026-01-31T12:00Z ({error})") from None


class _End(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click only
    """An upper bound as an ID; a type for click."""

    name = "ID|TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> EntryID:
        if isinstance(value, EntryID):
            return value
        try:
            return parse_end(_bound(str(value), is_end=True))
        except (click.BadParameter, diskstream.ArgumentError) as error:
            self.fail(error.message if isinstance(error, click.BadParameter) else str(error), param, ctx)


END: Final = _End()
