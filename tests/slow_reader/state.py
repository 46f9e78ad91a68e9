"""The state of a stream: a snapshot, changed by the frames after it. docs/format/state.md."""

import struct
from dataclasses import dataclass, field
from pathlib import Path

from tests.slow_reader import layouts
from tests.slow_reader.groups import Commits, Groups, Settings
from tests.slow_reader.log import Frame, rows
from tests.slow_reader.wire import Cursor, Identifier, NewerError

__all__ = ["Meta", "State"]


@dataclass
class Meta:
    """What the log says of one segment."""

    number: int
    generation: int = 0
    entries: int = 0
    first: Identifier = (0, 0)
    last: Identifier = (0, 0)
    least_time: int = 0
    greatest_time: int = 0
    size: int = 0
    trimmed: int = 0
    deleted: set[int] = field(default_factory=set)

    def is_live(self, position: int) -> bool:
        return self.trimmed <= position < self.entries and position not in self.deleted

    def live(self) -> int:
        return sum(self.is_live(position) for position in range(self.entries))

    @classmethod
    def read(cls, cursor: Cursor) -> "Meta":
        number, generation, entries = cursor.varint(), cursor.varint(2**32 - 1), cursor.varint()
        first, last = cursor.id(), cursor.id()
        least, greatest, size, trimmed = cursor.varint(), cursor.varint(), cursor.varint(), cursor.varint(entries)
        if first > last:
            raise cursor.fault("first <= last", (first, last))
        deleted = cursor.bitmap(entries)
        return cls(number, generation, entries, first, last, least, greatest, size, trimmed, deleted)


