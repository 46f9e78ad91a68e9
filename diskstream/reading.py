"""Reading behind a position, in one stream or several, and waiting for what is not there yet."""

import time
from collections.abc import Callable, Collection, ItemsView, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from diskstream._native import Entry, EntryID, wait_bells
from diskstream.counts import check_block, check_count
from diskstream.engine import reader
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.page import Page
from diskstream.errors import ArgumentError, ArgumentTypeError
from diskstream.ids import MAX_ID, MIN_ID, IDLike, parse_id

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["Name", "positions_of", "read_streams", "wait_for_last"]

# A page, with its bell and how far readers saw before the look.
_Heard = tuple[Page, int, tuple[int, int]]
# Of streams. A mapping's keys are of one type, which may be either: in a union of mappings a checker would take the
# values of one that has IDs and text for objects.
Name = TypeVar("Name", bound=str | bytes)
_T = TypeVar("_T")

# A store that is open for reading only hears no bell: it looks this often.
_POLL_S = 0.01
_LOOK_S = 1.0
_LAST = None
_FEW = 1024  # entries of one native call: it holds up other threads


class _Caps:
    """What one call may still return."""

    def __init__(self, count: int | None, max_count: int | None, max_bytes: int | None) -> None:
        self.count = 2**62 if count is None or count <= 0 else count
        self.left = 2**62 if max_count is None else max_count
        self.max_bytes = 2**62 if max_bytes is None else max_bytes
        self.spent = 0

    @property
    def full(self) -> bool:
        return self.left <= 0 or (self.spent >= self.max_bytes and self.spent > 0)


def _check(count: int | None, max_count: int | None, max_bytes: int | None, block: float | None) -> None:
    for name, value in (("COUNT", count), ("MAXCOUNT", max_count), ("MAXSIZE", max_bytes)):
        if value is not None:
            check_count(name, value)
    check_block(block)
    if max_count is not None and max_count <= 0:
        raise ArgumentError("MAXCOUNT must be a positive integer")
    if max_bytes is not None and max_bytes <= 0:
        raise ArgumentError("MAXSIZE must be a positive integer")
    if max_count is not None and count is not None and max_count < count:
        raise ArgumentError("MAXCOUNT must be greater than or equal to COUNT")


def _position(store: "Store", name: bytes, after: IDLike, before: dict[bytes, _Heard]) -> EntryID | None:
    """The ID behind which to read, fixed now; None stands for ``+``, which is looked at anew each time.

    Behind an end there is nothing yet, so to find it is a look: what was heard `before` that is noted.
    """
    if after in ("+", b"+"):
        return _LAST
    if after not in ("$", b"$"):
        return parse_id(after)
    while True:
        log = store._log(name, create=False)
        if log is None:
            return EntryID(0, 0)
        heard = _heard(log.page)
        try:
            last = reader.last_id(log)
        except StreamMoved:
            store._forget(name, log)
        else:
            before[name] = heard
            return last


def _take(log: StreamLog, after: EntryID | None, caps: _Caps) -> list[Entry]:
    """Entries of one stream behind `after`, within the caps."""
    if after is _LAST:
        last = reader.last_entry(log)
        if last is None:
            return []
        caps.left -= 1
        caps.spent += last.size_bytes
        return [last]
    start = after.next()
    found: list[Entry] = []
    if start is None:
        return found
    room = min(caps.count, caps.left)
    if caps.max_bytes == 2**62 and (newer := _newer(log, after, room)) is not None:
        caps.left -= len(newer)
        return newer
    for block in reader.blocks(log, start, MAX_ID, enough=room):
        if caps.max_bytes < 2**62:
            entries, caps.spent = block.entries_capped(room - len(found), caps.max_bytes, caps.spent)
        else:
            entries = block.entries(False, room - len(found))
        found += entries
        if len(found) >= room or caps.full:
            break
    caps.left -= len(found)
    return found


def _newer(log: StreamLog, after: EntryID, room: int) -> list[Entry] | None:
    """The same in one native call, where nothing stands in the way and there are few: who was woken looks at once."""
    if log.read_only or log.fault is not None:
        return None
    found = log.native.newer(after, min(room, _FEW))
    return None if found is not None and len(found) == _FEW < room else found


def _heard(page: Page) -> _Heard:
    return page, page.ctl.bell, page.ctl.visible


