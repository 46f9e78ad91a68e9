"""What a rollup is told, and the names of the columns that it makes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from diskstream.errors import ArgumentError
from diskstream.spark.options import ReadOptions

__all__ = ["QUANTILES", "Settings"]

QUANTILES = (0.5, 0.95, 0.99)
_BASICS = ("count", "min", "max", "sum", "mean")
_LONGEST_MS = 366 * 86_400_000


@dataclass(frozen=True)
class Settings:
    """A rollup of streams into windows.

    Attributes:
        path: the store's directory.
        streams: names of the streams; none of them: all, or those of `pattern`.
        pattern: streams whose names match, with ``*``, ``?`` and ``[]``.
        window_ms: length of a window in ms; windows begin at multiples of it since 1970 (UTC).
        fields: numeric fields to aggregate.
        by: fields to group by, whatever their values; an entry without one is in the group of those without.
        time_field: the field with the entry's time, ISO 8601 or ms since 1970; none: the time of its ID.
        quantiles: from 0 to 1; none of them: the fastest way.
        since_ms, until_ms: only entries with IDs from, and before, these times.
        lateness_ms: how long after its end a window is waited for until it counts as complete: for a `time_field`, or
            IDs that are given, as of a copy that is behind.
        output: Parquet file to write, in a directory that is there.
        to_stream: stream of the same store to add complete windows to, an entry each.
        chart: picture (PNG) to draw.
        dry_run: say what would be read, and do nothing.
        quiet: show no progress.
    """

    path: str
    streams: tuple[bytes, ...] = ()
    pattern: str = ""
    window_ms: int = 60_000
    fields: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    time_field: str = ""
    quantiles: tuple[float, ...] = QUANTILES
    since_ms: int | None = None
    until_ms: int | None = None
    lateness_ms: int = 0
    output: Path | None = None
    to_stream: bytes | None = None
    chart: Path | None = None
    dry_run: bool = False
    quiet: bool = field(default=False, compare=False)

    def check(self) -> "Settings":
        """What the settings say together.

        Raises:
            ArgumentError: nothing to aggregate, a name that is used twice, a length or quantile out of bounds.
        """
        if not 1 <= self.window_ms <= _LONGEST_MS:
            raise ArgumentError(f"a window is 1 ms to 366 days long, not {self.window_ms} ms")
        if not self.fields:
            raise ArgumentError("a rollup needs at least one numeric field to aggregate")
        if self.streams and self.pattern:
            raise ArgumentError("name the streams, or give a pattern, not both")
        named = [*self.fields, *self.by, *([self.time_field] if self.time_field else [])]
        columns = ["stream", *self.by, "window_start", "window_end", "entries", *self.outcomes()]
        for kind, names in (("field", named), ("column", columns)):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ArgumentError(f"the {kind} {twice} would stand for two things")
        for each in self.quantiles:
            if not 0 <= each <= 1:
                raise ArgumentError(f"a quantile is from 0 to 1, as 0.99, not {each}")
        if self.to_stream is not None and self.to_stream in self.streams:
            raise ArgumentError("the stream that windows go to cannot be one of those that are read")
        return self

    @property
    def quantile_names(self) -> tuple[str, ...]:
        """``p50`` of 0.5, ``p99_9`` of 0.999; with as many digits as tell a quantile next to 1 from the maximum."""
        return tuple(f"p{each * 100:.12g}".replace(".", "_") for each in self.quantiles)

    def outcomes(self) -> Iterator[str]:
        """The columns of aggregates, in order."""
        for name in self.fields:
            for each in (*_BASICS, *self.quantile_names):
                yield f"{name}_{each}"

    def columns(self) -> list[tuple[str, str]]:
        """What to scan: the fields, those to group by, the time."""
        numbers = [(name, "double") for name in self.fields]
        time = [(self.time_field, "timestamp")] if self.time_field else []
        return [*numbers, *((name, "binary") for name in self.by), *time]

    def reading(self) -> ReadOptions:
        """The same as options of a read."""
        return ReadOptions(
            path=self.path,
            streams=self.streams,
            stream_pattern=self.pattern,
            starting_timestamp=self.since_ms,
            ending_timestamp=self.until_ms,
            lease=not self.dry_run,
        ).check()
