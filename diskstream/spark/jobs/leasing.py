"""A lease for the time of a job."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from diskstream import leases
from diskstream.spark.jobs.beside import beside
from diskstream.store import Store

__all__ = ["in_use", "leased"]

_LEAST_BEAT_S: Final = 0.05


@contextmanager
def leased(store: Store, names: Sequence[bytes], ttl_s: float) -> Iterator[Path]:
    """One moment of some streams, until the end of the block; of a store that is read-only, the store itself."""
    if store.read_only:
        yield store.path
        return
    lease = store.lease(names, ttl_s=ttl_s)
    try:
        # What is archived must not be lost by the store: after a power cut it would give the same IDs to others.
        store.sync()
        with in_use([lease], ttl_s):
            yield lease
    finally:
        leases.release(lease)


@contextmanager
def in_use(paths: Sequence[Path], ttl_s: float) -> Iterator[None]:
    """Says of leases that they are in use, as long as the block runs: tasks do so while they read from one, but they
    may wait for a core longer than it is kept for, or read elsewhere, as the files of an archive.

    Args:
        paths: of the leases.
        ttl_s: for how many seconds each is kept when nobody uses it.
    """

    def beat(done: threading.Event) -> None:
        while not done.wait(max(ttl_s / 4, _LEAST_BEAT_S)):
            for path in paths:
                leases.touch(path)

    with beside("diskstream-lease", beat):
        yield
