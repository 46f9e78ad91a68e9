"""What a log begins with where its own header or snapshot are damaged, or the file is missing altogether.

The snapshot stands a second time in the footer of the sealed predecessor; one that is not sealed yet leads to it by its
frames. Where that is gone too, an older copy and the files on disk say what the stream holds: nothing that can be read
is left out, so what was deleted or trimmed since the older copy is there again.
"""

import contextlib
import secrets
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from diskstream._native import LOG_HEADER_BYTES, EntryID, first_segment
from diskstream.engine import cold, looks, names, spare
from diskstream.engine.files import reading
from diskstream.engine.frames import Frame, Gap, encode, find_salt, frame_at, frontier, read_all, walk
from diskstream.engine.layouts import AUDIT_HEADER, FRAME_HEADER, LOG_HEADER, SEGMENT_HEADER, SNAPSHOT
from diskstream.engine.losses import Loss
from diskstream.engine.salvage import Source
from diskstream.engine.salvage_nodes import Salvaged, salvage_sealed, segment_meta
from diskstream.engine.salvage_rolled import snapshot_behind
from diskstream.engine.snapshots import Meta, Snapshot, read_snapshot
from diskstream.engine.wire import WireError
from diskstream.errors import CorruptionError

__all__ = ["now_ms", "source_of"]


_NO_ID = (2**64 - 1, 2**64 - 1)  # behind all that there may be


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def source_of(directory: Path, number: int, *, missing: bool, successor_lost: bool) -> Source:
    """What log `number` of a stream can be made anew from.

    Raises:
        NewerFormatError: a later version wrote in it.
    """
    copies = _copies(directory, number)
    if missing and copies:  # the last sealed file may stand for several segments
        listed = read_snapshot(copies[-1][3].payload(copies[-1][2])).segments
        number = max(number, *(meta.number + 1 for meta in listed), copies[-1][0])
    path = names.log_path(directory, number)
    data, bad = (b"", []) if missing else read_all(path)
    header = LOG_HEADER.sound(data)
    salt = header["salt"] if header is not None else find_salt(data)
    own = None if salt is None else frame_at(data, LOG_HEADER_BYTES, salt, str(path))
    own = own if own is not None and own.kind == SNAPSHOT else None
    if own is not None and copies and copies[-1][3].lsn > own.lsn:
        # Older than what the sealed segments go on with: the bytes of another segment, under this name.
        return replace(
            source_of(directory, number, missing=True, successor_lost=False),
            notes=[f"{path.name} was another segment's"],
        )
    notes = [f"{path}: the disk does not give the block at offset {offset}" for offset in bad]
    if header is None and not missing:
        notes.append("the header of the log was damaged, and is made anew")
    if own is not None and own.whole:
        frame = data[LOG_HEADER_BYTES : LOG_HEADER_BYTES + own.size]
        return _source(
            directory, number, data, salt, frame, start=own.end, notes=notes, losses=[], successor_lost=successor_lost
        )
    exact = _exact(data, salt, own, copies, number)
    if exact is not None:
        where, frame = exact
        size = LOG_HEADER_BYTES + len(frame) if data else 0
        if not missing:
            notes.append(f"the snapshot of the log was damaged, and is taken from its copy in {where.name}")
            return _source(
                directory, number, data, salt, frame, start=size, notes=notes, losses=[], successor_lost=successor_lost
            )
        loss = _all_behind(
            path, frame, "the active log is missing: all that was added or changed in it, groups too, is lost"
        )
        return _source(directory, number, data, None, _resalted(frame), start=size, notes=notes, losses=[loss])
    fresh = None if header is None or number > 1 else _as_first(data, header, own)
    if fresh is not None:
        notes.append("the snapshot of the log was damaged, and is made anew: it is the one that a stream begins with")
        size = LOG_HEADER_BYTES + len(fresh)
        return _source(
            directory, number, data, salt, fresh, start=size, notes=notes, losses=[], successor_lost=successor_lost
        )
    rolled = None if missing else _from_rolled(directory, number, data, salt, own, notes=notes)
    if rolled is not None:
        return replace(rolled, successor_lost=successor_lost)
    made = _from_files(directory, number, data, salt, own, copies=copies, notes=notes, missing=missing)
    return replace(made, successor_lost=successor_lost)


