"""What a batch read will read: the streams, their bounds, a lease, and the partitions."""

import fnmatch
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import diskstream
from diskstream import leases
from diskstream.errors import (
    ArgumentError,
    CorruptionError,
    DataLossError,
    NoSuchStreamError,
    NotAStoreError,
    PoisonedError,
    ReadOnlyError,
)
from diskstream.ids import MAX_ID, MIN_ID, EntryID
from diskstream.options import streams_within_descriptors
from diskstream.spark.losses import UNREADABLE, fault_of
from diskstream.spark.names import as_text
from diskstream.spark.options import Bounds, ReadOptions, on_this_machine
from diskstream.spark.partitions import EntriesPartition, Slice, pack, spread
from diskstream.store import Store
from diskstream.stream import Stream

# A task costs some 10 to 20 ms of one core: with less than this to do, one more does not pay.
_LEAST_ENTRIES: Final = 500_000
_LEAST_BYTES: Final = 16 << 20
_PIECES: Final = 8  # of a partition: what is cut so fine can be shared out evenly

__all__ = [
    "bounds_of",
    "by_name_or_pattern",
    "check_bounds",
    "chosen_streams",
    "enough_for_cores",
    "is_chosen",
    "open_for_planning",
    "partitioned",
    "place_of_read",
    "plan_entries",
    "slices_of",
]


def open_for_planning(path: str) -> Store:
    """Opens a store as whoever plans a read does: to write if that can be, since a lease is written.

    Raises:
        ArgumentError: the path is of another machine, or none.
        NotAStoreError: there is none; the message says where the path was looked for.
    """
    path = on_this_machine(path, "a store")
    streams = streams_within_descriptors()
    try:
        return diskstream.open(path, create=False, max_open_streams=streams)
    except ReadOnlyError:
        return diskstream.open(path, read_only=True, max_open_streams=streams)
    except NotAStoreError as error:
        if Path(path).exists():
            if what := _something_else(Path(path)):
                raise NotAStoreError(path, what) from error
            raise
        raise NotAStoreError(
            path, "there is no such directory on the driver; driver and workers must see it under the same path"
        ) from error


def _something_else(path: Path) -> str:
    """What one may have taken for a store, and what to do with it; empty where it is none of these."""
    if (path / "backups.json").is_file():
        return f"it is a place of backups: name one of them, each is a store ('diskstream backup ls {path}')"
    if (path / "_manifest").is_dir():
        return (
            f"it is an archive, of which entries are read in batches; 'diskstream spark replay --from {path} -d STORE' "
            "makes streams of it again"
        )
    return ""


def chosen_streams(store: Store, options: ReadOptions) -> list[bytes]:
    """The names of the streams that a read is about, each once.

    Raises:
        NoSuchStreamError: one that was named is not there.
    """
    if options.streams:
        for name in options.streams:
            if not store.exists(name):
                raise NoSuchStreamError(name)
        return list(dict.fromkeys(options.streams))
    return store.streams(options.stream_pattern or None)


def by_name_or_pattern(streams: tuple[bytes, ...], pattern: str) -> ReadOptions:
    """The streams that a job was told: names or a pattern, all where there is neither.

    Raises:
        ArgumentError: there is both: the names alone would count, and what the pattern fits would be passed over.
    """
    if streams and pattern:
        raise ArgumentError("name the streams, or give a pattern, not both")
    return ReadOptions(streams=streams, stream_pattern=pattern)


def is_chosen(name: bytes, options: ReadOptions) -> bool:
    """Whether a read is about streams of this name, be there one now or not."""
    if options.streams:
        return name in options.streams
    # As `Store.streams` matches.
    return not options.stream_pattern or fnmatch.fnmatchcase(
        name, options.stream_pattern.encode("utf-8", "surrogateescape")
    )


def check_bounds(options: ReadOptions, names: list[bytes]) -> None:
    """Looks whether all streams that have bounds of their own are read.

    Raises:
        ArgumentError: one is not.
    """
    for bounds in (options.starting_ids, options.ending_ids):
        unknown = sorted(set(bounds.by_stream) - set(names)) if bounds else []
        if unknown:
            raise ArgumentError(f"there are bounds for {unknown[0]!r}, which is none of the streams that are read")


