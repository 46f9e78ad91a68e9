"""An audit file that somebody forged, all of whose checksums are right, is a fault of its own: nothing dies of it."""

import resource
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import diskstream
from tests.slow_reader.wire import crc32c

HEADER_BYTES, HEAD_BYTES, FOOTER_BYTES = 64, 48, 128
SEEN = b"\x0a\x01\x01"  # a record of three bytes: that group 1 has seen its consumer 1
MEMORY_BYTES = 3 << 30


def varint(value: int) -> bytes:
    """As docs/format/README.md has it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def signed(head: bytes) -> bytes:
    """With its checksum behind it."""
    return head + struct.pack("<I", crc32c(head))


def forge(path: Path, records: int) -> None:
    """The first block becomes one frame of so many records, which takes a few kilobytes of the file."""
    data = path.read_bytes()
    footer = bytearray(data[-FOOTER_BYTES:-4])
    (salt,), (names_at,) = struct.unpack_from("<I", data, 12), struct.unpack_from("<Q", footer, 96)
    raw = varint(7) + varint(0) + varint(records * len(SEEN)) + SEEN * records
    body: bytes = pa.compress(raw, codec="zstd", asbytes=True)
    head = struct.pack("<5IB3xQQI", salt, 0, 1, len(raw), len(body), 1, 0, 1 << 62, crc32c(body))
    block = signed(head) + body
    names = data[names_at:-FOOTER_BYTES]
    size = HEADER_BYTES + len(block) + len(names) + FOOTER_BYTES
    struct.pack_into("<I4xQQ", footer, 40, 1, 1, records)
    struct.pack_into("<QQ", footer, 96, HEADER_BYTES + len(block), size)
    path.write_bytes(data[:HEADER_BYTES] + block + names + signed(bytes(footer)))
    assert path.stat().st_size < 64 << 10


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """With an audit file of one block."""
    with diskstream.open(tmp_path / "store", seal="manual") as made:
        stream = made.stream("s")
        stream.add({"n": 1})
        stream.group("g", start="0").consumer("ann").read()
        stream.seal()
    return tmp_path / "store"


def test_a_forged_block_is_read_up_to_its_limit_and_no_further(store: Path) -> None:
    """A file of 20 kB ended whoever verified its store, or looked into the audit, for want of 8 GB."""
    (path,) = store.glob("streams/s/*.audit")
    forge(path, (200 << 20) // len(SEEN))
    command = [sys.executable, "-m", "diskstream", "verify", "--dir", str(store)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL, preexec_fn=_limit
    )
    assert (done.returncode, done.stderr) == (1, "diskstream repair --dry-run says what can be kept\n")
    assert "sizes within the limits" in done.stdout
    assert "the stream itself is whole" in " ".join(done.stdout.split())


def test_a_block_within_the_limit_is_what_it_says(store: Path) -> None:
    (path,) = store.glob("streams/s/*.audit")
    forge(path, 1000)
    with diskstream.open(store, read_only=True) as opened:
        assert opened.verify().ok
