"""How a store behaves: chosen when it is opened, by each process for itself."""

import re
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from diskstream.errors import ArgumentError

__all__ = ["OpenOptions", "Options", "streams_within_descriptors"]

_INTERVAL = re.compile(r"interval=([0-9]{1,9})(?:ms)?")  # at most eleven days


# Of who looks at all streams of a store in turn. Each has two descriptors, and half of all are left to others; and a
# mapping, of which the kernel gives a process some 65,000.
_LEAST_STREAMS, _MOST_STREAMS, _DESCRIPTORS_EACH = 16, 4096, 4


def _check(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ArgumentError(f"{name} must be an int from {low} to {high}, not {value!r}")


class OpenOptions(TypedDict, total=False):
    """The fields of `Options` as arguments, for type checkers."""

    fsync: str
    segment_bytes: int
    node_max_entries: int
    node_max_bytes: int
    compression_level: int
    seal: str
    audit: bool
    cache_bytes: int
    cold_cache_bytes: int
    max_open_streams: int
    pending_rows: int
    retention_interval_ms: int
    decode_responses: bool
    clock: Callable[[], int] | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be chosen.

    Attributes:
        fsync: ``always``, ``everysec``, ``interval=MS`` or ``os``; see the README for what each promises.
        segment_bytes: a segment is rolled when its frames reach this many bytes.
        node_max_entries: entries of one macro node, at most.
        node_max_bytes: bytes of values and IDs of one macro node, at most (one large entry may be more).
        compression_level: zstd's level for macro nodes, 1 to 19; 0 stores them plain.
        seal: ``background`` seals rolled segments in a thread, ``manual`` only when told.
        audit: sealing a segment keeps what groups did in a file beside it: see `Stream.audit`.
        cold_cache_bytes: segments fetched back from object storage that are kept on disk, for the whole store.
        cache_bytes: decoded macro nodes kept in memory, for the whole store.
        max_open_streams: streams kept open, each with two descriptors and a mapping; more are opened in turn.
        pending_rows: pending entries whose latest change is kept in memory; beyond it they are merged into the view.
        retention_interval_ms: how often open streams with a rule of retention are looked at; 0 leaves it to others.
        decode_responses: names and values come out as str instead of bytes; asking an entry for one that is no UTF-8
            raises UnicodeDecodeError, as with redis-py.
        clock: milliseconds since 1970, for automatic IDs; None is the system's clock.
    """

    fsync: str = "everysec"
    segment_bytes: int = 64 << 20
    node_max_entries: int = 512
    node_max_bytes: int = 64 << 10
    compression_level: int = 3
    seal: str = "background"
    audit: bool = True
    cache_bytes: int = 32 << 20
    cold_cache_bytes: int = 1 << 30
    max_open_streams: int = 256
    pending_rows: int = 4096
    retention_interval_ms: int = 1000
    decode_responses: bool = False
    clock: Callable[[], int] | None = None

    def __post_init__(self) -> None:
        """Checks every value.

        Raises:
            ArgumentError: one is out of its range.
        """
        if str(self.fsync) not in ("always", "everysec", "os") and not _INTERVAL.fullmatch(str(self.fsync)):
            raise ArgumentError(f"fsync must be 'always', 'everysec', 'interval=MS' or 'os', not {self.fsync!r}")
        if self.seal not in ("background", "manual"):
            raise ArgumentError(f"seal must be 'background' or 'manual', not {self.seal!r}")
        if self.clock is not None and not callable(self.clock):
            raise ArgumentError(f"clock must be a function that gives milliseconds, not {self.clock!r}")
        for name, flag in (("audit", self.audit), ("decode_responses", self.decode_responses)):
            if not isinstance(flag, bool):  # as text out of a file of settings, "no" would count as true
                raise ArgumentError(f"{name} must be True or False, not {flag!r}")
        _check("segment_bytes", self.segment_bytes, 8 << 10, 1 << 30)
        _check("node_max_entries", self.node_max_entries, 1, 65_536)
        _check("node_max_bytes", self.node_max_bytes, 256, 16 << 20)
        _check("compression_level", self.compression_level, 0, 19)
        _check("max_open_streams", self.max_open_streams, 1, 100_000)
        _check("pending_rows", self.pending_rows, 1, 1 << 20)
        _check("retention_interval_ms", self.retention_interval_ms, 0, 3_600_000)
        _check("cache_bytes", self.cache_bytes, 0, 1 << 40)
        _check("cold_cache_bytes", self.cold_cache_bytes, 0, 1 << 50)
        if self.interval_ms is not None:
            _check("the interval of fsync", self.interval_ms, 1, 3_600_000)

    @property
    def interval_ms(self) -> int | None:
        """Milliseconds between background flushes; None where there are none."""
        if self.fsync == "everysec":
            return 1000
        match = _INTERVAL.fullmatch(self.fsync)
        return int(match[1]) if match else None

    @property
    def is_always(self) -> bool:
        """Whether each append waits for its flush."""
        return self.fsync == "always"


def streams_within_descriptors() -> int:
    """`max_open_streams` for who looks at all streams of a store, again and again: what descriptors are for.

    Of more streams than are kept open a look opens all of them anew, which costs a millisecond and some flushes each.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_STREAMS
    return max(_LEAST_STREAMS, min(_MOST_STREAMS, soft // _DESCRIPTORS_EACH))
