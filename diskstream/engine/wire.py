"""Varints and what is made of them, read and written in plain Python: for the few bytes that a repair decides about."""

from collections.abc import Iterable
from dataclasses import dataclass

from diskstream.plurals import number_of

__all__ = [
    "ID",
    "Cursor",
    "Row",
    "WireError",
    "put_any_step",
    "put_bitmap",
    "put_id",
    "put_name",
    "put_optional",
    "put_rows",
    "put_runs",
    "put_varint",
]

ID = tuple[int, int]
_MASK = 2**64 - 1
_MORE = 0x80  # another byte of a varint follows
# Deleted entries in a row: an entry takes four bytes of its log, and a log of 256 MiB is four times what one has.
_MAX_RUN = 1 << 26


class WireError(ValueError):
    """The bytes are not what the format says."""


@dataclass(frozen=True)
class Row:
    """A pending entry."""

    id: ID
    consumer: int
    time: int
    deliveries: int


class Cursor:
    """A place in some bytes."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    @property
    def left(self) -> int:
        """Bytes that are left."""
        return self.end - self.at

    def take(self, size: int) -> bytes:
        """That many bytes."""
        if size > self.left:
            raise WireError(f"{number_of(size, 'byte')} wanted, {self.left:,} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        """One byte."""
        return self.take(1)[0]

    def u64(self) -> int:
        """A number of eight bytes."""
        return int.from_bytes(self.take(8), "little")

    def id(self) -> ID:
        """An ID of sixteen bytes."""
        return self.u64(), self.u64()

    def varint(self) -> int:
        """A number of up to ten bytes."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                if value > _MASK:
                    raise WireError("a varint of more than 64 bits")
                return value
        raise WireError("a varint of more than ten bytes")

    def count(self, limit: int) -> int:
        """A number that announces at least so many bytes: held against those that are left."""
        value = self.varint()
        if value > limit or value > self.left:
            raise WireError(f"a number of at most {min(limit, self.left)} wanted, {value} found")
        return value

    def name(self) -> bytes:
        """Bytes with their length before them."""
        return self.take(self.count(self.left))

    def optional(self) -> int | None:
        """A number, or none."""
        value = self.varint()
        return value - 1 if value else None

    def signed(self, before: int) -> int:
        """A number as its difference from another."""
        coded = self.varint()
        return (before + (coded >> 1 ^ -(coded & 1))) & _MASK

    def any_step(self, before: ID) -> ID:
        """An ID as its difference from another, in either direction."""
        ms = self.signed(before[0])
        return ms, self.signed(before[1]) if ms == before[0] else self.varint()

    def rows(self) -> list[Row]:
        """Pending entries, with their number before them."""
        found: list[Row] = []
        before = Row((0, 0), 0, 0, 0)
        for _ in range(self.count(self.left // 4)):
            entry_id = self.any_step(before.id)
            consumer = self.varint()
            before = Row(entry_id, consumer, self.signed(before.time), self.varint())
            found.append(before)
        return found

    def bitmap(self, entries: int) -> set[int]:
        """Positions below `entries`."""
        count, form = self.varint(), self.byte()
        found: set[int] = set()
        if count > entries or form > 1:
            raise WireError(f"{number_of(count, 'position')} of {entries:,}, in form {form}")
        if form == 1:
            bits = int.from_bytes(self.take(8 * self.count(entries // 64 + 1)), "little")
            found.update(at for at in range(min(entries, bits.bit_length())) if bits >> at & 1)
        stop = 0
        while form == 0 and len(found) < count:
            start = stop + self.varint()
            stop = start + self.varint() + 1
            if stop > entries or stop - start > _MAX_RUN:
                raise WireError(f"positions below {min(entries, _MAX_RUN)} wanted, {stop - 1} found")
            found.update(range(start, stop))
        return found


def put_varint(value: int) -> bytes:
    """A number of up to 64 bits."""
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_optional(value: int | None) -> bytes:
    """A number, or none."""
    return put_varint(0 if value is None else value + 1)


def put_name(name: bytes) -> bytes:
    """Bytes with their length before them."""
    return put_varint(len(name)) + name


def put_id(entry_id: ID) -> bytes:
    """An ID of sixteen bytes."""
    return entry_id[0].to_bytes(8, "little") + entry_id[1].to_bytes(8, "little")


def _put_signed(value: int, before: int) -> bytes:
    step = (value - before) & _MASK
    return put_varint(2 * step if step < 1 << 63 else 2 * (2**64 - step) - 1)


def put_any_step(entry_id: ID, before: ID) -> bytes:
    """An ID as its difference from another, in either direction."""
    ms, seq = entry_id
    return _put_signed(ms, before[0]) + (_put_signed(seq, before[1]) if ms == before[0] else put_varint(seq))


def put_rows(rows: Iterable[Row]) -> bytes:
    """Pending entries, with their number before them."""
    out, before, count = bytearray(), Row((0, 0), 0, 0, 0), 0
    for row in rows:
        out += put_any_step(row.id, before.id) + put_varint(row.consumer)
        out += _put_signed(row.time, before.time) + put_varint(row.deliveries)
        before, count = row, count + 1
    return put_varint(count) + bytes(out)


def put_runs(positions: Iterable[int]) -> tuple[int, bytes]:
    """Positions as runs: how many runs, and their bytes."""
    out, stop, runs = bytearray(), 0, 0
    run: list[int] = []
    for position in sorted(positions):
        if run and position == run[1]:
            run[1] += 1
            continue
        if run:
            out += put_varint(run[0] - stop) + put_varint(run[1] - run[0] - 1)
            stop, runs = run[1], runs + 1
        run = [position, position + 1]
    if run:
        out += put_varint(run[0] - stop) + put_varint(run[1] - run[0] - 1)
        runs += 1
    return runs, bytes(out)


def put_bitmap(positions: set[int]) -> bytes:
    """Positions as a bitmap of runs."""
    return put_varint(len(positions)) + b"\0" + put_runs(positions)[1]
