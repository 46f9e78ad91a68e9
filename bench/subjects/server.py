"""Redis clients: `diskstream serve` beside redis-server, driven by redis-benchmark.

Both servers run at once, each with a directory on the same file system and the same fsync policy (everysec; Redis with
its append-only file, not rewritten meanwhile), and take turns; `redis-benchmark` has 50 clients on the loopback
interface, and shares the machine's cores with the server that it asks. -P is how many commands a client sends before
it reads replies. Entries have one field. XRANGE reads the first 100 entries of those added before. XREADGROUP reads one
new entry for one consumer, and XACK acknowledges an entry that is not pending. A figure is the rate that
redis-benchmark finds.
"""

from __future__ import annotations

import csv
import io
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.context import Context
from bench.model import Figure, Result, Row, Target
from bench.peers import redis_server
from bench.rounds import Contender, take_turns

NAME = "server"
CLIENTS = 50
KEY = "bench"
GROUP = "workers"
FULL_ENTRIES = 300_000
PATIENCE_S = 60.0
ADD = ("XADD", KEY, "*", "temperature", "19.8")
# The case, commands before a client reads, the command, what counts, and how many of it make a second or so.
CASES: tuple[tuple[str, int, tuple[str, ...], float | None, int], ...] = (
    ("XADD", 1, ADD, 0.5, 50_000),
    ("XADD", 16, ADD, 1.0, 400_000),
    ("XADD", 128, ADD, 1.0, 1_000_000),
    ("XLEN", 1, ("XLEN", KEY), 0.5, 50_000),
    ("XLEN", 16, ("XLEN", KEY), 1.0, 300_000),
    ("XRANGE COUNT 100", 1, ("XRANGE", KEY, "-", "+", "COUNT", "100"), 0.5, 10_000),
    ("XRANGE COUNT 100", 16, ("XRANGE", KEY, "-", "+", "COUNT", "100"), 1.0, 20_000),
    (
        "XREADGROUP COUNT 1",
        1,
        ("XREADGROUP", "GROUP", GROUP, "one", "COUNT", "1", "STREAMS", KEY, ">"),
        0.5,
        20_000,
    ),
    (
        "XREADGROUP COUNT 1",
        16,
        ("XREADGROUP", "GROUP", GROUP, "one", "COUNT", "1", "STREAMS", KEY, ">"),
        1.0,
        40_000,
    ),
    ("XACK", 1, ("XACK", KEY, GROUP, "1-1"), 0.5, 30_000),
    ("XACK", 16, ("XACK", KEY, GROUP, "1-1"), 1.0, 300_000),
)


def run(context: Context, result: Result) -> None:
    """Starts both servers, takes turns, and puts the rows into `result`."""
    reason = redis_server.missing()
    if reason is not None:
        result.skipped.append(reason)
        return
    with our_server(context) as port, redis_server.server(context, "everysec") as theirs:
        ports = {"diskstream": port, "Redis": theirs.port}
        for name, each in ports.items():
            context.say(f"{name}: entries to be read")
            _rate(each, 128, ADD, max(1000, min(FULL_ENTRIES, context.scale.entries)))
            _said(each, "XGROUP", "CREATE", KEY, GROUP, "0")
        contenders = [
            Contender(f"{name} {case} {pipeline}", _turn(each, pipeline, words, requests, context))
            for case, pipeline, words, _, requests in CASES
            for name, each in ports.items()
        ]
        found = take_turns(context, contenders)
    for case, pipeline, _, least, _ in CASES:
        ours, peer = (Figure("/s", found[f"{name} {case} {pipeline}"]) for name in ports)
        target = None if least is None else Target("ratio", at_least=least)
        result.rows.append(Row(f"{case}, -P {pipeline}", ours, "Redis", peer, target))


def _turn(port: int, pipeline: int, words: tuple[str, ...], requests: int, context: Context) -> Callable[[], float]:
    scaled = max(pipeline * CLIENTS, int(requests * min(1.0, context.seconds / 2)))
    return lambda: _rate(port, pipeline, words, scaled)


def _rate(port: int, pipeline: int, words: tuple[str, ...], requests: int) -> float:
    command = [
        "redis-benchmark",
        "-p",
        str(port),
        "-c",
        str(CLIENTS),
        "-P",
        str(pipeline),
        "-n",
        str(requests),
        "--csv",
    ]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return float(next(csv.DictReader(io.StringIO(done.stdout)))["rps"])


def _said(port: int, *words: str) -> None:
    subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, check=True, timeout=PATIENCE_S)


@contextmanager
def our_server(context: Context) -> Iterator[int]:
    """Our server in a process of its own; gives its port."""
    with context.fresh("server") as directory:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        program = Path(sys.executable).with_name("diskstream")
        command = [str(program), "serve", "--dir", str(directory), "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--fsync", "everysec"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_until_up(process, port)
            yield port
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def _wait_until_up(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("diskstream serve did not come up")
