"""Files of a store as backups deal with them: copied, told from one another, and logs cut at an earlier moment."""

import contextlib
import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from diskstream._native import LOG_HEADER_BYTES, EntryID, SegmentView, first_segment
from diskstream.engine import names, recovery, stream_folders
from diskstream.engine.files import Files, open_regular, reading, wrapped
from diskstream.engine.layouts import ENTRIES, FRAME_HEADER, FRONTIER_SLOT, SET_ID, SLOT_OFFSETS, padded
from diskstream.engine.lease import Moment
from diskstream.engine.looks import children, is_there
from diskstream.engine.page import Page
from diskstream.errors import CorruptionError
from diskstream.options import Options
from diskstream.plurals import number_of

__all__ = ["Copied", "Cut", "copy_file", "cut_log", "digest_file", "find_cut", "is_same", "name_stream", "uuid_of"]

_AT_ONCE = 1 << 20
# What is compared to tell one sealed file from another: header with its random salt, footer with its checksums.
_ENDS_BYTES = 4096


@dataclass(frozen=True)
class Copied:
    """What was read of a file: its size in bytes, and its SHA-256 in hex."""

    size_bytes: int
    sha256: str


def _own(path: Path) -> FileIO:
    """A file that is one by itself, for reading: a link in a backup, or in a store that others may write to, must not
    bring what it points to into a copy.
    """
    return FileIO(open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")


def copy_file(
    source: Path, target: Path, files: Files, on_bytes: Callable[[int], None], moment: Moment | None = None
) -> Copied:
    """Copies a file to a name that must be free; it is durable on return, but for its name.

    Args:
        source, target: the files.
        files: what to write with.
        on_bytes: called with the bytes just copied; may wait.
        moment: of an active log, how far it counts.

    Raises:
        FileNotFoundError, FileExistsError: there is no source, or there is a target.
        StorageError: the disk said no.
    """
    digest, size = hashlib.sha256(), 0
    with wrapped(source, "read"), _own(source) as file, files.create(target) as new:
        for data in _pieces(file, moment):
            digest.update(data)
            new.write(data)
            size += len(data)
            on_bytes(len(data))
        new.sync()
    return Copied(size, digest.hexdigest())


def digest_file(path: Path, on_bytes: Callable[[int], None], moment: Moment | None = None) -> Copied:
    """Reads a file: from the disk, as far as the system can be told to forget what it has in memory.

    Raises:
        FileNotFoundError: it is gone.
        StorageError: it cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with wrapped(path, "read"), _own(path) as file:
        if moment is None:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for data in _pieces(file, moment):
            digest.update(data)
            size += len(data)
            on_bytes(len(data))
    return Copied(size, digest.hexdigest())


def _pieces(file: FileIO, moment: Moment | None) -> Iterator[bytes]:
    return iter(lambda: file.read(_AT_ONCE), b"") if moment is None else moment.read(file.fileno())


def is_same(one: Path, other: Path) -> bool:
    """Whether two sealed files, which never change, are one and the same: by size, salt and checksums."""
    try:
        with wrapped(one, "read"), reading(one) as first, reading(other) as second:
            size = os.fstat(first.fileno()).st_size
            if size != os.fstat(second.fileno()).st_size:
                return False
            for at in (0, max(0, size - _ENDS_BYTES)):
                if os.pread(first.fileno(), _ENDS_BYTES, at) != os.pread(second.fileno(), _ENDS_BYTES, at):
                    return False
            return True
    except FileNotFoundError:
        return False


def uuid_of(place: Path) -> str:
    """The UUID that the files of a stream's directory carry, in hex; empty where none can be read."""
    for path in children(place):
        if names.parse_file(path.name) is not None:
            with reading(path) as file:
                header = file.read(32)
            if len(header) == 32:  # noqa: PLR2004  # docs/format/log.md: 16 bytes of UUID at 16
                return header[16:].hex()
    return ""


def name_stream(place: Path, name: bytes, files: Files) -> None:
    """Writes the file `name` of a stream's directory, where its name is too long for that of the directory."""
    if names.is_long(names.encode_name(name)):
        files.unlink(place / "name")
        stream_folders.write_name(place, [name], files)


# --- an earlier moment ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Where an active log is cut to show an earlier moment.

    Attributes:
        path: the log file.
        number: its segment's number.
        end: what is at this offset, and behind it, did not happen yet.
        batch: the offset of the last frame with entries before the cut, how many they are, and where it ends; zeros
            without one.
    """

    path: Path
    number: int
    end: int
    batch: tuple[int, int, int]


def find_cut(place: Path, until: EntryID) -> Cut:
    """Where the active log of a stream, which nobody writes to, is to be cut so that no frame begins with a later ID.

    Raises:
        CorruptionError, StorageError: the log cannot be read.
    """
    with contextlib.closing(Page.private()) as page:
        file, native, _, fault = recovery.look(place, Files(), page, Options())
        try:
            if fault is not None:
                raise fault
            number, end, _, _ = native.tail
        finally:
            file.close()
    path = names.log_path(place, number)
    batch = (0, 0, 0)
    cut: Cut | None = None
    added = False
    for (offset, behind), kind, entries, first, payload in _frames(path, end):
        if kind not in (ENTRIES, SET_ID):
            continue
        if (first if kind == ENTRIES else _set_id(payload)) > until:
            cut = cut or Cut(path, number, offset, batch)
            added = added or kind == ENTRIES
        elif added:
            raise CorruptionError(str(path), "log", offset, "IDs that rise", "a last ID that was set back")
        else:
            cut = None  # the last ID was set, and set back: nothing later was added yet
            batch = (offset, entries, behind) if kind == ENTRIES else batch
    return cut or Cut(path, number, end, batch)


def _frames(path: Path, end: int) -> Iterator[tuple[tuple[int, int], int, int, EntryID, bytes]]:
    """Offset and end, kind, entries, first ID and the payload's beginning of each frame of a log found whole."""
    with wrapped(path, "read"), reading(path) as file:
        at = LOG_HEADER_BYTES
        while at < end:
            data = os.pread(file.fileno(), FRAME_HEADER.size + 16, at)
            head = FRAME_HEADER.read(data)
            if head is None:
                raise CorruptionError(str(path), "log", at, f"{number_of(end, 'byte')}", "fewer: it was cut")
            behind = at + FRAME_HEADER.size + padded(head["length"])
            first = EntryID(head["first_ms"], head["first_seq"])
            yield (at, behind), head["kind"], head["entries"], first, data[FRAME_HEADER.size :]
            at = behind


def _set_id(payload: bytes) -> EntryID:
    return EntryID(*struct.unpack_from("<QQ", payload))


def cut_log(cut: Cut, target: Path, files: Files) -> None:
    """Writes the log up to the cut as the active log of `target`; it is durable on return, but for its name.

    Raises:
        CorruptionError: a segment that this moment lists has no file any more, so it cannot be shown like this.
        StorageError: the disk said no.
    """
    path = names.log_path(target, cut.number)
    with wrapped(cut.path, "read"), reading(cut.path) as file, files.create(path) as new:
        new.write(_as_of_before(file.read(LOG_HEADER_BYTES)))
        left = cut.end - LOG_HEADER_BYTES
        while left:
            data = file.read(min(left, _AT_ONCE))
            if not data:
                what = number_of(cut.end, "byte"), f"{cut.end - left:,}: it was cut"
                raise CorruptionError(str(cut.path), "log", cut.end - left, *what)
            new.write(data)
            left -= len(data)
        new.write(bytes(-cut.end % 4096 + 4096))
        new.sync()
    with contextlib.closing(Page.private()) as page:
        log, native, _, fault = recovery.look(target, Files(), page, Options())
        try:
            if fault is not None:
                raise fault
            for view in native.segments():
                _must_be_there(target, view)
        finally:
            log.close()


def _must_be_there(place: Path, view: SegmentView) -> None:
    packed = names.segment_path(place, view.number, view.generation)
    if is_there(packed) or is_there(names.cold_path(place, view.number, view.generation)):
        return
    if view.generation or not is_there(names.log_path(place, view.number)):
        raise CorruptionError(
            str(packed), "sealed segment", 0, f"a file with {number_of(view.entries, 'entry')}", "no file"
        )


def _as_of_before(header: bytes) -> bytes:
    """The header with the slot of a log in which nothing is known durable yet, in place of slots of a later moment."""
    salt = int.from_bytes(header[12:16], "little")
    blank, _ = first_segment(header[16:32], salt, time.time_ns() // 1_000_000)
    made = bytearray(header)
    for at in SLOT_OFFSETS:
        made[at : at + FRONTIER_SLOT.size] = blank[at : at + FRONTIER_SLOT.size]
    return bytes(made)
