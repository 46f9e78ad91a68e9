"""How much of a stream lies within a limit of bytes or of age: found by counts, indexes and sizes of files."""

from collections.abc import MutableMapping

from diskstream._native import EntryID, SegmentView, segment_at
from diskstream.engine import names, positions
from diskstream.engine.files import size_of
from diskstream.engine.log import StreamLog
from diskstream.engine.looks import is_there
from diskstream.engine.segment import SegmentGone

__all__ = ["Sizes", "entries_within", "place_of", "sealed_files", "size_within"]

Sizes = MutableMapping[tuple[int, int], int]  # of sealed files, which never change, by number and generation


def place_of(log: StreamLog, least: EntryID) -> tuple[int, int]:
    """Segment and position of the first entry not below `least`; no lock is needed.

    A segment whose first entry is not below it is not even opened.

    Raises:
        SegmentGone: the segments have changed meanwhile: look again.
        CorruptionError: a file is missing or damaged.
    """
    number = log.native.tail[0]  # before the list, or what is rolled in between would be passed over
    views = log.segments.views()
    low = segment_at(views, least)
    if low < len(views):
        view = views[low]
        if view.first >= least:
            return view.number, 0
        positions.opened(log, view)
        return view.number, log.segments.position_of(view, least)[0]
    position = log.native.seek(number, least, True)
    if position is None:
        raise SegmentGone
    return number, position


def _file_bytes(log: StreamLog, view: SegmentView, sizes: Sizes) -> int:
    """What a segment takes on this machine's disk; nothing where its file was moved away."""
    if log.segments.is_rows(view):
        return view.size_bytes
    key = view.number, view.generation
    path = names.segment_path(log.directory, *key)
    # The file may be moved away, by any process, and fetched back: its size is remembered, and not that it is there.
    if key in sizes and is_there(path):
        return sizes[key]
    size = size_of(path)
    if size:
        sizes[key] = size
    return size


def entries_within(log: StreamLog, keep_bytes: int, sizes: Sizes) -> int | None:
    """How many of the newest entries take so many bytes; None where all do.

    An entry takes its share of its segment's file, the mean of the entries in it.
    """
    views = positions.all_listed(log)
    for key in set(sizes) - {(view.number, view.generation) for view in views}:
        del sizes[key]
    left, kept = keep_bytes, 0
    for view in reversed(views):
        size = view.size_bytes if view is views[-1] else _file_bytes(log, view, sizes)
        share = size * view.live // max(view.entries, 1)
        if share > left:
            return kept + left * view.entries // size
        left -= share
        kept += view.live
    return None


def size_within(log: StreamLog, sizes: Sizes) -> int:
    """Bytes that live entries take on this machine's disk, by shares as above."""
    total = 0
    *views, active = positions.all_listed(log)
    for view in views:
        total += _file_bytes(log, view, sizes) * view.live // max(view.entries, 1)
    return total + active.size_bytes * active.live // max(active.entries, 1)


def sealed_files(log: StreamLog, before: int) -> list[tuple[int, int]]:
    """Number and generation of the sealed segments before one, whose files are on this machine."""
    return [
        (view.number, view.generation)
        for view in log.segments.views()
        if view.number < before
        and not log.segments.is_rows(view)
        and is_there(names.segment_path(log.directory, view.number, view.generation))
    ]
