"""Reading everything of a store that may be too damaged to open: description, streams, view, and the keys below it."""

import contextlib
from functools import partial
from pathlib import Path

from diskstream.engine import cold as cold_stub
from diskstream.engine import directory, names, replacing, stream_folders, verify, view_check
from diskstream.engine.cold_cache import ColdCache
from diskstream.engine.descriptors import means_are_short
from diskstream.engine.files import Files
from diskstream.engine.kept_open import SharedCache
from diskstream.engine.log import StreamLog
from diskstream.engine.looks import children, is_folder, is_there
from diskstream.engine.repair_store import must_be_store, must_be_there, nested_stores
from diskstream.engine.verify import Problem, Progress, VerifyReport
from diskstream.engine.verify_each import each_stream
from diskstream.errors import DiskstreamError, NewerFormatError, NotAStoreError, StorageError
from diskstream.options import Options

__all__ = ["bytes_to_read", "check_names", "check_view", "verify_store"]


def verify_store(
    path: Path,
    options: Options,
    report: VerifyReport,
    progress: Progress,
    wanted: frozenset[bytes] = frozenset(),
    *,
    cold: ColdCache | None = None,
) -> None:
    """Reports all that is damaged in a store, and in those of the server below it. Nothing is changed.

    With `wanted` only streams of these names are read. With `cold` it reads by that what is in object storage too.

    Raises:
        NotAStoreError: nothing here says that this is a store.
        NoSuchStreamError: no stream has one of the names in `wanted`.
        NewerFormatError: a later version wrote it.
    """
    must_be_store(path)
    directory.check_filesystem(path)
    must_be_there(path, wanted)
    for store in [path, *nested_stores(path)]:
        _one_store(store, options, report, progress, wanted, cold=cold)


def bytes_to_read(path: Path, wanted: frozenset[bytes] = frozenset(), *, cold: bool = False) -> int:
    """The sizes of what `verify_store` reads, as far as files tell now: what cannot be looked at counts for nothing."""
    total = 0
    for store in [path, *nested_stores(path)]:
        for name in stream_folders.list_streams(store / "streams") if is_folder(store / "streams") else []:
            if not wanted or name in wanted:
                folder = replacing.place_of(store / "streams", name)
                total += sum(_size_of(each, cold=cold) for each in _listed(folder))
    return total


def _listed(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(children(folder))
    return []


def _size_of(path: Path, *, cold: bool) -> int:
    with contextlib.suppress(DiskstreamError, OSError):
        if path.suffix in (".log", ".seg", ".audit"):
            return path.lstat().st_size
        if path.suffix == ".cold" and cold:
            stub = cold_stub.read(path)
            return 0 if stub is None else stub.size_bytes
    return 0


def _one_store(
    path: Path,
    options: Options,
    report: VerifyReport,
    progress: Progress,
    wanted: frozenset[bytes],
    *,
    cold: ColdCache | None,
) -> None:
    description, streams = path / "store.json", path / "streams"
    if not is_there(description):
        meaning = "the store cannot be opened; the streams themselves are not touched by this"
        report.problems.append(Problem(b"", description, 0, "the file is missing", meaning=meaning))
    else:
        try:
            directory.describe(path)
        except NewerFormatError:
            raise
        except NotAStoreError as error:
            meaning = "the store cannot be opened; a repair makes this anew"
            report.problems.append(Problem(b"", description, 0, str(error), meaning=meaning))
    if not is_folder(streams):
        return
    check_names(streams, report)
    read = partial(_one_stream, options=options, report=report, progress=progress, cold=cold)
    each_stream(streams, report, read, is_wanted=lambda name: not wanted or name in wanted)
    state = view_check.check(path / "view")
    if state == "damaged":
        _report_view(path / "view", report)
    elif state == "in use":
        report.notes.append(f"{path / 'view'}: in use, so it was not read; nothing depends on it")
    elif state == "not readable":
        report.notes.append(f"{path / 'view'}: this user may not read it, so it was not; nothing depends on it")


def check_view(view: Path, report: VerifyReport) -> None:
    """Reports a view that cannot be opened nor made anew. One that is damaged is made anew where the store is open."""
    if view_check.is_obstructed(view):
        _report_view(view, report)


def _report_view(view: Path, report: VerifyReport) -> None:
    meaning = "nothing is lost: it is made anew from the logs once it is removed, as a repair does"
    report.problems.append(Problem(b"", view / "data.mdb", 0, "the view cannot be read", meaning=meaning))


def check_names(streams: Path, report: VerifyReport) -> None:
    """Reports directories that ought to be streams and whose names cannot be read."""
    for folder in stream_folders.unreadable_names(streams):
        try:
            is_stream = any(names.parse_file(path.name) is not None for path in children(folder))
        except FileNotFoundError:
            continue
        except StorageError as error:
            if means_are_short(error):
                raise
            meaning = "neither its name nor its files can be read: nobody can say what it is"
            report.problems.append(Problem(b"", folder, 0, str(error), meaning=meaning))
            continue
        if is_stream:
            meaning = "it cannot be found by its name; a repair gives it another, or writes the right one again"
            report.problems.append(Problem(b"", folder, 0, "a stream whose name cannot be read", meaning=meaning))
        else:
            report.notes.append(f"{folder}: no part of the store")


def _one_stream(
    name: bytes, folder: Path, *, options: Options, report: VerifyReport, progress: Progress, cold: ColdCache | None
) -> None:
    try:
        log = StreamLog(folder, Files(), options, read_only=True, cache=SharedCache(options.cache_bytes, cold))
        try:
            verify.verify_log(name, log, report, progress, cold=cold is not None)
        finally:
            log.close()
    except FileNotFoundError:
        raise
    except (DiskstreamError, OSError) as error:
        if means_are_short(error):
            raise  # says nothing of the stream
        wrapped = error if isinstance(error, DiskstreamError) else StorageError(str(folder), "read", 5, str(error))
        verify.verify_directory(name, folder, report, wrapped)
