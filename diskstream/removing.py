"""Many streams removed at once: a flush makes it durable for a lot of them, where each alone waits for several.

::

    of a lot:  each loses its name  ->  the directory is flushed  ->  their files go

Whoever dies on the way leaves each of them whole, or gone: its files are touched only once no stream has them, durably.
"""

import contextlib
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import lmdb

from diskstream.engine import ownership, replacing, stream_folders, view_rows
from diskstream.engine.directory_lock import DirectoryLock
from diskstream.engine.log import StreamLog
from diskstream.engine.page import Page
from diskstream.engine.state import View
from diskstream.errors import DiskstreamError, StorageError
from diskstream.naming import Naming, forget_groups

__all__ = ["Removing"]

# So many lose their names before one flush. Who makes, renames or removes a stream waits for a whole lot.
_LOT = 32


class _Held:
    """Has a control page from its opening on. Where an interrupt keeps that from being closed, its collection does."""

    page: Page | None = None

    def close(self) -> None:
        """Gives up the page."""
        if self.page is not None:
            self.page.close()

    __del__ = close


class Removing(Naming):
    """The part of `Store` that removes many streams."""

    _view: View | None

    def _delete_all(self, keys: Iterable[bytes]) -> int:
        """Removes streams, as `_delete` does where files may stay. Returns how many of them there were.

        Raises:
            DiskstreamError: one could not be removed. Others may be gone, durably; all that are there are whole.
        """
        left = iter(dict.fromkeys(keys))
        removed = 0
        while lot := list(islice(left, _LOT)):
            went, others = self._delete_lot(lot)
            # Whoever has them open may be at their files: each is waited for without the store's lock.
            removed += went + sum(self._delete(key, None, files_may_stay=True) for key in others)
        return removed

    def _delete_lot(self, keys: Sequence[bytes]) -> tuple[int, list[bytes]]:
        """How many went, and which are there still: other processes have them open."""
        hidden: list[Path] = []
        others: list[bytes] = []
        claims: list[tuple[Path, DirectoryLock]] = []
        try:
            with self._awaited(*[key for key in keys if key in self._logs]), self._mutex, self._lock_names():
                try:
                    for key in keys:
                        self._settle(key)
                        if self.exists(key):
                            place = self._hide_unflushed(key)
                            if place is None:
                                others.append(key)
                            else:
                                hidden.append(place)
                finally:
                    if hidden:
                        self._end_hidden(hidden, claims)
        finally:
            self._page.ctl.ring()
            for place, claim in claims:
                with contextlib.suppress(StorageError):
                    self._remove_many(place, claim)
        return len(hidden), others

    def _hide_unflushed(self, name: bytes) -> Path | None:
        """Takes a stream's name away; the caller flushes that. Where its files are; None where only others have it."""

        def hide(log: StreamLog | None) -> Path:
            forget_groups(log)
            return stream_folders.hide_stream(self._streams, name, self._files, flush=False)

        if name in self._logs:
            return self._move(name, hide, flush=False)
        place, held = replacing.place_of(self._streams, name), _Held()
        try:
            try:
                held.page = Page.open(self._files, place / "ctl")
            except (DiskstreamError, FileNotFoundError):
                return None
            # Who comes waits until the page is closed, and finds then that the directory is not there any more.
            if not held.page.alone:
                return None
            return stream_folders.hide_stream(self._streams, name, self._files, flush=False)
        finally:
            held.close()

    def _end_hidden(self, hidden: Sequence[Path], claims: list[tuple[Path, DirectoryLock]]) -> None:
        """Makes durable that they have no names, and removes their files; `claims` has large ones, left for later.

        Raises:
            StorageError: the flush failed; no file was removed.
        """
        with stream_folders.within(self._streams, "delete"):
            self._files.sync_dir(self._streams)
        if self._view is not None and self._view.exists():
            uuids = [uuid for place in hidden if (uuid := ownership.identity_in(place)) is not None]

            def forget(txn: lmdb.Transaction) -> None:
                for uuid in uuids:
                    view_rows.delete_rows(txn, uuid)

            with contextlib.suppress(DiskstreamError):  # nobody asks for them any more: they take their room, no more
                self._view.write(forget)
        for place in hidden:
            with contextlib.suppress(StorageError), self._ended_later():
                claim = self._remove_few(place)
                if claim is not None:
                    claims.append((place, claim))
