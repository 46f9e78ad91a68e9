"""Stream commands, right and wrong ones, to the table of commands and to a Redis server: the same bytes come back."""

import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.commands.all_commands import table
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.waiting import Waiting
from diskstream.commands.wire import encode
from tests.commands.wire_client import WireClient
from tests.conftest import RedisServer

ROUNDS, COMMANDS = 12, 250
# The installed server may be of any version from 7.0 on: nothing here is younger, and what later ones changed is left
# out: what XINFO says, the ID +, the words for unbalanced lists of streams, and XSETID below what was deleted.
TEMPLATES = """
XADD {key} {id} {fields}
XADD {key} {id} {fields}
XADD {key} {id} {fields}
XADD {key} NOMKSTREAM {id} {fields}
XADD {key} MAXLEN {exact} {n} {id} {fields}
XADD {key} MINID {exact} {id} {id} {fields}
XADD {key} MAXLEN {n} MINID 3 {id} {fields}
XADD {key} LIMIT {n} {id} {fields}
XADD {key} MAXLEN {exact} {n} LIMIT {n} {id} {fields}
XADD {key} {id} a
XADD {key} {id}
XTRIM {key} MAXLEN {exact} {n}
XTRIM {key} MINID {exact} {id}
XTRIM {key} LIMIT {n}
XTRIM {key} {word} {n}
XLEN {key}
XDEL {key} {id}
XDEL {key} {id} {id} {id}
XRANGE {key} {low} {high}
XRANGE {key} {low} {high} COUNT {n}
XREVRANGE {key} {high} {low} COUNT {n}
XREVRANGE {key} {high} {low}
XRANGE {key} {low} {high} {word} {n}
XREAD COUNT {n} STREAMS {key} {key} {after} {after}
XREAD STREAMS {key} {after}
XREAD BLOCK {word} STREAMS {key} {after}
XREAD NOACK STREAMS {key} {after}
XGROUP CREATE {key} {group} {after}
XGROUP CREATE {key} {group} {after} MKSTREAM
XGROUP CREATE {key} {group} {after} ENTRIESREAD {n}
XGROUP SETID {key} {group} {after}
XGROUP CREATECONSUMER {key} {group} {maker}
XGROUP DELCONSUMER {key} {group} {consumer}
XGROUP DESTROY {key} {group}
XGROUP {word} {key} {group}
XGROUP CREATE {key} {group} {after} {word}
XREADGROUP GROUP {group} {consumer} COUNT {n} STREAMS {key} >
XREADGROUP GROUP {group} {consumer} COUNT {n} STREAMS {key} >
XREADGROUP GROUP {group} {consumer} COUNT {n} NOACK STREAMS {key} >
XREADGROUP GROUP {group} {consumer} STREAMS {key} {key} > {after}
XREADGROUP GROUP {group} {consumer} COUNT {n} STREAMS {key} none > {after}
XREADGROUP GROUP {group} {consumer} STREAMS {key} {after}
XREADGROUP GROUP {group} STREAMS {key} {after}
XREADGROUP COUNT 1 NOACK STREAMS {key} >
XACK {key} {group} {id} {id}
XCLAIM {key} {group} {consumer} 0 {id} {id}
XCLAIM {key} {group} {consumer} 0 {id} {id} JUSTID
XCLAIM {key} {group} {consumer} 0 {id} FORCE RETRYCOUNT {n}
XCLAIM {key} {group} {consumer} 0 {id} LASTID {id}
XCLAIM {key} {group} {consumer} {word} {id}
XCLAIM {key} {group} {consumer} 0 {id} {word}
XAUTOCLAIM {key} {group} {consumer} 0 {low} COUNT {n}
XAUTOCLAIM {key} {group} {consumer} 0 {low} COUNT {n} JUSTID
XAUTOCLAIM {key} {group} {consumer} {word} {low}
XPENDING {key} {group}
XPENDING {key} {group} {low} {high} {n}
XPENDING {key} {group} {low} {high} {n} {consumer}
XPENDING {key} {group} IDLE 0 {low} {high} {n}
XPENDING {key} {group} {low}
XSETID {key} 700-{n}
XSETID {key} 700-{n} ENTRIESADDED {n} MAXDELETEDID {id}
XSETID {key} {id} {word}
XINFO GROUPS {key} {word}
XINFO CONSUMERS {key}
XINFO {word} {key}
XFOO {key} {id}
""".strip().splitlines()

CHOICES: dict[str, list[str]] = {
    "key": ["s", "t", "t", "s", "s", "none"],
    "group": ["g", "g", "h", "nog"],
    "consumer": ["c", "d", "e"],
    # Whether an attempt that finds nothing makes a consumer has changed with versions: these are made by name alone.
    "maker": ["k", "l"],
    "fields": ["a 1", "a 1 b 2", "'' ''", "'a b' 2 'a b' 3"],
    "exact": ["", "="],
    "n": ["0", "1", "2", "3", "5", "100", "-1", "x", "9223372036854775808", "1.5", "''", "007"],
    "word": ["FOO", "x", "-1", "''"],
    "after": ["0", "0-0", "1-1", "3", "5-2", "9-9", "$", "-", "x", ">", "18446744073709551615-18446744073709551615"],
}


def some_id(chance: random.Random) -> str:
    odd = ["0-0", "0", "-1", "x", "1-", "-", "+", "*x", "5-*", "99999999999999999999", "1-1-1", "''", "3-x"]
    return chance.choice(odd) if chance.random() < 0.12 else f"{chance.randrange(60)}-{chance.randrange(4)}"


def some_command(chance: random.Random) -> list[str]:
    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in ("low", "high"):
            odd = chance.choice(["-", "+", "0", "(0-0", "(3-1", "(-", "x", "("])
            return odd if chance.random() < 0.6 else chance.choice(["", "("]) + some_id(chance).strip("'")
        if name == "id":
            return some_id(chance)
        # Most counts are small: a number that is none ends a command before it does anything.
        options = CHOICES[name]
        return chance.choice(options[:6] if name == "n" and chance.random() < 0.8 else options)

    return shlex.split(re.sub(r"{(\w+)}", fill, chance.choice(TEMPLATES)))


def without_times(reply: bytes, words: list[str]) -> bytes:
    """The long form of XPENDING shows how long ago; so does XINFO CONSUMERS."""
    if words[0].upper() == "XPENDING":
        return re.sub(rb":\d+\r\n:(\d+)\r\n", rb":idle\r\n:\1\r\n", reply)
    return reply


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator[WireClient]:
    with WireClient(redis_server.host, redis_server.port) as client:
        client.call("FLUSHALL")
        yield client


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("seed", range(ROUNDS // 2))
def test_the_same_bytes_come_back(server: WireClient, tmp_path: Path, seed: int, protocol: int) -> None:
    chance = random.Random(seed * 10 + protocol)
    server.call("HELLO", str(protocol))
    commands, done = table(), list[str]()
    with Keyspace(tmp_path / "s", fsync="os") as keyspace:
        caller = Caller(keyspace, protocol=protocol)
        for _ in range(COMMANDS):
            words = some_command(chance)
            done.append(shlex.join(words))
            expected = without_times(server.call(*words), words)
            reply = dispatch(commands, caller, [word.encode() for word in words])
            assert not isinstance(reply, Waiting)
            found = without_times(encode([reply], resp3=protocol == 3), words)
            assert found == expected, "\n".join(done[-12:])
