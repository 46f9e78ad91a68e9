"""Queues within one process that one would use instead: what each of them puts, takes and acknowledges."""

from __future__ import annotations

import importlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import lmdb

from bench.entries import Fields

LMDB_BYTES = 1 << 30


@dataclass(frozen=True)
class Queue:
    """A queue: `put` adds an entry, `take` takes the oldest that nobody has and acknowledges it; one of its fields."""

    put: Callable[[Fields], object]
    take: Callable[[], str]


def persist_queue_missing() -> str | None:
    """Why persist-queue cannot be a peer here, or nothing."""
    return None if find_spec("persistqueue") else "persist-queue is not installed"


@contextmanager
def sqlite_queue(path: Path, field: str) -> Iterator[Queue]:
    """A table in WAL mode with synchronous=NORMAL: inserted, marked as taken, deleted; a transaction each."""
    path.mkdir(parents=True)
    connection = sqlite3.connect(path / "queue.db", isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY AUTOINCREMENT, fields TEXT, taken INTEGER)")
        connection.execute("CREATE INDEX untaken ON entry (id) WHERE taken = 0")

        def put(fields: Fields) -> None:
            connection.execute("INSERT INTO entry (fields, taken) VALUES (?, 0)", (json.dumps(fields),))

        def take() -> str:
            oldest = "(SELECT id FROM entry WHERE taken = 0 ORDER BY id LIMIT 1)"
            marked = f"UPDATE entry SET taken = 1 WHERE id = {oldest} RETURNING id, fields"
            ((row, fields),) = connection.execute(marked).fetchall()
            connection.execute("DELETE FROM entry WHERE id = ?", (row,))
            return str(json.loads(fields)[field])

        yield Queue(put, take)
    finally:
        connection.close()


@contextmanager
def lmdb_queue(path: Path, field: str) -> Iterator[Queue]:
    """LMDB alone, without flushes: entries by number, those taken in a second table until they are acknowledged."""
    path.mkdir(parents=True)
    with lmdb.open(str(path), map_size=LMDB_BYTES, max_dbs=2, sync=False, metasync=False) as environment:
        waiting, taken = environment.open_db(b"waiting"), environment.open_db(b"taken")
        last = 0

        def put(fields: Fields) -> None:
            nonlocal last
            last += 1
            with environment.begin(db=waiting, write=True) as transaction:
                transaction.put(last.to_bytes(8, "big"), json.dumps(fields).encode(), append=True)

        def take() -> str:
            with environment.begin(write=True) as transaction:
                cursor = transaction.cursor(waiting)
                if not cursor.first():
                    raise RuntimeError("the queue is empty")
                key, fields = cursor.item()
                transaction.put(key, fields, db=taken)
                cursor.delete()
            found = json.loads(fields)[field]
            with environment.begin(db=taken, write=True) as transaction:
                transaction.delete(key)
            return str(found)

        yield Queue(put, take)


@contextmanager
def persist_queue(path: Path, field: str) -> Iterator[Queue]:
    """persist-queue's SQLiteAckQueue with its defaults, and JSON as above."""
    found = importlib.import_module("persistqueue")
    serializer = importlib.import_module("persistqueue.serializers.json")
    queue = found.SQLiteAckQueue(str(path), serializer=serializer)
    try:

        def take() -> str:
            fields = queue.get(block=False)
            queue.ack(fields)
            return str(fields[field])

        yield Queue(queue.put, take)
    finally:
        queue.close()
