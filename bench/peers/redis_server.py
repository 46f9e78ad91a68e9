"""A Redis server of our own, with its append-only file on the same file system, and what is asked of it.

It listens on a socket of its own and on a free port of the loopback interface; rewriting of the append-only file and
snapshots are off, which favours it. No server that runs already is touched.
"""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.context import Context
from bench.entries import Fields

KEY = "bench"
GROUP = "workers"
PAGE = 1000


def missing() -> str | None:
    """Why Redis cannot be a peer here, or nothing."""
    if shutil.which("redis-server") is None:
        return "Redis: redis-server is not installed"
    if find_spec("redis") is None or find_spec("hiredis") is None:
        return "Redis: the Python packages redis and hiredis are not installed"
    return None


@dataclass(frozen=True)
class Server:
    """A running server."""

    socket_path: Path
    port: int
    directory: Path

    def client(self, *, tcp: bool = False) -> Any:
        """A redis-py client, by the socket (the faster way) or by TCP on the loopback interface."""
        redis: Any = importlib.import_module("redis")
        if tcp:
            return redis.Redis(host="127.0.0.1", port=self.port, protocol=2)
        return redis.Redis(unix_socket_path=str(self.socket_path), protocol=2)

    def aof_bytes(self) -> int:
        """The size of the commands in the append-only file."""
        return sum(path.stat().st_size for path in self.directory.rglob("*.incr.aof"))


@contextmanager
def server(context: Context, appendfsync: str) -> Iterator[Server]:
    """A server with ``appendonly yes`` at one fsync policy, stopped and removed at the end."""
    with context.fresh("redis") as directory, tempfile.TemporaryDirectory(prefix="bench-") as sockets:
        directory.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        running = Server(Path(sockets) / "redis.sock", port, directory)
        settings = {
            "port": port,
            "bind": "127.0.0.1",
            "unixsocket": running.socket_path,
            "dir": directory,
            "save": "",
            "appendonly": "yes",
            "appendfsync": appendfsync,
            "auto-aof-rewrite-percentage": 0,
            "daemonize": "no",
            "logfile": directory / "redis.log",
        }
        command = ["redis-server", *(part for name, value in settings.items() for part in (f"--{name}", str(value)))]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_until_up(process, running)
            yield running
        finally:
            process.kill()
            process.wait()


def _wait_until_up(process: subprocess.Popen[bytes], running: Server) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if running.client().ping():
                return
        except (OSError, importlib.import_module("redis").RedisError):
            time.sleep(0.02)
    raise RuntimeError("redis-server did not come up")


def xadd_step(client: Any, rows: list[Fields]) -> Callable[[], int]:
    """A step that adds the rows, one call each."""

    def step() -> int:
        xadd = client.xadd
        for row in rows:
            xadd(KEY, row)
        return len(rows)

    return step


def fill(server: Server, entries: Iterable[Sequence[bytes]], size: int = 5000) -> int:
    """Adds entries (each an ID, or ``*``, then names and values) before a measurement; returns how many.

    Commands are written by hand: redis-py takes four times as long, and it is none of what is measured.
    """
    done = 0
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.socket_path))
        left = iter(entries)
        while batch := list(itertools.islice(left, size)):
            connection.sendall(b"".join([_command(b"XADD", KEY.encode(), *entry) for entry in batch]) + b"PING\r\n")
            answer = b""
            while not answer.endswith(b"+PONG\r\n"):
                received = connection.recv(1 << 20)
                if not received:
                    raise RuntimeError("the Redis server hung up")
                answer += received
            if answer.startswith(b"-") or b"\n-" in answer:
                raise RuntimeError(f"Redis took not all entries: {answer[:200]!r}")
            done += len(batch)
    return done


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def pipeline_step(client: Any, batches: Iterator[list[Fields]]) -> Callable[[], int]:
    """A step that adds the next batch through one pipeline, without MULTI."""

    def step() -> int:
        batch = next(batches)
        pipeline = client.pipeline(transaction=False)
        for row in batch:
            pipeline.xadd(KEY, row)
        pipeline.execute()
        return len(batch)

    return step


def range_step(client: Any) -> Callable[[], int]:
    """A step that reads the next page of XRANGE, round and round, and touches the ID and one field of each entry."""
    after = "-"

    def step() -> int:
        nonlocal after
        page = client.xrange(KEY, min=after, max="+", count=PAGE)
        for entry_id, fields in page:
            _id, _value = entry_id, fields[b"temperature"]
        after = "(" + page[-1][0].decode() if len(page) == PAGE else "-"
        return len(page)

    return step


def group_client(running: Server, *, mkstream: bool = True) -> Any:
    """A client, and a new group of the stream that gets what is added from now on."""
    client = running.client()
    client.xgroup_create(KEY, GROUP, id="$", mkstream=mkstream)
    return client


def benchmark(running: Server, seconds: float, *options: str) -> float:
    """The rate that ``redis-benchmark`` finds for XADD, over about `seconds`: sized by a short run before."""
    command = ["redis-benchmark", "-s", str(running.socket_path), *options, "--csv"]
    add = ["XADD", KEY, "*", "sensor-id", "1234", "temperature", "19.8"]
    requests = 2000
    while True:
        begin = time.perf_counter()
        done = subprocess.run([*command, "-n", str(requests), *add], capture_output=True, text=True, check=True)
        took = time.perf_counter() - begin
        found = float(next(csv.DictReader(io.StringIO(done.stdout)))["rps"])
        if took >= 0.7 * seconds or requests >= found * seconds:
            return found
        requests = max(int(found * seconds), 2 * requests)
