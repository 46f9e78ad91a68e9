"""Records of groups behind a fault in a log: what they are taken for where the state before them is not known.

Delivery is at least once, so the rule is: an entry that was delivered and not certainly acknowledged stays pending, and
one that may have been delivered in the lost part is given back to the group, for any consumer to claim. Groups and
consumers that were made in the lost part come back under a name that says so, since the old one is not known.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from diskstream._native import EntryID, Log, SegmentView
from diskstream.engine import cold, looks, names
from diskstream.engine.records import Record, put_record, read_records
from diskstream.engine.salvage_nodes import salvage_log, salvage_sealed
from diskstream.engine.segment import SegmentGone, Segments
from diskstream.engine.wire import ID, Row, WireError
from diskstream.errors import DiskstreamError
from diskstream.options import Options
from diskstream.plurals import number_of

if TYPE_CHECKING:
    from diskstream.engine.salvage_places import Places

__all__ = ["GroupsBehind"]

_IDS_AT_ONCE = 1000
_PLAIN = {"message", "windows", "commit", "setting"}
_BY_CONSUMER, _BY_TIME = 1, 2
_OWNED = 1 << 63
_BYTES = 1 << 20
_LAST = (2**64 - 1, 2**64 - 1)


class ImageLike(Protocol):
    """The log under construction."""

    native: Log
    number: int


class GroupsBehind:
    """The state of groups as the native log has it, and what records behind a fault become."""

    def __init__(self, native: Log, notes: list[str]) -> None:
        self._native, self._notes = native, notes
        self._suspects: set[int] = set()
        self._ranges: dict[int, list[tuple[ID, ID]]] = {}
        self._ended: dict[int, set[ID]] = {}
        self._aliases: dict[tuple[int, int], int] = {}
        self._names = _Names(native)
        self._rule_in_doubt = False

    def doubt_rule(self) -> None:
        """Something was lost that may have set a rule of retention, or taken it away."""
        self._rule_in_doubt = True

    def forget(self) -> None:
        """A frame was refused: what is known of names is asked for again."""
        self._names = _Names(self._native)

    def begin(self) -> None:
        """Something was lost here: what groups did in it is not known."""
        self.forget()
        self._suspects = {group[0] for group in self._native.groups()}

    @staticmethod
    def is_plain(payload: bytes) -> bool:
        """Whether records depend on nothing that may be lost."""
        try:
            return all(record.kind in _PLAIN for record in read_records(payload))
        except WireError:
            return False

    def translate(self, payload: bytes, places: "Places") -> bytes:
        """The records as they can be applied; none where nothing is left of them."""
        try:
            records = read_records(payload)
        except WireError as error:
            self._notes.append(f"records of groups that cannot be read are left out: {error}")
            return b""
        pending = _Pending(self._native, self._names)
        out: list[Record] = []
        for record in records:
            if record.kind == "delete":
                body = places.delete(record.body, self._notes)
                out += [replace(record, body=body)] if body else []
            elif record.kind == "trim":
                body = places.trim_place(*record.place, self._notes)
                out.append(replace(record, kind="raw", raw=b"\x0c" + body))
            elif record.kind in _PLAIN:
                out.append(record)
                if record.kind == "setting" and record.name == cold.RETENTION:
                    self._rule_in_doubt = False
            else:
                out += self._of_group(record, pending)
        return b"".join(record.raw if record.kind == "raw" else put_record(record) for record in out)

    def _of_group(self, record: Record, pending: "_Pending") -> Iterator[Record]:
        number = record.group
        if record.kind == "create":
            yield from self._create(record, pending)
            return
        if number not in pending.groups:
            if record.kind == "destroy":
                return
            first = min(record.ids, default=(0, 0))
            before = EntryID(*first).prev() or EntryID(0, 0)
            name = b"lost-group-%d" % number
            while name in pending.groups.values():
                name += b"x"
            self._notes.append(f"a group whose creation is lost is there as {name.decode()}")
            yield from self._create(Record("create", number, name=name, last=(before.ms, before.seq)), pending)
        if record.kind == "destroy":
            pending.groups.pop(number)
            yield record
            return
        if record.kind == "consumer":
            yield from self._consumer(record, pending)
            return
        if record.consumer:
            record = replace(record, consumer=self._aliases.get((number, record.consumer), record.consumer))
            if record.consumer not in pending.consumers(number):
                if record.kind == "dismiss":
                    return
                name = b"lost-consumer-%d" % record.consumer
                self._notes.append(f"a consumer whose creation is lost is there as {name.decode()}")
                yield from self._consumer(Record("consumer", number, record.consumer, name=name), pending)
        self._suspect(number, _until(record))
        yield from _fitted(record, pending)
        if record.kind == "end":
            self._ended.setdefault(number, set()).update(record.ids)

    def _create(self, record: Record, pending: "_Pending") -> Iterator[Record]:
        if record.group in pending.groups:
            return
        for number, name in list(pending.groups.items()):
            if name == record.name:  # its removal is lost
                pending.groups.pop(number)
                yield Record("destroy", number)
        pending.groups[record.group] = record.name
        pending.made(record.group)
        yield record

    def _consumer(self, record: Record, pending: "_Pending") -> Iterator[Record]:
        known = pending.consumers(record.group)
        if record.consumer in known:
            return
        for number, name in known.items():
            if name == record.name:  # the removal of the one before is lost: it goes on as this one
                self._aliases[record.group, record.consumer] = number
                return
        known[record.consumer] = record.name
        yield record

    def _suspect(self, group: int, until: ID | None) -> None:
        """What lies between the last delivery before the fault and the first one behind it was delivered in between.

        So was, perhaps, what a group that moved on passed over; one that moved back is looked at when it moves on.
        """
        if group not in self._suspects or until is None:
            return
        last = self._native.last_delivered(group)
        before = (0, 0) if last is None else (last.ms, last.seq)
        if before < until:
            self._suspects.discard(group)
            self._ranges.setdefault(group, []).append((before, until))

    # --- at the end ---------------------------------------------------------------------------------------------------

    def end_counts(self, first: ID | None) -> Iterator[bytes]:
        """Records that take away how many entries groups have read, where they may have counted lost ones.

        The stream does not count these any more: the lag would be wrong by them, and perhaps below zero, for good.

        Args:
            first: the least ID that may be lost; None where no entries are.
        """
        for number, _, last, read, *_ in self._native.groups():
            if first is not None and read is not None and (last.ms, last.seq) >= first:
                yield put_record(Record("position", number, last=(last.ms, last.seq)))

    def end_rule(self) -> Iterator[bytes]:
        """A record that takes the rule of retention away where it is not certain: nothing goes by it on inference.

        One that moves to object storage stays: by it nothing goes, and without it trims would remove what it moves.
        """
        value = self._native.setting(cold.RETENTION)
        if not self._rule_in_doubt or value is None:
            return
        shown = bytes(value).decode("utf-8", "backslashreplace")
        if cold.moves(bytes(value)):
            self._notes.append(
                f"the rule of retention, {shown}, is kept, as it removes nothing; what is lost may have changed "
                "it: see whether it is right"
            )
            return
        self._notes.append(
            f"the rule of retention, {shown}, is taken away, since what is lost may have changed it: set it again"
        )
        yield put_record(Record("setting", name=cold.RETENTION))

    def give_back(self, directory: Path, image: ImageLike, options: Options) -> Iterator[bytes]:
        """Records that give back what may have been delivered in the lost part and was not acknowledged since."""
        known = {group[0]: group[1] for group in self._native.groups()}
        for group, ranges in self._ranges.items():
            if group not in known:
                continue
            ended, given = self._ended.get(group, set()), 0
            back = _before_away(directory, self._native, ranges)
            if back is not None:
                yield self._put_back(group, known[group], back)
            end = _LAST if back is None else _behind(back)
            for before, until in ranges:
                ids = _ids_between(directory, image, options, before, min(until, end))
                for part in _parts(entry_id for entry_id in ids if entry_id not in ended):
                    found = self._native.find_pending(group, [EntryID(*entry_id) for entry_id in part])
                    free = tuple(entry_id for entry_id, row in zip(part, found, strict=True) if row is None)
                    if free:
                        given += len(free)
                        yield put_record(
                            Record(
                                "refuse",
                                group,
                                first=self._next_refusal(group),
                                ids=free,
                                owners=(None,) * len(free),
                                deliveries=(1,) * len(free),
                            )
                        )
            if given:
                name = known[group].decode("utf-8", "backslashreplace")
                what = f"that group {name} may have been given"
                said = number_of(given, f"entry {what} is", f"entries {what} are")
                self._notes.append(f"{said} pending again")

    def _put_back(self, group: int, known: bytes, back: ID) -> bytes:
        """The record that lets a group be given all behind an ID again: what lies there nobody here can name."""
        name = known.decode("utf-8", "backslashreplace")
        self._notes.append(
            f"group {name} is given what follows {EntryID(*back)} once more: it may have been given entries that are "
            "in object storage, which is not asked"
        )
        return put_record(Record("position", group, last=back))

    def _next_refusal(self, group: int) -> int:
        rows = self._native.pending_rows(group, _BY_TIME, (0, 0, 0), (_OWNED, 0, 0), None, 1 << 30)
        return max((row[2] for row in rows), default=0) + 1


class _Names:
    """Names of groups and consumers by number, kept from frame to frame: asking for all of them each time is slow."""

    def __init__(self, native: Log) -> None:
        self.groups = {group[0]: group[1] for group in native.groups()}
        self.consumers: dict[int, dict[int, bytes]] = {}


class _Pending:
    """Groups, consumers and owners as of the frame before, with what the records of this frame have made of them."""

    def __init__(self, native: Log, known: _Names) -> None:
        self._native = native
        self.groups = known.groups
        self._consumers = known.consumers
        self._owners: dict[tuple[int, ID], int | None] = {}
        self._fresh: set[int] = set()

    def made(self, group: int) -> None:
        """A group that is not in the log yet."""
        self._fresh.add(group)
        self._consumers[group] = {}

    def consumers(self, group: int) -> dict[int, bytes]:
        """Names by number."""
        if group not in self._consumers:
            self._consumers[group] = {each[0]: each[1] for each in self._native.consumers(group)}
        return self._consumers[group]

    def owners(self, group: int, ids: tuple[ID, ...]) -> tuple[int | None, ...]:
        """Who has each entry; None where it is not pending."""
        unknown = [entry_id for entry_id in ids if (group, entry_id) not in self._owners]
        if unknown and group not in self._fresh:
            found = self._native.find_pending(group, [EntryID(*entry_id) for entry_id in unknown])
            for entry_id, row in zip(unknown, found, strict=True):
                self._owners[group, entry_id] = None if row is None else row[1]
        return tuple(self._owners.get((group, entry_id)) for entry_id in ids)

    def set(self, group: int, ids: tuple[ID, ...], owner: int | None) -> None:
        """They are this consumer's now; None: not pending any more."""
        for entry_id in ids:
            self._owners[group, entry_id] = owner

    def of_consumer(self, group: int, consumer: int) -> list[Row]:
        """The pending entries of a consumer, as far as frames before this one say."""
        if group in self._fresh:
            return []
        start, until = (consumer, 0, 0), (consumer + 1, 0, 0)
        rows = self._native.pending_rows(group, _BY_CONSUMER, start, until, None, 1 << 30)
        found = [Row((row[0].ms, row[0].seq), row[1], row[2], row[3]) for row in rows]
        return [row for row in found if self._owners.get((group, row.id), consumer) == consumer]


