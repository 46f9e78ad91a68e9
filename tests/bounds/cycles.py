"""The cycles: each does some operations, and leaves the store as it found it."""

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import diskstream
from diskstream import DiskstreamError, Store
from diskstream.backups import find_backup, make_backup, restore
from diskstream.cold import bring_back, move_out
from diskstream.compat import Redis
from diskstream.exporting import ExportRequest, export_file
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

# So often a cycle does each operation: a leak of the least that malloc gives in one of them is above the bar then.
EACH = 20

Cycle = Callable[[], int]  # does it once, and returns how many operations that were


def _opened(path: Path, **options: Any) -> Store:
    return diskstream.open(path / "store", **{**SMALL, **options})


@contextlib.contextmanager
def entries(path: Path) -> Iterator[tuple[Cycle, Store]]:
    """Adds, reads, ranges, deletes, seals, compacts and trims."""
    with _opened(path) as store:
        stream = store.stream("x")

        def once() -> None:
            for number in range(6):
                stream.add({"n": number, "pad": "." * 100})
            ids = stream.add_many([{"n": number} for number in range(4)])
            assert sum(1 for _ in stream.range()) == 10
            stream.read("0", count=10)
            stream.info()
            stream.delete(*ids[::2])
            stream.seal()
            stream.compact()
            list(stream.revrange(count=3))
            stream.to_arrow()
            list(stream.scan())
            stream.trim(maxlen=0)
            stream.seal()

        def cycle() -> int:
            for _ in range(EACH):
                once()
            return EACH * 20

        yield cycle, store


@contextlib.contextmanager
def groups(path: Path) -> Iterator[tuple[Cycle, Store]]:
    """A group is made, read, claimed, acknowledged, given back and destroyed."""
    with _opened(path) as store:
        stream = store.stream("x")

        def once() -> None:
            stream.add_many([{"n": number} for number in range(9)])
            group = stream.group("g", start="0")
            alice, bob = group.consumer("alice"), group.consumer("bob")
            for _ in range(3):
                alice.read(count=3)
            bob.autoclaim(0, count=3)
            pending = group.pending_range(count=9)
            for each in pending[:4]:
                group.ack(each.id)
            for each in pending[4:]:
                bob.claim(each.id)
            group.nack(pending[5].id)
            alice.read("0")
            group.info()
            group.consumers()
            group.set_id("0")
            stream.seal()
            group.delete_consumer("bob")
            group.destroy()
            stream.trim(maxlen=0)
            stream.seal()

        def cycle() -> int:
            for _ in range(EACH):
                once()
            return EACH * 25

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
        for number in range(18):
            stream.add({"n": number, "pad": "." * 900}, f"{number + 1}-0")
        stream.seal()

        def cycle() -> int:
            for _ in range(EACH):
                assert move_out(stream, place, older_than_ms=0).segments
                assert sum(1 for _ in stream.range()) == 18
                assert bring_back(stream).segments
            return EACH * 3

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

    def once() -> None:
        client.xadd("x", {"n": 1})
        client.xgroup_create("x", "g", "0")
        client.xreadgroup("g", "c", {"x": ">"}, count=10)
        with client.pipeline() as pipeline:
            for number in range(3):
                pipeline.xadd("x", {"n": number})
            pipeline.execute()
        client.xlen("x")
        client.exists("x")
        client.xgroup_destroy("x", "g")
        client.xtrim("x", maxlen=0, approximate=False)
        client.delete("x")

    def cycle() -> int:
        for _ in range(EACH):
            once()
        return EACH * 11

    try:
        yield cycle, None
    finally:
        client.close()


@contextlib.contextmanager
def keeping(path: Path) -> Iterator[tuple[Cycle, Store]]:
    """The store is backed up, restored, verified, exported and repaired; streams are leased."""
    request = ExportRequest([b"x"], "arrow")
    with _opened(path) as store, _opened(path / "closed"):
        stream = store.stream("x")
        stream.add_many([{"n": number} for number in range(50)])
        stream.seal()
        stream.group("g", start="0").consumer("c").read(count=3)

        def once() -> None:
            make_backup(path / "store", path / "backups")
            restore(find_backup(path / "backups"), path / "restored")
            shutil.rmtree(path / "restored")
            shutil.rmtree(path / "backups")
            assert store.verify().ok
            export_file(store, request, path / "export")
            (path / "export").unlink()
            shutil.rmtree(store.lease(["x"]))

        def cycle() -> int:
            for _ in range(EACH // 4):  # each takes long; three objects a cycle are above the bar
                once()
            return EACH // 4 * 6

        yield cycle, store


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
    "keeping": keeping,
}
