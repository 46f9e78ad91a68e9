"""Commands of random words to a running server: each is answered, and nothing escapes that would end it."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.client import Client, packed, serving

_COMMANDS = 3000
_KEYS = [b"s", b"t", b"text", b"list", b"", b"\xff\x00", b"k" * 5000]
_NUMBERS = [b"0", b"1", b"2", b"10", b"-1", b"%d" % (2**63 - 1), b"%d" % -(2**63), b"%d" % 2**64, b"9" * 5000, b"nan"]
_IDS = [b"*", b"1", b"1-1", b"2-2", b"9-*", b"-", b"+", b"(1-1", b"$", b">", b"%d-%d" % (2**64 - 1, 2**64 - 1)]
_WORDS = (
    b"ABSTTL ACKED CLAIM COUNT DB DELREF ENTRIESADDED ENTRIESREAD FAIL FORCE FULL GET GROUP IDLE IDMP IDMPAUTO IDS "
    b"JUSTID KEEPTTL LASTID LIMIT MATCH MAXDELETEDID MAXLEN MAXSIZE MINID MKSTREAM NOACK NOMKSTREAM NX PX REPLACE "
    b"RETRYCOUNT STREAMS TIME TYPE ~ = g c d"
).split()
# What ends the server, a connection or its replies by intent, or holds everybody up.
_LEFT_OUT = (
    "acl|setuser",
    "client|kill",
    "client|pause",
    "client|reply",
    "config|set",
    "debug|sleep",
    "quit",
    "shutdown",
)


def _listed(details: list[list[object]]) -> Iterator[tuple[list[bytes], int]]:
    for name, arity, *_, below in details:
        assert isinstance(name, bytes)
        assert isinstance(arity, int)
        assert isinstance(below, list)
        if name.decode() not in _LEFT_OUT:
            yield name.split(b"|"), arity
        yield from _listed(below)


def _likely(chance: random.Random) -> list[bytes]:
    """A stream command that is nearly right."""
    key, entry_id, number = chance.choice(_KEYS[:3]), chance.choice(_IDS), chance.choice(_NUMBERS)
    return chance.choice(
        [
            [b"XADD", key, b"MAXLEN", b"~", number, entry_id, b"f", b"v"],
            [b"XADD", key, b"*", b"f", b"v"],
            [b"XGROUP", b"CREATE", key, b"g", entry_id, b"MKSTREAM", b"ENTRIESREAD", number],
            [b"XREADGROUP", b"GROUP", b"g", b"c", b"CLAIM", number, b"BLOCK", b"1", b"STREAMS", key, b">"],
            [b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", key, entry_id],
            [b"XCLAIM", key, b"g", b"d", b"0", entry_id, b"1-1", chance.choice(_WORDS), number, b"FORCE"],
            [b"XAUTOCLAIM", key, b"g", b"d", number, entry_id, b"COUNT", chance.choice(_NUMBERS)],
            [b"XPENDING", key, b"g", b"IDLE", number, b"-", entry_id, b"10"],
            [b"XNACK", key, b"g", b"FAIL", b"IDS", b"1", entry_id, b"RETRYCOUNT", number, b"FORCE"],
            [b"XSETID", key, entry_id, b"ENTRIESADDED", number],
            [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", number],
            [b"COPY", key, chance.choice(_KEYS), b"DB", number, b"REPLACE"],
            [b"PEXPIRE", key, number],
        ]
    )


def _random(chance: random.Random, known: list[tuple[list[bytes], int]]) -> list[bytes]:
    name, arity = chance.choice(known)
    more = max(0, abs(arity) - len(name)) + (chance.randrange(5) if arity < 0 else 0)
    words = [*name, *(chance.choice(chance.choice([_KEYS, _NUMBERS, _IDS, _WORDS])) for _ in range(more))]
    if name[0] in (b"blpop", b"brpop"):
        words[-1] = b"0.001"
    return words


@pytest.mark.parametrize("seed", [1, 2])
def test_random_commands_are_answered(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        known = list(_listed(client.call("COMMAND")))
        for _ in range(_COMMANDS // 10):
            batch = [_likely(chance) if chance.random() < 0.5 else _random(chance, known) for _ in range(10)]
            client.sock.sendall(b"".join(packed(*words) for words in batch))
            for words in batch:
                client.reply()
                assert not server.loop.stopping, words
        client.call("RESET")
        assert client.call("PING") == b"PONG"
