"""Seal and compact: row files become packed columnar ones, and several of these one.

Both write a temporary file, fsync it, rename it and fsync the directory; only then is anything removed. Sealing keeps
every position, so the log needs no word of it. Compacting renumbers positions: a *replace* frame makes it true, and
must be durable before the inputs go.
"""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from diskstream._native import Block, EntryID, RowSegment, SealedSegment, Sealer, SegmentView
from diskstream.engine import audit, names, spare
from diskstream.engine.descriptors import says_nothing, tried_again
from diskstream.engine.files import name_anew, open_regular, size_of, wrapped
from diskstream.engine.log import StreamLog
from diskstream.engine.looks import is_there
from diskstream.engine.making_way import Progress, making_way
from diskstream.engine.page import MAINTENANCE
from diskstream.engine.segment import SegmentGone, open_sealed, read_back, whole_blocks
from diskstream.engine.whereabouts import refuse_elsewhere
from diskstream.errors import CorruptionError, ReadOnlyError, StorageError
from diskstream.plurals import number_of

__all__ = ["CompactReport", "Progress", "compact", "ignore", "reap", "seal_rolled", "snapshot_frame", "unsealed"]

_BLOCK_ENTRIES = 1 << 16
_BLOCK_BYTES = 16 << 20

_FIRST, _LAST = EntryID(0, 0), EntryID(2**64 - 1, 2**64 - 1)


@dataclass(frozen=True)
class CompactReport:
    """What a compaction did.

    Attributes:
        segments_before, segments_after: sealed segments.
        entries_dropped: entries whose bytes are gone now.
        bytes_before, bytes_after: sizes of the sealed files.
    """

    segments_before: int
    segments_after: int
    entries_dropped: int
    bytes_before: int
    bytes_after: int


def ignore(_entries: int, _size_bytes: int) -> None:
    """No progress is shown."""


def _sealer(log: StreamLog, number: int, generation: int) -> Sealer:
    options = log.options
    return Sealer(
        log.native.uuid,
        number,
        generation,
        secrets.randbits(32),
        max_entries=options.node_max_entries,
        max_bytes=options.node_max_bytes,
        level=options.compression_level,
    )


def snapshot_frame(directory: Path, number: int) -> bytes:
    """The snapshot frame of a segment that is still a log file; empty otherwise.

    Raises:
        StorageError: the disk failed. The copy is what is left when it does so again: nothing is sealed without it.
    """
    try:
        return spare.snapshot_frame(names.log_path(directory, number))
    except OSError as error:
        if says_nothing(error):
            raise
        return b""  # sealed or unlinked meanwhile: then the copy is not needed any more


def _copy_behind(log: StreamLog, number: int) -> bytes:
    """The copy of the snapshot of segment `number`, for the sealed file before it; empty where none is needed.

    Raises:
        CorruptionError: it is the active log's, and damaged. What would be sealed or compacted is what it can be made
            anew from: the frames that led to it, or a sound copy.
        StorageError: the disk failed.
    """
    frame = snapshot_frame(log.directory, number)
    if not frame or spare.is_sound(frame):
        return frame
    if number == log.native.tail[0]:
        raise spare.damaged(names.log_path(log.directory, number))
    return b""  # of a log that was left behind: the one behind it has a snapshot of its own


def unsealed(log: StreamLog) -> list[SegmentView]:
    """Rolled segments that are still row files."""
    return [view for view in log.segments.views() if log.segments.is_rows(view)]


def seal_rolled(
    log: StreamLog,
    *,
    progress: Progress = ignore,
    on_sealed: Callable[[], None] | None = None,
    wait: bool = True,
) -> int:
    """Seals every rolled segment that is not sealed yet. Returns how many.

    With `wait` false, nothing is done where another process is at it. `on_sealed` is called once for each that is
    sealed: where a failure ends it, nothing else tells of those before.
    """
    if log.read_only:
        raise ReadOnlyError(str(log.directory))
    sealed = 0

    def seal_each(watched: Progress) -> None:
        nonlocal sealed
        for view in unsealed(log):
            if log.closed:
                break
            if _seal_one(log, view, watched):
                sealed += 1
                if on_sealed is not None:
                    on_sealed()

    making_way(log, seal_each, progress, wait=wait)
    return sealed


def _seal_one(log: StreamLog, view: SegmentView, progress: Progress) -> bool:
    target = names.segment_path(log.directory, view.number, 0)
    source = names.log_path(log.directory, view.number)
    refuse_elsewhere(log.directory, log.page)
    was_there = is_there(target)
    if was_there:
        # What groups did was kept before the sealed file got its name, if it was to be kept.
        name_anew(log.files, target)  # left by who was killed before its name was durable, or failed to make it so
    else:
        try:
            rows = log.segments.get(view)
        except SegmentGone:
            return False
        if not isinstance(rows, RowSegment):
            return False
        if log.options.audit:
            level = log.options.compression_level
            audit.write(log.directory, log.files, rows.audit(str(source)), level)
        # Every position is kept, gone entries included, so that positions in the log stay true.
        # Far more than a node at a time: a frame is unpacked from its beginning for each block that is taken from it.
        blocks = whole_blocks(rows, _BLOCK_ENTRIES, _BLOCK_BYTES)
        sealer = _sealer(log, view.number, 0)
        _write(log, target, sealer, blocks, progress, times_ms=view.times_ms, successor=view.number + 1)
    log.segments.forget(view.number, 0)
    try:
        _check_sealed(log, view, target)
    except CorruptionError:
        if not was_there:
            # Of what it was made from every row was just read and found whole: nobody is to read this in its place.
            with contextlib.suppress(StorageError):
                log.files.unlink(target)
            log.segments.forget(view.number, 0)
        raise
    log.files.unlink(source)
    log.files.sync_dir(log.directory)
    return True


