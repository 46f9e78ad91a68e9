"""Times that have passed, for people."""

from __future__ import annotations

from typing import Final

# Up to so many ms, in this unit of so many ms. Twice the next unit: "90 s" says more than "1.5 min".
_UNITS: Final = ((2000, "ms", 1), (120_000, "s", 1000), (7_200_000, "min", 60_000), (172_800_000, "h", 3_600_000))


def duration(ms: int) -> str:
    """Milliseconds in the unit that suits them."""
    for limit, unit, size in _UNITS:
        if ms < limit:
            return f"{ms / size:,.1f} {unit}" if size > 1 else f"{ms} {unit}"
    return f"{ms / 86_400_000:,.1f} d"
