"""Mistakes for the simulator to catch: each leaves out one flush that the engine makes, or that it waits for."""

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.crash.events import Event, Flush, Pin, SyncDir, Tree
from tests.crash.recorder import RecordingFiles

__all__ = ["MISTAKES"]

Drops = Callable[[Event], bool]


class _Deaf(list[Event]):
    """A trace that does not hear of some events: for the disk they never happened."""

    def __init__(self, events: Iterable[Event], drops: Drops) -> None:
        super().__init__(events)
        self._drops = drops

    def append(self, event: Event, /) -> None:
        if not self._drops(event):
            super().append(event)


class _Forgetful(RecordingFiles):
    """Forgets what `drops` says."""

    def __init__(self, root: Path, start: Tree | None, drops: Drops) -> None:
        super().__init__(root, start)
        self.events = _Deaf(self.events, drops)


class _FirstFlush:
    """The first flush of each file: for a new file that is the one before its rename."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def __call__(self, event: Event) -> bool:
        if not isinstance(event, Flush) or event.inode in self._seen:
            return False
        self._seen.add(event.inode)
        return True


def no_directory_flush(root: Path, start: Tree | None) -> RecordingFiles:
    """Names are never made durable."""
    return _Forgetful(root, start, lambda event: isinstance(event, SyncDir))


def no_flush(root: Path, start: Tree | None) -> RecordingFiles:
    """An acknowledgement before the flush: data are never made durable."""
    return _Forgetful(root, start, lambda event: isinstance(event, Flush))


def rename_before_flush(root: Path, start: Tree | None) -> RecordingFiles:
    """A new file gets its name before its contents are durable."""
    return _Forgetful(root, start, _FirstFlush())


def reservation_not_durable(root: Path, start: Tree | None) -> RecordingFiles:
    """IDs are issued above a frontier that is not on disk yet."""
    return _Forgetful(root, start, lambda event: isinstance(event, Pin))


MISTAKES: dict[str, Callable[[Path, Tree | None], RecordingFiles]] = {
    "no flush of directories": no_directory_flush,
    "acknowledged before the flush": no_flush,
    "renamed before the flush": rename_before_flush,
    "reservation not durable": reservation_not_durable,
}
