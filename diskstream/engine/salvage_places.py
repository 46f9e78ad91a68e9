"""Positions behind a fault in a log: what deletes and trims that came later are taken for.

A delete names positions. Behind frames whose entries nobody could count, positions of the same segment are not known:
what cannot be told is not deleted again. A trim takes what certainly stood before its place.
"""

from bisect import bisect_right
from pathlib import Path

from diskstream.engine import names
from diskstream.engine.wire import Cursor, WireError, put_id, put_runs, put_varint
from diskstream.plurals import number_of

__all__ = ["Places"]

_MAX_RUN = 1 << 26  # entries: more than any segment has frames for


class Places:
    """Where the entries of the old file are in the new one.

    A run is (position in the old file, in the new one, entries). `_next` is the old position of what comes next; None
    where nobody knows.
    """

    def __init__(self, directory: Path, number: int) -> None:
        self._number = number
        self._runs: list[tuple[int, int, int]] = []
        self._next: int | None = 0
        self._certain = 0
        self._trusted: dict[int, int] | None = None
        self._directory = directory

    def note_prefix(self, entries: int) -> None:
        """All up to the first fault is where it was."""
        self._runs = [(0, 0, entries)]
        self._next = self._certain = entries

    def keep(self, entries: int, at: int) -> None:
        """So many entries of the old file come next; in the new one they stand at position `at`."""
        if self._next is not None:
            self._runs.append((self._next, at, entries))
            self._next += entries

    def lose(self, entries: int | None) -> None:
        """So many entries are lost; None where nobody knows."""
        if entries is None:
            self.distrust()
        if self._next is not None:
            self._certain = self._next
            self._next = None if entries is None else self._next + entries

    def distrust(self) -> None:
        """A compaction may be among what was lost: positions of compacted segments are not taken for those listed."""
        found: dict[int, int] = {}
        for path in self._directory.iterdir():
            parsed = names.parse_file(path.name)
            if parsed is not None:
                found[parsed[1]] = max(found.get(parsed[1], 0), parsed[2])
        self._trusted = found

    def _is_trusted(self, segment: int) -> bool:
        return self._trusted is None or self._trusted.get(segment) == 0

    def _moved(self, position: int) -> int | None:
        """The new position of an entry; None where it is lost or unknown."""
        at = bisect_right(self._runs, position, key=lambda run: run[0]) - 1
        if at < 0:
            return None
        old, new, entries = self._runs[at]
        return new + position - old if position < old + entries else None

    def _kept_before(self, position: int) -> int:
        """How many entries of the new file certainly stood before a position of the old one."""
        kept = 0
        for old, new, entries in self._runs:
            if old < position:
                kept = max(kept, new + min(entries, position - old))
        return kept

    def delete(self, payload: bytes, notes: list[str]) -> bytes:
        """A delete with positions of the new file."""
        try:
            cursor = Cursor(payload)
            greatest, parts, unknown = cursor.id(), [], 0
            for _ in range(cursor.count(cursor.left)):
                segment = cursor.varint()
                positions: list[int] = []
                stop = 0
                for _ in range(cursor.count(cursor.left)):
                    start = stop + cursor.varint()
                    stop = start + cursor.varint() + 1
                    positions += range(start, min(stop, start + _MAX_RUN))
                if segment == self._number:
                    moved = [at for position in positions if (at := self._moved(position)) is not None]
                elif self._is_trusted(segment):
                    moved = positions
                else:
                    moved = []
                unknown += len(positions) - len(moved)
                if moved:
                    runs, body = put_runs(moved)
                    parts.append(put_varint(segment) + put_varint(runs) + body)
        except WireError:
            return b""
        if unknown:
            deleted = number_of(unknown, "entry that was deleted", "entries that were deleted")
            notes.append(f"{deleted} behind the damage may be there again")
        return put_id(greatest) + put_varint(len(parts)) + b"".join(parts)

    def trim(self, payload: bytes, notes: list[str]) -> bytes:
        """A trim to a place of the new file."""
        try:
            cursor = Cursor(payload)
            segment, position = cursor.varint(), cursor.varint()
        except WireError:
            return b""
        return self.trim_place(segment, position, notes)

    def trim_place(self, segment: int, position: int, notes: list[str]) -> bytes:
        """The same of a place that is known."""
        place = position
        if segment == self._number:
            place = self._kept_before(position)
            if self._next is None and position > self._certain:
                notes.append("entries that were trimmed behind the damage may be there again")
        elif not self._is_trusted(segment):
            place = 0
            notes.append(f"entries of segment {segment} that were trimmed behind the damage may be there again")
        return put_varint(segment) + put_varint(place)
