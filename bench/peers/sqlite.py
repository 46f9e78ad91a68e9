"""SQLite in WAL mode: a table with a column for each field, as one would make it for these entries."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.entries import Fields

INSERT = "INSERT INTO entry (sensor_id, temperature) VALUES (?, ?)"


@contextmanager
def database(path: Path, synchronous: str) -> Iterator[sqlite3.Connection]:
    """A new database in WAL mode; transactions are begun and committed by hand."""
    path.mkdir(parents=True)
    connection = sqlite3.connect(path / "entries.db", isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY, sensor_id TEXT, temperature TEXT)")
        yield connection
    finally:
        connection.close()


def values(rows: list[Fields]) -> list[tuple[str, ...]]:
    """The rows as parameters."""
    return [tuple(row.values()) for row in rows]


def row_step(connection: sqlite3.Connection, rows: list[tuple[str, ...]]) -> Callable[[], int]:
    """A step that inserts the rows, one transaction each."""

    def step() -> int:
        execute = connection.execute
        for row in rows:
            execute(INSERT, row)
        return len(rows)

    return step


def batch_step(connection: sqlite3.Connection, batches: Iterator[list[tuple[str, ...]]]) -> Callable[[], int]:
    """A step that inserts the next batch in one transaction."""

    def step() -> int:
        batch = next(batches)
        connection.execute("BEGIN")
        connection.executemany(INSERT, batch)
        connection.execute("COMMIT")
        return len(batch)

    return step


def range_step(connection: sqlite3.Connection) -> Callable[[], int]:
    """A step that reads everything and touches the ID and one column of each row."""

    def step() -> int:
        count = 0
        for row_id, _, temperature in connection.execute("SELECT id, sensor_id, temperature FROM entry ORDER BY id"):
            _id, _value = row_id, temperature
            count += 1
        return count

    return step
