"""Words that are nearly right, to us and to a Redis server: what it takes, or says, is what comes back from both."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.wire import encode
from tests.commands.wire_client import WireClient
from tests.commands.world import Ours
from tests.conftest import RedisServer

_BEFORE = """
SET text x
XADD s 1-1 f v
XADD s 2-2 f v
XADD s 5-5 f v
XGROUP CREATE s g 0
XREADGROUP GROUP g c COUNT 2 STREAMS s >
"""
# As numbers of IDs: what strtoull takes, what it lets wrap around, and where a C string ends.
_NUMBERS = ["+2", "' 2'", "'\t2'", "02", "2\0x", "-2", "'2 '", "0x2", "2_0", "''", "'+ 2'", "18446744073709551616"]
_SEQUENCES = ["+2", "' -2'", "-0", "-1", "-9223372036854775808", "-9223372036854775809", "-18446744073709551616", "*"]
_IDS = [
    *_NUMBERS,
    *(f"2-{sequence}" for sequence in (*_NUMBERS, *_SEQUENCES)),
    "2-" + "0" * 124 + "2",
    "2-" + "0" * 125 + "2",
    "'-\0x'",
    "'(+1'",
    "(",
    "((2",
]
_TAKE_IDS = [
    "XADD new {} f v",
    "XRANGE s {} +",
    "XRANGE s - {}",
    "XDEL s {}",
    "XTRIM s MINID {}",
    "XREAD STREAMS s {}",
    "XGROUP CREATE s h {}",
    "XGROUP SETID s g {}",
    "XCLAIM s g d 0 {} JUSTID",
    "XAUTOCLAIM s g c 0 {} JUSTID",
    "XACK s g {}",
    "XSETID s {}",
]
_LINES = [
    "XRANGE s 2 +\0x",
    "XGROUP SETID s g +\0x",
    "XADD new 7-+* f v",
    "XADD new '7 -*' f v",
    "XADD new 07-* f v",
    "XADD new 7-*\0x f v",
    "XADD text 0-0 f v",
    "XADD s MAXLEN\0x 3 9-9 f v",
    "XREAD COUNT\0x 1 STREAMS\0x s 0",
    "XGROUP CREATE s h 0 MKSTREAM MKSTREAM ENTRIESREAD 1",
    "XGROUP CREATE s h x ENTRIESREAD 1 ENTRIESREAD 2",
    "XGROUP CREATE new h 0 MKSTREAM MKSTREAM MKSTREAM MKSTREAM",
    "XGROUP SETID s g 0 ENTRIESREAD 1 ENTRIESREAD 2",
    "XGROUP CREATECONSUMER s no\0x c",
    "XINFO CONSUMERS s no\0x",
    "XPENDING s no\0x",
    "XPENDING s g - + 10 none more",
    "XPENDING s g - + 10 none more words",
    "XPENDING s g - + 10 none more words yet",
    "XPENDING s g IDLE x - +",
    "XPENDING s g IDLE 1 - +",
    "XPENDING s g IDLE x 1 2 3 4 5 6",
    "XPENDING s g IDLE -9223372036854775808 - + 10 none",
    "XCLAIM s g d 0 1-1 IDLE -9223372036854775808 JUSTID",
    "XCLAIM s g d 0 1-1 TIME -9223372036854775808 JUSTID",
    "XCLAIM s g d 0 1-1 none\0x",
    "XAUTOCLAIM s g d 0 0 COUNT 576460752303423487 JUSTID",
    "XAUTOCLAIM s g d 0 0 COUNT 576460752303423488 JUSTID",
    "none\0x a\0x b",
    "EXPIRE s 100 no\0x",
    "none " + "a" * 200 + " b",
    "none " + "'' " * 50,
    f"none {'a' * 124} b",
    f"none {'a' * 125} b",
    "XADD s MAXLEN = 2 LIMIT 1",
    "XADD s LIMIT 1 9-9",
    "LPOP none 2",
    "LPOP none 0",
    "RPOP none 2",
    "BLPOP none ' 1'",
    "BLPOP none 1_0",
    "BLPOP none 1e",
    "BLPOP none -inf",
    "SELECT 2147483648",
    "MOVE s -2147483649",
    "COPY s new DB 2147483648",
    "SWAPDB 2147483648 0",
    "SCAN +0 MATCH none",
    "SCAN +-0",
    "SCAN -+0",
    "SCAN +",
    *[f"ACL GENPASS {told}" for told in ("x", "0", "4097", "-1", "5 6")],
    *[f"SCRIPT FLUSH {told}" for told in ("async", "SYNC", "FLUSH", "SYNC SYNC")],
    *[f"FUNCTION FLUSH {told}" for told in ("async", "SYNC", "x")],
    *[f"FUNCTION LIST {told}" for told in ("withcode", "WITHCODE withcode", "LIBRARYNAME", "LIBRARYNAME x", "other")],
    "FUNCTION FLUSH SYNC SYNC",
    "FUNCTION flush SYNC x",
    "CLIENT UNBLOCK 99999 ERROR x",
    "CLIENT pause 0 WRITE x",
    "CLIENT LIST ID -1 99999",
    "CLIENT LIST ID x",
    "CONFIG GET TimeOut",
    "CONFIG GET TIMEOUT timeout TimeOut",
    "CONFIG GET TimeO*",
    "CONFIG SET client-output-buffer-limit 'normal 1mb'",
    "CONFIG SET client-output-buffer-limit 'normal 0 0 0 pubsub 1 1'",
    *[f"RESTORE new 0 x {told}" for told in ("IDLETIME abc", "IDLETIME -1", "FREQ abc", "FREQ 256", "FREQ 1 FREQ 2")],
    *[
        f"RESTORE new 0 x {told}"
        for told in ("FREQ 5 IDLETIME 5", "IDLETIME 5 FREQ 5", "IDLETIME 5 IDLETIME 6", "FREQ")
    ],
]


@pytest.fixture
def theirs(redis_server: RedisServer) -> Iterator[WireClient]:
    with WireClient(redis_server.host, redis_server.port) as client:
        yield client
        client.call("SELECT", "0")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ours]:
    with Keyspace(tmp_path / "data", fsync="os") as keyspace:
        yield Ours(keyspace)


def _both(ours: Ours, theirs: WireClient, line: str) -> list[tuple[bytes, bytes]]:
    """What both say to a line, and of what it changed."""
    found = []
    for each in ("FLUSHALL", *_BEFORE.strip().splitlines(), line, "XRANGE s - +", "XINFO GROUPS s", "KEYS new"):
        words = shlex.split(each)
        expected = theirs.call(*words)
        reply = encode([ours.raw(*(word.encode() for word in words))], resp3=False)
        found.append((_without_consumers(reply), _without_consumers(expected)))
    return found[-4:]


def _without_consumers(reply: bytes) -> bytes:
    """Whether who claims nothing is a consumer afterwards has changed with versions."""
    return re.sub(rb"(\r\nconsumers\r\n):\d+", rb"\1:n", reply)


@pytest.mark.parametrize("command", _TAKE_IDS)
def test_an_id_is_what_a_redis_takes_for_one(here: Ours, theirs: WireClient, command: str) -> None:
    for entry_id in _IDS:
        line = command.format(entry_id)
        for ours, expected in _both(here, theirs, line):
            assert ours == expected, line


@pytest.mark.parametrize("line", _LINES)
def test_words_too_many_or_odd_are_answered_as_by_a_redis(here: Ours, theirs: WireClient, line: str) -> None:
    for ours, expected in _both(here, theirs, line):
        assert ours == expected


def test_the_help_of_object_is_that_of_a_redis(here: Ours, theirs: WireClient) -> None:
    ours, expected = _both(here, theirs, "OBJECT HELP")[0]
    assert ours.rpartition(b"+")[0] == expected.rpartition(b"+")[0]  # the last line is of the version


def test_each_reply_of_a_transaction_is_in_the_protocol_of_its_moment(here: Ours) -> None:
    for line in ("XADD s 1-1 f v", "MULTI", "GET x", "HELLO 3", "GET x", "XREAD STREAMS s 0", "HELLO 2", "GET x"):
        here.run(line)
    replies = here.raw(b"EXEC")
    encoded = [encode([each], resp3=here.caller.protocol > 2) for each in replies]
    entries = b"*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    assert [encoded[at] for at in (0, 2, 3, 5)] == [b"$-1\r\n", b"_\r\n", b"%1\r\n$1\r\ns\r\n" + entries, b"$-1\r\n"]
    assert [encoded[at][:1] for at in (1, 4)] == [b"%", b"*"]


@pytest.mark.parametrize("seconds", ["9223372036854775807", "1e300", "1e400", "inf"])
def test_a_wait_beyond_the_clock_is_refused(here: Ours, seconds: str) -> None:
    """In the words of newer versions: 7.0 takes it for a negative one."""
    assert here.run(f"BLPOP none {seconds}") == b"ERR timeout is out of range"
