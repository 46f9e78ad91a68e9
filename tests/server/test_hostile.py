"""Requests and circumstances that once ended the server, hung it, or made it answer wrongly."""

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.commands.globs import glob
from diskstream.commands.waiters import Waiter
from diskstream.server.serving import Server
from tests.server.client import Client, packed, serving, waits_until_blocked


def test_numbers_of_thousands_of_digits(tmp_path: Path) -> None:
    """Python refuses to read them, and what it raised then ended the server."""
    long = "9" * 5000
    with serving(tmp_path / "store") as server, Client.to(server) as client, Client.to(server) as waiting:
        assert str(client.call("SCAN", long)) == "ERR invalid cursor"
        waiting.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        waits_until_blocked(client, server, 1)
        client.sock.sendall(packed("MULTI") + packed("SELECT", long) + packed("SELECT", 1) + packed("EXEC"))
        *_, executed = [client.reply() for _ in range(4)]
        assert [str(executed[0]), executed[1]] == ["ERR value is not an integer or out of range", b"OK"]


@pytest.mark.parametrize("body", [{"kind": "string", "values": []}, {"kind": "list", "values": []}])
def test_a_payload_without_a_value_is_refused(tmp_path: Path, body: object) -> None:
    """It made a string of no value, which OBJECT ENCODING looked at."""
    payload = b"DSKS\x01" + zlib.compress(json.dumps(body).encode())
    payload += zlib.crc32(payload).to_bytes(4, "little")
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        assert str(client.call("RESTORE", "k", 0, payload)) == "ERR Bad data format"
        assert client.call("OBJECT", "ENCODING", "k") is None


def test_a_pattern_of_many_stars_takes_no_power_of_the_name() -> None:
    """Forty stars against a long name: the server would have looked for longer than the world is old."""
    assert glob(b"*a" * 40 + b"b").fullmatch(b"a" * 4096) is None
    assert glob(b"*a" * 40 + b"*").fullmatch(b"a" * 4096)


@pytest.mark.parametrize("gone", ["", "keys", "streams"])
def test_a_directory_that_is_removed_under_the_server(tmp_path: Path, gone: str) -> None:
    """Every command gets a reply, if only an error; the next SET, EXPIRE or KEYS was the server's end."""
    with (
        serving(tmp_path / "store", enable_debug_command="local") as server,
        Client.to(server) as client,
        Client.to(server) as waiting,
    ):
        client.call("XADD", "s", "1-1", "n", 0)
        client.call("XGROUP", "CREATE", "s", "g", "$")
        waiting.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "CLAIM", 1, "STREAMS", "s", ">")
        waits_until_blocked(client, server, 1)
        shutil.rmtree(tmp_path / "store" / gone)
        for words in (
            *(("SET", "k", "v"), ("KEYS", "*"), ("EXPIRE", "s", 9), ("XADD", "new", "*", "n", 1), ("INFO",)),
            *(("FLUSHALL",), ("COPY", "s", "t"), ("DEBUG", "RELOAD"), ("SCAN", 0), ("BGREWRITEAOF",)),
        ):
            assert "Errno" not in str(client.call(*words))  # but in words, with what to do
        assert client.call("PING") == b"PONG"


def test_who_waits_through_a_swap_reads_the_database_that_has_its_number(tmp_path: Path) -> None:
    """It went on reading the store that had the number before."""
    read = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
    with serving(tmp_path / "store") as server, Client.to(server) as client, Client.to(server) as other:
        for database in (0, 1):
            client.call("SELECT", database)
            client.call("XADD", "s", "1-1", "n", 0)
            client.call("XGROUP", "CREATE", "s", "g", "$")
        client.call("SELECT", 0)
        for number, words in enumerate((read, ("XREAD", "BLOCK", 0, "STREAMS", "s", "$")), 2):
            other.send(*words)
            waits_until_blocked(client, server, 1)
            assert client.call("SWAPDB", 0, 1) == b"OK"
            added = client.call("XADD", "s", f"{number}-1", "n", 1)  # above what `$` was in the other database
            assert other.reply() == [[b"s", [[added, [b"n", b"1"]]]]]