def _check_sealed(log: StreamLog, view: SegmentView, target: Path) -> None:
    """Reads back what is to stand in the place of a log.

    Raises:
        CorruptionError: it is not what the log lists.
    """
    sealed = open_sealed(log.directory, log.native, view)
    if sealed is None or read_back(sealed) != view.entries:
        raise CorruptionError(
            str(target), "sealed segment", 0, f"the {number_of(view.entries, 'entry')} just written", "fewer"
        )


def _write(
    log: StreamLog,
    target: Path,
    sealer: Sealer,
    blocks: Iterable[Block],
    progress: Progress,
    *,
    times_ms: tuple[int, int],
    successor: int,
) -> None:
    """Writes a sealed file under a temporary name, makes it durable, and only then gives it its name.

    Raises:
        CorruptionError: the snapshot of the active log is damaged: see `_copy_behind`.
    """
    temporary = target.with_name(target.name + ".tmp")
    log.files.unlink(temporary)
    copy = _copy_behind(log, successor)  # before hours of work that would be in vain
    try:
        with log.files.create(temporary) as new:
            for block in blocks:
                data = sealer.push(block)
                if data:
                    new.write(data)
                progress(len(block), len(data))
            rest = sealer.finish(copy, times_ms)
            new.write(rest)
            progress(0, len(rest))
            new.sync()
        log.files.rename(temporary, target)
    except BaseException:
        log.files.unlink(temporary)
        raise
    try:
        log.files.sync_dir(log.directory)
    except StorageError:
        # A second flush would prove nothing of a name that the first one failed to write: it is to be given anew.
        with contextlib.suppress(StorageError):
            log.files.unlink(target)
        raise


def reap(log: StreamLog, *, wait: bool = True) -> None:
    """Removes the files of segments that the log no longer lists, once the frame that says so is durable.

    Unless told to `wait`, it leaves that to whoever is at the stream's files at the moment, and to a later call.
    """
    with log.ctl.locked(MAINTENANCE, wait) as held:
        if held:
            log.refresh()
            log.remove_dropped()


def _size(log: StreamLog, views: Iterable[SegmentView]) -> int:
    return sum(size_of(names.segment_path(log.directory, view.number, view.generation)) for view in views)


def _groups(
    views: list[SegmentView], segment_bytes: int, is_taken: Callable[[SegmentView], bool]
) -> list[list[SegmentView]]:
    """Runs of neighbours that fit into one segment, where there is something to gain, of those that may be taken."""
    groups: list[list[SegmentView]] = []
    room = 0
    for view in views:
        if not is_taken(view):
            room = -1  # none of its neighbours joins another across it
            continue
        share = view.size_bytes * view.live // max(view.entries, 1)
        if groups and share <= room:
            groups[-1].append(view)
            room -= share
        else:
            groups.append([view])
            room = segment_bytes - share
    return [group for group in groups if len(group) > 1 or group[0].live < group[0].entries]


def compact(log: StreamLog, *, progress: Progress = ignore) -> CompactReport:
    """Merges small sealed segments with their neighbours and drops the bytes of entries that are gone."""
    seal_rolled(log, progress=progress)
    before: list[tuple[int, int]] = []
    after, dropped, segments = (0, 0), 0, log.segments

    def is_taken(view: SegmentView) -> bool:
        """Not what is cold; nor what others rolled just now: what groups did stands in its log alone."""
        return segments.is_here(view) and not segments.is_rows(view)

    def merge(watched: Progress) -> None:
        nonlocal after, dropped
        views = segments.views()
        before.append((len(views), _size(log, views)))
        for group in _groups(views, log.options.segment_bytes, is_taken):
            dropped += _compact_group(log, group, watched)
        log.remove_dropped()
        views = segments.views()
        after = len(views), _size(log, views)

    making_way(log, merge, progress)
    return CompactReport(before[0][0], after[0], dropped, before[0][1], after[1])


def _compact_group(log: StreamLog, group: list[SegmentView], progress: Progress) -> int:
    refuse_elsewhere(log.directory, log.page)
    number = group[0].number
    generation = max(view.generation for view in group) + 1
    target = names.segment_path(log.directory, number, generation)
    times = min(view.times_ms[0] for view in group), max(view.times_ms[1] for view in group)
    blocks = (block for view in group for block in log.segments.blocks(view, _FIRST, _LAST, reverse=False))
    sealer = _sealer(log, number, generation)
    try:
        _write(log, target, sealer, blocks, progress, times_ms=times, successor=group[-1].number + 1)
    except SegmentGone:
        return 0  # trimmed away meanwhile
    with wrapped(target, "open"):
        fd = open_regular(target)
    try:
        nodes = log.segments.cache.nodes
        written = tried_again(lambda: SealedSegment(fd, str(target), log.native.uuid, number, nodes))
    finally:
        os.close(fd)
    read_back(written)
    with log.locked():
        log.prepare()
        current = {view.number: view for view in log.segments.views()}
        now = [current.get(view.number) for view in group]
        output = SegmentView.compacted(group, now, written)
        log.retry(lambda: log.native.replace([view.number for view in group], output), held=True)
    if output.live == 0:
        log.flush()
        log.files.unlink(target)
        log.files.sync_dir(log.directory)
    return sum(view.entries for view in group) - written.entries
