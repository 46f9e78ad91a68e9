"""Of what kind a reply is, a set or an array, a report or a string: the same to us and to a Redis server."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.wire import encode, report_of, set_of
from diskstream.compat.raw import parse_all
from tests.commands.wire_client import WireClient
from tests.commands.world import Ours, words_of
from tests.conftest import RedisServer

_BEFORE = ["FLUSHALL", "SADD set a", "XADD s 1-1 f v"]
# Whose contents differ, as what is known of a server and of its commands does: only the kinds are the same.
_LINES = [
    "SMEMBERS set",
    "SMEMBERS none",
    "ACL GETUSER default",
    "COMMAND INFO get xgroup",
    "COMMAND INFO xadd none",
    "INFO server",
    "INFO none",
    "CLIENT INFO",
    "CLIENT LIST",
    "CLIENT LIST TYPE pubsub",
    "MEMORY DOCTOR",
    "LOLWUT",
    "XRANGE s - +",
    *[
        f"{container} HELP"
        for container in ("ACL", "CLIENT", "COMMAND", "CONFIG", "MEMORY", "OBJECT", "XGROUP", "XINFO")
    ],
]


def _kinds(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The sign before a reply, with those of its parts where it has some, and where it ends.

    How many lines there are where all of them are a status is of the version, and left out.
    """
    end = data.index(b"\r\n", at)
    sign, size, at = data[at : at + 1], data[at + 1 : end], end + 2
    if sign in (b"$", b"*") and size == b"-1":
        return sign + size, at
    if sign in (b"$", b"="):
        return sign, at + int(size) + 2
    if sign not in (b"*", b"~", b"%"):
        return sign, at
    parts = []
    for _ in range(int(size) * (2 if sign == b"%" else 1)):
        part, at = _kinds(data, at)
        parts.append(part)
    return (sign, parts[:1] if parts and all(part == b"+" for part in parts) else parts), at


def _comparable(line: str, data: bytes) -> Any:
    kinds, _ = _kinds(data)
    if not line.startswith("COMMAND INFO"):
        return kinds
    # Each has the same ten parts: what is in the tips and in the specifications of keys is none of ours.
    return [each if isinstance(each, bytes) else [part[:1] for part in each[1]] for each in kinds[1]]


@pytest.fixture
def theirs(redis_server: RedisServer) -> Iterator[WireClient]:
    with WireClient(redis_server.host, redis_server.port) as client:
        yield client


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("line", _LINES)
def test_a_reply_is_of_the_same_kind(tmp_path: Path, theirs: WireClient, line: str, protocol: int) -> None:
    with Keyspace(tmp_path / "data", fsync="os") as keyspace:
        ours = Ours(keyspace)
        theirs.call("HELLO", str(protocol))
        ours.run(f"HELLO {protocol}")
        for each in _BEFORE:
            theirs.call(*shlex.split(each))
            ours.run(each)
        found = encode([ours.raw(*words_of(line))], resp3=ours.caller.protocol == 3)
        assert _comparable(line, found) == _comparable(line, theirs.call(*shlex.split(line)))


@pytest.mark.parametrize("line", ["CLIENT INFO", "CLIENT LIST"])
def test_a_client_has_each_field_that_it_has_there(tmp_path: Path, theirs: WireClient, line: str) -> None:
    """In their order, too: libraries make numbers of fields by their names, and fail where one is missing."""
    with Keyspace(tmp_path / "data", fsync="os") as keyspace:
        fields = [field.partition("=")[0] for field in Ours(keyspace).run(line).decode().splitlines()[0].split(" ")]
        reply = theirs.call(*line.split()).decode().splitlines()[1]
        wanted = [field.partition("=")[0] for field in reply.split(" ")]
    assert [field for field in fields if field in wanted] == wanted


def test_what_needs_no_socket_reads_them_too() -> None:
    assert parse_all(set_of([b"a"], 3).data) == [b"a"]
    assert parse_all(report_of("a: b\r\n", 3).data) == b"a: b\r\n"
    assert (set_of([b"a"], 2), report_of("a", 2)) == ([b"a"], "a")