def test_who_waits_through_a_swap_hears_other_processes(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, Client.to(server) as client, Client.to(server) as other:
        other.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        waits_until_blocked(client, server, 1)
        client.call("SWAPDB", 0, 1)
        waits_until_blocked(client, server, 1)
        with diskstream.open(tmp_path / "store" / "db1") as store:
            added = store.stream("s").add({"n": "1"})
        assert other.reply() == [[b"s", [[str(added).encode(), [b"n", b"1"]]]]]


@pytest.mark.parametrize("how", [("DEBUG", "RELOAD"), ("CONFIG", "SET", "appendfsync", "always")])
def test_who_waits_while_the_stores_are_opened_anew_waits_on(tmp_path: Path, how: tuple[str, ...]) -> None:
    """It was told LOADING at the next entry: it looked into the store that had been closed."""
    with (
        serving(tmp_path / "store", enable_debug_command="local") as server,
        Client.to(server) as client,
        Client.to(server) as other,
    ):
        client.call("XADD", "s", "1-1", "n", 0)
        other.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        waits_until_blocked(client, server, 1)
        assert client.call(*how) == b"OK"
        added = client.call("XADD", "s", "*", "n", 1)
        assert other.reply() == [[b"s", [[added, [b"n", b"1"]]]]]


def _answers(server: Server, *commands: tuple[str | int, ...]) -> list[object]:
    """All replies to a pipeline, an ECHO behind it being the last."""
    with Client.to(server) as client:
        client.sock.sendall(b"".join(packed(*words) for words in (*commands, ("ECHO", "end"))))
        found: list[object] = []
        while not found or found[-1] != b"end":
            found.append(client.reply())
        return [str(reply) if isinstance(reply, Exception) else reply for reply in found[:-1]]


def test_client_reply_skip_before_another_one(tmp_path: Path) -> None:
    """The second was taken for the command that is skipped, and every reply after that was to another command."""
    skip, off, on = (("CLIENT", "REPLY", how) for how in ("SKIP", "OFF", "ON"))
    wait = ("XREAD", "BLOCK", 1, "STREAMS", "s", "$")
    with serving(tmp_path / "store") as server:
        assert _answers(server, skip, skip, ("ECHO", "a"), ("ECHO", "b")) == [b"b"]
        assert _answers(server, skip, off, ("ECHO", "a"), on) == [b"OK"]
        assert _answers(server, skip, on, ("ECHO", "a")) == [b"OK", b"a"]
        assert _answers(server, skip, wait, ("ECHO", "a")) == [b"a"]
        assert _answers(server, skip, ("NOSUCH",), ("ECHO", "a")) == [b"a"]


@pytest.mark.parametrize("how", ["OFF", "SKIP"])
@pytest.mark.parametrize("broken", [b"*1\r\nx\r\n", b"*99999999999\r\n", b'set "a\r\n'])
def test_a_client_that_wants_no_replies_is_closed_for_a_broken_request_without_one(
    tmp_path: Path, how: str, broken: bytes
) -> None:
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        client.sock.sendall(packed("CLIENT", "REPLY", how) + broken)
        assert client.at_end()


def test_an_exec_with_words_behind_it_ends_the_transaction(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server:
        assert _answers(server, ("MULTI",), ("EXEC", "x"), ("EXEC",)) == [
            b"OK",
            "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
            "ERR EXEC without MULTI",
        ]


def test_what_is_no_command_is_told_once_what_came_before_it_is_answered(tmp_path: Path) -> None:
    """The wait was given up, and commands that a pause held back were thrown away, for what came behind them."""
    with serving(tmp_path / "store") as server, Client.to(server) as client, Client.to(server) as other:
        client.sock.sendall(packed("XREAD", "BLOCK", 0, "STREAMS", "s", "$") + packed("ECHO", "a") + b"*1\r\nx\r\n")
        waits_until_blocked(other, server, 1)
        added = other.call("XADD", "s", "*", "n", 1)
        assert client.reply() == [[b"s", [[added, [b"n", b"1"]]]]]
        assert client.reply() == b"a"
        assert str(client.reply()) == "ERR Protocol error: expected '$', got 'x'"
        assert client.at_end()


def test_a_name_that_is_too_long_is_told(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        assert "the name of a stream" in str(client.call("XLEN", "k" * 5000))


def test_patterns_and_keys_have_limits(tmp_path: Path) -> None:
    """A pattern of half a gigabyte was made a regular expression; a key of 50 MiB was written, and kept in memory."""
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        for words in (("KEYS", "?*" * 10_000), ("SCAN", 0, "MATCH", "[a" * 10_000), ("CONFIG", "GET", "a*" * 10_000)):
            assert str(client.call(*words)) == "ERR a pattern of 20000 bytes is over the limit of 16384"
        assert (
            str(client.call("SET", b"k" * (2 << 20), "v")) == "ERR a key of 2097152 bytes is over the limit of 1048576"
        )
        assert client.call("SET", b"k" * 5000, "v") == b"OK"


def test_a_wait_on_many_keys_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was looked at once for each key, at all of them each time: a thousand keys were ten seconds."""
    looks: list[Waiter[Any]] = []
    look = Waiter.look

    def counted(waiter: Waiter[Any], changed: object = None) -> object:
        looks.append(waiter)
        return look(waiter, changed)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(Waiter, "look", counted)
    keys = [f"k{n}" for n in range(300)]
    with serving(tmp_path / "store") as server, Client.to(server) as client, Client.to(server) as other:
        client.send("XREAD", "BLOCK", 0, "STREAMS", *keys, *["$"] * len(keys))
        waits_until_blocked(other, server, 1)
        other.call("XADD", "k7", "1-1", "n", 1)
        assert client.reply() == [[b"k7", [[b"1-1", [b"n", b"1"]]]]]
    assert len(looks) < 30
