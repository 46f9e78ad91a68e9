"""Reading everything, changing nothing: what is damaged, where, and which IDs it touches."""

import contextlib
import copy
import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from diskstream._native import EntryID, RowSegment, SealedSegment, SegmentView
from diskstream.engine import audit, names, recovery, spare
from diskstream.engine import cold as cold_stub
from diskstream.engine.descriptors import means_are_short, opened
from diskstream.engine.files import Files, reading, size_of
from diskstream.engine.layouts import LOG_HEADER, SEGMENT_HEADER
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.looks import children, is_there
from diskstream.engine.page import Page
from diskstream.engine.segment import SegmentGone, open_cold, open_sealed
from diskstream.engine.verify_cold import Refusals, is_refusal
from diskstream.engine.whereabouts import changed_ns
from diskstream.errors import (
    CorruptionError,
    FormatError,
    NewerFormatError,
    ReadOnlyError,
    RemoteError,
    StorageError,
)
from diskstream.plurals import number_of

__all__ = [
    "COUNTED",
    "Problem",
    "Progress",
    "VerifyReport",
    "ignore",
    "unless_removed",
    "verify_directory",
    "verify_log",
]

Progress = Callable[[int, int], None]  # entries, and bytes of files, just read
SEGMENT_HEADER_BYTES = 64
_NODES_AT_ONCE = 32  # of a segment: some megabytes, so that threads neither wait for each other nor hold much
_READ_AGAIN = 10
COUNTED = ("streams", "segments", "entries", "size_bytes", "cold_segments", "cold_bytes", "raw_bytes")
_PARTS = frozenset({"ctl", "name", "quarantine"})


def ignore(_: int, __: int) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class Problem:
    """One fault.

    Attributes:
        stream: the stream's name.
        path: the file.
        offset: where in it.
        what: what is damaged, what was expected and what was found.
        first, last: the IDs that it touches, as text; empty where none can be named, `last` also where nothing says
            how far it goes.
        entries: how many entries cannot be read for it; None where nobody can tell.
        meaning: what that means, in a sentence.
        place: the address of the object storage that did not answer, or refused; empty where it is anything else.
    """

    stream: bytes
    path: Path
    offset: int
    what: str
    first: str = ""
    last: str = ""
    entries: int | None = None
    meaning: str = ""
    place: str = ""


