"""A segment whose file is missing, from other files that have its entries: what it was compacted from, or into.

A log that is of another moment than the files beside it lists what they are not yet, or are no more: a copy that was
made by hand beside a compaction, or an earlier log that was put in the place of a later one. Files that a recovery did
not know are in the quarantine; they count as those in the directory do.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from diskstream._native import Block, EntryID, Log, NodeCache, SealedSegment, SegmentView
from diskstream.engine import names
from diskstream.engine.files import open_regular
from diskstream.engine.looks import children, is_file, is_folder, is_link
from diskstream.engine.losses import Loss
from diskstream.engine.ownership import owner_of
from diskstream.engine.salvage_nodes import salvage_log
from diskstream.errors import CorruptionError
from diskstream.plurals import number_of

__all__ = ["Remade", "remade"]


@dataclass(frozen=True)
class _Source:
    """A file that has entries of the segment: so many, from one ID to another.

    Attributes:
        read: gives blocks of what lies between two IDs; of a log whole frames.
    """

    path: Path
    number: int
    generation: int
    first: EntryID
    last: EntryID
    entries: int
    read: Callable[[EntryID, EntryID], Iterator[Block]]
    copy: bytes


@dataclass(frozen=True)
class Remade:
    """What there is of a segment whose file is missing.

    Attributes:
        view: the segment.
        sources: the files, in order.
        is_later: whether they are what it was compacted into: what they lack was deleted or trimmed by then.
    """

    view: SegmentView
    sources: tuple[_Source, ...]
    is_later: bool

    @property
    def entries(self) -> int:
        """How many entries they have of it."""
        return sum(each.entries for each in self.sources)

    @property
    def is_exact(self) -> bool:
        """Whether these are all entries of the segment, each at its position, and no others."""
        return self.entries == self.view.entries

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [each.path for each in self.sources]

    @property
    def names(self) -> str:
        """Their names, as they are told."""
        return ", ".join(
            f"{path.name.rpartition('-')[0]} in quarantine" if path.parent.name == "quarantine" else path.name
            for path in self.paths
        )

    def losses(self) -> list[Loss]:
        """What is not in them."""
        missing = self.view.entries - self.entries
        if missing <= 0 or self.is_later:
            return []
        path = names.segment_path(self.sources[0].path.parent, self.view.number, self.view.generation)
        what = "the file is missing, and not all that it was compacted from is there"
        return [Loss(path, 0, 0, what, str(self.view.first), str(self.view.last), missing)]

    def notes(self) -> list[str]:
        """What is different in a segment that is made of them."""
        if self.is_exact:
            return []
        if self.is_later:
            has = f"what it was compacted into has {self.entries:,} of its {number_of(self.view.entries, 'entry')}"
            return [f"segment {self.view.number}: {has}; the others were deleted or trimmed, which the log had lost"]
        return [f"segment {self.view.number}: entries that were deleted or trimmed may be there again"]

    @property
    def copy(self) -> bytes:
        """The copy of the snapshot behind the segment, where the last of them ends as the segment does."""
        last = self.sources[-1]
        return last.copy if last.last == self.view.last and not self.is_later else b""

    def blocks(self) -> Iterator[Block]:
        """Their entries, in order. Where others are among them, that were deleted before, positions are not known: of
        those that were trimmed so many are left out as certainly were.
        """
        start = self.view.first
        if not self.is_exact and not self.is_later:
            start = self._behind(self.view.trimmed if self.entries > self.view.entries else 0)
        for each in self.sources:
            yield from each.read(start, self.view.last)

    def _behind(self, count: int) -> EntryID:
        """The ID of the entry behind so many."""
        for each in self.sources:
            for block in each.read(self.view.first, self.view.last):
                ids = [entry.id for entry in block.entries()]
                if count < len(ids):
                    return ids[count]
                count -= len(ids)
        return self.view.last


def remade(directory: Path, quarantines: Collection[Path], native: Log, view: SegmentView) -> Remade | None:
    """What there is of a segment whose file is missing; None where nothing is.

    Raises:
        StorageError: nobody can say.
    """
    listed = {(each.number, each.generation) for each in native.segments()}
    found = list(_sources(directory, quarantines, native, view, listed))
    before = [each for each in found if _is_input(each, view)]
    before = _apart(sorted(before, key=lambda each: (each.number, -each.generation, -each.entries)))
    after = _apart(sorted((each for each in found if not _is_input(each, view)), key=lambda each: -each.entries))
    earlier, later = Remade(view, tuple(before), is_later=False), Remade(view, tuple(after), is_later=True)
    if earlier.entries >= view.entries or earlier.entries > later.entries:
        return earlier
    return later if later.entries else None


def _is_input(source: _Source, view: SegmentView) -> bool:
    return source.number > view.number or (source.number == view.number and source.generation <= view.generation)


def _apart(sources: Iterable[_Source]) -> list[_Source]:
    """Those that have no IDs of one before: they were made of it, or it of them."""
    chosen: list[_Source] = []
    for each in sources:
        if all(each.last < other.first or other.last < each.first for other in chosen):
            chosen.append(each)
    return sorted(chosen, key=lambda each: each.first)


def _sources(
    directory: Path,
    quarantines: Collection[Path],
    native: Log,
    view: SegmentView,
    listed: Collection[tuple[int, int]],
) -> Iterator[_Source]:
    active = native.tail[0]
    for folder in (directory, *quarantines):
        kept = folder != directory
        for path in children(folder) if is_folder(folder) and not is_link(folder) else []:
            parsed = names.parse_file(path.name.rpartition("-")[0] if kept else path.name)
            if parsed is None or not is_file(path) or parsed[1] >= active or (parsed[1:] in listed and not kept):
                continue
            made: _Source | None = None
            try:
                if parsed[0] == "seg":
                    made = _sealed(path, parsed[1], native, view)
                elif parsed[0] == "log" and not kept:  # one that was kept was damaged
                    made = _rolled(path, parsed[1], native, view)
            except (CorruptionError, OSError):
                continue  # what is damaged was put there for that
            if made is not None and made.entries:
                yield made


def _sealed(path: Path, number: int, native: Log, view: SegmentView) -> _Source | None:
    fd = open_regular(path)
    try:
        file = SealedSegment(fd, str(path), native.uuid, number, NodeCache(0))
    finally:
        os.close(fd)
    if file.first > view.last or file.last < view.first:
        return None

    def read(first: EntryID, last: EntryID) -> Iterator[Block]:
        for node in range(file.node_of_id(first), file.node_of_id(last) + 1):
            yield file.read_block(node, first, last, None, False)

    entries = sum(len(block) for block in read(view.first, view.last))
    return _Source(path, number, file.generation, file.first, file.last, entries, read, file.snapshot_copy())


def _rolled(path: Path, number: int, native: Log, view: SegmentView) -> _Source | None:
    owner = owner_of(path, "log")
    found = salvage_log(path) if owner == (bytes(native.uuid), number, 0) else None
    pieces = [] if found is None else [each for each in found.pieces if each.first <= view.last]
    pieces = [each for each in pieces if each.last >= view.first]
    if found is None or not pieces:
        return None

    def read(first: EntryID, last: EntryID) -> Iterator[Block]:
        return (found.block(each, None) for each in pieces if each.first <= last and each.last >= first)

    entries = sum(each.entries for each in pieces)
    return _Source(path, number, 0, pieces[0].first, pieces[-1].last, entries, read, b"")
