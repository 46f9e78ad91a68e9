"""Options that are a place in a stream: an ID, or a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import click

import diskstream
from diskstream.ids import MAX_ID, parse_end, parse_start

__all__ = ["END", "START"]


class _Moment(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click only
    """An ID as `range` takes it, or a time of ISO 8601, of UTC where it says nothing else."""

    name = "ID|TIME"

    def __init__(self, *, upper: bool) -> None:
        self._upper = upper

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> diskstream.EntryID:
        if isinstance(value, diskstream.EntryID):
            return value
        try:
            return parse_end(str(value)) if self._upper else parse_start(str(value))
        except diskstream.ArgumentError:
            try:
                found = datetime.fromisoformat(str(value))
            except ValueError:
                self.fail(
                    f"{value!r} is neither an ID (as 1700000000000-0) nor a time (as 2024-05-01T12:00Z)", param, ctx
                )
        at = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        ms = int(at.timestamp() * 1000)
        if ms < 0:
            self.fail(f"{value!r} is before 1970", param, ctx)
        return diskstream.EntryID(ms, MAX_ID.seq if self._upper else 0)


START: Final = _Moment(upper=False)
END: Final = _Moment(upper=True)
