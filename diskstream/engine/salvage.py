"""A log file made anew from what is whole in a damaged one.

Frames are put behind one another in memory, each in its order with a new place in the chain, and the native log that
follows them says what can be applied. So the result is a log that any opening accepts, before a byte of it is on disk.
What stands before the first fault stays as it is, byte for byte.

Behind a fault frames speak of a state that is not known any more. `salvage_groups` says what they are taken for then.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from diskstream._native import LOG_HEADER_BYTES, EntryID, LogFile
from diskstream.engine import looks, names, recovery
from diskstream.engine.files import nameless_file
from diskstream.engine.frames import Frame, Gap, encode, frame_at, halves, header_block, walk
from diskstream.engine.layouts import DELETE, ENTRIES, GROUPS, KINDS, REPLACE, SET_ID, SNAPSHOT, TRIM, VIEW
from diskstream.engine.losses import Loss
from diskstream.engine.page import Page
from diskstream.engine.roll import INITIAL_BYTES
from diskstream.engine.salvage_groups import GroupsBehind
from diskstream.engine.salvage_nodes import Salvaged, segment_meta
from diskstream.engine.salvage_places import Places
from diskstream.engine.snapshots import read_meta
from diskstream.engine.wire import ID, Cursor, WireError, put_id, put_varint
from diskstream.options import Options
from diskstream.plurals import number_of

__all__ = ["Rebuilt", "Source", "rebuild"]

_STEP_BYTES = 64 << 10  # of zeros, which each look behind the last frame passes over
_FRAMES_AT_ONCE = 256
_MARGIN_MS = 10_000


def after(entry_id: ID) -> str:
    """The ID behind one, as text."""
    return str(EntryID(*entry_id).next() or EntryID(*entry_id))


@dataclass
class Rebuilt:
    """A log file that was made anew.

    Attributes:
        image: its bytes, without zeros at the end.
        losses: what was in the old one and is not in this one.
        notes: what else is different now.
        listed: number and generation of each segment that it lists.
    """

    image: bytes
    losses: list[Loss] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    listed: set[tuple[int, int]] = field(default_factory=set)


class _Image:
    """A log file under construction, and the native log that follows it."""

    def __init__(self, directory: Path, number: int, block: bytes, snapshot: bytes, options: Options) -> None:
        path = names.log_path(directory, number)
        fd = nameless_file()
        try:
            os.write(fd, bytes(LOG_HEADER_BYTES))
            self.file = LogFile(fd, str(path), True)
        finally:
            os.close(fd)
        self.number = number
        self.page = Page.private()
        self._room(LOG_HEADER_BYTES + len(snapshot))
        self.file.pwrite(0, block + snapshot)
        self.native = recovery.native_log(directory, number, self.page.ctl, self.file, options, apart=True)
        self.native.scan()

    def _room(self, end: int) -> None:
        if end + 4096 > self.file.size_bytes:
            self.file.extend(-(-(end + _STEP_BYTES) // 4096) * 4096)

    def append(self, data: bytes) -> int:
        """Puts bytes behind the last frame and applies what is whole of them. Returns how many bytes that were."""
        end = self.native.tail[1]
        self._room(end + len(data))
        self.file.pwrite(end, data)
        found = self.native.scan()
        applied = self.native.tail[1] - end
        if found is not None or applied < len(data):
            self.file.pwrite(end + applied, bytes(len(data) - applied))
        return applied

    def put(self, frames: list[tuple[Frame, bytes]]) -> list[Frame]:
        """Puts frames behind the last one, with their new place in the chain. Returns those that cannot be applied."""
        refused = []
        while frames:
            lsn, _, chain = self.native.link
            out, ends = bytearray(), []
            for frame, payload in frames:
                lsn += 1
                data, chain = encode(frame, payload, self.native.salt, lsn, chain)
                out += data
                ends.append(len(out))
            applied = self.append(bytes(out))
            done = sum(end <= applied for end in ends)
            refused += [frame for frame, _ in frames[done : done + 1]]
            frames = frames[done + 1 :]
        return refused

    def publish(self) -> None:
        """Lets readers of the native log see all of it."""
        number, end, lsn, _ = self.native.tail
        self.page.ctl.publish(number, end, lsn)
        self.native.catch_up()

    def last_id(self) -> EntryID:
        """The last ID of all that is written."""
        self.publish()
        return self.native.counters()[1]

    def bytes(self) -> bytes:
        """All that is written."""
        return self.file.read(0, self.native.tail[1])

    def close(self) -> None:
        self.native.close()
        self.file.close()
        self.page.close()


@dataclass(frozen=True)
class Source:
    """What a log is made anew from.

    Attributes:
        directory, number: of the stream, and of the segment.
        data: the bytes of the damaged file; none where it is missing.
        uuid, salt: of the new file; `salt` is that of the old one's frames.
        slot: the frontier slot that counts, if one is sound.
        snapshot: the frame to begin with.
        start: where frames begin in `data`.
        notes, losses: what is known already.
        is_certain: whether no frame is missing between the snapshot and `start`.
        is_from_files: whether the list of segments is of now, and not of when the log began.
        successor_lost: whether the segment behind this one is missing: this one is the active one again.
    """

    directory: Path
    number: int
    data: bytes
    uuid: bytes
    salt: int
    slot: dict[str, int] | None
    snapshot: bytes
    start: int
    now_ms: int
    notes: list[str] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    successor_lost: bool = False
    is_certain: bool = True
    is_from_files: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the file is shorter than any that was left: it is made of whole pages, four at least where a writer
        made it, and the last one is empty where it is a copy, as of a backup."""
        return len(self.data) % 4096 != 0 or (len(self.data) < INITIAL_BYTES and any(self.data[-4096:]))

    @property
    def path(self) -> Path:
        """The file."""
        return names.log_path(self.directory, self.number)


