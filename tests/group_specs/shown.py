"""What groups hold, in plain Python, to compare with."""

import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import Any

from diskstream import Delivery, Group, PendingEntry, Store, Stream
from tests.streams.background import LIMIT_S
from tests.streams.layers import rows

__all__ = ["dump", "fill", "given", "held", "joined", "owners", "table", "until"]

_PAUSE_S = 0.0002


def fill(stream: Stream, first: int, last: int) -> None:
    """Entries `first`-0 to `last`-0 with their number in ``n``; sealed where the store seals when told."""
    numbers = range(first, last + 1)
    stream.add_many([{"n": number} for number in numbers], ids=[(number, 0) for number in numbers])
    if stream._store.options.seal == "manual":
        stream.seal()


def given(deliveries: Iterable[Delivery]) -> list[tuple[str, int, int]]:
    """ID, idle time before, deliveries before."""
    return [(str(entry.id), entry.idle_ms, entry.deliveries) for entry in deliveries]


def table(entries: Iterable[PendingEntry]) -> list[tuple[str, bytes, int, int]]:
    """ID, consumer, idle time, deliveries."""
    return [(str(entry.id), entry.consumer, entry.idle_ms, entry.deliveries) for entry in entries]


def held(group: Group) -> list[tuple[str, bytes, int, int]]:
    """All of the pending entries list."""
    return table(group.pending_range(count=1_000_000))


def owners(group: Group) -> dict[str, bytes]:
    """Who has which entry."""
    return {str(entry.id): entry.consumer for entry in group.pending_range(count=1_000_000)}


def dump(store: Store) -> dict[bytes, Any]:
    """All that a store holds."""
    found: dict[bytes, Any] = {}
    for stream in store:
        full = stream.info_full(0)
        # What was refused is counted by each process for itself, and is no part of what is stored.
        kept = dataclasses.replace(full, entries=[], messages_duplicate=0)
        found[stream.name] = (kept, rows(full.entries))
    return found


def until(happened: Callable[[], bool], what: str) -> None:
    """Returns once it has happened: for what another thread does.

    Raises:
        AssertionError: it did not.
    """
    never = threading.Event()
    for _ in range(int(LIMIT_S / _PAUSE_S)):
        if happened():
            return
        never.wait(_PAUSE_S)
    raise AssertionError(f"in vain: {what}")


def joined(group: Group, *names: bytes) -> None:
    """Returns once these consumers stand in the queue: one is made in the same step in which it begins to wait."""
    until(lambda: {each.name for each in group.consumers()} >= set(names), f"{names} wait")
