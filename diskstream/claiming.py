"""Changing whose an entry is: claim, claim in passing, and give back. Under the append lock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from diskstream._native import Entry, EntryID
from diskstream.counts import check_count
from diskstream.engine import reader
from diskstream.engine.log import StreamLog
from diskstream.engine.pending import Row
from diskstream.engine.view_rows import BY_ID
from diskstream.errors import ArgumentError
from diskstream.ids import MIN_ID
from diskstream.membership import idle_ms, now_ms

__all__ = ["ClaimOptions", "Claimed", "autoclaim", "claim", "nack"]

MAX_DELIVERIES = 2**63 - 1
# What Redis allows an XAUTOCLAIM to look at, for each entry that it may claim.
_ATTEMPTS = 10

Claimed = tuple[EntryID, Entry | None, int, int]  # ID, entry, idle before in ms, deliveries before


@dataclass(frozen=True, kw_only=True)
class ClaimOptions:
    """The options of XCLAIM and XAUTOCLAIM, checked; `count_up` is false for JUSTID, `max_bytes` is for XAUTOCLAIM."""

    min_idle_ms: int = 0
    idle_ms: int | None = None
    time_ms: int | None = None
    retry_count: int | None = None
    force: bool = False
    last_id: EntryID | None = None
    count_up: bool = True
    count: int = 100
    max_bytes: int | None = None
    command: str = "XCLAIM"

    def __post_init__(self) -> None:
        """Checks the options.

        Raises:
            ArgumentError: out of range, in the words of Redis.
        """
        check_count("min-idle-time", self.min_idle_ms, f"Invalid min-idle-time argument for {self.command}")
        for name, value in (("IDLE", self.idle_ms), ("TIME", self.time_ms), ("RETRYCOUNT", self.retry_count)):
            if value is not None:
                check_count(name, value, f"Invalid {name} option argument for XCLAIM")
        if self.retry_count is not None and self.retry_count < 0:
            raise ArgumentError("Invalid RETRYCOUNT option argument for XCLAIM: it must be >= 0")
        if self.idle_ms is not None and self.time_ms is not None:
            raise ArgumentError("idle_ms and time_ms say the same thing twice: pass one of them")

    def delivered_at(self, now: int) -> int:
        """When the claimed entries count as delivered: never in the future."""
        at = now
        if self.idle_ms is not None:
            at = now - self.idle_ms
        elif self.time_ms is not None:
            at = self.time_ms
        return now if at > now or at < 0 else at


def _change(log: StreamLog, records: list[tuple[object, ...]], now: int) -> None:
    if records:
        log.pending.change(records, now)


def claim(log: StreamLog, group: int, consumer: int, ids: Sequence[EntryID], options: ClaimOptions) -> list[Claimed]:
    """Gives those of `ids` that are pending, and idle long enough, to a consumer: as XCLAIM."""
    now = now_ms(log)
    at = options.delivered_at(now)
    log.pending.learn(group, list(ids))
    rows = dict(zip(ids, log.native.find_pending(group, list(ids)), strict=True))
    live = reader.find_many(log, list(ids))
    given: dict[EntryID, tuple[EntryID, int, int]] = {}
    gone: list[EntryID] = []
    claimed: list[Claimed] = []
    for entry_id in ids:
        row = rows[entry_id]
        entry = live.get(entry_id)
        if entry is None:
            if row is not None:
                gone.append(entry_id)
                rows[entry_id] = None
            continue
        if row is None:
            if not options.force:
                continue
            row = (entry_id, 0, 0, 1)
        _, owner, delivered_ms, deliveries = row
        if owner and options.min_idle_ms > 0 and now - delivered_ms < options.min_idle_ms:
            continue
        count = deliveries + 1 if options.count_up else deliveries
        if options.retry_count is not None:
            count = options.retry_count
        claimed.append((entry_id, entry, idle_ms(owner, delivered_ms, now), deliveries))
        given[entry_id] = (entry_id, at, min(count, MAX_DELIVERIES))
        rows[entry_id] = (entry_id, consumer, at, count)
    records: list[tuple[object, ...]] = []
    last = log.native.last_delivered(group)
    if options.last_id is not None and last is not None and options.last_id > last:
        records.append(("position", group, options.last_id, log.native.progress(group, MIN_ID)[0]))
    if gone:
        records.append(("end", group, sorted(gone)))
    if given:
        records.append(("assign", group, consumer, True, sorted(given.values())))
    _change(log, records, now)
    return claimed


def autoclaim(
    log: StreamLog, group: int, consumer: int, start: EntryID, options: ClaimOptions
) -> tuple[EntryID, list[Claimed], list[EntryID]]:
    """Goes through the pending entries from `start` on and claims what is idle long enough: as XAUTOCLAIM.

    Returns:
        Where to go on (0-0 at the end), what was claimed, and the IDs whose entries are gone.
    """
    now = now_ms(log)
    count = options.count
    rows = log.pending.rows(group, BY_ID, (0, start.ms, start.seq))
    claimed: list[Claimed] = []
    deleted: list[EntryID] = []
    attempts = count * _ATTEMPTS
    room = options.max_bytes
    cursor = MIN_ID
    done = False
    while not done:
        some = list(islice(rows, min(256, count)))
        if not some:
            break
        live = reader.find_many(log, [row[0] for row in some])
        for entry_id, owner, delivered_ms, deliveries in some:
            if attempts <= 0 or len(claimed) + len(deleted) >= count:
                cursor, done = entry_id, True
                break
            attempts -= 1
            entry = live.get(entry_id)
            if entry is None:
                deleted.append(entry_id)
            elif not owner or options.min_idle_ms <= 0 or now - delivered_ms >= options.min_idle_ms:
                if room is not None:
                    room -= entry.size_bytes
                    if room < 0 and claimed:
                        cursor, done = entry_id, True
                        break
                claimed.append((entry_id, entry, idle_ms(owner, delivered_ms, now), deliveries))
    records: list[tuple[object, ...]] = []
    if deleted:
        records.append(("end", group, deleted))
    if claimed:
        up = 1 if options.count_up else 0
        again = [(entry_id, now, min(deliveries + up, MAX_DELIVERIES)) for entry_id, _, _, deliveries in claimed]
        records.append(("assign", group, consumer, True, again))
    _change(log, records, now)
    return cursor, claimed, deleted


_COUNTS: dict[str, Callable[[int], int]] = {
    "SILENT": lambda count: max(0, count - 1),
    "FAIL": lambda count: count,
    "FATAL": lambda _: MAX_DELIVERIES,
}


def nack(log: StreamLog, group: int, ids: Sequence[EntryID], mode: str, retry_count: int | None, *, force: bool) -> int:
    """Gives entries back: nobody has them, and the next claim may: as XNACK. Returns how many.

    Raises:
        ArgumentError: no such mode, or a count below zero.
    """
    if mode not in tuple(_COUNTS):  # of a list, say, there is no hash
        raise ArgumentError(f"mode must be SILENT, FAIL, or FATAL, not {mode!r}")
    if retry_count is not None and check_count("RETRYCOUNT", retry_count) < 0:
        raise ArgumentError("Invalid RETRYCOUNT value, must be >= 0")
    now = now_ms(log)
    log.pending.learn(group, list(ids))
    found: dict[EntryID, Row | None] = dict(zip(ids, log.native.find_pending(group, list(ids)), strict=True))
    live = reader.find_many(log, list(ids)) if force else {}
    rows: list[tuple[EntryID, int]] = []
    for entry_id in dict.fromkeys(ids):
        row = found[entry_id]
        if row is None and entry_id not in live:
            continue
        count = _COUNTS[mode](0 if row is None else row[3])
        rows.append((entry_id, count if retry_count is None else retry_count))
    if rows:
        _change(log, [("refuse", group, rows)], now)
        log.ctl.wake_queue(1 << 20, group)
        log.ctl.ring()  # a server's clients stand in no queue
    return len(rows)
