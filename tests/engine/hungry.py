"""A process that adds more than it has memory for."""

import gc
import os
import resource
from pathlib import Path

import diskstream
from tests.engine.children import say

MIB = 1 << 20


def add(path: str) -> None:
    """Says what it is told of an entry that is too large, and of a batch that is not."""
    much, large = bytes(256 * MIB), bytes(20 * MIB)
    with diskstream.open(path, fsync="os") as store:
        stream = store.stream("x")
        stream.add({"n": "1"})
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 48 * MIB, most))
        for rows in ([{"much": much}], [{"large": large}] * 3):
            try:
                stream.add_many(rows)
            except (diskstream.DiskstreamError, MemoryError) as error:
                say(type(error).__name__, error)
        stream.add({"n": "2"})
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        stream.add_many([{"large": large}] * 3)
        say(len(stream))


def read(path: str) -> None:
    """Says what it is told of sealed entries that are larger than the memory that is left."""
    values = 3
    with diskstream.open(path, fsync="os", seal="manual", cache_bytes=0) as store:
        for _ in range(values):
            store.stream("x").add({"large": b"x" * (30 * MIB)})
        store.seal()
    with diskstream.open(path, read_only=True, cache_bytes=0) as store:
        stream = store.stream("x")
        assert len(stream) == values
        stream.to_arrow("1", "2")  # what is imported by it
        for more in (1, 16, 36, 56, 76, 96, 116):
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more * MIB, most))
            try:
                stream.to_arrow()
            except (diskstream.DiskstreamError, MemoryError) as error:
                say(type(error).__name__, error)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        say(stream.to_arrow().num_rows)


def seal(path: str) -> None:
    """Says what it is told of a seal of entries that are large beside the memory that is left, and how many stay."""
    with diskstream.open(path, fsync="os", seal="manual", cache_bytes=0) as store:
        stream = store.stream("x")
        for _ in range(3):
            stream.add({"large": os.urandom(20 * MIB)})
        for more in range(12, 200, 12):
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more * MIB, most))
            try:
                stream.seal()
            except (diskstream.DiskstreamError, MemoryError) as error:
                say(type(error).__name__, error)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        stream.seal()
        say(sum(1 for _ in stream.range()))
