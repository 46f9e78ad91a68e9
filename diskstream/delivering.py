"""What one look at a stream gives a consumer: new entries, what has lain too long, or its own history."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from diskstream._native import Block, Ctl, Delivery, EntryID, Turn, delivery
from diskstream.engine import reader
from diskstream.engine.fetching import fetching_outside
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.page import Page
from diskstream.engine.pending import Key, Row, key_beyond
from diskstream.engine.segment import Away
from diskstream.engine.view_rows import BY_CONSUMER, BY_TIME, OWNED
from diskstream.errors import NoGroupError
from diskstream.ids import MAX_ID
from diskstream.membership import consumer_number, group_number, idle_ms, now_ms, seen
from diskstream.wanted import Wanted

if TYPE_CHECKING:
    from diskstream.group import Group
    from diskstream.store import Store

__all__ = [
    "MAX_DELIVERIES",
    "NEW",
    "SEALED",
    "VIEW",
    "Place",
    "Wanted",
    "has_more",
    "look_up",
    "next_blocks",
]

MAX_DELIVERIES = 2**63 - 1
SEALED, VIEW = 9, 10  # reasons, as native/python/src/errors.rs numbers them
_UNLIMITED = 2**62
_BYTES_AT_ONCE = 1 << 20
_LEAST_LOOK_MS = 10
_ROWS_AT_ONCE = 256
# Pending rows whose entries are looked up together: behind gone ones so many too many may be unpacked.
_LOOKED_AT_ONCE = 64
# What one look at what is ripe goes through where entries are gone, in rows and, behind some, in time: then others may
# have the lock. A few are gone past in whatever time: what a reader gets does not depend on how busy the machine is.
_GONE_AT_ONCE, _GONE_AT_LEAST = 4096, 64
_HOLD_S = 0.005
_ASIDE_S = 0.0002
_FIRST: Key = (0, 0, 0)
_OWNED_FIRST: Key = (OWNED, 0, 0)
_BEYOND: Key = (2**64 - 1, 2**64 - 1, 2**64 - 1)  # all times: the order has 63 bits for them
_Cursor = tuple[Key, Key]  # in the order of times, of what nobody has and of what somebody has
NEW = MAX_ID  # what `>` stands for, as in Redis


def next_blocks(log: StreamLog, group: int, limit: int, *, enough: int = _UNLIMITED) -> list[Block]:
    """What the group is given next, `limit` entries; with `enough` of them, no more than some mebibytes."""
    last = log.native.last_delivered(group)
    start = None if last is None else last.next()
    blocks: list[Block] = []
    if start is None:
        return blocks
    entries = size = 0
    for block in reader.blocks(log, start, MAX_ID, enough=limit):
        blocks.append(block)
        entries += len(block)
        size += block.value_bytes
        if entries >= limit or entries >= 1 << 20 or (entries >= enough and size >= _BYTES_AT_ONCE):
            break
    return blocks


class Reading:
    """One consumer's read of one stream, under the append lock."""

    def __init__(self, log: StreamLog, owner: "Group", group: int, consumer: bytes, wanted: Wanted) -> None:
        self.log, self.owner, self.group, self.wanted = log, owner, group, wanted
        self._name = consumer
        self._number: int | None = None
        self._unripe = _OWNED_FIRST  # where those begin, in the order of times, that `ripe` has not looked at
        self.goes_on: _Cursor | None = None  # where `ripe` is to go on, with the lock taken anew
        self.is_cut_short = False  # more may be ripe than `ripe` gave

    @property
    def consumer(self) -> int:
        """The consumer's number. One that is not there is made: as late as this, since somebody may have deleted it."""
        if self._number is None:
            self._number = consumer_number(self.log, self.group, self._name)
        return self._number

    def new(self, room: int, promised: int) -> list[Delivery]:
        """The next entries of the group, but for those promised to waiters."""
        native, wanted = self.log.native, self.wanted
        blocks, seen_in_view = None, False
        first = reader.first_id(self.log)
        now = now_ms(self.log)
        while True:
            asked = (room, promised, wanted.bytes_limit, wanted.spent, wanted.noack)
            code, entries, spent = native.deliver(
                self.group, self.consumer, blocks, asked, first, now, self.owner, seen_in_view
            )
            if code == 0:
                wanted.spent = spent
                return entries
            if code in (SEALED, VIEW):
                blocks = next_blocks(self.log, self.group, room + promised)
                if code == VIEW:
                    ids = [entry.id for block in blocks for entry in block.entries()]
                    self.log.pending.learn(self.group, ids)
                    seen_in_view = True
            else:
                self.log.resolve(code, held=True)
                seen_in_view = False  # a roll begins the overlays anew

    def ripe(self, room: int, start: _Cursor | None = None) -> list[Delivery]:
        """What nobody has, and what others have had for too long: in the order of Redis's CLAIM, from `start` on.

        Entries that are gone stay pending, as in Redis, and may be very many. How far they reach is noted, so that none
        is looked at in each call. Behind some thousands of them, or some milliseconds, it ends with what was found;
        where that is nothing, it `goes_on`.
        """
        now = now_ms(self.log)
        oldest = now - (self.wanted.claim_ms or 0)
        if oldest + 1 >= OWNED:
            self._unripe = _BEYOND
        elif oldest >= 0:
            self._unripe = OWNED | (oldest + 1), 0, 0  # nobody's entries are always ripe
        made: list[Delivery] = []
        self._again(self._but_gone(room, made, start or (_FIRST, _OWNED_FIRST)), made, room, now, gone=False)
        return made

    def _but_gone(self, room: int, made: list[Delivery], start: _Cursor) -> Iterator[list[Row]]:
        """Ripe pending rows, some at a time, without those below the first entry; `made` is what came of them so far.

        It is gone on with where there is room: then what nothing came of is gone.
        """
        native = self.log.native
        length, last, *_ = native.counters()
        first = reader.first_id(self.log) if length else None
        ends = time.perf_counter() + _HOLD_S
        passed, at_once = 0, min(room, _LOOKED_AT_ONCE)
        noted = native.gone_before(self.group)
        at = [max(pair) for pair in zip(noted, start, strict=True)]
        for is_owned, until in enumerate((_OWNED_FIRST, self._unripe)):
            # What lies before it was looked at by this call, which may not have noted it.
            all_gone = at[is_owned] == max(noted[is_owned], (_FIRST, _OWNED_FIRST)[is_owned])
            rows = self.log.pending.rows(self.group, BY_TIME, at[is_owned], until)
            while some := list(itertools.islice(rows, at_once)):
                before, are_all = len(made), len(some) < at_once
                yield [row for row in some if row[0] >= first] if first is not None else []
                given = len(made) - before
                passed += len(some) - given
                at[is_owned] = key_beyond(some[-1], BY_TIME)
                all_gone = all_gone and not given and all(row[0] <= last for row in some)
                if all_gone:
                    native.note_gone(self.group, at[is_owned], bool(is_owned))
                if not given:  # to look for many at once costs little more
                    at_once = min(2 * at_once, _LOOKED_AT_ONCE)
                held = time.perf_counter() >= ends and passed >= _GONE_AT_LEAST
                if not are_all and (held or passed >= _GONE_AT_ONCE):
                    self.goes_on = None if made else (at[0], at[1])
                    self.is_cut_short = True
                    return

    def ripens_in_s(self) -> float | None:
        """Seconds until the next entry has lain long enough; None where that is no matter.

        What was ripe when `ripe` looked and was not given is gone: nobody waits for that.
        """
        if self.wanted.claim_ms is None:
            return None
        row = self.log.pending.first(self.group, BY_TIME, self._unripe)
        if row is None:
            return max(self.wanted.claim_ms, _LEAST_LOOK_MS) / 1000  # of what is delivered from now on
        return max(0.0, (row[2] + self.wanted.claim_ms - now_ms(self.log)) / 1000)

    def history(self, after: EntryID, room: int) -> list[Delivery]:
        """The consumer's own pending entries behind `after`."""
        start = after.next()
        if start is None:
            return []
        key = (self.consumer, start.ms, start.seq)
        rows = self.log.pending.rows(self.group, BY_CONSUMER, key, (self.consumer + 1, 0, 0))
        made: list[Delivery] = []
        some = iter(lambda: list(itertools.islice(rows, min(room - len(made), _ROWS_AT_ONCE))), [])
        self._again(some, made, room, now_ms(self.log), gone=True)
        return made

    def _again(self, batches: Iterable[list[Row]], made: list[Delivery], room: int, now: int, *, gone: bool) -> None:
        """Delivers pending entries once more; with `gone`, those whose entry is gone are shown as such.

        The log is told when all is `made`: what is claimed becomes the youngest, and would come once more.
        """
        changed: list[tuple[EntryID, int, int]] = []
        text = self.log.options.decode_responses
        for some in batches:
            found = reader.find_many(self.log, [row[0] for row in some]) if some else {}
            for entry_id, consumer, time_ms, deliveries in some:
                entry = found.get(entry_id)
                if (entry is None and not gone) or len(made) >= room or self._is_full(made):
                    continue
                idle = idle_ms(consumer, time_ms, now)
                made.append(delivery(entry, entry_id, self.owner, idle, deliveries, text))
                if entry is not None:
                    self.wanted.spent += entry.size_bytes
                    changed.append((entry_id, now, min(deliveries + 1, MAX_DELIVERIES)))
            if len(made) >= room or self._is_full(made):
                break
        if changed:
            # What CLAIM gives is a delivery; a look at one's own history is not.
            active = not gone
            for at in range(0, len(changed), 1 << 16):
                part = sorted(changed[at : at + (1 << 16)])
                self.log.pending.change([("assign", self.group, self.consumer, active, part)], now)

    def _is_full(self, made: list[Delivery]) -> bool:
        return bool(made or self.wanted.spent) and self.wanted.spent >= self.wanted.bytes_limit


