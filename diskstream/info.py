"""What there is to know of a stream."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from diskstream._native import Entry, EntryID, SegmentView
from diskstream.engine import cold, names, reader
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.errors import CorruptionError, DiskFullError, FormatError, NewerFormatError, RemoteError
from diskstream.ids import MIN_ID
from diskstream.membership import now_ms
from diskstream.retaining import memory_of
from diskstream.retention_rule import RetentionRule, rule_of

__all__ = ["StreamInfo", "StreamSummary", "describe", "summarize"]


@dataclass(frozen=True)
class StreamSummary:
    """What XINFO STREAM says, as far as it makes sense here.

    Attributes:
        name: the stream's name.
        length: live entries.
        last_generated_id: the greatest ID ever added, or what `Stream.set_id` made it.
        max_deleted_entry_id: the greatest ID ever deleted (a trim does not count).
        entries_added: entries ever added.
        recorded_first_entry_id: the ID of the first live entry, 0-0 where there is none.
        groups: consumer groups.
        first_entry, last_entry: the ends of what is live; None also where an end is in object storage that does not
            answer.
        idmp_duration_s: for how long the messages of producers are remembered.
        idmp_max_size: how many of each.
        producers_tracked, messages_tracked: how many of both are remembered now.
        messages_added: messages ever added.
        messages_duplicate: messages that were not added again, as this process has counted.
    """

    name: bytes
    length: int
    last_generated_id: EntryID
    max_deleted_entry_id: EntryID
    entries_added: int
    recorded_first_entry_id: EntryID
    groups: int
    first_entry: Entry | None
    last_entry: Entry | None
    idmp_duration_s: int
    idmp_max_size: int
    producers_tracked: int
    messages_tracked: int
    messages_added: int
    messages_duplicate: int


@dataclass(frozen=True)
class StreamInfo(StreamSummary):
    """The same, and what is on disk.

    Attributes:
        segments: segments, the active one included.
        sealed_segments: of these, the packed ones, wherever they are.
        size_bytes: bytes of all segment files on disk.
        cold_segments: of the sealed ones, those in object storage.
        cold_bytes: their bytes there.
        durable: whether all that was added is known to be on disk by now; to who only reads it never is.
        retention: the rule by which it is kept; None where there is none, or none that this version can read.
        retention_error: why the rule could not be applied when this process tried last; None where it could.
    """

    segments: int
    sealed_segments: int
    size_bytes: int
    cold_segments: int
    cold_bytes: int
    durable: bool
    retention: RetentionRule | None = None
    retention_error: str | None = None


def _retention(log: StreamLog) -> tuple[RetentionRule | None, str | None]:
    try:
        rule = rule_of(log)
    except (CorruptionError, NewerFormatError) as error:
        return None, str(error)
    return rule, None if rule is None else memory_of(log).error


def summarize(name: bytes, log: StreamLog) -> StreamSummary:
    """What is known of a stream now without a look at its files, of which it may have thousands."""
    return StreamSummary(**_summary(name, log))


def _summary(name: bytes, log: StreamLog) -> dict[str, Any]:
    log.refresh()
    length, last, added, deleted = log.native.counters()
    first_entry, last_entry = _reached(reader.first_entry, log), _reached(reader.last_entry, log)
    windows = log.native.windows(now_ms(log))
    return {
        "name": name,
        "length": length,
        "last_generated_id": last,
        "max_deleted_entry_id": deleted,
        "entries_added": added,
        "recorded_first_entry_id": _first_id(log, first_entry),
        "groups": log.native.group_count[0],
        "first_entry": first_entry,
        "last_entry": last_entry,
        "idmp_duration_s": windows[0],
        "idmp_max_size": windows[1],
        "producers_tracked": windows[2],
        "messages_tracked": windows[3],
        "messages_added": windows[4],
        "messages_duplicate": windows[5],
    }


def describe(name: bytes, log: StreamLog) -> StreamInfo:
    """What is known of a stream now.

    Raises:
        StreamMoved: it is gone from where it was.
    """
    summary = _summary(name, log)
    views = log.segments.views()
    rule, error = _retention(log)
    try:
        files = log.segments.file_sizes.now()
    except FileNotFoundError:
        raise StreamMoved from None
    packed = [view for view in views if view.generation or names.log_name(view.number) not in files]
    absent = [view for view in packed if names.segment_name(view.number, view.generation) not in files]
    away = [stub for view in absent if (stub := _stub(log, view)) is not None]
    return StreamInfo(
        **summary,
        segments=len(views) + 1,
        sealed_segments=len(packed),
        size_bytes=sum(files.values()),
        cold_segments=len(away),
        cold_bytes=sum(stub.size_bytes for stub in away),
        durable=log.native.is_durable and not log.read_only,  # of a reader's own page that says nothing
        retention=rule,
        retention_error=error,
    )


def _reached(end: Callable[[StreamLog], Entry | None], log: StreamLog) -> Entry | None:
    """An entry at an end of a stream; what can be said without a storage, or room for what it has, is said."""
    try:
        return end(log)
    except (RemoteError, DiskFullError):
        return None
    except CorruptionError:
        views = log.segments.views()
        if not log.is_damaged and views and not (log.segments.is_here(views[0]) and log.segments.is_here(views[-1])):
            return None
        raise


def _first_id(log: StreamLog, first: Entry | None) -> EntryID:
    if first is not None:
        return first.id
    if log.native.counters()[0] == 0:
        return MIN_ID
    try:
        return reader.first_id(log)
    except RemoteError:
        return log.segments.views()[0].first


def _stub(log: StreamLog, view: SegmentView) -> cold.Stub | None:
    """The stub of a segment that is elsewhere; one that cannot be read is for `verify` to report."""
    try:
        return None if log.segments.is_here(view) else cold.find(log.directory, log.native, view)
    except (CorruptionError, FormatError):
        return None
