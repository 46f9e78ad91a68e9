"""Damage that every checksum approves of: what a hostile or broken writer leaves. It may be believed, but never
kills."""

import struct
from collections.abc import Iterator

from tests.slow_reader.wire import crc32c

__all__ = ["forged_logs", "forged_segments", "forged_states"]


def _sum(data: bytearray, at: int, start: int, end: int) -> None:
    struct.pack_into("<I", data, at, crc32c(bytes(data[start:end])))


def _fix_log(data: bytearray, from_frame: int) -> None:
    """Makes header and frames sound again from one frame on, as far as lengths lead."""
    _sum(data, 60, 0, 60)
    at, chain = 4096, None
    while at + 64 <= len(data) and any(data[at : at + 64]):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        if at >= from_frame:
            if chain is not None:
                struct.pack_into("<I", data, at + 28, chain)
            _sum(data, at + 56, at + 64, min(at + 64 + length, len(data)))
            _sum(data, at + 60, at, at + 60)
        chain = int.from_bytes(data[at + 60 : at + 64], "little")
        at += 64 + -(-length // 8) * 8


def _checksums_of_frames(data: bytes) -> tuple[set[int], dict[int, int]]:
    """Offsets of checksums and chains, and for each other offset of a frame where that frame begins."""
    sums: set[int] = set()
    frame_of: dict[int, int] = {}
    at = 4096
    while any(data[at : at + 64]):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        sums |= {*range(at + 28, at + 32), *range(at + 56, at + 64)}
        frame_of |= dict.fromkeys(range(at, at + 64 + length), at)
        at += 64 + -(-length // 8) * 8
    return sums, frame_of


def _values(byte: int, at: int) -> list[int]:
    """Other values for a byte: a bit flipped, and the two that lengths and counts break at."""
    return [value for value in {byte ^ 1 << at % 8, 0xFF, 0x7F} if value != byte][: 1 + at % 2]


def forged_logs(data: bytes) -> Iterator[tuple[str, bytes]]:
    """A log with one byte changed and its checksums made right, for every byte of a frame and of the header."""
    sums, frame_of = _checksums_of_frames(data)
    for at in [*range(8, 60), *sorted(frame_of)]:
        for value in _values(data[at], at) if at not in sums else ():
            changed = bytearray(data)
            changed[at] = value
            _fix_log(changed, frame_of.get(at, 1 << 40))
            yield f"byte {at} is {value:#x}", bytes(changed)


def forged_states(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The same for the copy of a snapshot: the first frame of a log, by itself."""
    for what, changed in forged_logs(bytes(4096) + data):
        if changed[4096:] != data:
            yield what, changed[4096:]


def _fix_segment(data: bytearray, nodes: list[tuple[int, int]], snapshot: int, index: int, foot: int) -> None:
    _sum(data, 60, 0, 60)
    for start, end in nodes:
        _sum(data, start + 24, start + 32, end)
        _sum(data, start + 28, start, start + 28)
    if snapshot < index:
        _sum(data, snapshot + 56, snapshot + 64, index)
        _sum(data, snapshot + 60, snapshot, snapshot + 60)
    _sum(data, foot + 116, snapshot, index)
    _sum(data, foot + 112, index, foot)
    _sum(data, foot + 188, foot, foot + 188)


def forged_segments(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The same for a sealed segment."""
    foot = len(data) - 192
    index, snapshot = (int.from_bytes(data[foot + at : foot + at + 8], "little") for at in (104, 120))
    nodes = []
    for row in range(index, foot, 40):
        start = int.from_bytes(data[row + 16 : row + 24], "little")
        nodes.append((start, start + int.from_bytes(data[row + 32 : row + 36], "little")))
    sums = {*range(60, 64), *range(foot + 112, foot + 120), *range(foot + 188, foot + 192)}
    for start, _ in nodes:
        sums |= set(range(start + 24, start + 32))
    for at in range(8, len(data)):
        for value in _values(data[at], at) if at not in sums else ():
            changed = bytearray(data)
            changed[at] = value
            _fix_segment(changed, nodes, snapshot, index, foot)
            yield f"byte {at} is {value:#x}", bytes(changed)
