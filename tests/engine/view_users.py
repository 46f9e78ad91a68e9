"""Processes that use a view with little address space, or are killed within a transaction of it."""

import os
import resource
import shutil
import signal
from pathlib import Path
from zlib import crc32

import lmdb

import diskstream
from diskstream import DiskFullError, StorageError
from diskstream.engine import view_map
from diskstream.engine.state import open_view
from tests.engine.children import say
from tests.engine.mounts import fill
from tests.engine.sample import SMALL

PENDING = 500


def _may_have(more_bytes: int) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more_bytes, most))


def deliver(path: str) -> None:
    """Delivers more than a log holds in memory, and looks at it, with less than the view maps elsewhere."""
    _may_have(1 << 30)
    with diskstream.open(path, **{**SMALL, "pending_rows": 1}) as store:
        stream = store.stream("x")
        group = stream.group("g", start="0")
        for _ in range(PENDING // 100):
            stream.add_many([{"n": "x" * 50}] * 100)
            group.consumer("c").read(count=100)
        say(len(group.pending_range(count=PENDING)))
        say(group.ack(*[each.id for each in group.pending_range(count=10)]))
        assert store._view is not None
        say(store._view._env is not None)


def grow(path: str) -> None:
    """Fills a view until it finds no address space for more."""
    view_map.FIRST_MAP_BYTES = 1 << 20
    view = open_view(Path(path) / "view")
    _may_have(48 << 20)
    put = 0

    def one_more(txn: lmdb.Transaction) -> None:
        key, chunk = b"%045d" % put, bytes(100_000)
        txn.put(key, crc32(chunk, crc32(key)).to_bytes(4, "little") + chunk)

    try:
        while True:
            view.write(one_more)
            put += 1
    except StorageError as error:
        say(error)
        say(error.hint)
    say(put > 50 and view.read(lambda txn: txn.stat()["entries"]) == put)
    _may_have(256 << 20)
    view.write(one_more)
    say(view.read(lambda txn: txn.stat()["entries"]) == put + 1)
    view.close()


def die_within(path: str) -> None:
    """Is killed while it looks at the view."""
    view = open_view(Path(path) / "view")

    def look(txn: lmdb.Transaction) -> None:
        txn.get(b"key")
        say("looks")
        os.kill(os.getpid(), signal.SIGKILL)

    view.read(look)


def look_on_a_full_disk(disk: str) -> None:
    """Opens a view for the first time, again and again, with some more room each time."""
    for blocks in range(16):
        path = Path(disk) / "s"
        with diskstream.open(path, **{**SMALL, "pending_rows": 1}) as store:
            stream = store.stream("x")
            group = stream.group("g", start="0")
            stream.add_many([{"n": "x"}] * PENDING)
            room = [bytes(4096)] * blocks
            kept = Path(disk) / "kept"
            kept.write_bytes(b"".join(room))
            filler = fill(Path(disk))
            kept.unlink()
            try:
                for _ in range(PENDING // 50):
                    group.consumer("c").read(count=50)
                found = len(group.pending_range(count=PENDING))
                say(found)
            except DiskFullError:
                say("full")
            filler.unlink()
            say(len(group.pending_range(count=PENDING)) + len(group.consumer("c").read(count=PENDING)))
        shutil.rmtree(path)
