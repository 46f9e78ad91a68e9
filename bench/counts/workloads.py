"""The fixed workloads: what is prepared beforehand at full speed, and what is then run and counted."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import diskstream
from bench import ours
from bench.context import CHECKOUT
from bench.entries import sensor_entries

Run = Callable[[int], object]

ENTRIES = 20_000
BATCH = 100
PIPELINE = 100
RECOVERIES = 3
DAY_S = 86_400.0
GROUP, CONSUMER, FIELD = "workers", "one", "temperature"
ROWS = sensor_entries(2000)
# No thread beside the one that is counted: nothing flushes, seals or trims behind it.
ALONE: dict[str, Any] = {"fsync": "os", "seal": "manual", "retention_interval_ms": 0}
TORN = b"a frame that a crash cut short"


@dataclass(frozen=True)
class Workload:
    """One workload.

    Attributes:
        operations: how many are counted.
        warm: how many are run before that, so that the interpreter has specialised its code and caches are filled.
        prepare: makes what `opened` finds in the directory.
        opened: gives what runs a number of operations.
        what: one operation, in words.
    """

    operations: int
    warm: int
    prepare: Callable[[Path], object]
    opened: Callable[[Path], AbstractContextManager[Run]]
    what: str


def _nothing(_path: Path) -> None:
    """Prepares nothing."""


def _filled(path: Path, *, seal: bool = False, entries: int = ENTRIES) -> list[str]:
    """Fills the stream; the IDs."""
    found: list[str] = []
    with diskstream.open(path, **ALONE) as store:
        stream = store.stream(ours.NAME)
        for at in range(0, entries, BATCH):
            first = at % len(ROWS)
            found += [str(each) for each in stream.add_many(ROWS[first : first + BATCH])]
        if seal:
            stream.seal()
    return found


@contextmanager
def _adding(path: Path) -> Iterator[Run]:
    with diskstream.open(path, **ALONE) as store:
        add, rows = store.stream(ours.NAME).add, cycle(ROWS)

        def run(count: int) -> None:
            for _ in range(count):
                add(next(rows))

        yield run


@contextmanager
def _adding_batches(path: Path) -> Iterator[Run]:
    with diskstream.open(path, **ALONE) as store:
        add = store.stream(ours.NAME).add_many
        parts = cycle([ROWS[at : at + BATCH] for at in range(0, len(ROWS), BATCH)])

        def run(count: int) -> None:
            for _ in range(count // BATCH):
                add(next(parts))

        yield run


@contextmanager
def _ranging(path: Path) -> Iterator[Run]:
    with diskstream.open(path, **ALONE) as store:
        stream = store.stream(ours.NAME)

        def run(count: int) -> None:
            seen = 0
            for entry in stream.range(count=count):
                _id, _value = entry.id, entry[FIELD]
                seen += 1
            assert seen == count

        yield run


@contextmanager
def _seeking(path: Path) -> Iterator[Run]:
    # Without a cache each seek decodes its node, whichever came before it.
    with diskstream.open(path, **ALONE, cache_bytes=0) as store:
        stream = store.stream(ours.NAME)
        chance = random.Random(20)
        known = [str(entry.id) for entry in stream.range()][:: ENTRIES // 400]

        def run(count: int) -> None:
            for _ in range(count):
                assert stream.get(chance.choice(known)) is not None

        yield run


@contextmanager
def _sealing(path: Path) -> Iterator[Run]:
    with diskstream.open(path, **ALONE) as store:
        stream = store.stream(ours.NAME)

        def run(count: int) -> None:
            if count:
                assert stream.seal() >= 0

        yield run


def _with_group(path: Path) -> None:
    with diskstream.open(path, **ALONE) as store:
        group = store.stream(ours.NAME).group(GROUP, start="0")
        group.create_consumer(CONSUMER)
    _filled(path)


def _consuming(size: int) -> Callable[[Path], AbstractContextManager[Run]]:
    @contextmanager
    def opened(path: Path) -> Iterator[Run]:
        with diskstream.open(path, **ALONE) as store:
            group = store.stream(ours.NAME).group(GROUP)
            consumer = group.consumer(CONSUMER)

            def run(count: int) -> None:
                for _ in range(count // size):
                    ids = []
                    for entry in consumer.read(count=size):
                        _value = entry[FIELD]
                        ids.append(entry.id)
                    assert group.ack(*ids) == size

            yield run

    return opened


def _packed(*words: object) -> bytes:
    """A command as a client sends it."""
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def _serving(request: bytes, replies: int) -> Callable[[Path], AbstractContextManager[Run]]:
    """Turns of the server, each over one pipeline of one client: sending and receiving them is counted too."""

    @contextmanager
    def opened(path: Path) -> Iterator[Run]:
        from diskstream.server.serving import Server
        from diskstream.server.settings import ServerSettings

        settings = ServerSettings(dir=str(path), port=0, bind=("127.0.0.1",), appendfsync="no")
        with Server(settings) as server:
            client = socket.create_connection(("127.0.0.1", server.port))
            server.loop.turn()
            # What is done each second is more often done where the machine is busy: it is put off.
            server.loop._second = time.monotonic() + DAY_S
            # One for all turns: to map a fresh one each time would be the larger part of what the kernel does.
            received = bytearray(1 << 20)

            def run(count: int) -> None:
                for _ in range(count // replies):
                    client.send(request)
                    server.loop.turn()
                    assert client.recv_into(received) > 0
                    assert received[0] in b"$*:"

            with client:
                yield run

    return opened


def _opening(path: Path) -> AbstractContextManager[Run]:
    def run(count: int) -> None:
        for _ in range(count):
            with diskstream.open(path, **ALONE) as store:
                assert len(store.stream(ours.NAME)) > 0

    return nullcontext(run)


def _sealed_and_active(path: Path) -> None:
    _filled(path, seal=True)
    _filled(path, entries=ENTRIES // 10)


def _crashed(path: Path) -> None:
    """Copies of one store whose writer was killed, its last frame cut short: a recovery each."""
    whole = path / "0"
    subprocess.run([sys.executable, "-m", "bench.counts.child", "die", str(whole)], cwd=CHECKOUT, check=True)
    (log,) = whole.rglob("*.log")
    content = log.read_bytes().rstrip(b"\0")
    with log.open("r+b") as file:
        file.seek(len(content) - len(TORN))
        file.write(TORN)
    for number in range(1, RECOVERIES + 1):
        shutil.copytree(whole, path / str(number))


def die_while_writing(path: Path) -> None:
    """Fills a store and ends as a killed process does: nothing is closed."""
    stream = diskstream.open(path, **ALONE).stream(ours.NAME)
    ours.fill(stream, ROWS * (ENTRIES // len(ROWS)), BATCH)
    os._exit(0)


def _recovering(path: Path) -> AbstractContextManager[Run]:
    numbers = iter(range(RECOVERIES + 1))

    def run(count: int) -> None:
        for _ in range(count):
            with diskstream.open(path / str(next(numbers)), **ALONE) as store:
                assert len(store.stream(ours.NAME)) == ENTRIES - BATCH
                assert len(store.recoveries) == 1

    return nullcontext(run)


def _read_through_server() -> bytes:
    reading = _packed("XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT", 1, "STREAMS", ours.NAME, ">")
    return reading * PIPELINE


WORKLOADS: dict[str, Workload] = {
    "add": Workload(5000, 500, _nothing, _adding, "one `Stream.add`"),
    "add_many": Workload(20_000, 2000, _nothing, _adding_batches, f"an entry of `add_many` by {BATCH}"),
    "range": Workload(20_000, 2000, _filled, _ranging, "an entry of `range`, active segment"),
    "range_sealed": Workload(
        20_000, 2000, lambda path: _filled(path, seal=True), _ranging, "an entry of `range`, sealed segment"
    ),
    "seek": Workload(300, 50, lambda path: _filled(path, seal=True), _seeking, "one `get`, node not decoded"),
    "read_1": Workload(1000, 100, _with_group, _consuming(1), "one `read(count=1)` and its `ack`"),
    "read_100": Workload(10_000, 1000, _with_group, _consuming(100), "an entry of `read(count=100)` and one `ack`"),
    "seal": Workload(ENTRIES, 0, _filled, _sealing, "an entry sealed"),
    "server_xadd": Workload(
        5000,
        500,
        _nothing,
        _serving(_packed("XADD", ours.NAME, "*", FIELD, "19.8") * PIPELINE, PIPELINE),
        f"an XADD in a turn of {PIPELINE}",
    ),
    "server_xlen": Workload(
        5000,
        500,
        _filled,
        _serving(_packed("XLEN", ours.NAME) * PIPELINE, PIPELINE),
        f"an XLEN in a turn of {PIPELINE}",
    ),
    "server_xack": Workload(
        5000,
        500,
        _with_group,
        _serving(_packed("XACK", ours.NAME, GROUP, "1-1") * PIPELINE, PIPELINE),
        f"an XACK of what is not pending, in a turn of {PIPELINE}",
    ),
    "server_echo": Workload(
        2000,
        200,
        _nothing,
        _serving(_packed("ECHO", "x") * PIPELINE, PIPELINE),
        f"an ECHO, run by itself, of {PIPELINE} a turn",
    ),
    "server_xrange": Workload(
        2000,
        200,
        _filled,
        _serving(_packed("XRANGE", ours.NAME, "-", "+", "COUNT", BATCH), BATCH),
        f"an entry of XRANGE COUNT {BATCH}, a turn each",
    ),
    "server_xreadgroup": Workload(
        1000, 100, _with_group, _serving(_read_through_server(), PIPELINE), f"an XREADGROUP in a turn of {PIPELINE}"
    ),
    "open": Workload(10, 2, _sealed_and_active, _opening, "one `open`, `len` and `close`"),
    "recovery": Workload(RECOVERIES, 1, _crashed, _recovering, "one `open` after a crash, an active segment of 20,000"),
}
