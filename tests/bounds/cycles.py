"""The cycles: each does some operations, and leaves the store as it found it."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import diskstream
from diskstream import DiskstreamError, Store
from diskstream.cold import bring_back, move_out
from diskstream.compat import Redis
from tests.server.client import Client, serving

__all__ = ["CYCLES", "Cycle"]

# Caches are so small that they are full when the warm-up ends.
SMALL: dict[str, Any] = {
    "segment_bytes": 16 << 10,
    "node_max_entries": 16,
    "cache_bytes": 32 << 10,
    "pending_rows": 8,
    "max_open_streams": 16,
    "retention_interval_ms": 0,
    "seal": "manual",
    "fsync": "os",
}

Cycle = Callable[[], int]  # does it once, and returns how many operations that were


def _opened(path: Path, **options: Any) -> Store:
    return diskstream.open(path / "store", **{**SMALL, **options})


@contextlib.contextmanager
def entries(path: Path) -> Iterator[tuple[Cycle, Store]]:
    """Adds, reads, ranges, deletes, seals, compacts and trims."""
    with _opened(path) as store:
        stream = store.stream("x")

        def cycle() -> int:
            for number in range(60):
                stream.add({"n": number, "pad": "." * 100})
            ids = stream.add_many([{"n": number} for number in range(40)])
            assert sum(1 for _ in stream.range()) == 100
            stream.read("0", count=10)
            stream.info()
            stream.delete(*ids[::2])
            stream.seal()
            stream.compact()
            list(stream.revrange(count=30))
            stream.to_arrow()
            stream.trim(maxlen=0)
            stream.seal()
            return 110

        yield cycle, store


@contextlib.contextmanager
def groups(path: Path) -> Iterator[tuple[Cycle, Store]]:
    """A group is made, read, claimed, acknowledged, given back and destroyed."""
    with _opened(path) as store:
        stream = store.stream("x")

        def cycle() -> int:
            stream.add_many([{"n": number} for number in range(60)])
            group = stream.group("g", start="0")
            alice, bob = group.consumer("alice"), group.consumer("bob")
            for _ in range(20):
                alice.read(count=3)
            bob.autoclaim(0, count=20)
            pending = group.pending_range(count=60)
            for each in pending[:30]:
                group.ack(each.id)
            for each in pending[30:]:
                bob.claim(each.id)
            group.nack(*(each.id for each in pending[30:40]))
            alice.read("0")
            group.info()
            stream.seal()
            group.delete_consumer("bob")
            group.destroy()
            stream.trim(maxlen=0)
            stream.seal()
            return 90

        yield cycle, store


@contextlib.contextmanager
def streams(path: Path) -> Iterator[tuple[Cycle, Store]]:
    """More streams than may be open are made, listed, renamed and removed."""
    with _opened(path) as store:

        def cycle() -> int:
            for number in range(24):
                store.stream(f"s{number}").add({"n": number})
            assert len(store.streams()) == 24
            for number in range(24):
                assert len(store.stream(f"s{number}")) == 1
            for number in range(0, 24, 4):
                store.rename(f"s{number}", f"t{number}")
            for name in store.streams():
                store.delete(name)
            store.recoveries.clear()
            return 80

        yield cycle, store


@contextlib.contextmanager
def openings(path: Path) -> Iterator[tuple[Cycle, Store | None]]:
    """The store is opened, used and closed; also for reading only."""
    with _opened(path) as store:
        store.stream("x").add({"n": 0})

    def cycle() -> int:
        for _ in range(6):
            with _opened(path, fsync="interval=1000", seal="background") as store:
                stream = store.stream("x")
                stream.add({"n": 1})
                stream.trim(maxlen=1)
                next(stream.range())
        with _opened(path) as store:
            store.seal()
        for _ in range(4):
            with diskstream.open(path / "store", read_only=True) as store:
                list(store.stream("x").range())
        return 24

    yield cycle, None


@contextlib.contextmanager
def waits(path: Path) -> Iterator[tuple[Cycle, Store]]:
    """Readers wait in vain, and are woken from another thread."""
    with _opened(path) as store:
        stream = store.stream("x")
        stream.add({"n": 0})

        def cycle() -> int:
            last = stream.last_id()
            for _ in range(20):
                assert stream.read(last, block=0.001) == []
            found: list[Any] = []
            readers = [
                threading.Thread(target=lambda: found.extend(stream.read(last, block=20.0)), name=f"reader {number}")
                for number in range(4)
            ]
            for reader in readers:
                reader.start()
            stream.add({"n": 1})
            for reader in readers:
                reader.join()
            assert len(found) == 4
            stream.trim(maxlen=1)
            return 26

        yield cycle, store


@contextlib.contextmanager
def refusals(path: Path) -> Iterator[tuple[Cycle, Store]]:
    """Everything is asked for that must be refused."""
    with _opened(path) as store:
        stream = store.stream("x")
        stream.add({"n": 0}, "5-5")
        asked: list[Callable[[], object]] = [
            lambda: stream.add({"n": 1}, "5-5"),
            lambda: stream.add({"n": 1}, "no ID"),
            lambda: stream.group("none", create=False).info(),
            lambda: stream.group("none", create=False).consumer("c").read(),
            lambda: store.rename("none", "other"),
            lambda: stream.trim(maxlen=-1),
            lambda: list(stream.range("5-5-5")),
            lambda: diskstream.open(path / "none", create=False),
            lambda: diskstream.open(path / "store", fsync="never"),
        ]

        def cycle() -> int:
            refused = 0
            for _ in range(6):
                for ask in asked:
                    try:
                        ask()
                    except DiskstreamError:
                        refused += 1
            assert refused == 6 * len(asked)
            return refused

        yield cycle, store


@contextlib.contextmanager
def cold(path: Path) -> Iterator[tuple[Cycle, Store]]:
    """Segments move out to a folder, are read from there, and are brought back."""
    place = (path / "place").as_uri()
    with _opened(path) as store:
        stream = store.stream("x")
        for number in range(60):
            stream.add({"n": number, "pad": "." * 900}, f"{number + 1}-0")
        stream.seal()

        def cycle() -> int:
            move_out(stream, place, older_than_ms=0)
            assert sum(1 for _ in stream.range()) == 60
            bring_back(stream)
            return 12

        yield cycle, store


@contextlib.contextmanager
def connections(path: Path) -> Iterator[tuple[Cycle, Store | None]]:
    """Clients of a server connect, add, read as a group, wait, and go: with a word, or without."""
    with serving(path / "served", maxclients=100) as server:

        def cycle() -> int:
            for number in range(6):
                with Client.to(server) as client, Client.to(server) as other:
                    client.call("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
                    for _ in range(5):
                        client.call("XADD", "x", "*", "n", number)
                    client.call("XREADGROUP", "GROUP", "g", "c", "COUNT", 3, "STREAMS", "x", ">")
                    other.send("XREAD", "BLOCK", 0, "STREAMS", "x", "$")
                    client.call("XGROUP", "DESTROY", "x", "g")
                    client.call("XTRIM", "x", "MAXLEN", 0)
                    client.call("NONSENSE")
                    if number % 2:
                        client.call("QUIT")
            with Client.to(server) as last:
                while last.call("INFO", "clients").count(b"connected_clients:1\r\n") == 0:
                    continue  # those that went are noticed one turn later
                last.call("DEL", "x")  # its segment would be full after thousands of cycles only
            return 60

        yield cycle, None


@contextlib.contextmanager
def compat(path: Path) -> Iterator[tuple[Cycle, Store | None]]:
    """redis-py's methods over a store, a pipeline among them."""
    client = Redis(str(path / "compat"))

    def cycle() -> int:
        for number in range(20):
            client.xadd("x", {"n": number})
        client.xgroup_create("x", "g", "0")
        client.xreadgroup("g", "c", {"x": ">"}, count=10)
        with client.pipeline() as pipeline:
            for number in range(10):
                pipeline.xadd("x", {"n": number})
            pipeline.execute()
        client.xlen("x")
        client.exists("x")
        client.xgroup_destroy("x", "g")
        client.xtrim("x", maxlen=0, approximate=False)
        client.delete("x")
        return 36

    try:
        yield cycle, None
    finally:
        client.close()


CYCLES: dict[str, Callable[[Path], contextlib.AbstractContextManager[tuple[Cycle, Store | None]]]] = {
    "entries": entries,
    "groups": groups,
    "streams": streams,
    "openings": openings,
    "waits": waits,
    "refusals": refusals,
    "cold": cold,
    "connections": connections,
    "compat": compat,
}
