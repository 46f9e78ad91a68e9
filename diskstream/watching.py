"""Noticing that streams have changed, whoever changed them: this process or another one."""

import contextlib
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from diskstream._native import Ctl, EntryID, wait_bells
from diskstream.engine.log import StreamMoved
from diskstream.engine.looks import status
from diskstream.engine.page import Page
from diskstream.errors import DiskstreamError

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["SETTLED_NS", "Place", "Watch"]

Place = tuple["Store", bytes]
# A directory that has changed so lately may change once more within the same tick of the clock that stamps it (10 ms at
# most on Linux), and say nothing of it.
SETTLED_NS = 100_000_000
_Heard = tuple[Page, tuple[int, int], EntryID | None]
_NOTHING = (0, 0), None


class Watch:
    """Streams of one store or several, by name, whether they are there or not, and the bells that ring for them.

    A bell is read by `add`, and again by `changed`: who reads a stream *after* that misses nothing. One thread adds,
    removes and asks what has changed; another may `wait`.

    A stream's bell rings at each append and when the stream is moved or removed; the store's rings when one comes.
    What changes a group alone rings none, unless the group is taken back behind entries, or destroyed.
    """

    def __init__(self) -> None:
        self._own = Page.private()  # a bell of its own, to end a wait with
        self._own_bell = self._own.ctl.bell
        self._bells: dict[Place, tuple[Ctl, int]] = {}
        # Those that have the bells, with how far readers saw, and the last ID.
        self._pages: dict[Place, _Heard] = {}
        self._stamps: dict[Store, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._bells)

    def add(self, store: "Store", name: bytes) -> bool:
        """Watches a stream from now on. Returns False where it was watched already.

        Raises:
            DiskstreamError: the store is closed, or the stream cannot be opened.
        """
        if (store, name) in self._bells:
            return False
        self._hear((store, name))
        return True

    def remove(self, store: "Store", name: bytes) -> None:
        """Watches it no longer."""
        self._bells.pop((store, name), None)
        self._pages.pop((store, name), None)

    def clear(self) -> None:
        """Watches nothing any more."""
        self._bells.clear()
        self._pages.clear()

    def changed(self) -> list[Place]:
        """Those that may have changed since they were added, or since the last call."""
        rang = [place for place, (ctl, seen) in self._bells.items() if ctl.bell != seen]
        missing = self._missing(rang)
        found = [place for place in rang if place not in missing]
        for place in found:
            self.renew(*place)
        return found

    def stale(self) -> list[Place]:
        """Those that have another page by now, which the old one's bell did not tell. For a look now and then.

        And those whose bell rang since `changed` was asked: it is read anew here, and the ring would be lost.
        """
        before, pages = dict(self._bells), dict(self._pages)
        unchanged = self._unchanged()
        looked = []
        for place, (ctl, seen) in before.items():
            store, _ = place
            is_as_it_was = store in unchanged if ctl is store._page.ctl else self._is_closed_in_place(place)
            if ctl.bell != seen or not is_as_it_was:
                looked.append(place)
        missing = self._missing(looked)
        for place in looked:
            if place not in missing:
                self.renew(*place)
        others = ((place, *bell) for place, bell in before.items() if place not in missing)
        return [
            place
            for place, ctl, seen in others
            if ctl.bell != seen or not _is_as_before(pages[place], self._pages[place])
        ]

    def is_open(self, store: "Store", name: bytes) -> bool:
        """Whether a stream is open in this process: to look at it closes no other."""
        return name in store._logs

    def _is_closed_in_place(self, place: Place) -> bool:
        """Whether a stream was closed here for another and is as it was: its page's bell rings all the same.

        To open it again each time would close others that are waited for as well, and so on, without an end. Who was
        killed before it rang has shown what it appended.
        """
        store, name = place
        page, visible, _ = self._pages[place]
        return name not in store._logs and page.ctl.visible == visible and page.is_in_place()

    def _missing(self, places: list[Place]) -> set[Place]:
        """Those of which no stream has come: where thousands are waited for, each new name rings for all of them."""
        absent: dict[Store, list[bytes]] = {}
        for store, name in places:
            if self._bells[store, name][0] is store._page.ctl:
                absent.setdefault(store, []).append(name)
        found: set[Place] = set()
        for store, names in absent.items():
            coming = (store._page.ctl, store._page.ctl.bell)  # before the look: a stream may come just now
            with contextlib.suppress(DiskstreamError, OSError):  # whoever looks at a stream meets it
                found.update((store, name) for name in store._missing(names))
            self._bells.update((place, coming) for place in found if place[0] is store)
            self._pages.update((place, (store._page, *_NOTHING)) for place in found if place[0] is store)
        return found

    def _unchanged(self) -> set["Store"]:
        """The stores in which no stream has come since the last call, as the times of their directories show."""
        before, self._stamps, now = self._stamps, {}, time.time_ns()
        for store in {store for store, _ in self._bells}:
            with contextlib.suppress(OSError):  # whoever looks at a stream meets it
                stamp = status(store._streams).st_mtime_ns
                if now - stamp > SETTLED_NS:
                    self._stamps[store] = stamp
        return {store for store, stamp in self._stamps.items() if before.get(store) == stamp}

    def renew(self, store: "Store", name: bytes) -> None:
        """What has changed until now is not told by `changed`: for who is about to look at a watched stream anyway."""
        place = store, name
        try:
            self._hear(place)
        except (DiskstreamError, OSError):  # whoever looks at the stream meets it
            ctl, _ = self._bells[place]
            self._bells[place] = (ctl, ctl.bell)

    def _hear(self, place: Place) -> None:
        heard, seen = _bell(*place)
        self._bells[place], self._pages[place] = (heard[0].ctl, seen), heard

    def wait(self, timeout_s: float) -> bool:
        """Sleeps until something may have changed, `interrupt` is called, or the time is up. Whether one rang.

        What rang before the call, and was not asked for by `changed`, ends it at once.
        """
        bells = [(self._own.ctl, self._own_bell), *list(self._bells.values())]
        rang = wait_bells(bells, timeout_s)
        self._own_bell = self._own.ctl.bell
        return rang

    def interrupt(self) -> None:
        """Ends a wait, this one or the next one. Safe from any thread."""
        self._own.ctl.ring()

    def close(self) -> None:
        """Lets go of everything; nobody may be waiting."""
        self.clear()
        self._own.close()


def _is_as_before(before: _Heard, now: _Heard) -> bool:
    return now[0].is_same_as(before[0]) and now[2] == before[2]


def _bell(store: "Store", name: bytes) -> tuple[_Heard, int]:
    """The page whose bell rings when another look at the stream is worth it: its own, or where there is none its
    store's. With it how far readers saw, the last ID, and the bell as it was before.
    """
    while True:
        coming = ((store._page, *_NOTHING), store._page.ctl.bell)  # before the look: the stream may come just now
        log = store._log(name, create=False)
        if log is None:
            return coming
        bell, visible = log.ctl.bell, log.ctl.visible
        try:
            log.refresh()
        except StreamMoved:
            store._forget(name, log)  # its bell rings no more: another stream may have its name by now
        else:
            return (log.page, visible, log.native.counters()[1]), bell
