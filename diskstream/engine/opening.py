"""The way into a stream's log: alone, by recovery; beside other processes, by joining them; for a reader, by a look.

::

    ctl is there? -- no --> the stream has moved
        | yes
    nobody else has it? -- yes --> recover the log, settle what the page says ---> in
        | no                             (another came first: from the top)
    is it being moved? -- yes --> finish that; the stream has moved
        | no
    open the segment that the page names, catch up ------------------------------> in
                                         (it was rolled meanwhile: from the top)
"""

from pathlib import Path
from typing import NamedTuple

from diskstream._native import Log
from diskstream.engine import names, recovery
from diskstream.engine.files import Files, LogFileLike
from diskstream.engine.looks import is_there
from diskstream.engine.moved import StreamMoved
from diskstream.engine.page import APPEND, FLAG_MOVED, FLAG_ROTTEN, MAINTENANCE, POISONED, Page
from diskstream.engine.recovery import RecoveryReport
from diskstream.errors import CorruptionError
from diskstream.options import Options

__all__ = ["Opened", "open_log"]


class Opened(NamedTuple):
    """What a process has in hand once it is in: the caller closes `page` and `file`."""

    page: Page
    file: LogFileLike
    native: Log
    fault: CorruptionError | None
    report: RecoveryReport | None
    was_alone: bool


def open_log(directory: Path, files: Files, options: Options, *, read_only: bool, made: bool) -> Opened:
    """Opens the log of the stream in `directory`; `made` says that the caller has just made it.

    Raises:
        StreamMoved: the stream is gone from here.
        CorruptionError, StorageError: it cannot be opened, and nothing was changed.
    """
    if read_only:
        page = Page.private()
        try:
            file, native, report, fault = recovery.look(directory, files, page, options)
        except BaseException:
            page.close()
            raise
        return Opened(page, file, native, fault, report, was_alone=False)
    while True:
        try:
            page = Page.open(files, directory / "ctl")
        except FileNotFoundError:
            raise StreamMoved from None
        try:
            if page.alone:
                opened = _alone(directory, files, options, page, made=made)
            else:
                opened = _join(directory, files, options, page)
        except FileNotFoundError:
            page.close()
            if is_there(directory):
                raise
            raise StreamMoved from None
        except BaseException:
            page.close()
            raise
        if opened is not None:
            return opened
        page.close()


def _alone(directory: Path, files: Files, options: Options, page: Page, *, made: bool) -> Opened | None:
    if not is_there(directory):
        raise StreamMoved
    file, native, report, fault, generation = recovery.recover(directory, files, page, options, made=made)
    if page.settle(generation):
        return Opened(page, file, native, fault, report if report.findings else None, was_alone=True)
    file.close()
    return None


def _join(directory: Path, files: Files, options: Options, page: Page) -> Opened | None:
    if page.ctl.flags & FLAG_MOVED:
        _finish_leaving(directory, files, page)
        raise StreamMoved
    number, fault = page.ctl.written[0], None
    try:
        file = files.open_log(names.log_path(directory, number), writable=True)
    except FileNotFoundError:
        if not is_there(directory) or page.ctl.flags & FLAG_MOVED:
            raise StreamMoved from None
        return None  # rolled and sealed in between
    native = recovery.native_log(directory, number, page.ctl, file, options)
    native.catch_up()
    if page.ctl.flags & FLAG_ROTTEN:
        fault = recovery.fault_of(directory, number, native.scan())
    if page.ctl.flags & POISONED:
        with page.ctl.locked(APPEND):
            if page.ctl.written[0] != number:  # rolled before it was poisoned: what is to be cured is elsewhere
                file.close()
                return None
            recovery.cure(directory, page, file, native, options)
    return Opened(page, file, native, fault, report=None, was_alone=False)


def _finish_leaving(directory: Path, files: Files, page: Page) -> None:
    """Whoever was moving the stream died between two steps of `leave`: this is the second."""
    path = directory / "ctl"
    with page.ctl.locked(MAINTENANCE):
        if page.ctl.flags & FLAG_MOVED and page.is_at(path):  # it may have failed to, and gone on here
            if page.ctl.flags & POISONED:  # it was to be removed, and is there
                _replace_by_poisoned(files, path)
            else:
                files.unlink(path)


def _replace_by_poisoned(files: Files, path: Path) -> None:
    """Puts a page in its place that is not ready, and poisoned: who makes it anew writes all anew, too.

    In one step: who is killed here, or finds no room, leaves the page that was there, which says the same.
    """
    fresh = path.with_name("ctl.tmp")
    files.unlink(fresh)  # of who was killed here
    page = Page.open(files, fresh)
    try:
        page.was_poisoned = True
        page.renew()
        files.rename(fresh, path)
    finally:
        page.close()
