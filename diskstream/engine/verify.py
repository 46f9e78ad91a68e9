"""Reading everything, changing nothing: what is damaged, where, and which IDs it touches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from diskstream._native import RowSegment, SealedSegment, SegmentView
from diskstream.engine import audit, names, recovery
from diskstream.engine import cold as cold_stub
from diskstream.engine.files import Files, size_of
from diskstream.engine.log import StreamLog
from diskstream.engine.page import Page
from diskstream.engine.seal import snapshot_frame
from diskstream.engine.segment import SegmentGone, open_cold, open_sealed
from diskstream.errors import CorruptionError, FormatError, RemoteError, StorageError

__all__ = ["Problem", "VerifyReport", "verify_directory", "verify_log"]

Progress = Callable[[int], None]
SEGMENT_HEADER_BYTES = 64


@dataclass(frozen=True)
class Problem:
    """One fault.

    Attributes:
        stream: the stream's name.
        path: the file.
        offset: where in it.
        what: what is damaged, what was expected and what was found.
        first, last: the IDs that it touches, as text; empty where none can be named.
    """

    stream: bytes
    path: Path
    offset: int
    what: str
    first: str = ""
    last: str = ""


@dataclass
class VerifyReport:
    """What a verification read and found.

    Attributes:
        streams, segments, entries, size_bytes: how much was read.
        cold_segments, cold_bytes: how much of that is in object storage, read or not.
        problems: the faults, none where all is well.
    """

    streams: int = 0
    segments: int = 0
    entries: int = 0
    size_bytes: int = 0
    cold_segments: int = 0
    cold_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems


def _problem(name: bytes, path: Path, error: Exception, view: SegmentView | None = None) -> Problem:
    first, last = (str(view.first), str(view.last)) if view is not None else ("", "")
    if isinstance(error, CorruptionError):
        what = f"{error.what}: expected {error.expected}, found {error.found}"
        return Problem(name, Path(error.path) if error.path else path, error.offset, what, first, last)
    return Problem(name, path, 0, str(error), first, last)


def verify_directory(name: bytes, directory: Path, report: VerifyReport, error: Exception) -> None:
    """Reports a stream that could not even be opened."""
    report.streams += 1
    report.problems.append(_problem(name, directory, error))


def verify_log(name: bytes, log: StreamLog, report: VerifyReport, progress: Progress, *, cold: bool = False) -> None:
    """Reads all files of an open stream, while others may append to it; with `cold`, also what is elsewhere."""
    log.refresh()
    report.streams += 1
    for view in log.segments.views():
        report.segments += 1
        for problem in _verify_segment(name, log, view, report, progress, cold=cold):
            report.problems.append(problem)
    _verify_active(name, log, report, progress)
    _verify_audit(name, log, report)


def _verify_segment(
    name: bytes, log: StreamLog, view: SegmentView, report: VerifyReport, progress: Progress, *, cold: bool
) -> Iterator[Problem]:
    path = names.segment_path(log.directory, view.number, view.generation)
    try:
        sealed = _opened(log, view, report, cold=cold)
        if sealed is None:
            progress(view.entries)
            return
        if isinstance(sealed, RowSegment):
            path = names.log_path(log.directory, view.number)
            report.size_bytes += size_of(path)
            report.entries += sealed.entries
            progress(view.entries)
            if not _is_followed(log, view.number, sealed):
                what = "the log does not end where the next segment begins: frames at its end are damaged or missing"
                yield Problem(name, path, 0, what)
            return
    except SegmentGone:
        log.refresh()
        if view.number in {listed.number for listed in log.segments.views()}:
            yield Problem(name, path, 0, "the file is missing", str(view.first), str(view.last))
        return
    except (CorruptionError, FormatError, RemoteError, StorageError) as error:
        if not path.exists():
            path = names.cold_path(log.directory, view.number, view.generation)
        yield _problem(name, path, error, view)
        return
    report.size_bytes += sealed.file_bytes
    yield from _verify_sealed(name, path, view, sealed, report=report, progress=progress)


def _verify_sealed(
    name: bytes, path: Path, view: SegmentView, sealed: SealedSegment, *, report: VerifyReport, progress: Progress
) -> Iterator[Problem]:
    if (sealed.first, sealed.last) != (view.first, view.last):
        found = f"entries from {sealed.first} to {sealed.last}"
        yield Problem(name, path, 0, f"the log lists {view.first} to {view.last}, the file holds {found}")
    expected = (SEGMENT_HEADER_BYTES, 0)
    for node in range(sealed.nodes):
        offset, length, before, entries, first = sealed.node_row(node)
        if (offset, before) != expected:
            what = f"index row {node}: expected offset and position {expected}, found {(offset, before)}"
            yield Problem(name, path, offset, what, str(first), str(first))
        expected = (offset + length, before + entries)
        try:
            report.entries += sealed.verify(node)
        except (CorruptionError, StorageError) as error:
            last = sealed.node_row(node + 1)[4].prev() if node + 1 < sealed.nodes else sealed.last
            bad = _problem(name, path, error)
            yield Problem(name, path, offset, f"{bad.what} (node {node}, {length} bytes)", str(first), str(last))
        progress(entries)
    try:
        sealed.snapshot_copy()
    except (CorruptionError, StorageError) as error:
        yield _problem(name, path, error)


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
    return open_cold(log.directory, log.native, view, log.segments.cache.cold.open_fresh) if cold else None


def _is_followed(log: StreamLog, number: int, rows: RowSegment) -> bool:
    """Whether the snapshot frame of the next segment continues the chain of this one, as far as it is there to say."""
    frame = snapshot_frame(log.directory, number + 1)
    if not frame:
        return True
    lsn, chain = int.from_bytes(frame[16:24], "little"), int.from_bytes(frame[28:32], "little")
    return (lsn - 1, chain) == rows.link


def _verify_active(name: bytes, log: StreamLog, report: VerifyReport, progress: Progress) -> None:
    """Reads the active segment again from its header, with eyes of its own."""
    page = Page.private()
    try:
        file, native, _, fault = recovery.look(log.directory, Files(), page, log.options)
        try:
            report.segments += 1
            report.entries += native.active_entries
            report.size_bytes += native.tail[1]
            progress(native.active_entries)
            if fault is not None:
                report.problems.append(_problem(name, log.directory, fault))
        finally:
            file.close()
    except (CorruptionError, FormatError, StorageError) as error:
        report.problems.append(_problem(name, log.directory, error))
    finally:
        page.close()


def _verify_audit(name: bytes, log: StreamLog, report: VerifyReport) -> None:
    """Reads the audit files that count. One that is missing is no fault: nobody can tell that there ever was one."""
    for number in audit.kept(log.directory, log.native):
        path = names.audit_path(log.directory, number)
        try:
            file = audit.open_file(path, log.native.uuid, number)
            report.size_bytes += file.file_bytes
            while file.next(0, audit.MAX_MS) is not None:
                pass
        except FileNotFoundError:
            continue  # trimmed away meanwhile
        except (CorruptionError, FormatError, StorageError) as error:
            report.problems.append(_problem(name, path, error))
