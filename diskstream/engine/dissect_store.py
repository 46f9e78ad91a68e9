"""What a store and a stream consist of on disk: files, segments, groups, the shared page, the view, quarantine."""

import contextlib
import platform
import struct
from collections.abc import Iterator
from pathlib import Path

from diskstream._native import CTL_BYTES, SealedSegment
from diskstream.engine import audit, cold, directory, names, replacing, view_check, view_pages
from diskstream.engine.alone import of_thread
from diskstream.engine.dissect import Depth, Row, dissect_file, kind_of
from diskstream.engine.files import Files, read_small, size_of
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.repair_store import nested_stores
from diskstream.engine.segment import open_sealed
from diskstream.errors import DiskstreamError, NotAStoreError
from diskstream.options import Options

__all__ = ["dissect_store", "dissect_stream"]

_CTL = struct.Struct("<8sII16s")
_PLACE = struct.Struct("<QQQI")
_CTL_POSITIONS = struct.Struct("<QQQ")
_CTL_NAMESPACE_AT, _CTL_POSITIONS_AT, _CTL_GENERATION_AT = 32, 256, 456
# The word of a mutex by which it is taken comes first, as the GNU C library lays it out: the number of the holder's
# thread, and two bits.
_LOCKS_AT, _HOLDER = {"append": 64, "flush": 128, "maintenance": 192}, (1 << 30) - 1
_FLAGS = {1: "poisoned", 2: "moved", 4: "check", 8: "rotten"}
_OFFSET_BITS = 40
_MAX_EPOCH_BYTES = 64


def dissect_store(path: Path) -> Iterator[Row]:
    """What a store consists of.

    Raises:
        NotAStoreError: nothing here says that this is a store.
    """
    streams = path / "streams"
    if not (path / "store.json").exists() and not streams.is_dir():
        raise NotAStoreError(
            str(path), "there is neither a store.json nor a directory streams", directory.way_to_one(path)
        )
    row: Row = {"is": "store", "path": str(path)}
    try:
        found = directory.describe(path)
        row |= {"sound": True, "uuid": found["uuid"], "format_version": found["format_version"]}
        row |= {"features": found["features"]}
    except (DiskstreamError, OSError) as error:
        row |= {"sound": False, "why": str(error)}
    yield row
    for folder in sorted(streams.iterdir()) if streams.is_dir() else ():
        name = names.decode_directory(folder) if folder.is_dir() else None
        files = [each for each in folder.iterdir() if each.is_file()] if folder.is_dir() else []
        kinds = [names.parse_file(each.name) for each in files]
        yield {
            "is": "stream",
            "name": name,
            "directory": folder.name,
            "files": len(files),
            "sealed": sum(kind is not None and kind[0] == "seg" for kind in kinds),
            "cold": sum(kind is not None and kind[0] == "cold" for kind in kinds),
            "logs": sum(kind is not None and kind[0] == "log" for kind in kinds),
            "size_bytes": sum(size_of(each) for each in files),
            "quarantine": _count(folder / "quarantine"),
        }
    yield from _view(path / "view")
    for place in ("leases", "staging", "commits", "replays", "quarantine"):
        if (path / place).is_dir():
            yield {"is": "folder", "name": place, "files": _count(path / place)}
    for nested in nested_stores(path):
        yield {"is": "nested store", "path": str(nested)}


def _count(folder: Path) -> int:
    try:
        return sum(1 for _ in folder.iterdir())
    except OSError:
        return 0


def _view(view: Path) -> Iterator[Row]:
    if view.is_dir():
        state = view_check.check(view)
        if state == "not readable":
            yield {"is": "view", "path": str(view), "state": state}
            return
        epoch = ""
        with contextlib.suppress(OSError):
            epoch = read_small(view / "epoch", _MAX_EPOCH_BYTES).decode("ascii", "replace")
        size = size_of(view / "data.mdb")
        yield {"is": "view", "path": str(view), "size_bytes": size, "epoch": epoch.strip(), "state": state}


def dissect_stream(name: bytes, path: Path, options: Options, depth: Depth) -> Iterator[Row]:
    """What a stream consists of: `path` is the store.

    With `depth.parts` or `depth.entries`, what stands in each of its files follows.
    """
    folder = replacing.place_of(path / "streams", name)
    yield {"is": "stream", "name": name, "directory": str(folder)}
    log: StreamLog | None = None
    try:
        log = StreamLog(folder, Files(), options, read_only=True)
        yield from _state(log)
        yield from _segments(log)
        yield from _groups(log)
        yield from _view_place(path / "view", bytes(log.native.uuid))
    except (DiskstreamError, StreamMoved, OSError) as error:
        yield {"is": "damaged", "path": str(folder), "why": str(error)}
    finally:
        if log is not None:
            log.close()
    yield from _ctl(folder / "ctl")
    for file in sorted(folder.iterdir()):
        if file.is_file():
            yield {"is": "file", "path": str(file), "size_bytes": size_of(file)}
            if (depth.parts or depth.entries) and kind_of(file, b"") != "unknown":
                yield from dissect_file(file, depth)
    quarantine = folder / "quarantine"
    for file in sorted(quarantine.iterdir()) if quarantine.is_dir() else ():
        yield {"is": "quarantine", "path": str(file), "size_bytes": size_of(file)}