@dataclass
class VerifyReport:
    """What a verification read and found.

    Attributes:
        streams, segments, entries: how much was read.
        size_bytes: of the files, as they are stored.
        raw_bytes: of it, in sealed segments, before compression.
        cold_segments, cold_bytes: how much of that is in object storage, read or not.
        problems: the faults, none where all is well.
        notes: what is no fault, but may be news: what lies in quarantine, or was left over.
    """

    streams: int = 0
    segments: int = 0
    entries: int = 0
    size_bytes: int = 0
    cold_segments: int = 0
    cold_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    raw_bytes: int = 0
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Nothing was refused yet."""
        self.refusals = Refusals()

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems


_COLD = "see to the object storage, or to the stub by `diskstream cold adopt`: a repair leaves both alone"
_REST = "the rest of the stream can be read"
_ACTIVE = "what stands before this place can be read, nothing can be added; a repair keeps every whole frame behind it"


def _problem(name: bytes, path: Path, error: Exception, meaning: str, view: SegmentView | None = None) -> Problem:
    first, last = (str(view.first), str(view.last)) if view is not None else ("", "")
    entries = view.live if view is not None else None
    if means_are_short(error):
        raise error  # says nothing of the stream
    if isinstance(error, CorruptionError):
        what = f"{error.what}: expected {error.expected}, found {error.found}"
        where = Path(error.path) if error.path else path
        return Problem(name, where, error.offset, what, first, last, entries, meaning)
    if isinstance(error, NewerFormatError):
        meaning = "nothing of it is known to be damaged: a later version reads it, and a repair leaves it alone"
    if isinstance(error, ReadOnlyError) and error.hint:  # nothing is damaged, as far as anybody knows
        meaning = f"nobody has looked at it: {error.hint}"
    place = error.where if isinstance(error, RemoteError) and is_refusal(error) else ""
    return Problem(name, path, 0, str(error), first, last, entries, meaning, place)


def unless_removed(directory: Path, report: VerifyReport, read: Callable[[], None]) -> bool:
    """Reads a stream. What is found of it counts only if it is still there in the end: else it was on its way out.

    One that had another name meanwhile, and is back, is read again where that was in the way. Returns whether it was
    read: False where it was gone.
    """
    before = copy.copy(report)
    problems, notes = len(report.problems), len(report.notes)
    fd = -1
    with contextlib.suppress(OSError):
        fd = opened(directory, os.O_RDONLY | os.O_DIRECTORY)  # so that no other gets its inode

    def is_gone() -> bool:
        if _is_there(directory, fd):
            return False
        del report.problems[problems:], report.notes[notes:]
        # as one that was begun, and not as one that cannot be opened
        report.streams = min(report.streams, before.streams + 1)
        return True

    try:
        for left in reversed(range(_READ_AGAIN)):
            seen = changed_ns(directory, fd)
            try:
                read()
                return not ((len(report.problems) > problems or len(report.notes) > notes) and is_gone())
            except (FileNotFoundError, StreamMoved) as error:
                if is_gone():
                    return False
                if not left or changed_ns(directory, fd) == seen:
                    if isinstance(error, StreamMoved):
                        return True
                    raise
                del report.problems[problems:], report.notes[notes:]
                for name in COUNTED:
                    setattr(report, name, getattr(before, name))
        return True
    finally:
        if fd != -1:
            os.close(fd)


def _is_there(directory: Path, fd: int) -> bool:
    try:
        found = directory.stat()
        return fd == -1 or os.path.samestat(found, os.fstat(fd))
    except FileNotFoundError:
        return False


def verify_directory(name: bytes, directory: Path, report: VerifyReport, error: Exception) -> None:
    """Reports a stream that could not even be opened."""
    report.streams += 1
    meaning = "the stream cannot be opened; a repair makes it open again with all that can be read"
    report.problems.append(_problem(name, directory, error, meaning))
    _look_around(name, directory, None, report)


def verify_log(
    name: bytes,
    log: StreamLog,
    report: VerifyReport,
    progress: Progress,
    *,
    only: Collection[str] | None = None,
    cold: bool = False,
) -> None:
    """Reads all files of an open stream, while others may append to it.

    Of its segments it reads `only` files of these names, and reports those that have none; with `cold`, it reads also
    what is elsewhere.
    """
    log.refresh()
    report.streams += 1
    until = log.native.counters()[1]
    looked_at: set[tuple[int, int]] = set()
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="diskstream-verify") as pool:

        def go_through(views: list[SegmentView]) -> None:
            for view in views:
                looked_at.add((view.number, view.generation))
                files = _files_of(log, view)
                if only is not None and not {path.name for path in files} & {*only} and any(map(Path.exists, files)):
                    continue
                report.segments += 1
                for problem in _verify_segment(name, log, view, report, progress=progress, pool=pool, cold=cold):
                    report.problems.append(problem)

        go_through(log.segments.views())
        _verify_active(name, log, report, progress)
        # What was rolled or compacted meanwhile was not read as what it is now. What was added since is not asked for.
        while views := _listed_since(log, looked_at, until):
            go_through(views)
    _verify_audit(name, log, report, only, progress)
    _look_around(name, log.directory, log, report)


def _listed_since(log: StreamLog, known: set[tuple[int, int]], until: EntryID) -> list[SegmentView]:
    with contextlib.suppress(StreamMoved):
        log.refresh()
        return [
            view for view in log.segments.views() if (view.number, view.generation) not in known and view.first <= until
        ]
    return []


def _files_of(log: StreamLog, view: SegmentView) -> list[Path]:
    """What may hold a segment, or stand for it."""
    packed = names.segment_path(log.directory, view.number, view.generation)
    stub = names.cold_path(log.directory, view.number, view.generation)
    return [packed, stub] if view.generation else [packed, names.log_path(log.directory, view.number), stub]


def _verify_segment(
    name: bytes,
    log: StreamLog,
    view: SegmentView,
    report: VerifyReport,
    *,
    progress: Progress,
    pool: ThreadPoolExecutor,
    cold: bool,
) -> Iterator[Problem]:
    path = names.segment_path(log.directory, view.number, view.generation)
    try:
        sealed = _opened(log, view, report, cold=cold)
        if sealed is None:
            return
        if isinstance(sealed, RowSegment):
            path = names.log_path(log.directory, view.number)
            size_bytes = size_of(path)
            report.size_bytes += size_bytes
            report.entries += sealed.entries
            progress(view.entries, size_bytes)
            if not audit.is_followed(log.directory, view.number, sealed):
                what = "the log does not end where the next segment begins: frames at its end are damaged or missing"
                meaning = (
                    f"an unknown number of the last of its {number_of(view.entries, 'entry')} cannot be read; {_REST}"
                )
                yield Problem(name, path, 0, what, str(view.first), str(view.last), None, meaning)
            return
    except SegmentGone:
        log.refresh()
        now = next((listed for listed in log.segments.views() if listed.number == view.number), None)
        # Where it was compacted meanwhile, by itself or with others, what it became is read when all is listed again.
        if now is not None and now.generation <= view.generation:
            meaning = f"its {number_of(view.live, 'entry is', 'entries are')} gone, unless the file turns up; {_REST}"
            if cold_stub.is_used(log.directory.parent, log.native):
                meaning += ". Others of the store are in object storage, or were: `diskstream cold adopt` looks there"
            yield Problem(name, path, 0, "the file is missing", str(view.first), str(view.last), view.live, meaning)
        return
    except (CorruptionError, FormatError, RemoteError, StorageError) as error:
        path = next(filter(is_there, _files_of(log, view)), path)
        remedy = "a repair finds all that are sound" if path.suffix != ".cold" else _COLD
        meaning = f"its {number_of(view.live, 'entry')} cannot be read as it is; {remedy}; {_REST}"
        yield _problem(name, path, error, meaning, view)
        return
    report.size_bytes += sealed.file_bytes
    yield from _verify_sealed(name, path, view, sealed, report=report, progress=progress, pool=pool)


def _verify_sealed(
    name: bytes,
    path: Path,
    view: SegmentView,
    sealed: SealedSegment,
    *,
    report: VerifyReport,
    progress: Progress,
    pool: ThreadPoolExecutor,
) -> Iterator[Problem]:
    if (sealed.first, sealed.last) != (view.first, view.last):
        found = f"entries from {sealed.first} to {sealed.last}"
        what = f"the log lists {view.first} to {view.last}, the file holds {found}"
        yield Problem(name, path, 0, what, meaning="it is another file than the log says")
    yield from _verify_nodes(name, path, sealed, report, progress=progress, pool=pool)
    try:
        sealed.snapshot_copy()
    except (CorruptionError, StorageError) as error:
        meaning = "nothing is lost: this is a second copy of what the next log begins with"
        yield _problem(name, path, error, meaning)


def _verify_nodes(
    name: bytes,
    path: Path,
    sealed: SealedSegment,
    report: VerifyReport,
    *,
    progress: Progress,
    pool: ThreadPoolExecutor,
) -> Iterator[Problem]:
    """All nodes, by several threads; and whether the rows of the index continue each other."""
    expected = (SEGMENT_HEADER_BYTES, 0)
    bounds: list[int] = []  # of the runs that are read at once
    for node in range(sealed.nodes):
        offset, length, before, entries, first = sealed.node_row(node)
        if (offset, before) != expected:
            what = f"index row {node}: expected offset and position {expected}, found {(offset, before)}"
            meaning = "entries may be found at wrong positions; a repair makes the index anew"
            yield Problem(name, path, offset, what, str(first), str(first), None, meaning)
        expected = (offset + length, before + entries)
        if node % _NODES_AT_ONCE == 0:
            bounds.append(offset)
    bounds.append(expected[0])
    starts = range(0, sealed.nodes, _NODES_AT_ONCE)
    runs = pool.map(lambda start: sealed.verify_run(start, start + _NODES_AT_ONCE), starts)
    for (read, raw_bytes, faults), begin, end in zip(runs, bounds, bounds[1:], strict=False):
        report.entries += read
        report.raw_bytes += raw_bytes
        progress(read + sum(sealed.node_row(node)[3] for node, _ in faults), end - begin)
        for node, error in faults:
            offset, length, _, entries, first = sealed.node_row(node)
            last = sealed.node_row(node + 1)[4].prev() if node + 1 < sealed.nodes else sealed.last
            meaning = f"{'this' if entries == 1 else 'these'} {number_of(entries, 'entry')} cannot be read; {_REST}"
            found = _problem(name, path, error, meaning)
            what = f"{found.what} (node {node}, {number_of(length, 'byte')})"
            yield Problem(name, path, offset, what, str(first), str(last), entries, found.meaning)


def _opened(
    log: StreamLog, view: SegmentView, report: VerifyReport, *, cold: bool
) -> SealedSegment | RowSegment | None:
    """The segment to be read; None where it is in object storage, its stub is sound, and no more is to be looked at."""
    log.segments.forget(view.number, view.generation)
    sealed = open_sealed(log.directory, log.native, view)
    stub = None if sealed is not None or log.segments.is_here(view) else cold_stub.find(log.directory, log.native, view)
    if stub is None:
        return sealed or log.segments.get(view)
    report.cold_segments += 1
    report.cold_bytes += stub.size_bytes
    # What the storage has now, and not what was fetched before.
    fetched = report.refusals.heeded(log.segments.cache.cold.open_fresh)
    return open_cold(log.directory, log.native, view, fetched) if cold else None


def _verify_active(name: bytes, log: StreamLog, report: VerifyReport, progress: Progress) -> None:
    """Reads the active segment again from its header, with eyes of its own."""
    page = Page.private()
    try:
        file, native, _, fault = recovery.look(log.directory, Files(), page, log.options)
        try:
            report.segments += 1
            report.entries += native.active_entries
            report.size_bytes += native.tail[1]
            progress(native.active_entries, native.tail[1])
            if fault is not None:
                last: EntryID = native.counters()[1]
                found = _problem(name, log.directory, fault, _ACTIVE)
                first = str(last.next() or last)
                report.problems.append(
                    Problem(name, found.path, found.offset, found.what, first, "", None, found.meaning)
                )
        finally:
            file.close()
    except (CorruptionError, FormatError, StorageError) as error:
        report.problems.append(_problem(name, log.directory, error, _ACTIVE))
    finally:
        page.close()


def _verify_audit(
    name: bytes, log: StreamLog, report: VerifyReport, only: Collection[str] | None, progress: Progress
) -> None:
    """Reads the audit files that count. One that is missing is no fault: nobody can tell that there ever was one."""
    for number in audit.kept(log.directory, log.native):
        path = names.audit_path(log.directory, number)
        if only is not None and path.name not in only:
            continue
        try:
            file = audit.open_file(path, log.native.uuid, number)
            report.size_bytes += file.file_bytes
            progress(0, file.file_bytes)
            while file.next(0, audit.MAX_MS) is not None:
                pass
        except FileNotFoundError:
            continue  # trimmed away meanwhile
        except (CorruptionError, FormatError, StorageError) as error:
            meaning = "what groups did while that segment was written is not known; the stream itself is whole"
            report.problems.append(_problem(name, path, error, meaning))


def _look_around(name: bytes, directory: Path, log: StreamLog | None, report: VerifyReport) -> None:
    """What lies in a stream's directory: files in the wrong place are faults, what was left over is a note."""
    listed = {view.number: view.generation for view in log.segments.views()} if log is not None else {}
    uuid = bytes(log.native.uuid) if log is not None else None
    try:
        paths = children(directory)
    except OSError as error:
        if means_are_short(error):
            raise
        report.notes.append(f"{directory}: {error.strerror}")
        return
    for path in paths:
        parsed = names.parse_file(path.name)
        if path.name == "quarantine":
            with contextlib.suppress(OSError):
                kept = sum(1 for _ in children(path))
                report.notes.append(f"{path}: {number_of(kept, 'file')}, kept by a recovery or a repair")
        elif parsed is not None:
            _look_at(name, path, parsed, listed=listed, uuid=uuid, report=report)
        elif names.state_number(path.name) is not None:
            _look_at_copy(name, path, log, report)
        elif path.suffix == ".tmp":
            report.notes.append(f"{path}: being written, or left over by a crash")
        elif path.name not in _PARTS and names.audit_number(path.name) is None:
            report.notes.append(f"{path}: no part of the store")


