"""What runs in the other processes: ``python -m bench.child ROLE JSON-ARGUMENTS``, spoken to as in ``bench.procs``.

A role is a generator: it sets up, yields once when it is ready, measures after that, and returns its answer.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Generator
from itertools import count
from pathlib import Path
from typing import Any

import diskstream
from bench import ours
from bench.subjects.group_latency_roles import LATENCY_ROLES

Role = Callable[..., Generator[None, None, Any]]


def append_always(path: str, seconds: float) -> Generator[None, None, Any]:
    """One of several processes that append to one stream, each entry durable when its call returns."""
    from bench.subjects.always import add_until

    with diskstream.open(path, fsync="always") as store:
        stream = store.stream(ours.NAME)
        len(stream)
        yield
        done = add_until(stream, time.monotonic() + seconds)
        return {"count": done, "end": time.monotonic()}


def wake_reader(path: str, after: str, wakes: int) -> Generator[None, None, Any]:
    """Blocks for each entry in turn; the µs from the clock in the entry to having it."""
    with diskstream.open(path) as store:
        stream = store.stream(ours.NAME)
        stream.read(after)
        yield
        waits: list[float] = []
        while len(waits) < wakes:
            entries = stream.read(after, block=5.0)
            for entry in entries:
                waits.append((time.monotonic_ns() - int(entry["t"])) / 1000)
                after = str(entry.id)
        return waits


def wake_reader_redis(socket_path: str, after: str, wakes: int) -> Generator[None, None, Any]:
    """The same through redis-py."""
    redis: Any = importlib.import_module("redis")
    from bench.peers.redis_server import KEY

    client = redis.Redis(unix_socket_path=socket_path, protocol=2)
    client.ping()
    yield
    waits: list[float] = []
    while len(waits) < wakes:
        for _, entries in client.xread({KEY: after}, block=5000):
            for entry_id, fields in entries:
                waits.append((time.monotonic_ns() - int(fields[b"t"])) / 1000)
                after = entry_id
    return waits


def build_large(path: str, entries: int) -> Generator[None, None, Any]:
    """Builds a store of many entries."""
    from bench.subjects.large_store import build

    yield
    return build(path, entries)


def probe_large(path: str, known: list[str], chance: int) -> Generator[None, None, Any]:
    """Opens a store as a new process does, and reads points of it."""
    from bench.subjects.large_store import probe

    yield
    return probe(path, known, chance)


def pending_build(path: str, entries: int, pending: int, place: str) -> Generator[None, None, Any]:
    """Builds a store with a group that has much pending."""
    from bench.subjects.pending_store import build

    yield
    return build(path, entries, pending, place)


def pending_probe(path: str, known: dict[str, Any]) -> Generator[None, None, Any]:
    """Opens such a store as a new process does; summaries and claims."""
    from bench.subjects.pending_store import probe

    yield
    return probe(path, known)


def pending_rebuild(path: str, known: dict[str, Any], chance: int) -> Generator[None, None, Any]:
    """Opens such a store, whose view is gone, and asks for what only the view tells."""
    from bench.subjects.pending_store import rebuild

    yield
    return rebuild(path, known, chance)


def spark_large(place: str, entries: int) -> Generator[None, None, Any]:
    """Builds a store of many entries and takes it through Spark."""
    from bench.subjects.spark_large import pass_through

    yield
    return pass_through(place, entries)


def append_for_ever(path: str) -> Generator[None, None, Any]:
    """Appends until it is killed."""
    from bench.subjects.large_store import pool

    rows = pool()
    with diskstream.open(path, fsync="everysec") as store:
        stream = store.stream(ours.NAME)
        stream.add_many(rows[:500])
        yield
        for number in count():
            at = number * 500 % (len(rows) - 500)
            stream.add_many(rows[at : at + 500])


def range_and_weigh(path: str, known: list[str]) -> Generator[None, None, Any]:
    """Reads points and then everything; the most memory that was resident, in KiB."""
    from bench.subjects.growth_costs import ALONE
    from bench.subjects.large_store import resident_kib

    yield
    with diskstream.open(path, **ALONE) as store:
        stream = store.stream(ours.NAME)
        for each in known:
            stream.get(each)
        for entry in stream.range():
            _id = entry.id
        return resident_kib()


def back_up_for_ever(path: str, target: str, bytes_per_s: int) -> Generator[None, None, Any]:
    """Makes backups one after the other, until it is killed."""
    from bench.subjects.backup import back_up

    yield
    while True:
        back_up(Path(path), Path(target), bytes_per_s)


ROLES: dict[str, Role] = {
    role.__name__: role
    for role in (
        append_always,
        wake_reader,
        wake_reader_redis,
        build_large,
        probe_large,
        pending_build,
        pending_probe,
        pending_rebuild,
        spark_large,
        append_for_ever,
        range_and_weigh,
        back_up_for_ever,
        *LATENCY_ROLES,
    )
}


def main() -> int:
    """Runs the role that the command line names."""
    role = ROLES[sys.argv[1]](*json.loads(sys.argv[2]))
    next(role)
    print("ready", flush=True)
    if not sys.stdin.readline():
        return 1
    try:
        next(role)
    except StopIteration as done:
        print(json.dumps(done.value), flush=True)
        return 0
    raise RuntimeError("a role yields once")


if __name__ == "__main__":
    sys.exit(main())
