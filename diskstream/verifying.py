"""Reading a store against its checksums: an open one, or without opening it, which works where it cannot be opened."""

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream.arguments import check_function, items_of, path_of
from diskstream.cold_reads import cold_cache
from diskstream.engine import names
from diskstream.engine.descriptors import means_are_short
from diskstream.engine.files import Files
from diskstream.engine.repair_store import nested_stores
from diskstream.engine.verify import (
    Problem,
    Progress,
    VerifyReport,
    ignore,
    verify_directory,
    verify_log,
)
from diskstream.engine.verify_each import each_stream
from diskstream.engine.verify_store import bytes_to_read, check_names, check_view, verify_store
from diskstream.errors import DiskstreamError
from diskstream.options import Options
from diskstream.work_files import work_faults

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["Problem", "VerifyReport", "bytes_to_verify", "verify", "verify_open"]


def bytes_to_verify(path: str | os.PathLike[str], *, streams: Iterable[str | bytes] = (), cold: bool = False) -> int:
    """About how many bytes `verify` reads, with the same words, or a repair: the sizes of files as they are now."""
    wanted = frozenset(names.as_name(name) for name in items_of("streams", streams))
    return bytes_to_read(path_of(path), wanted, cold=cold)


def verify(
    path: str | os.PathLike[str],
    *,
    streams: Iterable[str | bytes] = (),
    progress: Callable[[int, int], None] | None = None,
    cold: bool = False,
) -> VerifyReport:
    """Reads everything in a store's directory, changes nothing, and reports what is damaged.

    Other processes may go on writing. The stores that the server keeps below it are read too.

    Args:
        path: the store's directory.
        streams: names of the streams to read, of the stores below it too; all where there are none.
        progress: called with the number of entries, and the bytes of files, just read, by one thread at a time.
        cold: fetch and read what is in object storage too.

    Raises:
        ArgumentError: no path, no names, or no function is given where one is wanted.
        NotAStoreError: nothing says that this is a store.
        NoSuchStreamError: no stream has one of these names.
        NewerFormatError: a later version wrote it.
    """
    report = VerifyReport()
    wanted = frozenset(names.as_name(name) for name in items_of("streams", streams))
    check_function("progress", progress)
    where, options = path_of(path), Options()
    fetched = cold_cache(where, options, Files(), read_only=True) if cold else None
    try:
        verify_store(where, options, report, progress or ignore, wanted, cold=fetched)
    finally:
        if fetched is not None:
            fetched.close()
    if not wanted:
        for store in (where, *nested_stores(where)):
            report.problems += work_faults(store)
    return report


def verify_open(store: "Store", progress: Progress | None, *, cold: bool) -> VerifyReport:
    """The same of a store that is open, by what it has open: see `Store.verify`."""
    store._check_open()
    check_function("progress", progress)
    report = VerifyReport()
    check_names(store._streams, report)
    read = partial(_one_open, store=store, report=report, progress=progress or ignore, cold=cold)
    each_stream(store._streams, report, read, place_of=store._place)
    check_view(store.path / "view", report)
    report.problems += work_faults(store.path)
    return report


def _one_open(
    name: bytes, folder: Path, *, store: "Store", report: VerifyReport, progress: Progress, cold: bool
) -> None:
    try:
        log = store._log(name, create=False)
        if log is None:
            raise FileNotFoundError(folder)
        verify_log(name, log, report, progress, cold=cold)
    except DiskstreamError as error:
        if means_are_short(error):
            raise  # says nothing of the stream
        verify_directory(name, folder, report, error)