def _source(
    directory: Path,
    number: int,
    data: bytes,
    salt: int | None,
    frame: bytes,
    *,
    start: int,
    notes: list[str],
    losses: list[Loss],
    successor_lost: bool = False,
) -> Source:
    head = FRAME_HEADER.read(frame)
    assert head is not None
    if salt is not None and salt != head["salt"]:
        frame = _resalted(frame, salt)
    salt = head["salt"] if salt is None else salt
    snapshot = read_snapshot(frame[FRAME_HEADER.size : FRAME_HEADER.size + head["length"]])
    return Source(
        directory=directory,
        number=number,
        data=data,
        uuid=snapshot.uuid,
        salt=salt,
        slot=frontier(data, salt) if data else None,
        snapshot=frame,
        start=start,
        now_ms=now_ms(),
        notes=notes,
        losses=losses,
        successor_lost=successor_lost,
    )


def _resalted(frame: bytes, salt: int | None = None) -> bytes:
    """The same frame with another salt."""
    found = frame_at(frame, 0, None)
    assert found is not None
    made, _ = encode(
        found, found.payload(frame), secrets.randbits(32) if salt is None else salt, found.lsn, found.chain
    )
    return made


def _all_behind(path: Path, frame: bytes, what: str) -> Loss:
    found = frame_at(frame, 0, None)
    assert found is not None
    last = read_snapshot(found.payload(frame)).last_id
    return Loss(path, 0, 0, what, str(EntryID(*last).next() or EntryID(*last)))


def _copies(directory: Path, number: int) -> list[tuple[int, Path, bytes, Frame]]:
    """The snapshots that stand in other files: copies in sealed segments, and those of older logs, with their LSNs."""
    found = []
    for path in sorted(directory.iterdir()):
        parsed, alone = names.parse_file(path.name), names.state_number(path.name)
        if alone is not None:
            parsed = "state", alone, 0
        elif parsed is None or parsed[1] >= number or parsed[0] == "cold":
            continue
        copy = b""
        if parsed[0] == "state":
            copy = spare.read(directory, parsed[1])
        elif parsed[0] == "seg":
            salvaged = salvage_sealed(path)
            copy = b"" if salvaged is None else salvaged.copy
        else:
            data, _ = read_all(path)
            head = LOG_HEADER.sound(data)
            own = None if head is None else frame_at(data, LOG_HEADER_BYTES, head["salt"])
            copy = b"" if own is None else data[own.offset : own.end]
        frame = frame_at(copy, 0, None) if copy else None
        if frame is not None and frame.whole and frame.kind == SNAPSHOT and _is_snapshot(frame.payload(copy)):
            found.append((parsed[1] + (parsed[0] == "seg"), path, copy[: frame.size], frame))
    return sorted(found, key=lambda each: each[3].lsn)


def _is_snapshot(payload: bytes) -> bool:
    try:
        read_snapshot(payload)
    except WireError:
        return False
    return True


def _exact(
    data: bytes, salt: int | None, own: Frame | None, copies: list[tuple[int, Path, bytes, Frame]], number: int
) -> tuple[Path, bytes] | None:
    """The copy of the very snapshot that the log began with, if there is one."""
    if not copies:
        return None
    begins, path, copy, frame = copies[-1]
    if path.suffix == ".log":
        return None
    if own is not None:
        return (path, copy) if own.crc == frame.crc else None
    first = _first_frame(data, salt)
    if first is not None and first.lsn == frame.lsn + 1:
        return (path, copy) if first.chain == frame.crc else None
    if salt is not None and data and int.from_bytes(copy[:4], "little") == salt:
        return path, copy
    last = max((each for each in path.parent.iterdir() if each.suffix == ".seg"), default=None)
    return (path, copy) if first is None and (begins == number or path == last) else None


def _first_frame(data: bytes, salt: int | None) -> Frame | None:
    if salt is None or not data:
        return None
    for piece in walk(data, salt, LOG_HEADER_BYTES, 0):
        if not isinstance(piece, Gap):
            return piece
    return None


