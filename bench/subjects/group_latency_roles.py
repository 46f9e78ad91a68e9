"""The processes of the latency test: a producer that keeps time, and consumers that block; diskstream and Redis."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable, Generator
from typing import Any

import diskstream
from bench import ours
from bench.peers import redis_server

GROUP = "workers"
STOP = "stop"
BLOCK_S = 10.0


def group_consumer(path: str, name: str) -> Generator[None, None, Any]:
    """Blocks for one entry at a time and acknowledges it; the µs from the clock in each to having it."""
    with diskstream.open(path, fsync="everysec") as store:
        group = store.stream(ours.NAME).group(GROUP, create=False)
        consumer = group.consumer(name)
        consumer.read(count=1)
        yield
        gc.disable()
        delays: list[float] = []
        while True:
            for entry in consumer.read(count=1, block=BLOCK_S):
                now = time.monotonic_ns()
                added = entry["t"]
                group.ack(entry.id)
                if added == STOP.encode():
                    return delays
                delays.append((now - int(added)) / 1000)


def group_consumer_redis(socket_path: str, name: str) -> Generator[None, None, Any]:
    """The same through redis-py."""
    return _consume(_redis(unix_socket_path=socket_path), name)


def group_consumer_tcp(port: int, name: str) -> Generator[None, None, Any]:
    """The same through redis-py by TCP, from whichever server."""
    return _consume(_redis(host="127.0.0.1", port=port), name)


def _redis(**where: Any) -> Any:
    redis: Any = importlib.import_module("redis")
    return redis.Redis(**where, protocol=2)


def _consume(client: Any, name: str) -> Generator[None, None, Any]:
    new = {redis_server.KEY: ">"}
    client.xreadgroup(redis_server.GROUP, name, new, count=1)
    yield
    gc.disable()
    delays: list[float] = []
    while True:
        for _, entries in client.xreadgroup(redis_server.GROUP, name, new, count=1, block=int(BLOCK_S * 1000)):
            now = time.monotonic_ns()
            for entry_id, fields in entries:
                client.xack(redis_server.KEY, redis_server.GROUP, entry_id)
                if fields[b"t"] == STOP.encode():
                    return delays
                delays.append((now - int(fields[b"t"])) / 1000)


def _produce(add: Callable[[dict[str, str]], object], per_second: int, seconds: float, consumers: int) -> Any:
    """Adds on time, or as soon as it can; at last one entry for each consumer that ends it."""
    gc.disable()
    period = 1e9 / per_second
    begin = time.monotonic_ns()
    added = 0
    while (now := time.monotonic_ns()) < begin + seconds * 1e9:
        due = begin + added * period
        if now < due:
            time.sleep((due - now) / 1e9)
            continue
        add({"t": str(time.monotonic_ns())})
        added += 1
    took = (time.monotonic_ns() - begin) / 1e9
    for _ in range(consumers):
        add({"t": STOP})
    return {"added": added, "seconds": took}


def group_producer(path: str, per_second: int, seconds: float, consumers: int) -> Generator[None, None, Any]:
    """Adds entries at a steady rate, each with the clock in it."""
    with diskstream.open(path, fsync="everysec") as store:
        stream = store.stream(ours.NAME)
        len(stream)
        yield
        return _produce(stream.add, per_second, seconds, consumers)


def group_producer_redis(
    socket_path: str, per_second: int, seconds: float, consumers: int
) -> Generator[None, None, Any]:
    """The same through redis-py."""
    return _feed(_redis(unix_socket_path=socket_path), per_second, seconds, consumers)


def group_producer_tcp(port: int, per_second: int, seconds: float, consumers: int) -> Generator[None, None, Any]:
    """The same through redis-py by TCP, into whichever server."""
    return _feed(_redis(host="127.0.0.1", port=port), per_second, seconds, consumers)


def _feed(client: Any, per_second: int, seconds: float, consumers: int) -> Generator[None, None, Any]:
    client.ping()
    yield
    return _produce(lambda fields: client.xadd(redis_server.KEY, fields), per_second, seconds, consumers)


LATENCY_ROLES = (
    group_consumer,
    group_consumer_redis,
    group_consumer_tcp,
    group_producer,
    group_producer_redis,
    group_producer_tcp,
)
