"""Options that are amounts with a unit: so many bytes, so long. All verbs take the same words for the same thing."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import click

__all__ = ["AGE", "IDLE", "RATE", "SIZE", "SIZE_OR_NOTHING", "SPAN"]

_MOST: Final = (1 << 63) - 1
_PART: Final = re.compile(r"(\d{1,19})(?:\.(\d{1,9}))?([a-z]*)", re.ASCII)
_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DECIMAL: Final = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}
_DECIMAL_MORE: Final = {"t": 10**12, "tb": 10**12}
_BINARY: Final = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_BYTES: Final = {**_DECIMAL, **_DECIMAL_MORE, **_BINARY}


class _Amount(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click only
    """Numbers with one of some units, added up, as an int of the smallest."""

    def __init__(self, name: str, units: dict[str, int], example: str, *, least: int, parts: int) -> None:
        self.name, self._units, self._example, self._least, self._parts = name, units, example, least, parts

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The amount.

        Raises:
            click.BadParameter: it is none, or too little, or over 2^63.
        """
        if isinstance(value, int):
            return value
        given = "".join(str(value).lower().split())
        parts = list(_PART.finditer(given))[: self._parts]
        if (
            not parts
            or "".join(part[0] for part in parts) != given
            or any(part[3] not in self._units for part in parts)
        ):
            units = " ".join(unit for unit in self._units if unit)
            self.fail(f"{value!r} is no {self.name} such as {self._example}; units are {units}", param, ctx)
        amount = sum(_exact(part, self._units[part[3]]) for part in parts)
        if not self._least <= amount <= _MOST:
            self.fail(f"{value!r} is out of range: it is to be from {self._least} to {_MOST:,}", param, ctx)
        return amount


def _exact(part: re.Match[str], unit: int) -> int:
    decimals = part[2] or ""
    whole: int = 10 ** len(decimals)
    return int(part[1] + decimals) * unit // whole


class _Idle(_Amount):
    """A length of time that is in milliseconds, as in Redis's commands, where no unit is said."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The amount.

        Raises:
            click.BadParameter: it is none, or too little, or over 2^63.
        """
        bare = isinstance(value, str) and value.isascii() and value.isdecimal()
        return super().convert(f"{value}ms" if bare else value, param, ctx)


class _Rate(click.FloatRange):
    """So much a second: a number that is neither about zero nor infinite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number.

        Raises:
            click.BadParameter: it is none, or out of range.
        """
        rate = float(super().convert(value, param, ctx))
        if not math.isfinite(rate):
            self.fail(f"{value} is no rate: leave the option out for no limit", param, ctx)
        return rate


# One in eleven days. Of what is next to zero the reciprocal, how long to wait for one, is infinite.
RATE: Final = _Rate(min=1e-6)
SIZE: Final = _Amount("size", _BYTES, "500MB or 10GiB", least=1, parts=1)
SIZE_OR_NOTHING: Final = _Amount("size", _BYTES, "500MB or 10GiB", least=0, parts=1)
SPAN: Final = _Amount("length of time", _MS, "90s, 1h30m or 7d", least=0, parts=8)
IDLE: Final = _Idle("length of time", _MS, "60000, which are ms, 90s or 1h30m", least=0, parts=8)
AGE: Final = _Amount("length of time", _MS, "90s, 1h30m or 7d", least=1, parts=8)