def _as_first(data: bytes, header: dict[str, Any], own: Frame | None) -> bytes | None:
    """The snapshot that a stream is made with, where its header, or the frame behind it, says that it was this one.

    Another one may stand in the first log of a stream where a repair has put it there.
    """
    _, frame = first_segment(bytes(header["uuid"]), header["salt"], header["created"])
    made = frame_at(frame, 0, None)
    first = _first_frame(data, header["salt"])
    assert made is not None
    if own is not None:
        return frame if own.crc == made.crc else None
    return frame if first is not None and (first.lsn, first.chain) == (made.lsn + 1, made.crc) else None


def _from_rolled(
    directory: Path, number: int, data: bytes, salt: int | None, own: Frame | None, *, notes: list[str]
) -> Source | None:
    """The same of the rolled log before it, where all frames of that are there."""
    first = _first_frame(data, salt)
    head = data[LOG_HEADER_BYTES : LOG_HEADER_BYTES + FRAME_HEADER.size]
    frame = snapshot_behind(directory, number, own, head, first)
    if not frame:
        return None
    start = own.end if own is not None else LOG_HEADER_BYTES if first is None else first.offset
    before = names.log_name(number - 1)
    said = [*notes, f"the snapshot of the log was damaged, and is made anew from what led to it in {before}"]
    return _source(directory, number, data, salt, frame, start=start, notes=said, losses=[])


def _from_files(
    directory: Path,
    number: int,
    data: bytes,
    salt: int | None,
    own: Frame | None,
    *,
    copies: list[tuple[int, Path, bytes, Frame]],
    notes: list[str],
    missing: bool,
) -> Source:
    """A snapshot made of the newest one that can be read and of the segments' files."""
    path = names.log_path(directory, number)
    owner = _owner(directory, data)
    base, begins = Snapshot(owner), 0
    if copies:
        begins, _, copy, frame = copies[-1]
        base = read_snapshot(frame.payload(copy))
        owner = base.uuid
    seen: dict[int, Salvaged] = {}
    base.segments, gone = _listed(directory, number, begins, base, owner, seen=seen)
    what = "the active log is missing" if missing else "header or snapshot of the active log are lost with their copy"
    since = f"from segment {begins} on" if begins else "ever"
    notes.append(
        f"{what}: the state is made from the files; what was deleted or trimmed {since} is there again, and groups, "
        "commits and messages of producers are " + (f"as they were when segment {begins} began" if begins else "lost")
    )
    losses = [
        Loss(
            names.segment_path(directory, meta.number, meta.generation),
            0,
            0,
            "no file of it is there: lost, or trimmed",
        )
        for meta in gone
    ]
    for loss, meta in zip(losses, gone, strict=True):
        loss.first, loss.last, loss.entries = str(EntryID(*meta.first)), str(EntryID(*meta.last)), meta.entries
    first = _first_frame(data, salt)
    losses += _partly(base.segments, seen, first)
    losses += _holes(directory, base.segments, max(begins, 1), number, first)
    if base.segments:
        base.last_id = max(base.last_id, base.segments[-1].last)
    base.added = max(base.added, sum(meta.entries for meta in base.segments))
    start = LOG_HEADER_BYTES if first is None else first.offset
    lsn = (copies[-1][3].lsn if copies else 0) + 1
    if own is not None:
        lsn, start = own.lsn, own.end
    elif first is not None:
        lsn = max(first.lsn - 1, 0)
    certain = own is not None
    if not certain:
        following = first.first if first is not None and first.entries else None
        last = "" if following is None else str(EntryID(*following).prev() or "")
        begin = str(EntryID(*base.last_id).next() or EntryID(*base.last_id))
        if not last or EntryID(begin) <= EntryID(last):
            text = (
                "all that stood in it is lost" if first is None else "frames before the first that can be read are lost"
            )
            losses.append(Loss(path, 0, start, f"{what}: {text}", begin, last))
    salt = secrets.randbits(32) if salt is None else salt
    made = Frame(0, 0, SNAPSHOT, 0, 0, 0, 0, 0, now_ms(), (0, 0), 0, 0, True)
    snapshot, _ = encode(made, base.put(), salt, lsn, 0)
    made_of = _source(directory, number, data, salt, snapshot, start=start, notes=notes, losses=losses)
    return replace(made_of, is_certain=certain, is_from_files=True)


