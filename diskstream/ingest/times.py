"""Timestamps as people write them, turned into the milliseconds of an entry ID.

What is finer than a millisecond does not move the ID (rows of one millisecond are told apart by their sequence number,
in order); the column itself stays a field, so nothing of it is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TIME = timedelta()
_MAX_MS = 2**64 - 1
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
_WRITTEN = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])([01]\d|2[0-3])[0-5]\d", re.ASCII)
_WRITTEN_DIGITS = (12, 14, 17)  # to the minute, the second and the millisecond
_HOURS, _MINUTES = 24, 60
_MOST_DIGITS = 1000  # no time has nearly as many; Python refuses to read some thousands, with advice of its own
_NUMBER = re.compile(r"-?\d+(\.\d*)?")

UNITS_PER_SECOND = {"epoch": 1, "epoch-ms": 1_000, "epoch-us": 1_000_000, "epoch-ns": 1_000_000_000}
"""The names of numeric formats, and how many of their units make a second."""

_YEAR_DIRECTIVES = ("%Y", "%y", "%G", "%c", "%x", "%D", "%F")


def parse_timezone(name: str) -> tzinfo:
    """`UTC`, an offset such as `+02:00`, or a name such as `Europe/Paris`. Raises ValueError."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    if offset := _OFFSET.fullmatch(name):
        hours, minutes = int(offset[2]), int(offset[3])
        if hours >= _HOURS or minutes >= _MINUTES:
            raise ValueError(f"{name!r} is not an offset")
        east = timedelta(hours=hours, minutes=minutes)
        return timezone(-east if offset[1] == "-" else east)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is not a time zone that this machine knows") from error


class TimeParser:
    """Reads timestamps of one format.

    `fmt` is `auto` (a number of seconds, milliseconds, microseconds or nanoseconds, told apart by its digits, or else
    ISO 8601), `iso`, one of `UNITS_PER_SECOND`, or a pattern of `datetime.strptime`. A time without an offset is in
    `zone`; one that the zone has twice, as its clocks are put back, is the one nearer to the time before, and the first
    where nothing tells. A pattern without a year needs `year`, that of the first row; each further row is given the
    year that brings it nearest to the one before, so that a log may run past New Year.
    """

    def __init__(self, fmt: str = "auto", *, zone: tzinfo = UTC, year: int | None = None) -> None:
        self._zone = zone
        self._format = fmt
        self._year = year
        self._previous: datetime | None = None
        self._has_doubles = not isinstance(zone, timezone)
        self._last: timedelta | None = None  # since 1970; of the ends of the calendar UTC may have no date
        self._read = self._reader()

    def __call__(self, text: str) -> int:
        """Milliseconds since 1970. Raises ValueError, saying what is wrong with the text."""
        ms = self._read(text.strip())
        if not 0 <= ms <= _MAX_MS:
            raise ValueError("lies before 1970" if ms < 0 else "lies beyond the largest ID")
        return ms

    def _reader(self) -> Callable[[str], int]:
        if self._format == "auto":
            return self._auto
        if self._format == "iso":
            return self._iso
        if self._format in UNITS_PER_SECOND:
            units = UNITS_PER_SECOND[self._format]
            return lambda text: _number(text, units)
        if "%" not in self._format:
            names = ", ".join(["auto", "iso", *UNITS_PER_SECOND])
            raise ValueError(f"{self._format!r} is neither one of {names} nor a pattern such as %d/%b/%Y:%H:%M:%S")
        if "%s" in self._format:
            raise ValueError("%s is not known here: name the format epoch")
        if "%Z" in self._format:
            raise ValueError("names of zones (%Z) are not known here: give --timezone, or %z for offsets")
        if any(directive in self._format for directive in _YEAR_DIRECTIVES):
            _check_pattern(self._format)
            return self._pattern
        if self._year is None:
            raise ValueError(f"{self._format!r} has no year: give that of the first row with --year")
        _check_pattern(f"%Y {self._format}")
        return self._pattern_without_year

    def _auto(self, text: str) -> int:
        if not _NUMBER.fullmatch(text):
            return self._iso(text)
        whole = text.partition(".")[0]
        if len(whole) in _WRITTEN_DIGITS and _WRITTEN.match(whole):
            raise ValueError("could be a date and a time written together as well as a number: name its format")
        for digits, name in ((9, "epoch"), (12, "epoch-ms"), (15, "epoch-us"), (18, "epoch-ns")):
            if digits <= len(whole) < digits + 3:
                return _number(text, UNITS_PER_SECOND[name])
        raise ValueError("could be a number of seconds as well as a date: name its format")

    def _iso(self, text: str) -> int:
        return self._milliseconds(datetime.fromisoformat(text))

    def _pattern(self, text: str) -> int:
        return self._milliseconds(datetime.strptime(text, self._format))  # noqa: DTZ007 it may hold an offset

    def _pattern_without_year(self, text: str) -> int:
        previous = self._previous
        years = [self._year] if previous is None else [previous.year, previous.year + 1, previous.year - 1]
        candidates: list[datetime] = []
        fault: ValueError | None = None
        for year in years:
            try:
                candidates.append(datetime.strptime(f"{year} {text}", f"%Y {self._format}"))  # noqa: DTZ007  # it may hold an offset
            except ValueError as error:  # not this format, or 29 February of a year that has none
                fault = fault or error
        if not candidates:
            raise fault or ValueError("has no year")
        chosen = candidates[0] if previous is None else min(candidates, key=lambda each: abs(each - previous))
        self._previous = chosen
        return self._milliseconds(chosen)

    def _milliseconds(self, moment: datetime) -> int:
        if moment.tzinfo is None:
            moment = self._in_zone(moment)
        since = moment - _EPOCH
        if since >= _NO_TIME:  # else its row is a bad one, and tells nothing of the next
            self._last = since
        return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000

    def _in_zone(self, moment: datetime) -> datetime:
        """Else the two hours of one name, of which a log has one behind the other, would be mixed up row by row."""
        first = moment.replace(tzinfo=self._zone)
        if not self._has_doubles or self._last is None:
            return first
        second = first.replace(fold=1)
        # Where clocks are put forward a time that is not there has two offsets as well, the lower one first.
        if not (first.utcoffset() or _NO_TIME) > (second.utcoffset() or _NO_TIME):
            return first
        last = self._last
        return min(first, second, key=lambda each: abs(each - _EPOCH - last))


def _check_pattern(pattern: str) -> None:
    """Raises ValueError where no text could be read by it: else each row would be told as a bad one."""
    try:
        datetime.strptime("", pattern)  # noqa: DTZ007 nothing is made of it
    except re.error as error:
        raise ValueError(f"{pattern!r} has one directive twice") from error
    except ValueError as error:
        # That it does not match is no fault of the pattern's, and the only one that names the text.
        if not str(error).startswith("time data"):
            raise


def _number(text: str, units: int) -> int:
    """A number of which `units` make a second, as milliseconds, rounded down, without the rounding of a float."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("is not a number")
    whole, _, fraction = text.partition(".")
    if text.startswith("-"):
        return -1
    if len(whole) > _MOST_DIGITS:
        raise ValueError("has too many digits")
    return (int(whole) * 1_000 + (int((fraction + "000")[:3]) if units == 1 else 0)) // units
