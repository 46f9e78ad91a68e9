"""Segments that no longer change: opening them, and reading them block by block."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NoReturn

from diskstream._native import (
    Block,
    ColumnBatch,
    Entry,
    EntryID,
    Log,
    LogFile,
    NodeCache,
    RowSegment,
    ScanBatch,
    ScanLayout,
    SealedSegment,
    SegmentView,
)
from diskstream.engine import cold, names, spare
from diskstream.engine.descriptors import tried_again
from diskstream.engine.file_sizes import FileSizes
from diskstream.engine.files import open_regular, wrapped
from diskstream.engine.kept_open import Key, SharedCache
from diskstream.engine.looks import children, is_there
from diskstream.errors import CorruptionError, RemoteError, StorageError
from diskstream.options import Options
from diskstream.plurals import number_of

__all__ = [
    "FEWEST_ROWS",
    "ROWS_AT_ONCE",
    "Away",
    "SegmentGone",
    "Segments",
    "at_once",
    "open_cold",
    "open_sealed",
    "read_back",
    "snapshot_copy",
    "whole_blocks",
]

# Rows of a row file that are unpacked at a time: at most, and at least where fewer are wanted.
ROWS_AT_ONCE = 1024
FEWEST_ROWS = 16
_BYTES_AT_ONCE = 1 << 20
# A scan of more nodes than this leaves the cache to those who come back for a node.
_SCAN_NODES = 64
# A scan unpacks so many in one call, without the interpreter's lock.
_NODES_AT_ONCE = 16
# Segments that went are forgotten once there are so many of them beside as many as are listed: seldom, and all at once.
_FORGOTTEN_LATE = 16


def at_once(enough: int) -> int:
    """Rows to be unpacked at first, where so many entries are `enough`."""
    return min(max(enough, FEWEST_ROWS), ROWS_AT_ONCE)


class SegmentGone(Exception):  # noqa: N818  # not an error: the list of segments has changed
    """The file of a segment is gone, and no stub is there: if the log still lists it, it is missing."""


class Away(Exception):  # noqa: N818  # not an error: to be fetched where no lock is held
    """A cold segment is needed, whose bytes are not in the cache."""

    def __init__(self, segments: "Segments", view: SegmentView) -> None:
        super().__init__(view.number)
        self._segments, self._view = segments, view

    def fetch(self) -> None:
        """Fetches it.

        Raises:
            RemoteError: the storage does not answer, or has it no more.
            CorruptionError: the object, or the stub, is damaged.
        """
        with contextlib.suppress(SegmentGone):
            self._segments.get(self._view)


def open_sealed(
    directory: Path,
    native: Log,
    view: SegmentView,
    cache: NodeCache | None = None,
    *,
    text: bool = False,
    by_page: bool = False,
) -> SealedSegment | None:
    """Opens the sealed file of a segment; None where there is none.

    Args:
        directory: of the stream.
        native: its log.
        view: the segment.
        cache: of its nodes.
        text: names and values are str.
        by_page: a page of its index is compared with its checksum when it is first touched, instead of all of it now.

    Raises:
        CorruptionError: header, footer or index are damaged, or it is another stream's.
    """
    path = names.segment_path(directory, view.number, view.generation)
    fd = -1
    try:
        with wrapped(path, "open"):
            fd = open_regular(path)
        return _opened(fd, path, native, view, cache, text=text, by_page=by_page)
    except FileNotFoundError:
        if fd >= 0:
            raise
        return None
    finally:
        if fd >= 0:
            os.close(fd)


def open_cold(
    directory: Path,
    native: Log,
    view: SegmentView,
    fetched: Callable[[cold.Stub], int],
    cache: NodeCache | None = None,
    *,
    text: bool = False,
) -> SealedSegment | None:
    """Opens the segment that a stub stands for, as `fetched` gives it; None where there is no stub.

    Raises:
        CorruptionError: the stub is damaged or another segment's, or the object is not what was put there.
        RemoteError: the object cannot be fetched.
    """
    stub = cold.find(directory, native, view)
    if stub is None:
        return None
    path = names.cold_path(directory, view.number, view.generation)
    fd = fetched(stub)
    try:
        return _opened(fd, path, native, view, cache, text=text, by_page=False)
    finally:
        os.close(fd)


def _opened(
    fd: int, path: Path, native: Log, view: SegmentView, cache: NodeCache | None, *, text: bool, by_page: bool
) -> SealedSegment:
    nodes = cache or NodeCache(0)
    sealed = tried_again(lambda: SealedSegment(fd, str(path), native.uuid, view.number, nodes, text, by_page))
    if sealed.entries != view.entries:
        found = number_of(sealed.entries, "entry")
        raise CorruptionError(
            str(path), "sealed segment", 0, f"{number_of(view.entries, 'entry')}, as the log lists", found
        )
    return sealed


def read_back(sealed: SealedSegment) -> int:
    """Reads every node of a sealed file. Returns its entries.

    Raises:
        CorruptionError: one cannot be read.
    """
    return sum(sealed.verify(node) for node in range(sealed.nodes))


def snapshot_copy(directory: Path, number: int) -> bytes:
    """The copy of the snapshot after segment `number`, from whichever generation of it holds one, or by itself."""
    found = [(path, names.parse_file(path.name)) for path in children(directory)]
    sealed = [(parsed[2], path) for path, parsed in found if parsed is not None and parsed[:2] == ("seg", number)]
    for _, path in sorted(sealed, reverse=True):
        with contextlib.suppress(CorruptionError, StorageError):
            with wrapped(path, "open"):
                fd = open_regular(path)
            try:
                copy = SealedSegment.copy_of(fd, str(path))
            finally:
                os.close(fd)
            if copy:
                return copy
    return spare.read(directory, number + 1)


def _laid_out(
    segment: SealedSegment,
    view: SegmentView,
    within: tuple[EntryID, EntryID],
    layout: ScanLayout,
    *,
    rows: int,
    size_bytes: int,
) -> Iterator[ScanBatch]:
    first, last = (segment.node_of_id(end) for end in within)
    cached = last - first <= _SCAN_NODES
    limits = {"rows": rows, "size_bytes": size_bytes}
    while (first := segment.live_node(first, view)) <= last:
        batch, first = segment.scan(layout, first, last + 1, *within, view, **limits, cached=cached)
        yield batch


class Segments:
    """The segments of one stream, opened as they are needed."""

    def __init__(
        self,
        directory: Path,
        native: Log,
        options: Options,
        cache: SharedCache | None = None,
        asked: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._directory, self._native, self._options = directory, native, options
        self._place = f"{directory}{os.sep}"
        self._asked = asked  # whether the directory still is the stream's, where something foreign is in it
        self.cache = cache or SharedCache(options.cache_bytes)
        self.file_sizes = FileSizes(directory)
        self._owner = self.cache.new_owner()
        self._packed: set[tuple[int, int]] = set()
        self._views: tuple[int, list[SegmentView]] = (-1, [])
        # While a thread has its `nearby` set it fetches nothing, since others wait for it: `Away` is raised instead.
        self.held = threading.local()

    def views(self) -> list[SegmentView]:
        """The sealed and rolled segments in order, as the log lists them now."""
        version = self._native.version
        kept = self._views
        if kept[0] != version:
            # Another thread may put an older list there at any moment: what is returned is never looked up again.
            self._views = kept = (version, self._native.segments())
            if len(self._packed) > 2 * len(kept[1]) + _FORGOTTEN_LATE:
                # In a queue whose segments come and go, those that went would be remembered for ever.
                self._packed &= {(view.number, view.generation) for view in kept[1]}
        return kept[1]

    def is_rows(self, view: SegmentView) -> bool:
        """Whether the segment still is a log file. Once it is not, it never is again."""
        key = view.number, view.generation
        if view.generation or key in self._packed:
            return False
        if is_there(names.log_path(self._directory, view.number)):
            return True
        self._packed.add(key)
        return False

    def keep_rows(self, number: int, rows: RowSegment) -> None:
        """Takes over the log file just left behind, which is indexed already."""
        self.cache.put((self._owner, number, 0), rows)

    def forget(self, number: int, generation: int) -> None:
        """Closes a segment, so that it is looked up again."""
        self.cache.drop((self._owner, number, generation))

    def get(self, view: SegmentView) -> SealedSegment | RowSegment:
        """The open segment.

        Raises:
            SegmentGone: it has no file.
            StreamMoved: another stream is in its place.
            CorruptionError: its file is damaged.
        """
        key = self._owner, view.number, view.generation
        found = self.cache.get(key)
        if found is None:
            found = self._at_hand(key, view)
        if found is None:
            with self._asked():
                found = self._open_segment(view)
        return found

    def refuse_missing(self, view: SegmentView) -> NoReturn:
        """For a segment that is listed and has no file.

        Raises:
            CorruptionError: it is lost.
            StreamMoved, StorageError: the whole directory is elsewhere.
        """
        path = names.segment_path(self._directory, view.number, view.generation)
        with self._asked():
            entries = f"a file with {number_of(view.entries, 'entry')}"
            raise CorruptionError(str(path), "sealed segment", 0, entries, "no file")

    def _at_hand(self, key: Key, view: SegmentView) -> SealedSegment | None:
        """Most segments are a sealed file and nothing else. All that runs here runs for the first time in many a
        process, which wants one entry and ends: so it is one native call."""
        place, nodes = self._place, self.cache.nodes
        log, sealed = place + names.log_name(view.number), place + names.segment_name(view.number, view.generation)
        text = self._options.decode_responses
        found = SealedSegment.at_hand(log, sealed, self._native.uuid, view, nodes, text)
        if found is not None:
            self.cache.put(key, found)
        return found

    def is_here(self, view: SegmentView) -> bool:
        """Whether the segment's bytes are in the stream's directory, or missing: there is no more than a stub else."""
        path = names.segment_path(self._directory, view.number, view.generation)
        stub = names.cold_path(self._directory, view.number, view.generation)
        return self.is_rows(view) or is_there(path) or not is_there(stub)

    def is_away(self, view: SegmentView) -> bool:
        """Whether reading the segment would ask the storage: only a stub is here, and nothing is open or fetched.

        Raises:
            StreamMoved: another stream is in its place.
            CorruptionError: the stub is damaged, or stands for another segment.
        """
        if self.cache.get((self._owner, view.number, view.generation)) is not None or self.is_rows(view):
            return False
        if is_there(names.segment_path(self._directory, view.number, view.generation)):
            return False
        with self._asked():
            stub = cold.find(self._directory, self._native, view)
        return stub is not None and not self.cache.cold.has(stub)

    def _open_segment(self, view: SegmentView) -> SealedSegment | RowSegment:
        # A sealed file gets its name before the log that it was made from goes, and a stub before the sealed file goes.
        # Where none was seen, a step came in between, and the second look finds what it made.
        key = self._owner, view.number, view.generation
        text = self._options.decode_responses
        for _ in range(2):
            found = self._open_either(view)
            if found is not None:
                self.cache.put(key, found)
                return found
            if getattr(self.held, "nearby", False) and self.is_away(view):
                raise Away(self, view)
            shared = self.cache
            try:
                fetched = open_cold(self._directory, self._native, view, shared.cold.open, shared.nodes, text=text)
            except RemoteError:
                if not self.is_here(view):
                    raise
                continue  # it came back meanwhile, and its object was swept
            if fetched is not None:
                shared.put_fetched(key, fetched)
                return fetched
        raise SegmentGone

    def _open_either(self, view: SegmentView) -> SealedSegment | RowSegment | None:
        text = self._options.decode_responses
        # Only at the opening can the log be taken instead, where it is still there: then all is looked at.
        by_page = not self.is_rows(view)
        try:
            sealed = open_sealed(self._directory, self._native, view, self.cache.nodes, text=text, by_page=by_page)
            if sealed is not None:
                return sealed
        except CorruptionError:
            if not self.is_rows(view):
                raise  # else the log file it was made from is still there
        return None if view.generation else self._open_rows(view)

    def _open_rows(self, view: SegmentView) -> RowSegment | None:
        path = names.log_path(self._directory, view.number)
        try:
            with wrapped(path, "open"):
                fd = open_regular(path)
        except FileNotFoundError:
            return None
        try:
            file = tried_again(lambda: LogFile(fd, str(path), False))
        finally:
            os.close(fd)
        return RowSegment(file, view, self._native.uuid, self._options.decode_responses)

    def close(self) -> None:
        """Closes all segments. One that is opened behind that is closed by who has it."""
        self.cache.end_owner(self._owner)

    # --- reading ------------------------------------------------------------------------------------------------------

    def blocks(
        self, view: SegmentView, start: EntryID, end: EntryID, *, reverse: bool, enough: int = ROWS_AT_ONCE
    ) -> Iterator[Block]:
        """The blocks of a segment that lie within `start..end`; `enough` entries are wanted."""
        segment = self.get(view)
        if isinstance(segment, SealedSegment):
            first, last = segment.node_of_id(start), segment.node_of_id(end)
            cached = last - first <= _SCAN_NODES
            if reverse:
                at: int | None = last
                while at is not None and (at := segment.live_node_back(at, view)) is not None and at >= first:
                    yield segment.read_block(at, start, end, view, cached)
                    at = at - 1 if at else None
                return
            some, most = 1, 1 if enough < ROWS_AT_ONCE else _NODES_AT_ONCE
            while (first := segment.live_node(first, view)) <= last:
                found = segment.read_blocks(first, min(last + 1, first + some), start, end, view, cached)
                yield from found
                first += len(found)
                some = min(2 * some, most)  # who stops early has not waited for much
            return
        low, high = view.next_live(segment.seek(start)), view.entries
        if reverse:
            yield from self._rows_backwards(segment, view, (start, end), low, at_once(enough))
            return
        rows = at_once(enough)
        while low < high:
            block = segment.read(low, start, end, rows, _BYTES_AT_ONCE, view)
            if block is None or block.id_at(0) > end:
                return
            yield block
            low, rows = view.next_live(block.end_position), ROWS_AT_ONCE

    def _rows_backwards(
        self, segment: RowSegment, view: SegmentView, within: tuple[EntryID, EntryID], low: int, rows: int
    ) -> Iterator[Block]:
        beyond = within[1].next()
        high = view.entries if beyond is None else segment.seek(beyond)
        while low < (high := view.live_end(high)):
            position = max(low, high - rows)
            block = segment.read(position, *within, high - position, 1 << 40, view)
            if block is None:
                return
            yield block
            high, rows = position, ROWS_AT_ONCE

    def batches(
        self, view: SegmentView, start: EntryID, end: EntryID, layout: ScanLayout, *, rows: int, size_bytes: int
    ) -> Iterator[ScanBatch | Block]:
        """Batches of what lies within `start..end`, laid out node by node; of a row file its blocks."""
        segment = self.get(view)
        if not isinstance(segment, SealedSegment):
            return self.blocks(view, start, end, reverse=False)
        return _laid_out(segment, view, (start, end), layout, rows=rows, size_bytes=size_bytes)

    def find(self, view: SegmentView, entry_id: EntryID) -> Entry | None:
        """The live entry with this ID, or None."""
        segment = self.get(view)
        if isinstance(segment, SealedSegment):
            return segment.find(entry_id, view)
        block = segment.read(segment.seek(entry_id), entry_id, entry_id, 1, 1, view)
        return None if block is None else block.find(entry_id)

    def position_of(self, view: SegmentView, entry_id: EntryID, rows: int = 1) -> tuple[int, Block | None]:
        """The position of the first entry whose ID is not below `entry_id`, and a block that begins with it.

        Of a sealed segment that is the node it is in; of a row file so many `rows`.
        """
        segment = self.get(view)
        if isinstance(segment, SealedSegment):
            block: Block | None = segment.read_block(segment.node_of_id(entry_id), EntryID(0, 0), view.last, view)
            return (0 if block is None else block.lower_bound(entry_id)), block
        position = segment.seek(entry_id)
        return position, segment.read(position, EntryID(0, 0), view.last, rows, _BYTES_AT_ONCE, view)

    def columns(
        self, view: SegmentView, within: tuple[EntryID, EntryID], fields: list[bytes] | None, duplicates: str
    ) -> list[ColumnBatch]:
        """The live entries of a segment within a range, as columns."""
        segment = self.get(view)
        if isinstance(segment, SealedSegment):
            return segment.columns(*within, view, fields, duplicates, os.cpu_count() or 1)
        blocks = list(self.blocks(view, *within, reverse=False))
        return [ColumnBatch.of_blocks(blocks, fields, duplicates)]


def whole_blocks(rows: RowSegment, max_entries: int, max_bytes: int) -> Iterator[Block]:
    """All entries of a row file, gone ones included, in blocks within the limits."""
    position = 0
    while block := rows.read(position, EntryID(0, 0), EntryID(2**64 - 1, 2**64 - 1), max_entries, max_bytes):
        yield block
        position = block.end_position
