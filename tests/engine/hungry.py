"""A process that adds more than it has memory for."""

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