def _fitted(record: Record, pending: _Pending) -> Iterator[Record]:
    """A record with the owners that there are now."""
    group = record.group
    if record.kind == "end":
        unique = tuple(dict.fromkeys(record.ids))
        yield replace(record, ids=unique, owners=pending.owners(group, unique))
        pending.set(group, unique, None)
    elif record.kind == "assign":
        rows = tuple(replace(row, consumer=record.consumer) for row in record.rows)
        ids = tuple(row.id for row in rows)
        yield replace(record, rows=rows, owners=pending.owners(group, ids))
        pending.set(group, ids, record.consumer)
    elif record.kind == "refuse":
        yield replace(record, owners=pending.owners(group, record.ids))
        pending.set(group, record.ids, 0)
    elif record.kind == "deliver":
        # One that is pending already was delivered before: it must not be counted twice.
        before = pending.owners(group, record.ids)
        fresh = tuple(entry_id for entry_id, owner in zip(record.ids, before, strict=True) if owner is None)
        yield replace(record, ids=fresh)
        pending.set(group, fresh, record.consumer)
    elif record.kind == "dismiss":
        rows = tuple(pending.of_consumer(group, record.consumer))
        if rows:  # their end is lost: nobody's, for others to claim
            ids = tuple(row.id for row in rows)
            deliveries = tuple(row.deliveries for row in rows)
            owners: tuple[int | None, ...] = (record.consumer,) * len(rows)
            yield Record("refuse", group, first=1, ids=ids, owners=owners, deliveries=deliveries)
            pending.set(group, ids, 0)
        pending.consumers(group).pop(record.consumer, None)
        yield record
    else:
        yield record


