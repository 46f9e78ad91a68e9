"""History out of a Redis, and back: `diskstream archive` and `restore`, read back and compared.

A Redis server on the same machine holds one stream of readings with four small fields. `diskstream archive` copies it
into a new store: each window is made durable, read back from its files, and compared by number and digest with what the
server sent. The loop is what one would write: redis-py, `XRANGE` with COUNT 1000 and `add_many` with those IDs, flushed
at the end; it reads nothing back. Restoring adds the entries with their IDs to the same server under another name,
reads them back and compares. Figures are entries a second from the first command to the last answer; server, archiver
and loop share the machine's cores.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import diskstream
from bench.context import Context
from bench.model import Figure, Result, Row, Target
from bench.peers import redis_server
from bench.rounds import Contender, take_turns
from diskstream.archiving import ArchiveOptions, Archiver, ArchiveReport, Server, restore_stream

NAME = "archive"
RATE = "entries/s"
KEY = redis_server.KEY.encode()
BACK = KEY + b":back"
FULL_ENTRIES = 400_000
LEAST_RATE = 150_000
ARCHIVE = "archive, read back"
LOOP = "redis-py xrange + add_many"
RESTORE = "restore, read back"


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    reason = redis_server.missing()
    if reason is not None:
        result.skipped.append(reason)
        return
    entries = min(FULL_ENTRIES, context.scale.entries)
    with ExitStack() as stack:
        server = stack.enter_context(redis_server.server(context, "no"))
        client = server.client(tcp=True)
        context.say(f"{entries:,} entries into Redis")
        redis_server.fill(server, _entries(entries))
        url = f"redis://127.0.0.1:{server.port}/0"
        kept = stack.enter_context(context.fresh("archive"))
        _archived(url, kept)
        contenders = [
            Contender(ARCHIVE, lambda: _archive(context, url, entries)),
            Contender(LOOP, lambda: _loop(context, client, entries)),
            Contender(RESTORE, lambda: _restore(kept, url, client, entries)),
        ]
        found = take_turns(context, contenders)
    target = Target("figure", at_least=LEAST_RATE)
    result.rows.append(Row("copy", Figure(RATE, found[ARCHIVE]), LOOP, Figure(RATE, found[LOOP]), target))
    result.rows.append(Row("put back", Figure(RATE, found[RESTORE])))


def _entries(count: int) -> Iterator[Sequence[bytes]]:
    chance = random.Random(20)
    for number in range(count):
        yield (
            b"%d-%d" % (1_700_000_000_000 + number // 3, number % 3),
            *(b"sensor-id", b"%d" % chance.randrange(1000, 10000)),
            *(b"temperature", b"%.1f" % chance.uniform(-20, 40)),
            *(b"humidity", b"%d" % chance.randrange(100)),
            *(b"battery", b"%.2f" % chance.uniform(3, 4)),
        )


def _archived(url: str, directory: Path) -> ArchiveReport:
    with Server(url) as server, diskstream.open(directory) as store:
        return Archiver(server, store, [KEY], ArchiveOptions()).run().reports[0]


def _archive(context: Context, url: str, entries: int) -> float:
    with context.fresh("archive") as directory:
        began = time.perf_counter()
        report = _archived(url, directory)
        seconds = time.perf_counter() - began
    assert report.is_good, report
    assert report.verified_entries == entries, report
    return entries / seconds


def _loop(context: Context, client: Any, entries: int) -> float:
    with context.fresh("archive") as directory:
        began = time.perf_counter()
        with diskstream.open(directory) as store:
            stream = store.stream(KEY)
            after, copied = "-", 0
            while page := client.xrange(KEY, min=after, max="+", count=1000):
                stream.add_many([fields for _, fields in page], ids=[entry_id for entry_id, _ in page])
                after = "(" + page[-1][0].decode()
                copied += len(page)
            store.sync()
        seconds = time.perf_counter() - began
    assert copied == entries, copied
    return entries / seconds


def _restore(kept: Path, url: str, client: Any, entries: int) -> float:
    client.delete(BACK)
    with diskstream.open(kept) as store, Server(url) as server:
        began = time.perf_counter()
        report = restore_stream(store.stream(KEY), server, key=BACK)
        seconds = time.perf_counter() - began
    client.delete(BACK)
    assert report is not None
    assert report.entries == entries, report
    return entries / seconds