def bounds_of(name: bytes, last_id: Callable[[], EntryID], options: ReadOptions) -> tuple[EntryID, EntryID] | None:
    """The first and the last ID that are read of a stream; None where that is nothing.

    Args:
        name: the stream's.
        last_id: gives where it ends.
        options: what the read was told.
    """
    first, last = _first(name, last_id, options), _last(name, options)
    return (first, last) if first is not None and last is not None and first <= last else None


def _first(name: bytes, last_id: Callable[[], EntryID], options: ReadOptions) -> EntryID | None:
    if options.starting_timestamp is not None:
        return EntryID(options.starting_timestamp, 0)
    at = (options.starting_ids or Bounds("earliest")).of(name) or "earliest"
    if at == "latest":
        return last_id().next()
    return MIN_ID if isinstance(at, str) else at


def _last(name: bytes, options: ReadOptions) -> EntryID | None:
    if options.ending_timestamp is not None:
        return EntryID(options.ending_timestamp, 0).prev()
    at = (options.ending_ids or Bounds("latest")).of(name) or "latest"
    if at == "earliest":
        return None
    return MAX_ID if isinstance(at, str) else at


def slices_of(
    stream: Stream,
    first: EntryID,
    last: EntryID,
    limits: tuple[int, int],
    *,
    tail: bool = True,
    damaged: bool = False,
) -> Iterator[Slice]:
    """A range as slices of at most so many entries and, about, bytes. What was trimmed before is no part of it."""
    identity, trimmed = stream.identity(), stream.trimmed_to(first.prev() or MIN_ID, damaged=damaged)
    if trimmed is not None:
        first = max(first, trimmed.next() or MAX_ID)
    for piece in stream.splits(first, last, max_entries=limits[0], max_bytes=limits[1], tail=tail, damaged=damaged):
        low, high = piece.first, piece.last
        yield Slice(stream.name, (low.ms, low.seq), (high.ms, high.seq), piece.entries, piece.size_bytes, identity)


def place_of_read(store: Store, names: list[bytes], options: ReadOptions) -> tuple[str, bool]:
    """Where tasks read: from a lease, whose directory this is, or where there can be none from the store itself.

    Raises:
        CorruptionError: a stream's log is damaged, and that is not to be skipped.
    """
    if not options.lease or store.read_only:
        return str(store.path), False
    try:
        return str(store.lease(names, ttl_s=options.lease_ttl)), True
    except PoisonedError:
        return str(store.path), False  # after a failed write it still can be read
    except CorruptionError:
        if options.on_corruption == "fail":
            raise
        return str(store.path), False


def plan_entries(options: ReadOptions) -> list[EntriesPartition]:
    """The partitions of a batch read, as of now: what is added later is not read, what goes later is, from the lease.

    Raises:
        NotAStoreError, NoSuchStreamError, NewerFormatError, CorruptionError: see `diskstream.errors`.
        ArgumentError: a bound for a stream that is not read.
        DataLossError: the ID that it is to begin with was trimmed away.
    """
    with open_for_planning(options.path) as store:
        names = chosen_streams(store, options)
        check_bounds(options, names)
        path, leased = place_of_read(store, names, options)
    try:
        runs = _planned(path, names, options)
    except BaseException:
        if leased:
            leases.release(Path(path))
        raise
    if leased and not runs:
        leases.release(Path(path))  # no task will read from it
    return [EntriesPartition(path, options.path, run, leased=leased) for run in runs]


def _planned(path: str, names: list[bytes], options: ReadOptions) -> list[tuple[Slice, ...]]:
    """What tasks read; the bounds are of the same moment as the lease."""
    with diskstream.open(path, read_only=True, max_open_streams=streams_within_descriptors()) as store:
        ranges = []
        for name in names:
            stream = store.stream(name)
            if options.on_corruption == "skip" and fault_of(stream) is not None:
                if found := bounds_of(name, lambda: MAX_ID, options):
                    ranges.append((name, *found))  # the task that is to read it reports it
            elif found := bounds_of(name, stream.last_id, options):
                _check_start(stream, found[0], options)
                ranges.append((name, *found))
        return partitioned(store, ranges, options)


