"""A lease for the time of a job."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from diskstream import leases
from diskstream.store import Store

__all__ = ["leased"]


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
        yield lease
    finally:
        leases.release(lease)
