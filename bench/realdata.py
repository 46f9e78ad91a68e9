"""The real data beside the checkout, as entries with explicit IDs, the same for diskstream and for Redis."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class RealStream:
    """One stream: its name, and its entries with the IDs they are to have."""

    name: str
    ids: list[str]
    rows: list[list[tuple[str, bytes]]]


def _ids(times: Iterator[int]) -> list[str]:
    """Milliseconds as IDs; a time that stands still or steps back takes the next sequence number of the last one."""
    ids, last, sequence = [], -1, 0
    for ms in times:
        last, sequence = (ms, 0) if ms > last else (last, sequence + 1)
        ids.append(f"{last}-{sequence}")
    return ids


def _table(text: bytes) -> tuple[list[str], list[list[bytes]]]:
    """A CSV file as header and rows, whatever bytes are in it."""
    reader = csv.reader(io.StringIO(text.decode("utf-8", "surrogateescape"), newline=""))
    header = next(reader)
    return header, [[value.encode("utf-8", "surrogateescape") for value in row] for row in reader]


def _files(archive: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as opened:
        for name in sorted(opened.namelist()):
            if name.endswith(suffix):
                yield PurePosixPath(name).stem, opened.read(name)


def readings(data: Path, *, with_timestamp: bool) -> Iterator[RealStream]:
    """The sensor series: the timestamp is the ID; as a field too, since its text cannot be had from the ID, or not."""
    for name, text in _files(data / "nab.zip", ".csv"):
        header, table = _table(text)
        times = (datetime.fromisoformat(row[0].decode()).replace(tzinfo=UTC) for row in table)
        first = 0 if with_timestamp else 1
        rows = [list(zip(header[first:], row[first:], strict=True)) for row in table]
        yield RealStream(f"nab:{name}", _ids(int(time.timestamp() * 1000) for time in times), rows)


def _numbered(count: int) -> list[str]:
    """IDs for lines without a usable time: one a millisecond."""
    return [f"{1_700_000_000_000 + number}-0" for number in range(count)]


def structured_logs(data: Path) -> Iterator[RealStream]:
    """The system logs as columns, all of them kept."""
    for name, text in _files(data / "loghub.zip", ".csv"):
        header, table = _table(text)
        yield RealStream(
            f"columns:{name}", _numbered(len(table)), [list(zip(header, row, strict=True)) for row in table]
        )


def log_lines(data: Path) -> Iterator[RealStream]:
    """The system logs line by line, one field."""
    for name, text in _files(data / "loghub.zip", ".log"):
        lines = text.splitlines()
        yield RealStream(f"lines:{name}", _numbered(len(lines)), [[("line", line)] for line in lines])
