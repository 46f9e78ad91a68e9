"""Two looks at a store, and what happened between them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import diskstream
from diskstream.cli.advice import for_command
from diskstream.cli.output import attributes
from diskstream.vitals import Vitals

# Of a store with very many groups, those with the most pending are asked for their consumers.
_GROUPS_ASKED = 100
_CONSUMERS_SHOWN = 100


@dataclass(frozen=True)
class StreamPulse:
    """What a stream did. Rates are a second; None where it was not there before.

    Attributes:
        state: ``ok``, ``poisoned``, ``damaged``, or ``unreadable`` where something else keeps it from being looked at.
        fault: what that is, and nothing else is known then.
    """

    stream: bytes
    length: int = 0
    entries_per_s: float | None = None
    bytes_per_s: float | None = None
    delivered_per_s: float | None = None
    size_bytes: int = 0
    segments: int = 0
    groups: int = 0
    lag: int | None = None
    pending: int = 0
    unflushed_bytes: int | None = None
    state: str = "ok"
    fault: str | None = None


@dataclass(frozen=True)
class GroupPulse:
    """What a group did."""

    stream: bytes
    group: bytes
    consumers: int
    pending: int
    lag: int | None
    delivered_per_s: float | None


@dataclass(frozen=True)
class ConsumerPulse:
    """A consumer that has pending entries, and for how long nobody has heard of it."""

    stream: bytes
    group: bytes
    consumer: bytes
    pending: int
    idle_ms: int
    inactive_ms: int | None


@dataclass(frozen=True)
class Pulse:
    """What a store did between two looks.

    Attributes:
        store: its path.
        time_ms: of the second look, since 1970.
        interval_s: between the two.
        streams, groups, consumers: in order of names; of consumers those that are idle for longest, first.
    """

    store: str
    time_ms: int
    interval_s: float
    streams: list[StreamPulse]
    groups: list[GroupPulse]
    consumers: list[ConsumerPulse]

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return attributes(self)


@dataclass
class _Look:
    at: float
    streams: dict[bytes, Vitals]
    faults: dict[bytes, tuple[str, str]]  # the state, and why it is said
    groups: dict[tuple[bytes, bytes], diskstream.GroupInfo]


def beats(store: diskstream.Store, pattern: bytes | None, interval_s: float, looks: int | None) -> Iterator[Pulse]:
    """A pulse each interval, as many as there are to be; None goes on for ever."""
    before = _look(store, pattern)
    while looks is None or looks > 0:
        looks = None if looks is None else looks - 1
        left = before.at + interval_s - time.monotonic()
        if left > 0:
            time.sleep(left)
        now = _look(store, pattern)
        yield _between(store, before, now)
        before = now


def _look(store: diskstream.Store, pattern: bytes | None) -> _Look:
    look = _Look(time.monotonic(), {}, {}, {})
    for name in store.streams(pattern):
        stream = store.stream(name)
        try:
            found = stream.vitals()
            if found is None:
                continue  # it went since it was listed
            look.streams[name] = found
            if found.groups and not found.is_damaged:
                look.groups |= {(name, info.name): info for info in stream.groups()}
        except diskstream.NoSuchStreamError:
            continue
        except diskstream.DiskstreamError as error:
            # A repair does nothing for who may not read it, or has too few descriptors.
            state = "damaged" if isinstance(error, diskstream.CorruptionError) else "unreadable"
            look.faults[name] = state, for_command(str(error))
    return look


def _between(store: diskstream.Store, before: _Look, now: _Look) -> Pulse:
    seconds = max(1e-6, now.at - before.at)
    groups = [
        GroupPulse(*key, info.consumers, info.pending, info.lag, _delivered(before, key, info, seconds))
        for key, info in sorted(now.groups.items())
    ]
    by_stream: dict[bytes, list[GroupPulse]] = {}
    for group in groups:
        by_stream.setdefault(group.stream, []).append(group)
    streams = [
        _stream(name, (before.streams.get(name), now.streams[name]), by_stream.get(name, []), seconds)
        for name in sorted(now.streams)
    ]
    streams += [StreamPulse(name, state=state, fault=fault) for name, (state, fault) in sorted(now.faults.items())]
    consumers = _slowest(store, groups)
    return Pulse(str(store.path), time.time_ns() // 1_000_000, round(seconds, 6), streams, groups, consumers)


def _delivered(before: _Look, key: tuple[bytes, bytes], info: diskstream.GroupInfo, seconds: float) -> float | None:
    earlier = before.groups.get(key)
    if earlier is None or earlier.entries_read is None or info.entries_read is None:
        return None
    return max(0, info.entries_read - earlier.entries_read) / seconds


def _stream(name: bytes, looks: tuple[Vitals | None, Vitals], groups: list[GroupPulse], seconds: float) -> StreamPulse:
    earlier, now = looks
    lags = [group.lag for group in groups if group.lag is not None]
    rates = [group.delivered_per_s for group in groups if group.delivered_per_s is not None]
    return StreamPulse(
        stream=name,
        length=now.length,
        entries_per_s=None if earlier is None else max(0, now.entries_added - earlier.entries_added) / seconds,
        bytes_per_s=None if earlier is None else now.bytes_since(earlier) / seconds,
        delivered_per_s=sum(rates) if rates else None,
        size_bytes=now.size_bytes,
        segments=len(now.segments),
        groups=now.groups,
        lag=max(lags, default=None),
        pending=sum(group.pending for group in groups),
        unflushed_bytes=now.unflushed_bytes,
        state="damaged" if now.is_damaged else "poisoned" if now.is_poisoned else "ok",
    )


def _slowest(store: diskstream.Store, groups: list[GroupPulse]) -> list[ConsumerPulse]:
    asked = sorted((group for group in groups if group.pending), key=lambda group: -group.pending)[:_GROUPS_ASKED]
    found = []
    for group in asked:
        try:
            consumers = store.stream(group.stream).group(group.group, create=False).consumers()
        except diskstream.DiskstreamError:
            continue  # it went since, or cannot be read, which is shown of its stream
        found += [
            ConsumerPulse(group.stream, group.group, each.name, each.pending, each.idle_ms, each.inactive_ms)
            for each in consumers
            if each.pending
        ]
    return sorted(found, key=lambda each: (-each.idle_ms, -each.pending, each.consumer))[:_CONSUMERS_SHOWN]