def _partly(listed: list[Meta], seen: dict[int, Salvaged], first: Frame | None) -> Iterator[Loss]:
    """What may be missing of segments that only their own parts speak of: all between what is known around it."""
    for at, meta in enumerate(listed):
        found = seen.get(meta.number)
        if found is None:
            continue
        begin = EntryID(*listed[at - 1].last).next() if at else EntryID(0, 1)
        following = listed[at + 1].first if at + 1 < len(listed) else first.first if first and first.entries else None
        end = None if following is None else EntryID(*following).prev()
        yield from found.losses(begin or EntryID(0, 1), end or EntryID(*meta.last))
        if following is None:
            last = EntryID(*meta.last).next()
            what = "what stood behind the last sound part of it cannot be read"
            yield Loss(found.path, len(found.data), 0, what, str(last or EntryID(*meta.last)))


def _holes(directory: Path, listed: list[Meta], begins: int, number: int, first: Frame | None) -> Iterator[Loss]:
    """Segments that nothing lists and that are not there: they were dropped, or are lost."""
    known = [(meta.number, meta.first, meta.last) for meta in listed]
    behind = [*known, (number, first.first if first and first.entries else _NO_ID, (0, 0))]
    before, last = begins - 1, (0, 0)
    for segment, start, end in behind:
        if segment > before + 1 and segment > begins:
            begin, stop = EntryID(*last).next(), EntryID(*start).prev()
            if begin is not None and stop is not None and begin <= stop:
                what = f"segments {max(before + 1, begins)} to {segment - 1} are not there: dropped, compacted, or lost"
                path = names.segment_path(directory, max(before + 1, begins), 0)
                yield Loss(path, 0, 0, what, str(begin), "" if start == _NO_ID else str(stop))
        before, last = max(before, segment), end


def _owner(directory: Path, data: bytes) -> bytes:
    """The stream's uuid: that of the log's header, or the one that most other files have; a new one where none has."""
    header = LOG_HEADER.sound(data)
    if header is not None:
        return bytes(header["uuid"])
    found: dict[bytes, int] = {}
    for path in directory.iterdir():
        with contextlib.suppress(CorruptionError):
            stub = cold.read(path) if path.suffix == ".cold" else None
            if stub is not None:
                found[stub.uuid] = found.get(stub.uuid, 0) + 1
        layout = {".log": LOG_HEADER, ".seg": SEGMENT_HEADER, ".audit": AUDIT_HEADER}.get(path.suffix)
        if layout is not None and looks.is_file(path):
            with reading(path) as file:
                sound = layout.sound(file.read(layout.size))
            if sound is not None:
                found[bytes(sound["uuid"])] = found.get(bytes(sound["uuid"]), 0) + 1
    return max(found, key=lambda each: found[each]) if found else uuid.uuid4().bytes


def _listed(
    directory: Path, number: int, begins: int, base: Snapshot, owner: bytes, *, seen: dict[int, Salvaged]
) -> tuple[list[Meta], list[Meta]]:
    """The segments that there are, and those of the older list that no file has any more."""
    files: dict[int, dict[int, Path]] = {}
    for path in sorted(directory.iterdir()):  # .log before .seg: the sealed file of a generation counts
        parsed = names.parse_file(path.name)
        if parsed is not None and parsed[1] < number:
            files.setdefault(parsed[1], {})[parsed[2]] = path
    known = {(meta.number, meta.generation): meta for meta in base.segments}
    chosen: list[Meta] = []
    for segment, generations in sorted(files.items()):
        for generation in sorted(generations, reverse=True):
            meta = known.get((segment, generation))
            if meta is None and (segment < begins and generation == 0 and begins > 0):
                continue  # the older list had dropped it
            meta = meta or segment_meta(generations[generation], segment, generation, owner, seen)
            if meta is not None and (not chosen or chosen[-1].last < meta.first):
                chosen.append(meta)
                break
    numbers = {meta.number for meta in chosen}

    def is_there(meta: Meta) -> bool:
        return meta.number in numbers or any(each.first <= meta.first and meta.last <= each.last for each in chosen)

    return chosen, [meta for meta in base.segments if not is_there(meta)]