class _Salvage:
    """One pass over the frames of a damaged log."""

    def __init__(self, source: Source, image: _Image) -> None:
        self.source, self.image = source, image
        self.result = Rebuilt(b"", list(source.losses), list(source.notes))
        self.places = Places(source.directory, source.number)
        self.groups = GroupsBehind(image.native, self.result.notes)
        self.broken = False
        self.uncounted: ID | None = None  # from where on entries are lost that groups may have counted
        # What is made from files is of an older copy: what was set since then, or taken away, is not known.
        if not (source.data and source.is_certain) or source.is_from_files:
            self.groups.doubt_rule()
        self._held: list[tuple[Frame, bytes]] = []
        self._open: list[Loss] = []

    @property
    def _last(self) -> ID:
        last = self.image.last_id()
        return last.ms, last.seq

    def run(self) -> None:
        """Takes all that can be taken."""
        source = self.source
        snapshot = frame_at(source.snapshot, 0, None)
        assert snapshot is not None
        at = start = reached = source.start
        if source.is_from_files:
            # What groups did since the older copy is lost, though frames of this log may apply to it as they are.
            self.places.distrust()
            self.broken = True
            self.groups.begin()
            self.uncount((0, 0))
        if not source.is_certain:
            self.places.lose(None)
        known: int | None = snapshot.lsn  # up to which frame it is said what became of it
        for piece in walk(source.data, source.salt, start, snapshot.lsn, str(source.path)):
            if isinstance(piece, Gap):
                known = None if piece.lost is None or known is None else known + piece.lost
            else:
                known = piece.lsn
            if isinstance(piece, Gap):
                self._take_before(at, piece.offset)
                self._gap(piece)
            elif self.broken:
                self._behind(piece)
            reached = piece.end
            if self.broken:
                at = reached
        end = reached  # and not where the zeros begin: a frame may end with some
        self._take_before(at, end)
        self._flush()
        slot = source.slot
        if source.successor_lost:
            self._gap(Gap(end, end, None, None))
            what = "the log behind this one is missing: all that was added or changed since, groups too, is lost"
            self.result.losses[-1].what = what
        elif self._may_be_short(is_empty=known == snapshot.lsn):
            self._gap(Gap(end, end, None, None))
            self.result.losses[
                -1
            ].what = "nothing says how much was durable: entries and changes of groups behind this place are lost"
        elif slot is not None and known is not None and slot["synced"] > known:
            self._gap(Gap(end, end, None, None))

    def _may_be_short(self, *, is_empty: bool) -> bool:
        """Whether nothing says how far the log was durable, and no loss without an end says so already.

        A file that has lost its snapshot and holds no frames has lost them with it.
        """
        source = self.source
        own = source.data[LOG_HEADER_BYTES : LOG_HEADER_BYTES + len(source.snapshot)] == source.snapshot
        told = any(loss.first and not loss.last for loss in self.result.losses)
        return not told and (source.slot is None or source.is_cut or (is_empty and not own))

    def _take_before(self, start: int, end: int) -> None:
        """Takes sound frames as they are, as long as nothing was wrong."""
        if self.broken or start >= end:
            return
        data = self.source.data[start:end]
        applied = self.image.append(data)
        self.places.note_prefix(self.image.native.active_entries)
        if applied < len(data):
            # Whole, and yet not to be applied: what cannot be is left out, and the rest is taken one by one.
            self.broken = True
            self.groups.begin()
            lsn = self.image.native.tail[2]
            for piece in walk(self.source.data[:end], self.source.salt, start + applied, lsn, str(self.source.path)):
                if isinstance(piece, Gap):
                    self._gap(piece)
                else:
                    self._behind(piece)

    def _gap(self, gap: Gap) -> None:
        self._flush()
        self.broken = True
        self.groups.begin()
        header, last = gap.header, self._last
        loss = Loss(self.source.path, gap.offset, gap.end - gap.offset, "")
        if header is None or header.kind == GROUPS:
            self.groups.doubt_rule()
        if header is None:
            known = "nothing says how much follows" if gap.lost is None else number_of(gap.lost, "frame")
            loss.what = f"damaged: {known}; entries, deletes, trims and changes of groups in them are lost"
            loss.first = after(last)
            following = EntryID(*last).next() or EntryID(*last)
            self.uncount((following.ms, following.seq))
            self.places.lose(None)
            self._open.append(loss)
        else:
            self._lose_frame(header, loss, last)
        self.result.losses.append(loss)

    def uncount(self, first: ID) -> None:
        """Entries from an ID on may be lost, or deleted by what is lost, and groups may have counted them."""
        self.uncounted = first if self.uncounted is None else min(self.uncounted, first)

    def _lose_frame(self, header: Frame, loss: Loss, last: ID) -> None:
        """One frame whose header is sound: it says what is lost."""
        kind = KINDS[header.kind]
        if header.kind == ENTRIES:
            loss.what, loss.entries = f"a damaged frame of {number_of(header.entries, 'entry')}", header.entries
            loss.first = str(EntryID(*max(header.first, last)))
            self.uncount(header.first)
            self.places.lose(header.entries)
            self._open.append(loss)
            return
        undone = {
            DELETE: "what it deleted is there again",
            TRIM: "what it trimmed is there again",
            REPLACE: "a compaction",
            SET_ID: "the counters that were set",
            VIEW: "nothing is lost by it",
            GROUPS: "what was delivered may be delivered again, what was acknowledged may be pending again",
        }
        loss.what = f"a damaged frame of kind {kind}: {undone.get(header.kind, 'nothing is lost by it')}"
        if header.kind == REPLACE:
            self.places.distrust()

    def _behind(self, frame: Frame) -> None:
        """A frame behind a fault."""
        payload = frame.payload(self.source.data)
        if frame.kind == ENTRIES:
            self._close_losses(frame.first)
            rows, records = halves(frame, payload)
            if records and not self.groups.is_plain(records):
                self._flush()
                changed = self.groups.translate(records, self.places)
                payload = rows + changed + len(changed).to_bytes(4, "little")
            self._held.append((frame, payload))
            if len(self._held) >= _FRAMES_AT_ONCE:
                self._flush()
            return
        if frame.kind in (VIEW, SNAPSHOT):
            return
        self._flush()
        if frame.kind == DELETE:
            payload = self.places.delete(payload, self.result.notes)
        elif frame.kind == TRIM:
            payload = self.places.trim(payload, self.result.notes)
        elif frame.kind == GROUPS:
            payload = self.groups.translate(payload, self.places)
        elif frame.kind == REPLACE and self._is_done(payload):
            return
        if payload or frame.kind not in (DELETE, TRIM, GROUPS):
            self._held.append((frame, payload))
            self._flush()

    def _is_done(self, payload: bytes) -> bool:
        """Whether the outcome of a compaction, or a later one, is listed already: as the files say, for instance."""
        cursor = Cursor(payload)
        try:
            for _ in range(cursor.count(cursor.left)):
                cursor.varint()
            output = read_meta(cursor)
        except WireError:
            return False  # the native log refuses it, and it is reported
        listed = self.image.native.segments()
        return any(view.number == output.number and view.generation >= output.generation for view in listed)

    def _flush(self) -> None:
        held, self._held = self._held, []
        if not held:
            return
        before = self.image.native.active_entries
        refused = self.image.put(held)
        for frame, _ in held:
            if frame.kind != ENTRIES:
                continue
            if frame in refused:
                self.uncount(frame.first)
                self.places.lose(frame.entries)
            else:
                self.places.keep(frame.entries, before)
                before += frame.entries
        if refused:
            self.groups.forget()
        for frame in refused:
            if frame.kind == GROUPS:
                self.groups.doubt_rule()
            entries = frame.entries or None
            first = str(EntryID(*frame.first)) if entries else ""
            what = f"a frame of kind {KINDS[frame.kind]} that contradicts what stands before it"
            loss = Loss(self.source.path, frame.offset, frame.size, what, first, "", entries)
            if entries:
                self._open.append(loss)
            self.result.losses.append(loss)

    def _close_losses(self, first: ID) -> None:
        """The next entries say where the IDs of what was lost before them end."""
        for loss in self._open:
            last = EntryID(*first).prev()
            if last is not None and last >= EntryID(loss.first):
                loss.last = str(last)
            else:
                loss.first = ""
        self._open.clear()


