"""COMMAND and CLIENT TRACKINGINFO: what a client learns of the commands is to the byte what a Redis server tells it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.wire import encode
from tests.commands.wire_client import WireClient
from tests.commands.world import Ours
from tests.conftest import RedisServer

# FLUSH is a write in Redis. Here it would say that a full disk takes writes again. DEBUG has no subcommands there.
_OTHERWISE = {"function|flush", "debug"}
_NAMES = [
    name
    for command in Ours.TABLE.values()
    for name in (command.name, *(below.name for below in command.subcommands.values()))
    if name not in _OTHERWISE
]
_LINES = """
COMMAND INFO nosuch
COMMAND INFO get nosuch get
COMMAND DOCS nosuch
COMMAND COUNT x
COMMAND LIST X
COMMAND LIST FILTERBY MODULE x
COMMAND LIST FILTERBY ACLCAT nosuch
COMMAND GETKEYS get
COMMAND GETKEYS get a b
COMMAND GETKEYS ping a
COMMAND GETKEYS nosuch a
COMMAND GETKEYS xgroup create a b 0
COMMAND GETKEYS xgroup a
COMMAND GETKEYS xgroup help
COMMAND GETKEYS xread streams a
COMMAND GETKEYS xread count 1 streams a b 0 0
COMMAND GETKEYS xread count 1 stream a b 0 0
COMMAND GETKEYS xread streams a b 0
COMMAND GETKEYS xreadgroup group g streams streams a >
COMMAND GETKEYS xreadgroup group g c streams a b c > > >
COMMAND GETKEYS blpop a b 0
COMMAND GETKEYS memory usage a
COMMAND GETKEYS object help
COMMAND GETKEYSANDFLAGS
COMMAND GETKEYSANDFLAGS xadd a b c d
COMMAND GETKEYSANDFLAGS del a b
COMMAND GETKEYSANDFLAGS set k v
COMMAND GETKEYSANDFLAGS set k v xx get
COMMAND GETKEYSANDFLAGS copy a b
COMMAND GETKEYSANDFLAGS rename a b
COMMAND GETKEYSANDFLAGS xread streams a b 0 0
COMMAND GETKEYSANDFLAGS xgroup destroy a b
COMMAND GETKEYSANDFLAGS ping a
CLIENT TRACKINGINFO
CLIENT TRACKINGINFO x
CLIENT GETREDIR
CLIENT CACHING yes
CLIENT CACHING x
CLIENT TRACKING off
CLIENT TRACKING off BCAST NOLOOP OPTIN PREFIX a
CLIENT TRACKING off REDIRECT 99999
CLIENT TRACKING off REDIRECT x
CLIENT TRACKING off REDIRECT
CLIENT TRACKING off x
CLIENT TRACKING x
CLIENT TRACKING x BCAST
"""


@pytest.fixture(scope="module")
def theirs(redis_server: RedisServer) -> Iterator[WireClient]:
    with WireClient(redis_server.host, redis_server.port) as client:
        yield client


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Ours]:
    with Keyspace(tmp_path / "data", fsync="os") as keyspace:
        yield Ours(keyspace)


def _both(ours: Ours, theirs: WireClient, line: str) -> tuple[bytes, bytes]:
    words = line.split()
    reply = ours.raw(*(word.encode() for word in words))
    return encode([reply], resp3=ours.caller.protocol > 2), theirs.call(*words)


def _without_subcommands(reply: bytes) -> bytes:
    """They come in no order, and each has an answer of its own."""
    own, subcommands, _ = reply.removeprefix(b"*1\r\n*10\r\n").partition(b"*10\r\n")
    return re.sub(rb"\*\d+\r\n$", b"", own) if subcommands else own


@pytest.mark.parametrize("protocol", [2, 3])
def test_each_command_is_told_of_as_a_redis_does(ours: Ours, theirs: WireClient, protocol: int) -> None:
    _both(ours, theirs, f"HELLO {protocol}")
    found, expected = dict[str, bytes](), dict[str, bytes]()
    for name in _NAMES:
        told, wanted = _both(ours, theirs, f"COMMAND INFO {name}")
        if wanted not in (b"*1\r\n$-1\r\n", b"*1\r\n_\r\n"):  # of a later version
            found[name], expected[name] = _without_subcommands(told), _without_subcommands(wanted)
    assert len(found) > 100
    assert found == expected


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("line", _LINES.strip().splitlines())
def test_what_is_asked_of_them_is_answered_as_by_a_redis(
    ours: Ours, theirs: WireClient, line: str, protocol: int
) -> None:
    _both(ours, theirs, f"HELLO {protocol}")
    told, wanted = _both(ours, theirs, line)
    assert told == wanted


def test_each_command_with_keys_says_where_they_are(ours: Ours) -> None:
    """Those of later versions too, which the server beside us does not know."""
    for command in [each for top in Ours.TABLE.values() for each in (top, *top.subcommands.values())]:
        has_keys = bool(command.keys[0]) or command.find_keys is not None
        assert bool(ours.run(f"COMMAND INFO {command.name}")[0][8]) == has_keys, command.name
