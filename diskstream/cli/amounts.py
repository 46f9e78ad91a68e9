"""Options that are amounts with a unit: so many bytes, so long."""

from __future__ import annotations

import re
from typing import Final

import click

__all__ = ["SIZE", "SPAN"]

_NUMBER: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)")
_BYTES: Final = {"": 1, "b": 1, "k": 1000, "kb": 1000, "kib": 1 << 10, "m": 10**6, "mb": 10**6, "mib": 1 << 20}
_BYTES_MORE: Final = {"g": 10**9, "gb": 10**9, "gib": 1 << 30, "t": 10**12, "tb": 10**12, "tib": 1 << 40}
_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class _Amount(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click only
    """A number with one of some units, as an int of the smallest."""

    def __init__(self, name: str, units: dict[str, int], example: str, *, least: int) -> None:
        self.name, self._units, self._example, self._least = name, units, example, least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _NUMBER.fullmatch(str(value).strip())
        if match is None or match[2].lower() not in self._units:
            units = " ".join(unit for unit in self._units if unit)
            self.fail(f"{value!r} is no {self.name} as {self._example}; units are {units}", param, ctx)
        amount = int(float(match[1]) * self._units[match[2].lower()])
        if amount < self._least:
            self.fail(f"{value!r} is less than {self._least}", param, ctx)
        return amount


SIZE: Final = _Amount("size", {**_BYTES, **_BYTES_MORE}, "100MB", least=1)
SPAN: Final = _Amount("span", _MS, "30d", least=0)