def rebuild(source: Source, options: Options) -> Rebuilt:
    """Makes a log anew from what is whole in a damaged file.

    Raises:
        CorruptionError: the snapshot that it is to begin with is none.
        NewerFormatError: a later version wrote in it.
    """
    slot = source.slot or {"sequence": 0, "frontier": 0, "floor": 0, "synced": 0}
    bare = {**slot, "synced": 0}
    began = frame_at(source.snapshot, 0, None)
    # As of the log that is made anew: of a stream's first one header and snapshot vouch for each other.
    created = source.now_ms if began is None else began.time
    block = header_block(source.uuid, source.salt, source.number, created, bare)
    image = _Image(source.directory, source.number, block, source.snapshot, options)
    try:
        salvage = _Salvage(source, image)
        salvage.run()
        result = salvage.result
        if salvage.broken:
            if _adopt(source, image, result):
                salvage.uncount((0, 0))
            image.publish()
            for payload in salvage.groups.give_back(source.directory, image, options):
                image.put([(_made(GROUPS, source.now_ms), payload)])
        for payload in [*salvage.groups.end_counts(salvage.uncounted), *salvage.groups.end_rule()]:
            image.put([(_made(GROUPS, source.now_ms), payload)])
        _bound_deleted(source, image)
        frontier = slot["frontier"]
        if result.losses or source.slot is None:
            # Whatever was lost may hold automatic IDs: none was issued beyond the clock, the last ID and the frontier,
            # which who closed the log last has taken back to just below the last ID: see `frontier.retract`.
            frontier = max(frontier + 1, slot["floor"], image.last_id().ms, source.now_ms)
            frontier += _MARGIN_MS if source.slot is None else 0
        frontier = min(frontier, 2**64 - 1)
        floor = frontier if result.losses or source.slot is None else slot["floor"]
        sequence = slot["sequence"] + 1
        final = {"sequence": sequence, "frontier": frontier, "floor": floor, "synced": image.native.tail[2]}
        image.file.pwrite(0, header_block(source.uuid, source.salt, source.number, created, final))
        result.image = image.bytes()
        result.listed = {(view.number, view.generation) for view in image.native.segments()}
        return result
    finally:
        image.close()


