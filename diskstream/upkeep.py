"""What keeps a store small, sound and durable: flushing, sealing, compacting, leasing, verifying."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from diskstream.arguments import check_function, check_number, items_of
from diskstream.engine import directory, lease, names, seal
from diskstream.engine.closing import check_removed
from diskstream.engine.files import Files
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.open_logs import OpenLogs
from diskstream.engine.page import Page
from diskstream.engine.seal import CompactReport, Progress
from diskstream.errors import ArgumentError, NoSuchStreamError, ReadOnlyError

if TYPE_CHECKING:
    from diskstream.engine.verify import Progress as Reading
    from diskstream.engine.verify import VerifyReport
    from diskstream.store import Store
    from diskstream.stream import Stream

__all__ = ["Upkeep"]


class Upkeep:
    """The part of `Store` that looks after what is on disk."""

    path: Path
    read_only: bool
    _streams: Path
    _files: Files
    _logs: OpenLogs
    _page: Page

    if TYPE_CHECKING:

        def stream(self, name: str | bytes) -> Stream: ...
        def streams(self) -> list[bytes]: ...
        def _check_open(self) -> None: ...
        def _forget(self, name: bytes, log: StreamLog) -> None: ...
        def _log(self, name: bytes, *, create: bool) -> StreamLog | None: ...
        def _place(self, name: bytes) -> Path: ...

    def lease(self, streams: Iterable[str | bytes], *, ttl_s: float = 3600.0) -> Path:
        """Keeps one moment of some streams readable, whatever is trimmed, deleted or compacted meanwhile.

        Args:
            streams: their names; those that are not there are left out.
            ttl_s: seconds after its last use until the lease may be removed, by whoever makes the next one.

        Returns:
            A directory that is a store of its own, to be opened read-only; `diskstream.leases.release` removes it.

        Raises:
            ArgumentError: the names are none, or `ttl_s` is no number from 0 on: nobody could say when the lease ends.
            ReadOnlyError: the store was opened read-only.
            StorageError: no room, or a file system without hard links; the store was removed or moved by hand.
        """
        if self.read_only:
            raise ReadOnlyError(str(self.path))
        wanted = dict.fromkeys(map(names.as_name, items_of("streams", streams)))
        check_number("ttl_s", ttl_s)
        if ttl_s < 0:
            raise ArgumentError(f"ttl_s must be at least 0, not {ttl_s}: a lease does not end before its last use")
        if self._page.is_elsewhere():  # another store may be there, which would get a lease of what it does not have
            raise directory.gone(self.path, "lease streams of")
        lease.sweep(self.path, time.time())
        shared = lease.recent(self.path)

        def link(target: Path) -> None:
            for name in wanted:
                self.stream(name)._lease(target, self._files, shared=shared)

        return lease.make(self.path, link, ttl_s, self._files)

    def _each(self, name: str | bytes | None) -> Iterator[tuple[bytes, StreamLog]]:
        self._check_open()
        for key in self.streams() if name is None else [names.as_name(name)]:
            log = self._log(key, create=False)
            if log is None:
                if name is not None:
                    raise NoSuchStreamError(key)
                continue
            try:
                log.refresh()
            except StreamMoved:
                self._forget(key, log)
                log = self._log(key, create=False)
            if log is not None:
                yield key, log

    def sync(self) -> None:
        """Returns once all that was appended so far to the streams that this store has used is durable.

        One that is open for reading only has appended nothing: it returns at once, which says nothing of what others
        have.

        Raises:
            StorageError: a flush failed, or the files were removed; that stream takes no more writes until it is
                reopened.
        """
        self._check_open()
        for log in self._logs.all():
            with contextlib.suppress(StreamMoved):  # whoever moved it has flushed it
                log.flush()
                check_removed(log)

    def _at_each(self, name: str | bytes | None, work: Callable[[StreamLog], None]) -> None:
        """Does some work at a stream, or at all there are. Whoever moves one meanwhile goes first.

        Raises:
            NoSuchStreamError: the stream that was named is not there, or not any more.
        """
        for key, found in self._each(name):
            log: StreamLog | None = found
            while log is not None:
                try:
                    work(log)
                    break
                except StreamMoved:  # by somebody else, just now
                    self._forget(key, log)
                    log = self._log(key, create=False) if name is not None else None
            else:
                if name is not None:
                    raise NoSuchStreamError(key)

    def seal(
        self,
        name: str | bytes | None = None,
        *,
        progress: Progress | None = None,
        on_sealed: Callable[[], None] | None = None,
    ) -> int:
        """Rolls and seals a stream, or all: what was appended so far becomes packed. Returns segments sealed.

        `progress` is called with the entries just packed, and the bytes of segments just written; `on_sealed` once a
        segment is sealed, so that whoever meets an error knows of those before it.

        Raises:
            NoSuchStreamError: the stream that was named is not there, or was removed or renamed meanwhile.
        """
        check_function("progress", progress)
        check_function("on_sealed", on_sealed)
        sealed = 0

        def count_one() -> None:
            nonlocal sealed
            sealed += 1
            if on_sealed is not None:
                on_sealed()

        def seal_one(log: StreamLog) -> None:
            log.roll()
            seal.seal_rolled(log, progress=progress or seal.ignore, on_sealed=count_one)
            seal.reap(log)

        self._at_each(name, seal_one)
        return sealed

    def compact(self, name: str | bytes | None = None, *, progress: Progress | None = None) -> list[CompactReport]:
        """Merges small sealed segments and drops the bytes of deleted entries. One report a stream.

        `progress` is called with the entries just packed, and the bytes of segments just written.

        Raises:
            NoSuchStreamError: as `seal`.
        """
        check_function("progress", progress)
        reports: list[CompactReport] = []
        self._at_each(name, lambda log: reports.append(seal.compact(log, progress=progress or seal.ignore)))
        return reports

    def verify(self, *, progress: "Reading | None" = None, cold: bool = False) -> "VerifyReport":
        """Reads everything, with `cold` in object storage too, changes nothing, and reports what is damaged.

        `progress` is called with the entries, and the bytes of files, just read.

        Raises:
            StorageError: the store was removed or moved by hand; another one may be in its place.
        """
        self._check_open()
        # Of another store in its place each stream would be told as another's, and to be put aside by a repair.
        if not self.read_only and self._page.is_elsewhere():
            raise directory.gone(self.path, "verify")
        from diskstream.verifying import verify_open  # the start of each program need not wait for it

        return verify_open(cast("Store", self), progress, cold=cold)
