"""More mistakes for the simulator to catch: one step left out of one protocol, and a disk that is believed too much."""

import sys
from collections.abc import Callable
from pathlib import Path
from threading import get_ident

import pytest

from diskstream._native import LogFile
from diskstream.engine import names, recovery, replacing, stream_folders, torn
from diskstream.engine.files import Files, LogFileLike, NewFile
from diskstream.engine.page import Page
from tests.crash.events import Tree
from tests.crash.recorder import RecordedLog, RecordedNewFile, RecordingFiles

__all__ = ["BELIEVED", "REPLACED", "STEPS"]


def _caller(above: int) -> str:
    """The last part of the name of the module that called."""
    return str(sys._getframe(above + 1).f_globals["__name__"]).rpartition(".")[2]


class _NoDirectoryFlushIn(RecordingFiles):
    """Names are not made durable by one module."""

    module = ""

    def sync_dir(self, path: Path) -> None:
        if _caller(1) != self.module:
            super().sync_dir(path)


class _NoFileFlushIn(RecordingFiles):
    """New files are not made durable by one module."""

    module = ""

    def create(self, path: Path) -> NewFile:
        new = super().create(path)
        if _caller(1) == self.module:
            new.__class__ = _Unflushed
        return new


class _Unflushed(RecordedNewFile):
    def sync(self) -> None:
        pass


def _without(kind: type[RecordingFiles], module: str) -> Callable[[Path, Tree | None], RecordingFiles]:
    return type("Without", (kind,), {"module": module})


STEPS: dict[str, Callable[[Path, Tree | None], RecordingFiles]] = {
    "no flush of the directory behind a new stream": _without(_NoDirectoryFlushIn, "stream_folders"),
    "no flush of the directory behind a roll": _without(_NoDirectoryFlushIn, "roll"),
    "no flush of the directory behind a sealed segment": _without(_NoDirectoryFlushIn, "seal"),
    "no flush of the directory behind a stub": _without(_NoDirectoryFlushIn, "cold"),
    "a stream is renamed before its log is durable": _without(_NoFileFlushIn, "stream_folders"),
    "a log is renamed before it is durable": _without(_NoFileFlushIn, "roll"),
    "a sealed segment is renamed before it is durable": _without(_NoFileFlushIn, "seal"),
    "a stub is renamed before it is durable": _without(_NoFileFlushIn, "cold"),
    "a fetched segment is renamed before it is durable": _without(_NoFileFlushIn, "cold_moving"),
}


def second_flush_believed(patch: pytest.MonkeyPatch) -> None:
    """After a failed flush the next one counts as one, and nothing is written anew."""
    patch.setattr(recovery, "_rewrite", lambda file, native: None)


def failed_recovery_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The same where the flush that failed was one of a recovery."""
    patch.setattr(recovery, "StorageError", ZeroDivisionError)


def torn_tail_left(patch: pytest.MonkeyPatch) -> None:
    """What is torn is not cut: the next frames are written over it, and something of it shows behind them."""
    whole = torn.settle_tail

    def settle_tail(directory: Path, files: Files, file: LogFileLike, native: object) -> object:
        return whole(directory, files, _Uncut(file), native)  # type: ignore[arg-type]  # a stand-in that cuts nothing

    patch.setattr(recovery, "settle_tail", settle_tail)


class _Uncut:
    def __init__(self, file: LogFileLike) -> None:
        self._file = file

    @property
    def native(self) -> LogFile:
        return self._file.native

    def pwrite(self, offset: int, data: bytes, /) -> None:
        pass

    def flush(self) -> None:
        pass


def truncation_not_durable(patch: pytest.MonkeyPatch) -> None:
    """What is torn is cut, and written over before the cut is durable: no flush of a recovery is one."""
    whole, flush, recovering = recovery.recover, RecordedLog.flush, set[int]()

    def recover(*given: object, **named: object) -> object:
        recovering.add(get_ident())
        try:
            return whole(*given, **named)  # type: ignore[arg-type]  # handed on as it came
        finally:
            recovering.discard(get_ident())

    def flush_if(log: RecordedLog) -> None:
        if get_ident() not in recovering:
            flush(log)

    patch.setattr(recovery, "recover", recover)
    patch.setattr(RecordedLog, "flush", flush_if)


def page_believed(patch: pytest.MonkeyPatch) -> None:
    """What stands on the control page is believed after a restart, so IDs that were lost are issued again."""
    whole = Page.__init__

    def init(page: Page, *given: object, **named: object) -> None:
        whole(page, *given, **named)  # type: ignore[arg-type]  # handed on as it came
        page.same_boot = True

    patch.setattr(Page, "__init__", init)


def removed_first(patch: pytest.MonkeyPatch) -> None:
    """A stream whose name another one is given is on its way to be removed before that one has it."""

    def put_aside(streams: Path, name: bytes, files: Files) -> Path:
        return stream_folders.hide_stream(streams, name, files)

    patch.setattr(replacing, "put_aside", put_aside)


def let_go_too_early(patch: pytest.MonkeyPatch) -> None:
    """It is let go before the other one's new name is durable, which comes only then."""
    remove = stream_folders.remove_hidden

    def rename_stream(streams: Path, old: bytes, new: bytes, files: Files) -> Path:
        files.rename(streams / names.encode_name(old), streams / names.encode_name(new))
        return streams / names.encode_name(new)

    def remove_hidden(hidden: Path, files: Files) -> None:
        remove(hidden, files)
        files.sync_dir(hidden.parent)

    patch.setattr(stream_folders, "rename_stream", rename_stream)
    patch.setattr(stream_folders, "remove_hidden", remove_hidden)


REPLACED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a stream is removed before another has its name": removed_first,
    "a stream is let go before another has its name for good": let_go_too_early,
}

BELIEVED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a second flush is believed": second_flush_believed,
    "a recovery that failed is forgotten": failed_recovery_forgotten,
    "a torn tail is not cut": torn_tail_left,
    "a truncation is reused before it is durable": truncation_not_durable,
    "the control page of another boot is believed": page_believed,
}
