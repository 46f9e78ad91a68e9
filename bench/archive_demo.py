"""History moved out of a Redis while it is in use: three streams with producers and groups, and an archiver killed.

    python -m bench.archive_demo --entries 2000000 --page docs/archiving-demo.md

Most of the entries are there at first; the rest is added while `diskstream archive --trim --follow` runs, is killed,
and is started again. In the end each entry that was ever added must be in the archive or at the source, once, and as it
was: counts and digests are compared, the latter by a way of their own (BLAKE2b of each entry, added up), on entries as
producers knew them and as `Stream.range` gives them. The rows are the sensor readings beside the checkout, over and
over; made up where they are not there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b, sha256
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import diskstream
from bench import machine
from bench.context import CHECKOUT, real_data
from bench.realdata import readings
from diskstream.archiving.restoring import RESTORING_PREFIX

KEYS = (b"plant:north", b"plant:south", b"plant:west")
GROUP = b"workers"
# Figures: what all of the server uses, and what the three streams take of it.
MEMORY = ("used_memory", "MEMORY USAGE")
AT_ONCE = 500
SHARE_BEFORE = 0.8
PAUSE_S = 0.02
MASK = (1 << 64) - 1
Words = tuple[bytes, ...]
HEAD = """# History moved out of a Redis in use: one run

<!-- Written by `python -m bench.archive_demo --page`: change bench/archive_demo.py, not this page. -->

Three streams of a redis-server, each with a group that has acknowledged everything, four fifths of their entries there
at the beginning; the rest is added while `diskstream archive --trim --follow` copies and trims, is killed by SIGKILL at
random, and is started again. In the end every entry that was ever added was looked for: each is in exactly one place,
the count and the digest of each stream agree with those of what was produced, and the Redis gave its memory back.
"""
TAIL = """Memory and sizes are in bytes. `used_memory` is all that the server uses, `MEMORY USAGE` is of the three keys.