@dataclass
class Place:
    """Where a call stands with one stream."""

    owner: "Group"
    after: EntryID
    turn: Turn | None = None
    queue: tuple[Page, int] | None = None  # the page, and the number of the group, whose queue that is in
    bell: tuple[Ctl, int] | None = None
    ripens_in_s: float | None = None  # as of the last look
    looked_at: float = 0.0  # when that was, by `time.monotonic`
    looked: bool = False  # only the first look of a call counts as an attempt of the consumer's
    goes_on: _Cursor | None = None  # where the look at what is ripe is to go on, at once
    # Where the last look found and left nothing: as of before it, what is written, what readers see, and the flags.
    heard: tuple[Page, tuple[int, int], tuple[int, int], int] | None = None

    def is_for(self, page: Page, group: int) -> None:
        """Leaves the queue of a group that was destroyed, and made anew as this one, or of a stream that gave way to
        another one of its name: nobody is served there.
        """
        if self.queue is not None and not (self.queue[1] == group and self.queue[0].is_same_as(page)):
            self.goes_on = None
            if self.turn is not None:
                self.turn.leave()
                self.turn = None
        self.queue = page, group

    def is_as_it_was(self, is_in_place: Callable[[Page], bool] = Page.is_in_place) -> bool:
        """Whether the stream would give no more than at the last look.

        Args:
            is_in_place: whether what has a page has it still, for who knows of it already.

        Very many may wait. And to open it for a look, where it was closed here for another one, would close others that
        are waited for, and so on, without an end.
        """
        if self.heard is None or (self.turn is not None and self.turn.called):
            return False
        if self.bell is not None and self.bell[0].bell != self.bell[1]:
            return False
        page, *seen = self.heard
        is_due = self.ripens_in_s is not None and self.looked_at + self.ripens_in_s <= time.monotonic()
        return not is_due and [page.ctl.written, page.ctl.visible, page.ctl.flags] == seen and is_in_place(page)