def _closed_as_it_was(store: "Store", name: bytes, before: _Heard | None) -> _Heard | None:
    """What is heard of a stream that was closed here for another and gives no more than at the look `before`, if so.

    To open it for another look would close others that are waited for, each of which takes as long as it is to open.
    """
    if before is None or before[0] is store._page or name in store._logs:
        return None
    page, _, visible = before
    now = _heard(page)
    return now if now[2] == visible and page.is_in_place() else None


def _look(store: "Store", name: bytes, look: Callable[[StreamLog], _T], missing: _T) -> tuple[_T, _Heard]:
    """What `look` finds in one stream, and the page whose bell rings when another look is worth it."""
    while True:
        store_bell = _heard(store._page)
        log = store._log(name, create=False)
        if log is None:
            return missing, store_bell
        bell = _heard(log.page)
        try:
            return look(log), bell
        except StreamMoved:
            store._forget(name, log)  # and see what has become of the name


def _once(
    store: "Store", positions: Mapping[bytes, EntryID | None], caps: _Caps, before: Mapping[bytes, _Heard]
) -> tuple[dict[bytes, list[Entry]], dict[bytes, _Heard]]:
    """One look at all streams that may have something, and the pages whose bells ring when another is worth it.

    Those of streams that are not there are the store's. `before` is what was heard at a look that found nothing.
    """
    found: dict[bytes, list[Entry]] = {}
    coming = _heard(store._page)  # before the look: a stream may come just now
    bells = dict.fromkeys(store._missing(positions), coming)
    for name, after in positions.items():
        if name in bells:
            continue
        bell = _closed_as_it_was(store, name, before.get(name))
        if bell is not None:
            bells[name] = bell
            continue
        entries, bells[name] = _look(store, name, partial(_take, after=after, caps=caps), list[Entry]())
        if entries:
            found[name] = entries
        if caps.full:
            break
    return found, bells


def positions_of(given: Mapping[Name, IDLike], block: float | None = None) -> ItemsView[Name, IDLike]:
    """Names with where to read in each. `block` is that of a wait which nothing but an entry ends.

    Raises:
        ArgumentTypeError: it is no mapping.
        ArgumentError: there are none, and the wait is for ever.
    """
    try:
        found = given.items()
    except AttributeError:
        raise ArgumentTypeError(
            f"the streams to read are a mapping of names to IDs, as {{'orders': '0'}}, not {type(given).__name__}"
        ) from None
    if block == 0 and not found:
        raise ArgumentError("there is no stream to read, and block=0 waits for ever: give a stream, or a time to wait")
    return found


def read_streams(
    store: "Store",
    names: Mapping[bytes, IDLike],
    *,
    count: int | None,
    max_count: int | None,
    max_bytes: int | None,
    block: float | None,
) -> dict[bytes, list[Entry]]:
    """Reads behind a position in each stream, as XREAD: see `Store.read`."""
    _check(count, max_count, max_bytes, block)
    until = None if block in (None, 0) else time.monotonic() + float(block or 0)
    bells: dict[bytes, _Heard] = {}
    positions = {name: _position(store, name, after, bells) for name, after in names.items()}
    while True:
        found, bells = _once(store, positions, _Caps(count, max_count, max_bytes), bells)
        left = None if until is None else until - time.monotonic()
        if found or block is None or (left is not None and left <= 0):
            return found
        _sleep(store, set(bells.values()), until)


def wait_for_last(store: "Store", name: bytes, wanted: EntryID, block: float | None) -> bool:
    """Waits until the last ID of a stream is at least `wanted`, for `block` seconds as a read does. Whether it is.

    Entries are not looked at: what came may be deleted or trimmed before anybody who waits is awake.
    """
    until = None if block in (None, 0) else time.monotonic() + float(block or 0)
    while True:
        last, heard = _look(store, name, reader.last_id, MIN_ID)
        if last >= wanted:
            return True
        if block is None or (until is not None and until <= time.monotonic()):
            return False
        _sleep(store, [heard], until)


def _sleep(store: "Store", heard: Collection[_Heard], until: float | None) -> None:
    """Sleeps until another look is worth it, or the time is up.

    Every second it is seen whether each page is what it was. The streams are not looked at: where they are more than
    may be open, each would be opened again. But for one that is not there: who made it may have died before he rang.
    """
    bells = [(page.ctl, bell) for page, bell, _ in heard]
    most = _POLL_S if store.read_only else _LOOK_S
    while True:
        left = most if until is None else min(most, until - time.monotonic())
        rang = wait_bells(bells, max(0.0, left))
        store._check_open()
        if rang or store.read_only or left < most:
            return
        for page, _, visible in heard:
            if page is store._page or page.ctl.visible != visible or not page.is_in_place():
                return
