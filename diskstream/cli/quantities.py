"""Lengths of time and sizes as people write them, for options: `7d`, `10GiB`."""

from __future__ import annotations

import re
from typing import Any, Final

import click

__all__ = ["DURATION_MS", "SIZE_BYTES", "Quantity"]

_NUMBER = re.compile(r"(\d{1,19})(?:\.(\d{1,9}))?\s*([A-Za-z]*)", re.ASCII)
_TIMES: Final = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DECIMAL: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click, in others not
    """A positive number with a unit, in its smallest unit.

    A number alone is taken only where `bare` says in which unit: 7 for a time might be days to one and ms to another.
    """

    def __init__(self, name: str, units: dict[str, int], *, bare: str | None = None) -> None:
        self.name, self._units, self._bare = name, units, bare
        self._exact = {unit.lower(): size for unit, size in units.items()}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The quantity in its smallest unit.

        Raises:
            click.BadParameter: it is none, or less than the smallest unit, or over 2^63.
        """
        if isinstance(value, int):
            return value
        match = _NUMBER.fullmatch(value.strip())
        whole, part, unit = match.groups(default="") if match else ("", "", "")
        size = self._exact.get((unit or self._bare or "").lower())
        if match is None or size is None:
            self.fail(f"{value!r} is not a number with one of the units {', '.join(self._units)}", param, ctx)
        exact: int = int(whole + part) * size // 10 ** len(part)
        if not 1 <= exact < 1 << 63:
            self.fail(f"{value!r} is out of range", param, ctx)
        return exact


DURATION_MS = Quantity("duration", _TIMES)
SIZE_BYTES = Quantity("size", _DECIMAL | _BINARY, bare="B")
