"""XACKs of a turn for one group are one frame, and each has the reply and the error that it would have had alone."""

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diskstream.commands.all_commands import table
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.failures import WRONG_TYPE
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.wire import CommandRun, RequestParser, encode
from diskstream.server.acknowledging import AckBatch
from tests.server.client import Client, ErrorLine, packed, serving


@pytest.fixture
def keyspace(tmp_path: Path) -> Iterator[Keyspace]:
    with Keyspace(tmp_path / "store", fsync="os") as opened:
        yield opened


def run(caller: Caller, *words: str) -> Any:
    return dispatch(table(), caller, [word.encode() for word in words])


def a_group(caller: Caller, key: str, pending: int) -> None:
    for n in range(1, pending + 1):
        run(caller, "XADD", key, f"{n}-1", "n", str(n))
    run(caller, "XGROUP", "CREATE", key, "g", "0")
    run(caller, "XREADGROUP", "GROUP", "g", "a", "COUNT", str(pending), "STREAMS", key, ">")


def batch_of(keyspace: Keyspace, given: list[list[bytes]]) -> bytes:
    caller = Caller(keyspace)
    batch = AckBatch(keyspace, lambda _, words: dispatch(table(), caller, words))
    connection: Any = SimpleNamespace(caller=caller, protocol=2)
    for words in given:
        (run,) = RequestParser(runs=True).feed(packed(*words))
        assert isinstance(run, CommandRun)
        assert batch.take(connection, run)
    _, replies, are_bytes = batch.run()
    return b"".join(replies if are_bytes else (encode([reply], resp3=False) for reply in replies))


def test_the_replies_are_those_of_single_commands(keyspace: Keyspace) -> None:
    """IDs that are pending, are not, come twice in a command, and in two commands."""
    caller, random_ids = Caller(keyspace), random.Random(7)
    for key in ("together", "alone"):
        a_group(caller, key, 40)
    given = [[str(random_ids.randint(1, 60)) + "-1" for _ in range(random_ids.randint(1, 4))] for _ in range(40)]
    together = batch_of(keyspace, [[b"XACK", b"together", b"g", *(each.encode() for each in ids)] for ids in given])
    alone = [run(caller, "XACK", "alone", "g", *ids) for ids in given]
    assert together == encode(alone, resp3=False)
    assert 0 in alone
    assert run(caller, "XPENDING", "together", "g") == run(caller, "XPENDING", "alone", "g")


def test_they_are_one_frame(keyspace: Keyspace) -> None:
    a_group(Caller(keyspace), "s", 20)
    log = keyspace.store(0)._log(b"s", create=False)
    assert log is not None
    before = log.native.tail[2]
    assert batch_of(keyspace, [[b"XACK", b"s", b"g", b"%d-1" % n] for n in range(1, 21)]) == b":1\r\n" * 20
    assert log.native.tail[2] == before + 1


def test_each_is_told_what_is_wrong(keyspace: Keyspace) -> None:
    run(Caller(keyspace), "SET", "text", "no stream")
    replies = batch_of(keyspace, [[b"XACK", b"text", b"g", each] for each in (b"1-1", b"2-1")])
    assert replies == b"-%s\r\n" % WRONG_TYPE * 2
    calls = keyspace.statistics.of("xack")
    assert (calls.calls, calls.failed) == (2, 2)


@pytest.mark.parametrize("words", [[b"XACK", b"nowhere", b"g", b"1-1"], [b"XACK", b"s", b"no group", b"1-1"]])
def test_nothing_is_pending_where_there_is_no_group(keyspace: Keyspace, words: list[bytes]) -> None:
    a_group(Caller(keyspace), "s", 1)
    assert batch_of(keyspace, [words, words]) == b":0\r\n" * 2


def test_a_pipeline_is_answered_in_its_order(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        client.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        client.call("SET", "text", "no stream")
        requests = [
            *[("XADD", "s", f"{n}-1", "n", n) for n in range(1, 4)],
            ("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">"),
            *[("XACK", "s", "g", f"{n}-1") for n in (1, 1, 2)],
            ("XADD", "s", "9-1", "n", 9),
            ("XACK", "s", "g", "3-1", "9-1"),
            ("XACK", "s", "g", "no ID"),
            ("XACK", "text", "g", "1-1"),
            ("XLEN", "s"),
        ]
        client.sock.sendall(b"".join(packed(*words) for words in requests))
        replies = [client.reply() for _ in requests]
        assert replies[:3] == [b"1-1", b"2-1", b"3-1"]
        assert replies[4:9] == [1, 0, 1, b"9-1", 1]
        assert all(isinstance(reply, ErrorLine) for reply in replies[9:11])
        assert replies[11] == 4
