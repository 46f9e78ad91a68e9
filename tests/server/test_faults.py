"""A fault of ours in a command: its client is told, and nobody else notices."""

import dataclasses
import logging
from pathlib import Path

import pytest

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Reply
from tests.commands.world import Ours
from tests.server.client import Client, packed, serving
from tests.server.turns import Turns

TOLD = "ERR internal error: the server's log tells of it"


def wrong(*_words: object) -> Reply:
    raise ZeroDivisionError("a fault of ours")


def test_a_fault_in_a_command_is_answered_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the server, for all clients."""
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        with monkeypatch.context() as patched:
            patched.setattr(Keyspace, "names", wrong)
            client.sock.sendall(packed("KEYS", "*") + packed("MULTI") + packed("KEYS", "*") + packed("EXEC"))
            assert str(client.reply()) == TOLD
            assert [client.reply(), client.reply()] == [b"OK", b"QUEUED"]
            assert [str(reply) for reply in client.reply()] == [TOLD]
        assert client.call("KEYS", "*") == []
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [(record.name, "keys" in record.getMessage(), bool(record.exc_info)) for record in told] == [
        ("diskstream.server", True, True)
    ] * 2


def test_a_fault_in_the_look_of_who_waits_ends_its_wait(tmp_path: Path) -> None:
    with Turns(tmp_path / "store", 2) as turns:
        turns.turn([packed("XREAD", "BLOCK", 0, "STREAMS", "s", "$"), b""])
        waiter = turns.connections[0].waiter
        assert waiter is not None
        waiter.waiting = dataclasses.replace(waiter.waiting, again=wrong, only=wrong)
        turns.turn([b"", packed("XADD", "s", "1-1", "a", "b")])
        assert bytes(turns.heard[0]) == f"-{TOLD}\r\n".encode()
        assert bytes(turns.heard[1]) == b"$3\r\n1-1\r\n"


def test_who_embeds_the_commands_meets_the_fault_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the signal of a program may be raised within a command: it is not for us to swallow."""
    monkeypatch.setattr(Keyspace, "names", wrong)
    with Keyspace(tmp_path / "data") as keyspace, pytest.raises(ZeroDivisionError):
        Ours(keyspace).run("KEYS *")