def _until(record: Record) -> ID | None:
    """The ID up to which a record says that a group had been given all before; None where it says nothing of that."""
    if record.kind == "deliver":
        return min(record.ids, default=None)
    if record.kind != "position":  # set by hand, or by a read that wants no acknowledgement
        return None
    return _behind(record.last)


def _parts(ids: Iterator[ID]) -> Iterator[list[ID]]:
    part: list[ID] = []
    for entry_id in ids:
        part.append(entry_id)
        if len(part) == _IDS_AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _salvaged_ids(directory: Path, view: SegmentView) -> Iterator[EntryID]:
    """The IDs of what can be read of a damaged segment."""
    path = names.segment_path(directory, view.number, view.generation)
    rows = names.log_path(directory, view.number)
    found = salvage_sealed(path) if looks.is_there(path) else salvage_log(rows) if looks.is_there(rows) else None
    if found is not None:
        found.place(view.entries, view.first, view.last)
        for piece in found.pieces:
            yield from (entry.id for entry in found.block(piece, view).entries())


def _behind(entry_id: ID) -> ID:
    following = EntryID(*entry_id).next()
    return _LAST if following is None else (following.ms, following.seq)


def _before_away(directory: Path, native: Log, ranges: list[tuple[ID, ID]]) -> ID | None:
    """The ID before the first entries of some ranges that are in object storage; None where none are there.

    A range leaves out both of its ends.
    """
    found: list[ID] = []
    for view in native.segments():
        key = view.number, view.generation
        here = names.segment_path(directory, *key), *([] if key[1] else [names.log_path(directory, key[0])])
        if not view.live or any(map(looks.is_there, here)) or not looks.is_there(names.cold_path(directory, *key)):
            continue
        start = view.first.prev() or EntryID(0, 0)
        first, last = (view.first.ms, view.first.seq), (view.last.ms, view.last.seq)
        found += [max(before, (start.ms, start.seq)) for before, until in ranges if before < last and first < until]
    return min(found, default=None)


def _ids_between(directory: Path, image: ImageLike, options: Options, before: ID, until: ID) -> Iterator[ID]:
    """The IDs of live entries behind `before` and below `until`, as far as they can be read."""
    start, end = EntryID(*before).next(), EntryID(*until).prev()
    if start is None or end is None or start > end:
        return
    segments = Segments(directory, image.native, options)
    try:
        for view in segments.views():
            if view.last < start or view.first > end:
                continue
            last = start.prev() or EntryID(0, 0)
            try:
                for block in segments.blocks(view, start, end, reverse=False):
                    for entry in block.entries():
                        last = entry.id
                        yield last.ms, last.seq
            except (SegmentGone, DiskstreamError):  # what is damaged there is reported by itself
                yield from ((each.ms, each.seq) for each in _salvaged_ids(directory, view) if last < each <= end)
    finally:
        segments.close()
    position = image.native.seek(image.number, start) or 0
    while True:
        _, rows = image.native.read(image.number, position, start, end, _IDS_AT_ONCE, _BYTES)
        if rows is None or rows.end_position <= position:
            return
        yield from ((entry.id.ms, entry.id.seq) for entry in rows.entries())
        position = rows.end_position