The machine:
"""


@dataclass
class Sum:
    """Entries counted, and their digests added up."""

    entries: int = 0
    digest: int = 0

    def add(self, entry_id: bytes, words: Words) -> None:
        """Takes an entry in."""
        hashed = blake2b(b"\0".join((entry_id, *words)), digest_size=8)
        self.entries += 1
        self.digest = (self.digest + int.from_bytes(hashed.digest(), "little")) & MASK


@dataclass
class Demo:
    """One run, and what it found."""

    entries: int
    kills: int
    directory: Path
    quiet: bool = False
    figures: dict[str, float] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _killed: threading.Event = field(default_factory=threading.Event)
    _pool: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 2 * len(KEYS)))
    _made: dict[bytes, Sum] = field(default_factory=lambda: {key: Sum() for key in KEYS})

    def run(self) -> dict[str, float]:
        """Runs it. Returns figures; raises an `AssertionError` where an entry is not in exactly one place."""
        rows = _rows()
        with _redis(self.directory / "redis") as (url, client):
            for key in KEYS:
                client.execute_command("XGROUP", "CREATE", key, GROUP, "0", "MKSTREAM")
            each = -(-self.entries // len(KEYS))
            self._say("adding most of the entries")
            _joined(self._started(url, partial(self._produce, rows=rows, upto=int(each * SHARE_BEFORE))))
            _joined(self._started(url, self._consume_all))
            self._measure(client, "before")
            producers = self._started(url, partial(self._produce, rows=rows, upto=each, until=self._killed))
            consumers = self._started(url, self._consume)
            began = time.monotonic()
            try:
                self._killed_again_and_again(url, client)
            finally:
                self._killed.set()
                _joined(producers)
                self._stop.set()
                _joined(consumers)
            _joined(self._started(url, self._consume_all))
            self._archive(url, "--trim").communicate()
            self.figures["kills"] = self.kills
            self.figures["seconds with kills"] = time.monotonic() - began
            self._measure(client, "after")
            self._judge(client)
        return self.figures

    # --- traffic ------------------------------------------------------------------------------------------------------

    def _started(self, url: str, work: Callable[[Any, bytes], None]) -> list[Future[None]]:
        def with_client(key: bytes) -> None:
            import redis

            with redis.Redis.from_url(url, protocol=2) as client:
                work(client, key)

        return [self._pool.submit(with_client, key) for key in KEYS]

    def _produce(
        self, client: Any, key: bytes, *, rows: list[Words], upto: int, until: threading.Event | None = None
    ) -> None:
        """Adds with automatic IDs until the stream was given so many and, where it is given, an event is set."""
        made, source = self._made[key], cycle(rows)
        connection = client.connection_pool.get_connection()
        while made.entries < upto or (until is not None and not until.is_set()):
            some = list(islice(source, AT_ONCE))
            connection.send_packed_command(connection.pack_commands([("XADD", key, "*", *words) for words in some]))
            for words in some:
                made.add(connection.read_response(disable_decoding=True), words)
            if until is not None:
                until.wait(PAUSE_S)

    def _consume(self, client: Any, key: bytes) -> None:
        """The group is given everything and acknowledges it, until told to stop."""
        while not self._stop.is_set():
            self._consumed(client, key, 100)

    def _consume_all(self, client: Any, key: bytes) -> None:
        while self._consumed(client, key, None):
            pass

    def _consumed(self, client: Any, key: bytes, block: int | None) -> int:
        client.set_response_callback("XREADGROUP", lambda reply, **_options: reply)
        wait = () if block is None else ("BLOCK", block)
        words = ("XREADGROUP", "GROUP", GROUP, "one", "COUNT", 2000, *wait, "STREAMS", key, ">")
        reply = client.execute_command(*words)
        ids = [entry[0] for _, entries in reply or () for entry in entries]
        if ids:
            client.execute_command("XACK", key, GROUP, *ids)
        return len(ids)

    # --- the archiver -------------------------------------------------------------------------------------------------

    def _archive(self, url: str, *words: str) -> subprocess.Popen[str]:
        program = "from diskstream.cli import main; main()"
        command = [sys.executable, "-c", program, "archive", "--from", url, "--to", str(self.directory / "archive")]
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        return subprocess.Popen(
            [*command, "--key", "plant:*", "--json", *words], stdout=subprocess.PIPE, text=True, env=environment
        )

    def _killed_again_and_again(self, url: str, client: Any) -> None:
        chance = random.Random(1)
        for number in range(self.kills):
            process = self._archive(url, "--trim", "--follow")
            gone = _gone(client)
            while _gone(client) == gone and process.poll() is None:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.2))
            assert process.poll() is None, f"the archiver ended by itself:\n{process.communicate()[0]}"
            process.kill()
            process.communicate()
            self._say(f"kill {number + 1} of {self.kills}: {_gone(client):,} entries trimmed so far")

    # --- judging ------------------------------------------------------------------------------------------------------

    def _measure(self, client: Any, when: str) -> None:
        client.execute_command("MEMORY", "PURGE")
        streams = sum(client.memory_usage(key, samples=0) or 0 for key in KEYS)
        for name, found in zip(MEMORY, (client.info("memory")["used_memory"], streams), strict=True):
            self.figures[f"{name} {when}"] = found

    def _judge(self, client: Any) -> None:
        made = copied = left = 0
        with diskstream.open(self.directory / "archive", read_only=True) as store:
            size = 0
            for key in KEYS:
                found = Sum()
                for entry in store.stream(key).range():
                    found.add(bytes(entry.id), tuple(word for pair in entry.pairs for word in pair))
                copied += found.entries
                left += client.xlen(key)
                reply = client.execute_command("XRANGE", key, "-", "+", NEVER_DECODE=True)
                assert not reply, f"{key!r} has {len(reply):,} entries left, though every group has acknowledged all"
                assert found == self._made[key], f"{key!r}: produced {self._made[key]}, archived {found}"
                mark = json.loads(_checkpoint(self.directory / "archive", key).read_text(encoding="utf-8"))
                assert mark["verified_digest"] == str(store.stream(key).digest())
                assert mark["verified_entries"] == found.entries
                assert mark["missed_entries"] == 0
                made += self._made[key].entries
                size += store.stream(key).info().size_bytes
        assert not client.keys(RESTORING_PREFIX + b"*")
        self.figures |= {"produced": made, "archived": copied, "left at the source": left, "bytes on disk": size}
        assert made == copied + left
        # MEMORY USAGE is Redis's estimate; scripts and buffers of clients stay, which counts where little was moved.
        fell, moved = (self.figures[f"{of} before"] - self.figures[f"{of} after"] for of in MEMORY)
        assert fell >= moved / 2, f"the streams took {moved:,} bytes, and the server gives back {fell:,}"

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)


def _gone(client: Any) -> int:
    """Entries that are at the source no more."""
    found = [client.xinfo_stream(key) for key in KEYS]
    return sum(int(each["entries-added"]) - int(each["length"]) for each in found)


def _joined(work: list[Future[None]]) -> None:
    for each in work:
        each.result()


def _checkpoint(store: Path, key: bytes) -> Path:
    return store / "archives" / f"{sha256(key).hexdigest()}.json"


def _rows() -> list[Words]:
    data = real_data()
    if data is None:
        chance = random.Random(2)
        return [
            (b"sensor", b"%d" % chance.randrange(100), b"temperature", b"%.2f" % chance.uniform(-20, 40))
            for _ in range(5000)
        ]
    found = (row for stream in readings(data, with_timestamp=True) for row in stream.rows)
    return [tuple(word for name, value in row for word in (name.encode(), value)) for row in found]


@contextmanager
def _redis(directory: Path) -> Iterator[tuple[str, Any]]:
    import redis

    directory.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(directory)]
    process = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(port=port, protocol=2) as client:
            for _ in range(1000):
                try:
                    client.ping()
                    break
                except redis.RedisError:
                    time.sleep(0.01)
            yield f"redis://127.0.0.1:{port}/0", client
    finally:
        process.kill()
        process.wait()


def page(figures: Mapping[str, float], facts: Mapping[str, str]) -> str:
    """What a run found, and on what, as the page that the guide points to."""
    rows = [f"| {name} | {value:,.0f} |" for name, value in figures.items()]
    about = [f"| {name} | {value} |" for name, value in facts.items()]
    return "\n".join([HEAD, "| | |", "| --- | ---: |", *rows, "", TAIL, "| | |", "| --- | --- |", *about, ""])


def main() -> None:
    """Runs it on a disk, and prints the figures."""
    made = argparse.ArgumentParser(
        prog="python -m bench.archive_demo", description="Moves history out of a Redis in use."
    )
    made.add_argument("--entries", type=int, default=2_000_000, help="in all three streams (%(default)s)")
    made.add_argument("--kills", type=int, default=10, help="how often the archiver is killed (%(default)s)")
    made.add_argument("--dir", type=Path, default=CHECKOUT / "bench", help="where to put the store")
    made.add_argument("--page", type=Path, metavar="FILE", help="write the figures there, as a page")
    given = made.parse_args()
    directory = Path(tempfile.mkdtemp(prefix=".data-", dir=given.dir))
    try:
        facts, neighbours = machine.facts(directory), machine.Neighbours()
        figures = Demo(given.entries, given.kills, directory).run()
        facts["used by others meanwhile"] = f"{neighbours.cores():.2f} cores"
        for name, value in figures.items():
            print(f"{name:24} {value:>16,.0f}")
        print("each entry is in exactly one place, and is what was produced")
        if given.page:
            given.page.write_text(page(figures, facts), encoding="utf-8")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