def _look(place: Place, log: StreamLog, consumer: bytes, wanted: Wanted, *, waits: bool) -> list[Delivery]:
    """What one stream has for the consumer now; where there is nothing and it `waits`, it stands in the queue then."""
    spent = wanted.spent

    def look() -> list[Delivery]:
        wanted.spent = spent
        return _look_held(place, log, consumer, wanted, waits=waits)

    while True:
        entries = fetching_outside(log, look)
        if entries or place.goes_on is None or wanted.over:
            return entries
        time.sleep(_ASIDE_S)


def _look_held(place: Place, log: StreamLog, consumer: bytes, wanted: Wanted, *, waits: bool) -> list[Delivery]:
    with log.locked():
        log.prepare()
        visible = log.ctl.visible
        group = group_number(log, place.owner)
        reading = Reading(log, place.owner, group, consumer, wanted)
        if place.after != NEW:
            wanted.claims = False
            entries = reading.history(place.after, wanted.room)
            seen(log, group, reading.consumer)
        else:
            if not place.looked:
                _ = reading.consumer  # a read makes it; who is deleted while it waits is not made again by waiting on
            entries = _take(reading, log, place, wanted, waits=waits)
            if not entries and not place.looked:
                seen(log, group, reading.consumer)
        place.looked = True
        leaves_none = place.goes_on is None and not has_more(log, group)
        heard = (log.page, log.ctl.written, visible, log.ctl.flags)
        place.heard = heard if not entries and leaves_none else None
        log.pending.relieve()
    return entries


