"""Leases, as those who read one see them: saying that it is in use, and removing it. `Store.lease` makes them."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from diskstream.engine.lease import check, is_lease, release, touch, ttl_of
from diskstream.errors import ChangedError

__all__ = ["is_lease", "release", "touch", "used"]

_T = TypeVar("_T")


def used(path: Path, found: Iterable[_T]) -> Iterator[_T]:
    """Passes on what is read from a store; while it is, a lease counts as in use, and at the end it is still there.

    Who takes longer over one of `found` than the lease is kept for may find it gone: what he reads next raises.

    Raises:
        NotAStoreError: the lease ran out, or was released, before the end.
    """
    if not is_lease(path):
        yield from found
        return
    every_s = (ttl_of(path) or 0.0) / 4
    touched = float("-inf")
    try:
        for each in found:
            if time.monotonic() - touched >= every_s:
                touch(path)
                touched = time.monotonic()
            yield each
    except ChangedError:
        check(path)  # a lease loses a stream with everything else only
        raise
    check(path)
