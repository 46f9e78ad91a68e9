"""What comes from a socket or by a native call: requests, replies, dumps, nodes and rows by themselves."""

import random
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from diskstream._native import EntriesReply, RequestParser, checksum, unpack_node, unpack_rows
from diskstream.commands import dumps
from diskstream.commands.replies import Failure
from diskstream.errors import DiskstreamError
from tests.fuzz.edges import Edge

__all__ = ["CORPUS", "EDGES"]

CORPUS = Path(__file__).resolve().parent.parent.parent / "native" / "fuzz" / "corpus"
_REPLY = b"*2\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\na\r\n$0\r\n\r\n"


def _corpus(target: str) -> Callable[[Path], Sequence[bytes]]:
    return lambda _folder: [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]


def _dumped(folder: Path) -> list[bytes]:
    import diskstream

    with diskstream.open(folder / "dumped", fsync="os") as store:
        stream = store.stream("s")
        stream.add({"a": "1", "b": "é"})
        stream.add({"a": "2"})
        stream.group("g", start="0").consumer("c").read(count=1)
        found = [dumps.dump_stream(stream)]
    return [*found, dumps.dump_values("list", (b"a", b"\xff"))]


def _signed_dump(data: bytes) -> bytes:
    return data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")


def _packed_dump(data: bytes, folder: Path) -> None:
    """What a dump holds, changed below its compression."""
    try:
        body = zlib.decompress(data[5:-4])
    except zlib.error:
        body = data
    from tests.fuzz.mutations import mutated

    chance = random.Random(zlib.crc32(data))
    for _ in range(4):
        changed = data[:5] + zlib.compress(mutated([body], chance)) + bytes(4)
        try:
            dumps.load(_signed_dump(changed))
        except Failure:
            continue
    dumps.load(data)


def _pieces(data: bytes) -> list[bytes]:
    size = 1 + sum(data[:2]) % 40
    return [data[at : at + size] for at in range(0, len(data), size)]


def _requests(data: bytes, _folder: Path) -> None:
    whole, cut = RequestParser(1 << 20, 1 << 20), RequestParser(1 << 20, 1 << 20)
    ahead = whole.feed(data)
    behind = [command for piece in _pieces(data) for command in cut.feed(piece)]
    assert (ahead, whole.error) == (behind, cut.error)
    for found in RequestParser(runs=True).feed(data):
        if not isinstance(found, list):
            found.commands()


def _replies(data: bytes, _folder: Path) -> None:
    reply = EntriesReply(64)
    for piece in _pieces(data):
        reply.feed(piece)


_NODE_HEAD = struct.Struct("<IIIIIB3xI")


def _node(data: bytes, _folder: Path) -> None:
    """Entries u16, codec u8, raw bytes u32 (0: as they are), body: as in the corpus."""
    entries, codec, raw, body = *struct.unpack("<HBI", data[:7].ljust(7, b"\0")), data[7:]
    head = _NODE_HEAD.pack(7, 3, entries, (raw or len(body)) % 2**20, len(body), codec & 1, checksum(body))
    block, _, _ = unpack_node(head + checksum(head).to_bytes(4, "little") + body, 7, 3, 0)
    assert len(block.entries()) == len(block)


def _rows(data: bytes, _folder: Path) -> None:
    block, _ = unpack_rows(data[21:], (5, 1), int.from_bytes(data[19:21], "little"))
    assert len(list(block.entries())) == len(block)


EDGES = (
    Edge("requests of clients", _corpus("requests"), _requests),
    Edge("replies of a Redis", lambda folder: [_REPLY, *_corpus("replies")(folder)], _replies),
    Edge("nodes", _corpus("node"), _node),
    Edge("rows", _corpus("rows"), _rows),
    Edge("dumps", _dumped, lambda data, _folder: dumps.load(data), (Failure, DiskstreamError), _signed_dump),
    Edge("what dumps hold", _dumped, _packed_dump, (Failure,)),
)