def _check_start(stream: Stream, first: EntryID, options: ReadOptions) -> None:
    """Looks whether the ID that a read was told to begin with was trimmed away. A word or a time may be before all
    that there is; an ID says that what follows was not read yet.

    Raises:
        DataLossError: it was.
    """
    told = options.starting_ids.of(stream.name) if options.starting_ids and options.fail_on_data_loss else ""
    damaged = options.on_corruption == "skip"
    trimmed = stream.trimmed_to(first.prev() or MIN_ID, damaged=damaged) if isinstance(told, EntryID) else None
    if isinstance(told, EntryID) and trimmed is not None and trimmed >= first:
        raise DataLossError(
            as_text(stream.name), f"entries up to {trimmed} were trimmed away", f"{first} and what follows"
        )


def partitioned(
    store: Store, ranges: list[tuple[bytes, EntryID, EntryID]], options: ReadOptions
) -> list[tuple[Slice, ...]]:
    """Ranges of streams as what tasks read: within the limits, and `minPartitions` where there is that much.

    Without `minPartitions` as many as this machine's cores take on evenly, so that none waits for the last one, as
    Spark cuts files; the driver cannot be asked for its workers' cores here.

    Raises:
        CorruptionError: an index is damaged, and that is not to be skipped.
    """
    limits = options.max_entries_per_partition, options.max_bytes_per_partition
    cut = [_cut(store, each, options, limits) for each in ranges]
    slices = [each for own in cut for each in own]
    entries, size_bytes = sum(each.entries for each in slices), sum(each.size_bytes for each in slices)
    if options.min_partitions is not None and slices:
        limits = _shares(limits, entries, size_bytes, options.min_partitions)
        slices = _cut_finer(store, ranges, options, limits, cut)
    packed = pack(slices, limits[1], limits[0])
    if options.min_partitions is not None:
        return packed
    count = enough_for_cores(len(packed), entries, size_bytes)
    if count <= 1:
        return packed
    finer = _cut_finer(store, ranges, options, _shares(limits, entries, size_bytes, _PIECES * count), cut)
    even = spread(finer, count)
    return even if all(_within(run, limits) for run in even) else packed


def enough_for_cores(count: int, entries: int, size_bytes: int) -> int:
    """As many partitions as so many would have to be for each core to have as much as the others; of what pays."""
    most = max(entries // _LEAST_ENTRIES, size_bytes // _LEAST_BYTES)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(count, min(-(-count // cores) * cores, most))


def _shares(limits: tuple[int, int], entries: int, size_bytes: int, count: int) -> tuple[int, int]:
    """The limits of one of `count` equal parts, within those that there are."""
    return min(limits[0], max(1, -(-entries // count))), min(limits[1], max(1, -(-size_bytes // count)))


def _within(run: Sequence[Slice], limits: tuple[int, int]) -> bool:
    return sum(each.entries for each in run) <= limits[0] and sum(each.size_bytes for each in run) <= limits[1]


_Range = tuple[bytes, EntryID, EntryID]


def _cut(store: Store, within: _Range, options: ReadOptions, limits: tuple[int, int]) -> list[Slice]:
    name, first, last = within
    damaged = options.on_corruption == "skip"
    try:
        return list(slices_of(store.stream(name), first, last, limits, tail=options.include_tail, damaged=damaged))
    except UNREADABLE:
        if options.on_corruption == "fail":
            raise
        # The task that reads it finds out how much is lost, and reports it.
        return [Slice(name, (first.ms, first.seq), (last.ms, last.seq), 1, 1)]


def _cut_finer(
    store: Store, ranges: list[_Range], options: ReadOptions, limits: tuple[int, int], cut: list[list[Slice]]
) -> list[Slice]:
    """All slices, within new limits: only streams of which one is too large for these are looked at again."""
    finer: list[Slice] = []
    for each, own in zip(ranges, cut, strict=True):
        is_fine = all(_within([one], limits) for one in own)
        finer.extend(own if is_fine else _cut(store, each, options, limits))
    return finer