def _state(log: StreamLog) -> Iterator[Row]:
    length, last, added, deleted = log.native.counters()
    number, end, lsn, snapshot_bytes = log.native.tail
    yield {
        "is": "state",
        "uuid": bytes(log.native.uuid).hex(),
        "length": length,
        "last_id": str(last),
        "added": added,
        "greatest_deleted": str(deleted),
    }
    frontier, floor = log.native.read_frontier()
    active = log.native.active_view()
    yield {
        "is": "active log",
        "path": str(names.log_path(log.directory, number)),
        "end": end,
        "lsn": lsn,
        "salt": f"{log.native.salt:08x}",
        "snapshot_bytes": snapshot_bytes,
        "entries": active.entries,
        "live": active.live,
        "frontier": frontier,
        "floor": floor,
    }
    if log.fault is not None:
        yield {"is": "damaged", "path": log.fault.path, "offset": log.fault.offset, "why": str(log.fault)}


def _segments(log: StreamLog) -> Iterator[Row]:
    for view in log.segments.views():
        path = names.segment_path(log.directory, view.number, view.generation)
        rows = names.log_path(log.directory, view.number)
        row: Row = {
            "is": "segment",
            "number": view.number,
            "generation": view.generation,
            "entries": view.entries,
            "live": view.live,
            "trimmed": view.trimmed,
            "first": str(view.first),
            "last": str(view.last),
            "log_bytes": view.size_bytes,
        }
        try:
            sealed: SealedSegment | None = open_sealed(log.directory, log.native, view)
            stub = None if sealed is not None else cold.find(log.directory, log.native, view)
        except DiskstreamError as error:
            where = path if path.exists() else names.cold_path(log.directory, view.number, view.generation)
            yield {**row, "file": where.name, "sound": False, "why": str(error)}
            continue
        if sealed is not None:
            ratio = round(sealed.raw_bytes / max(sealed.file_bytes, 1), 2)
            row |= {"file": path.name, "stored_bytes": sealed.file_bytes, "raw_bytes": sealed.raw_bytes}
            yield {**row, "nodes": sealed.nodes, "ratio": ratio}
        elif not view.generation and rows.exists():
            yield {**row, "file": rows.name, "stored_bytes": size_of(rows)}
        elif stub is not None:
            file = names.cold_path(log.directory, view.number, view.generation).name
            yield {**row, "file": file, "stored_bytes": stub.size_bytes, "url": stub.url, "object": stub.path}
        else:
            yield {**row, "file": None, "sound": False, "why": "the file is missing"}
    for number in audit.kept(log.directory, log.native):
        path = names.audit_path(log.directory, number)
        yield {"is": "audit", "number": number, "file": path.name, "size_bytes": size_of(path)}


def _groups(log: StreamLog) -> Iterator[Row]:
    for number, group, last, read, consumers, pending, refused in log.native.groups():
        row: Row = {"is": "group", "number": number, "name": group, "last": str(last), "read": read}
        yield {**row, "consumers": consumers, "pending": pending, "given_back": refused}


def _view_place(view: Path, uuid: bytes) -> Iterator[Row]:
    """Behind which frame the rows of the view stand."""
    try:
        if not (view / "data.mdb").exists():
            return
        value = view_check.place_of(view, uuid)
    except PermissionError:
        yield {"is": "place of the view", "why": "this user may not read the view"}
        return
    except (view_pages.PagesDamaged, OSError):
        yield {"is": "place of the view", "sound": False, "why": "the view cannot be read; it is made anew"}
        return
    if value is not None and len(value) == _PLACE.size:
        lsn, end, segment, link = _PLACE.unpack(value)
        yield {"is": "place of the view", "lsn": lsn, "end": end, "segment": segment, "link": link}
    else:
        yield {"is": "place of the view"}


def _ctl(path: Path) -> Iterator[Row]:
    try:
        data = read_small(path, CTL_BYTES)
    except OSError as error:
        yield {"is": "ctl", "path": str(path), "why": str(error.strerror)}
        return
    if len(data) < _CTL_GENERATION_AT + 8 or data[:8] != b"DSKCTL01":
        yield {"is": "ctl", "path": str(path), "why": "it is not made: whoever opens the stream makes it"}
        return
    _, version, flags, boot = _CTL.unpack_from(data)
    positions = _CTL_POSITIONS.unpack_from(data, _CTL_POSITIONS_AT)
    row: Row = {"is": "ctl", "path": str(path), "version": version, "boot": boot.hex()}
    row["flags"] = [text for bit, text in _FLAGS.items() if flags & bit]
    for what, position in zip(("written", "visible", "durable"), positions, strict=True):
        row[what] = {"segment": position >> _OFFSET_BITS, "offset": position & ((1 << _OFFSET_BITS) - 1)}
    row["durable_lsn"] = int.from_bytes(data[448:456], "little")
    if held := _holders(data):
        row["held"] = held
    yield row


def _holders(page: bytes) -> dict[str, dict[str, str | int]]:
    """Who has which lock at this moment, of those that are had. Of another PID namespace a number says nothing here."""
    if platform.libc_ver()[0] != "glibc" or _word(page, _CTL_NAMESPACE_AT) not in (0, _namespace()):
        return {}
    words = {lock: _word(page, at) & _HOLDER for lock, at in _LOCKS_AT.items()}
    return {lock: of_thread(thread) for lock, thread in words.items() if thread}


def _word(page: bytes, at: int) -> int:
    return int.from_bytes(page[at : at + 4], "little")


def _namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino & 0xFFFFFFFF
    except OSError:
        return 0
