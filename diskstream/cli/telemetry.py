"""This machine's own telemetry, from /proc, read at a high rate.

Each file is opened once and read from its start at every sample. Values stay the text that the kernel wrote.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

Pairs = list[tuple[bytes, bytes]]

PROC = Path("/proc")

_CPU = b"user nice system idle iowait irq softirq steal guest guest_nice".split()
_DISK = (
    b"reads reads_merged sectors_read ms_reading writes writes_merged sectors_written ms_writing in_flight ms_busy"
    b" ms_weighted discards discards_merged sectors_discarded ms_discarding flushes ms_flushing"
).split()
_NETWORK = (
    b"rx_bytes rx_packets rx_errors rx_dropped rx_fifo rx_frame rx_compressed rx_multicast"
    b" tx_bytes tx_packets tx_errors tx_dropped tx_fifo tx_collisions tx_carrier tx_compressed"
).split()
_CHUNK = 64 * 1024


def parse_cpu(content: bytes) -> list[Pairs]:
    """/proc/stat: one row for all processors together and one for each."""
    rows: list[Pairs] = []
    for line in content.split(b"\n"):
        if not line.startswith(b"cpu"):
            break
        name, *values = line.split()
        rows.append([(b"cpu", name), *zip(_CPU, values, strict=False)])
    return rows


def parse_memory(content: bytes) -> list[Pairs]:
    """/proc/meminfo: one row. Sizes are in KiB."""
    pairs: Pairs = []
    for line in content.splitlines():
        name, _, value = line.partition(b":")
        pairs.append((name, value.split()[0]))
    return [pairs] if pairs else []


def parse_disks(content: bytes) -> list[Pairs]:
    """/proc/diskstats: one row for each device that was ever used."""
    rows: list[Pairs] = []
    for line in content.splitlines():
        _, _, name, *values = line.split()
        if values.count(b"0") < len(values):
            rows.append([(b"device", name), *zip(_DISK, values, strict=False)])
    return rows


def parse_network(content: bytes) -> list[Pairs]:
    """/proc/net/dev: one row for each interface, after two lines of headings."""
    rows: list[Pairs] = []
    for line in content.splitlines()[2:]:
        name, _, values = line.partition(b":")
        rows.append([(b"interface", name.strip()), *zip(_NETWORK, values.split(), strict=False)])
    return rows


@dataclass(frozen=True, slots=True)
class Telemetry:
    """A kind of telemetry: its name, its file below /proc, how that is read."""

    name: str
    file: str
    parse: Callable[[bytes], list[Pairs]]


CPU = Telemetry("cpu", "stat", parse_cpu)
MEMORY = Telemetry("memory", "meminfo", parse_memory)
DISKS = Telemetry("disks", "diskstats", parse_disks)
NETWORK = Telemetry("network", "net/dev", parse_network)

ALL = (CPU, MEMORY, DISKS, NETWORK)


class Sampler:
    """Takes samples of one kind of telemetry."""

    def __init__(self, telemetry: Telemetry, proc: Path = PROC) -> None:
        self._parse = telemetry.parse
        self._file = (proc / telemetry.file).open("rb", buffering=0)

    def sample(self) -> list[Pairs]:
        """What the file says now: rows of names and values."""
        return self._parse(self._content())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _content(self) -> bytes:
        """All of the file. The kernel hands some files out a page at a time, so only an empty read is the end."""
        descriptor = self._file.fileno()
        content = os.pread(descriptor, _CHUNK, 0)
        while more := os.pread(descriptor, _CHUNK, len(content)):
            content += more
        return content