def _take(reading: Reading, log: StreamLog, place: Place, wanted: Wanted, *, waits: bool) -> list[Delivery]:
    place.is_for(log.page, reading.group)
    entries = reading.ripe(wanted.room, place.goes_on) if wanted.claims else []
    place.goes_on = reading.goes_on
    if place.goes_on is not None and place.turn is None:
        return entries  # who waits already does not let pass what is kept for him meanwhile
    if not (entries and reading.is_cut_short):  # what is ripe comes before what is new
        entries = _take_new(reading, log, place, wanted, entries, waits=waits)
    if entries:
        if place.turn is not None:
            place.turn.leave(served=True)
            place.turn = None
        if has_more(log, reading.group):
            log.ctl.wake_queue(1, reading.group)
    else:
        place.ripens_in_s, place.looked_at = reading.ripens_in_s(), time.monotonic()
    return entries


def _take_new(
    reading: Reading, log: StreamLog, place: Place, wanted: Wanted, entries: list[Delivery], *, waits: bool
) -> list[Delivery]:
    """The claimed entries, and new ones behind them. Where there are none, and it `waits`, it stands in the queue"""
    group = reading.group
    room = wanted.room - len(entries)
    while room > 0 and not (entries and wanted.spent >= wanted.bytes_limit):
        promised = log.ctl.promised(group, place.turn)
        # Who wants more than one entry leaves all of them to whoever has waited longer: these may want several too, and
        # come first. Where each takes one, one is left for each.
        if not (promised and waits and wanted.count != 1):
            try:
                entries += reading.new(room, promised) if not place.looked or has_more(log, group) else []
            except Away:
                if not entries:
                    raise
                break  # what was claimed is given first
        if not entries and promised and place.turn is not None and has_more(log, group):
            place.turn.wake_before()  # what was left to who has waited longer
        if entries or not waits:
            break
        if place.turn is None or not place.turn.again():
            place.turn = log.ctl.join_queue(group)
            place.bell = None if place.turn is not None else (log.ctl, log.ctl.bell)
            if log.options.is_always and place.turn is not None:
                # What became visible before we stood in the queue has woken nobody: one more look.
                waits = False
                continue
        break
    return entries


def has_more(log: StreamLog, group: int) -> bool:
    """Whether there are entries that no consumer of the group was given."""
    last = log.native.last_delivered(group)
    return last is not None and last < log.native.counters()[1]


def look_up(
    store: "Store", name: bytes, place: Place, consumer: bytes, wanted: Wanted, *, waits: bool
) -> list[Delivery]:
    """The same, by name: again where the stream has moved meanwhile.

    Raises:
        NoGroupError: there is no such stream, or no such group.
    """
    while True:
        log = store._log(name, create=False)
        if log is None:
            raise NoGroupError(name, place.owner.name)
        try:
            entries = _look(place, log, consumer, wanted, waits=waits)
        except StreamMoved:
            place.turn = place.goes_on = None
            store._forget(name, log)
            continue
        # Nothing is given out that a power cut may take back. Whoever moved the stream has flushed it.
        with contextlib.suppress(StreamMoved):
            log.settle()
        return entries