class State:
    """All of a stream that is not its entries."""

    def __init__(self, path: Path, number: int, snapshot: Frame) -> None:
        self.path = path
        self.active = Meta(number)
        self.listed: list[Meta] = []
        self.last_id = self.greatest_deleted = (0, 0)
        self.entries_added = 0
        self.uuid = b""
        self.groups = Groups()
        cursor = snapshot.cursor()
        seen: list[int] = []
        while cursor.at < len(cursor.data):
            tag = cursor.byte()
            size = cursor.varint()
            body = Cursor(path, cursor.take(size), cursor.base + cursor.at - size)
            if tag < layouts.MAY_BE_PASSED_OVER:
                self._section(tag, body)
                body.end()
                seen.append(tag)
        alone = layouts.SECTIONS["commits"], layouts.SECTIONS["settings"]
        if [tag for tag in seen if tag not in alone] not in ([1, 2], [1, 2, 16, 17]):
            raise cursor.fault("sections 1 and 2, and both or none of 16 and 17", seen)
        if seen != sorted(set(seen)):
            raise cursor.fault("sections in the order of their tags", seen)

    def _section(self, tag: int, body: Cursor) -> None:
        if tag == layouts.SECTIONS["counters"]:
            values = layouts.COUNTERS.unpack(body.take(layouts.COUNTERS.size))
            self.last_id, self.greatest_deleted = values[:2], values[2:4]
            self.entries_added, self.uuid = values[4:]
        elif tag == layouts.SECTIONS["segments"]:
            for _ in range(body.varint()):
                self._list(Meta.read(body), body)
        elif tag == layouts.SECTIONS["groups"]:
            self.groups = Groups.read(body)
        elif tag == layouts.SECTIONS["pending"]:
            self.groups.read_pending(body)
        elif tag == layouts.SECTIONS["commits"]:
            self.groups.commits = Commits.read(body)
        elif tag == layouts.SECTIONS["settings"]:
            self.groups.settings = Settings.read(body)
        else:
            raise NewerError(self.path, body.base, "a known section", f"section {tag}")

    def _list(self, meta: Meta, body: Cursor) -> None:
        before = self.listed[-1] if self.listed else None
        in_order = before is None or (before.number < meta.number and before.last < meta.first)
        if not in_order or meta.number >= self.active.number or meta.live() == 0:
            raise body.fault("live segments in order", meta)
        self.listed.append(meta)

    def segment(self, number: int) -> Meta | None:
        return next((meta for meta in [*self.listed, self.active] if meta.number == number), None)

    def length(self) -> int:
        return sum(meta.live() for meta in [*self.listed, self.active])

    def apply(self, frame: Frame) -> None:
        """Makes the change of one frame."""
        cursor = frame.cursor()
        if frame.kind == layouts.ENTRIES:
            self._entries(cursor, frame)
            self._records(frame.halves()[1], frame.time)
            return
        cursor.same((0, (0, 0)), (frame.entries, frame.first))
        if frame.kind == layouts.DELETE:
            self._delete(cursor)
        elif frame.kind == layouts.TRIM:
            self._trim(cursor)
        elif frame.kind == layouts.GROUPS:
            self._records(cursor, frame.time)
        elif frame.kind == layouts.VIEW:
            cursor.same(frame.lsn - 1, cursor.varint())
        elif frame.kind == layouts.SET_ID:
            self.last_id = cursor.id()
            (self.entries_added,) = cursor.fixed(struct.Struct("<Q"))
            self.greatest_deleted = cursor.id()
        elif frame.kind == layouts.REPLACE:
            inputs = [cursor.varint() for _ in range(cursor.varint())]
            output = Meta.read(cursor)
            kept = [meta for meta in self.listed if meta.number not in inputs]
            self.listed = sorted([*kept, output], key=lambda meta: meta.number)
        else:
            cursor.same(layouts.MARK, frame.kind)
        cursor.end()
        self.listed = [meta for meta in self.listed if meta.live() > 0]

    def _entries(self, cursor: Cursor, frame: Frame) -> None:
        ids = [entry_id for entry_id, _ in rows(frame)]
        if not ids or frame.first <= self.last_id:
            raise cursor.fault(f"an ID above {self.last_id}", frame.first)
        active = self.active
        if active.entries == 0:
            active.first, active.least_time, active.greatest_time = frame.first, frame.time, frame.time
        active.least_time = min(active.least_time, frame.time)
        active.greatest_time = max(active.greatest_time, frame.time)
        active.entries += len(ids)
        active.size += frame.size
        self.entries_added += len(ids)
        self.last_id = active.last = ids[-1]

    def _delete(self, cursor: Cursor) -> None:
        self.greatest_deleted = max(self.greatest_deleted, cursor.id())
        for _ in range(cursor.varint()):
            meta = self.segment(cursor.varint())
            run = range(0)
            for _ in range(cursor.varint()):
                run = cursor.run(run.stop, 2**64 if meta is None else meta.entries)
                if meta is not None:
                    meta.deleted.update(run)

    def _trim(self, cursor: Cursor) -> None:
        number, position = cursor.varint(self.active.number), cursor.varint()
        for meta in [*self.listed, self.active]:
            if meta.number <= number:
                end = position if meta.number == number else meta.entries
                meta.trimmed = max(meta.trimmed, min(end, meta.entries))

    def _records(self, cursor: Cursor, time: int) -> None:
        """Records of groups, one after another; two kinds of them change entries."""
        while cursor.at < len(cursor.data):
            tag = cursor.byte()
            if tag == layouts.RECORD_TAGS["delete"]:
                size = cursor.varint()
                body = Cursor(self.path, cursor.take(size), cursor.base + cursor.at - size)
                self._delete(body)
                body.end()
            elif tag == layouts.RECORD_TAGS["trim"]:
                self._trim(cursor)
            elif tag in layouts.RECORD_TAGS.values():
                self.groups.apply(tag, cursor, time)
            else:
                raise NewerError(self.path, cursor.base + cursor.at - 1, "a known record", f"record {tag}")
        self.listed = [meta for meta in self.listed if meta.live() > 0]