def _look_at_copy(name: bytes, path: Path, log: StreamLog | None, report: VerifyReport) -> None:
    """The copy of a snapshot; that of a log that is not the active one any more is about to go."""
    if log is None or names.state_number(path.name) != log.native.tail[0]:
        return
    with contextlib.suppress(FileNotFoundError):
        # One that is gone when it was read went with a roll, for good.
        if not spare.read(path.parent, log.native.tail[0]) and is_there(path):
            meaning = "nothing is lost: it is the second copy of what the log begins with; removed, it is made anew"
            report.problems.append(
                Problem(name, path, 0, "the copy of the snapshot is damaged, or another log's", meaning=meaning)
            )


def _look_at(
    name: bytes,
    path: Path,
    parsed: tuple[str, int, int],
    *,
    listed: dict[int, int],
    uuid: bytes | None,
    report: VerifyReport,
) -> None:
    """Whether the file of a segment is where it belongs."""
    kind, number, generation = parsed
    layout = LOG_HEADER if kind == "log" else SEGMENT_HEADER
    try:
        with reading(path) as file:
            head = layout.sound(file.read(layout.size))
    except OSError:
        return  # gone meanwhile, or reported by who reads it
    if head is None or uuid is None:
        return
    meaning = "it is not read; a repair puts it aside or where it belongs"
    if bytes(head["uuid"]) != uuid:
        report.problems.append(Problem(name, path, 16, "it is another stream's", meaning=meaning))
    elif (head["segment"], head.get("generation", 0)) != (number, generation):
        what = f"it is segment {head['segment']}, generation {head.get('generation', 0)}"
        report.problems.append(Problem(name, path, 32, what, meaning=meaning))
    elif listed.get(number, -1) < generation and kind == "seg":
        report.notes.append(f"{path}: the log does not list it: being made, or left over")