def _bound_deleted(source: Source, image: _Image) -> None:
    """Lowers the greatest deleted ID to the last ID, where that was deleted from what is lost: no stream may say more.

    It could not be copied or dumped as it is. The last ID is not raised: what is lost can be added again.
    """
    last = image.last_id()
    _, _, added, deleted = image.native.counters()
    if deleted > last:
        put = put_id((last.ms, last.seq))
        image.put([(_made(SET_ID, source.now_ms), put + added.to_bytes(8, "little") + put)])


def _adopt(source: Source, image: _Image, result: Rebuilt) -> bool:
    """Lists compacted segments whose replace frame is lost, where their inputs are gone. Returns whether any is.

    Deletes are lost with that frame, as a rule, and these segments lack what was deleted.
    """
    found = False
    views = image.native.segments()
    present = {parsed for path in source.directory.iterdir() if (parsed := names.parse_file(path.name)) is not None}
    missing = [
        ("seg", view.number, view.generation) not in present and ("log", view.number, view.generation) not in present
        for view in views
    ]
    for at, view in enumerate(views):
        newer = [
            generation for _, number, generation in present if number == view.number and generation > view.generation
        ]
        if not missing[at] or not newer:
            continue
        path = names.segment_path(source.directory, view.number, max(newer))
        path = path if looks.is_there(path) else names.cold_path(source.directory, view.number, max(newer))
        seen: dict[int, Salvaged] = {}
        meta = segment_meta(path, view.number, max(newer), source.uuid, seen)
        stop = at + 1
        while stop < len(views) and missing[stop] and meta is not None and EntryID(*meta.last) >= views[stop].first:
            stop += 1
        if meta is None:
            continue
        inputs = [each.number for each in views[at:stop]]
        payload = put_varint(len(inputs)) + b"".join(put_varint(number) for number in inputs) + meta.put()
        if not image.put([(_made(REPLACE, source.now_ms), payload)]):
            found = True
            for salvaged in seen.values():
                result.losses += salvaged.losses(view.first, views[stop - 1].last)
            result.notes.append(
                f"{path.name} is listed again; what was deleted from it since it was made is there again"
            )
    return found


def _made(kind: int, now_ms: int) -> Frame:
    return Frame(0, 0, kind, 0, 0, 0, 0, 0, now_ms, (0, 0), 0, 0, True)
