"""Clients of the server that mean harm: without the password, and with it."""

import json
import socket
import zlib
from pathlib import Path

import pytest

from diskstream.commands import dumps
from diskstream.server.connection import UNKNOWN_OUT_BYTES
from diskstream.server.metrics import MAX_SCRAPERS
from diskstream.server.serving import Server
from tests.server.client import Client, packed, serving

PAGE = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\nContent-Length: 24\r\n\r\nSET pwned 1\r\nFLUSHALL\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        PAGE,
        PAGE.replace(b"POST", b"post"),
        PAGE.replace(b"POST", b"PUT"),
        PAGE.replace(b"POST", b"GET"),
        PAGE.replace(b"Host: ", b"hOsT: "),
        packed("POST") + packed("SET", "pwned", 1),
    ],
)
def test_a_page_in_a_browser_gives_no_commands(tmp_path: Path, sent: bytes) -> None:
    """A page that somebody on this machine looked at could have its browser post commands to the server: they ran."""
    with serving(tmp_path / "store") as server, Client.to(server) as browser, Client.to(server) as other:
        browser.sock.sendall(sent)
        while not browser.at_end():  # what was said before Host: is answered
            pass
        assert other.call("EXISTS", "pwned") == 0
        assert server.counts.protocol_errors == 1


def test_debug_is_for_who_was_allowed_to(tmp_path: Path) -> None:
    """One DEBUG SLEEP held up all clients, for an hour if it was told to."""
    with serving(tmp_path / "no") as server, Client.to(server) as client:
        for words in (("SLEEP", 3600), ("RELOAD",), ("SET-ACTIVE-EXPIRE", 0), ("DIGEST",), ("OBJECT", "k")):
            assert str(client.call("DEBUG", *words)).startswith("ERR DEBUG command not allowed")
        assert "immutable" in str(client.call("CONFIG", "SET", "enable-debug-command", "yes"))
        client.call("MULTI")
        client.call("DEBUG", "SLEEP", 3600)
        assert str(client.call("EXEC")[0]).startswith("ERR DEBUG command not allowed")
    for allowed in ("local", "yes"):
        with serving(tmp_path / allowed, enable_debug_command=allowed) as server, Client.to(server) as client:
            assert client.call("DEBUG", "SLEEP", 0) == b"OK"
            next(iter(server.loop.connections.values())).caller.is_local = False
            assert (client.call("DEBUG", "SLEEP", 0) == b"OK") == (allowed == "yes")


def test_settings_that_decide_who_may_come_are_not_for_clients(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        for name in ("bind", "port", "dir", "enable-debug-command"):
            assert isinstance(client.call("CONFIG", "SET", name, "1"), Exception), name
        for name in ("logfile", "unixsocket", "unixsocketperm", "tls-key-file", "metrics-bind"):
            assert "Unknown option" in str(client.call("CONFIG", "SET", name, "/etc/passwd")), name


# --- without the password ---------------------------------------------------------------------------------------------


def test_who_has_not_said_the_password_is_told_little(tmp_path: Path) -> None:
    """It could have megabytes kept for it, by asking on and on and not reading that it may not."""
    with serving(tmp_path / "store", requirepass="secret") as server, Client.to(server) as other:
        assert other.call("AUTH", "secret") == b"OK"
        with Client.to(server) as lazy:
            lazy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.sock.setblocking(False)
            while not server.counts.output_limit:
                try:
                    lazy.sock.send(b"PING\r\n" * 1000)
                except BlockingIOError:
                    pass
                except OSError:
                    break
                waiting = [len(each.out) for each in server.loop.connections.values()]
                assert max(waiting, default=0) < UNKNOWN_OUT_BYTES + (4 << 20)
                other.call("PING")
        assert other.call("PING") == b"PONG"
        assert server.counts.output_limit == 1


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "unauthenticated bulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*9223372036854775807\r\n", "invalid multibulk length"),
        (b"*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        (b"x" * 70_000, "too big inline request"),
        (b"*" + b"1" * 70_000, "too big mbulk count string"),
    ],
)
def test_its_requests_are_small(tmp_path: Path, sent: bytes, told: str) -> None:
    with serving(tmp_path / "store", requirepass="secret") as server, Client.to(server) as client:
        client.sock.sendall(sent)
        assert told in str(client.reply())
        assert client.at_end()


def test_nothing_but_saying_the_password_is_for_it(tmp_path: Path) -> None:
    """Every command of the table, in any case: NOAUTH, or a word on how it is called."""
    with serving(tmp_path / "store", requirepass="secret") as server, Client.to(server) as client:
        for name, command in server.parts.table.items():
            if name in ("auth", "hello", "quit", "reset"):
                continue
            below = next(iter(command.subcommands), "")
            words = [name.upper(), *([below] if below else [])]
            words += ["1"] * (abs(command.arity) + 2 - len(words))
            reply = str(client.call(*words))
            assert reply.startswith(("NOAUTH", "ERR wrong number", "ERR unknown", "EXECABORT")), (
                name,
                reply,
            )
        assert str(client.call("HELLO", 3)).startswith("NOAUTH")
        assert str(client.call("HELLO", 3, "AUTH", "default", "wrong")).startswith("WRONGPASS")
        assert str(client.call("AUTH", "default", "")).startswith("WRONGPASS")
        assert str(client.call("AUTH", "secret\0")).startswith("WRONGPASS")
        assert str(client.call("AUTH", "nobody", "secret")).startswith("WRONGPASS")
        assert client.call("RESET") == b"RESET"
        assert str(client.call("PING")).startswith("NOAUTH")


def test_the_scrapers_port_has_few_threads(tmp_path: Path) -> None:
    """Whoever came had a thread of his own, be it thousands of them."""
    with serving(tmp_path / "store", metrics_port=-1) as server:
        assert server.metrics is not None
        address = ("127.0.0.1", server.metrics.port)
        silent = [socket.create_connection(address, timeout=20) for _ in range(MAX_SCRAPERS + 1)]
        try:
            assert silent[-1].recv(1) == b""
        finally:
            for each in silent:
                each.close()


# --- with it ----------------------------------------------------------------------------------------------------------


def test_a_transaction_that_never_ends_is_bounded(tmp_path: Path) -> None:
    """What MULTI kept for EXEC was counted in commands, and not in bytes: half a terabyte of them."""
    with serving(tmp_path / "store", client_query_buffer_limit=1 << 20) as server, Client.to(server) as client:
        client.call("MULTI")
        replies = [client.call("SET", "k", b"x" * 100_000) for _ in range(12)]
        assert replies[:10] == [b"QUEUED"] * 10
        assert str(replies[10]) == "ERR a transaction has 1048576 bytes at most (client-query-buffer-limit)"
        (caller,) = server.clients()
        assert caller.transaction is not None
        assert caller.transaction.queue == []
        assert str(client.call("EXEC")).startswith("EXECABORT")
        assert client.call("GET", "k") is None


def test_what_a_client_watches_is_bounded(tmp_path: Path) -> None:
    """One client could name keys without end, each remembered until it goes: all memory, a WATCH at a time."""
    with serving(tmp_path / "store", client_query_buffer_limit=1 << 20) as server, Client.to(server) as client:
        name = "k" * 1000
        for first in range(0, 600, 100):
            client.call("WATCH", *(f"{name}{number:03d}" for number in range(first, first + 100)))
        (caller,) = server.clients()
        assert len(caller.watched) == 600
        refused = client.call("WATCH", *(f"{name}{number:03d}" for number in range(600, 700)))
        assert str(refused) == "ERR what a client watches has 1048576 bytes at most (client-query-buffer-limit)"
        assert len(caller.watched) == 600
        assert client.call("WATCH", *(f"{name}{number:03d}" for number in range(100))) == b"OK"  # those again
        client.call("UNWATCH")
        assert client.call("WATCH", "k" * 4000) == b"OK"


def test_a_stream_larger_than_memory_is_not_one_reply(tmp_path: Path) -> None:
    """XRANGE without COUNT took as much memory as the stream has bytes. It is told to read less; who reads on behind
    what it was given is given what a reply may have.
    """
    with serving(tmp_path / "store", client_output_buffer_limit=3 << 20) as server, Client.to(server) as client:
        for number in range(1, 33):
            client.call("XADD", "s", f"{number}-1", "n", b"x" * (256 << 10))
        for words in (
            ("XRANGE", "s", "-", "+"),
            ("XREVRANGE", "s", "+", "-"),
            ("XRANGE", "s", "-", "+", "COUNT", 5000),
        ):
            assert "the reply would have more than 3,145,728 bytes" in str(client.call(*words)), words
        assert len(client.call("XRANGE", "s", "-", "+", "COUNT", 10)) == 10
        client.call("XGROUP", "CREATE", "s", "g", "0")
        group = ("XREADGROUP", "GROUP", "g", "c")
        for reading, given in (((), lambda last: last), (group, lambda _: ">")):
            seen: list[bytes] = []
            while len(seen) < 32:
                found = client.call(*(reading or ("XREAD",)), "STREAMS", "s", given(seen[-1] if seen else b"0"))
                assert 0 < len(found[0][1]) < 13
                seen += [entry[0] for entry in found[0][1]]
            assert seen == [b"%d-1" % number for number in range(1, 33)]
        assert client.call("CONFIG", "SET", "client-output-buffer-limit", 0) == b"OK"
        assert len(client.call("XRANGE", "s", "-", "+")) == 32


def test_an_entry_that_is_named_again_and_again_is_not_sent_as_often(tmp_path: Path) -> None:
    """One XCLAIM of an ID two hundred times took gigabytes for an entry of 31 MiB; XINFO FULL took the whole stream."""
    with serving(tmp_path / "store", client_output_buffer_limit=3 << 20) as server, Client.to(server) as client:
        for number in range(1, 33):
            client.call("XADD", "s", f"{number}-1", "n", b"x" * (256 << 10))
        client.call("XGROUP", "CREATE", "s", "g", "0")
        claim = ("XCLAIM", "s", "g", "c", 0)
        told = client.call(*claim, *(["1-1"] * 200), "FORCE")
        assert "the reply would have more than 3,145,728 bytes" in str(told)
        assert client.call("XPENDING", "s", "g")[0] == 0  # nothing was claimed
        assert len(client.call(*claim, *(["1-1"] * 3), "FORCE")) == 3
        assert client.call(*claim, *(["1-1"] * 200), "JUSTID") == [b"1-1"] * 200
        assert "the reply would have more than" in str(client.call("XINFO", "STREAM", "s", "FULL", "COUNT", 0))
        assert client.call("XINFO", "STREAM", "s", "FULL", "COUNT", 3)


def _payload(text: bytes) -> bytes:
    packed_text = b"DSKS\x01" + zlib.compress(text, 9)
    return packed_text + zlib.crc32(packed_text).to_bytes(4, "little")


def test_a_payload_unpacks_to_what_dump_makes_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a megabyte unpacked to a gigabyte of JSON, and that to many times as much in memory."""
    monkeypatch.setattr(dumps, "MAX_DUMP_BYTES", 1 << 20)
    bomb = _payload(b'{"kind":"list","values":[' + b"[]," * (1 << 20) + b"[]]}")
    deep = _payload(b"[" * 200_000 + b"]" * 200_000)
    digits = _payload(b'{"kind":"stream","last":[' + b"9" * 500_000 + b",0]}")
    nothing = _payload(b"\0" * (8 << 20))
    assert len(bomb) < 1 << 14
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        for payload in (bomb, deep, digits, nothing, _payload(b""), _payload(b"null"), b"DSKS\x01"):
            assert str(client.call("RESTORE", "k", 0, payload)).startswith("ERR ")
        assert client.call("EXISTS", "k") == 0
        for number in range(30):
            client.call("XADD", "s", f"{number + 1}-1", "n", b"\0" * 9000)
        assert "over the limit of DUMP" in str(client.call("DUMP", "s"))


def test_the_limit_of_dump_is_one_of_memory() -> None:
    """JSON takes up to some 25 times its size: a gigabyte and a half, where the word of a request has half of one."""
    assert dumps.MAX_DUMP_BYTES == 64 << 20
    worst = json.loads(b"[" + b"[]," * 1000 + b"[]]")
    assert (worst.__sizeof__() + sum(each.__sizeof__() + 16 for each in worst)) / 3003 < 30


@pytest.mark.parametrize("evil", [b"x\r\n+OK", b"x\n+OK\r\n", b"\0\x1b[2J", b"\xff\xfe\xfd", b"%s%d {0}'"])
def test_what_is_echoed_in_an_error_stays_in_its_line(tmp_path: Path, evil: bytes) -> None:
    commands: tuple[tuple[str | bytes | int, ...], ...] = (
        (evil,),
        ("XINFO", evil),
        ("XGROUP", "CREATE", "s", evil, "$"),
        ("XREADGROUP", "GROUP", evil, "c", "STREAMS", evil, ">"),
        ("XCLAIM", evil, evil, evil, 0, "1-1"),
        ("XADD", "s", evil, "a", "b"),
        ("HELLO", 3, evil),
        ("CLIENT", "KILL", "TYPE", evil),
        ("CLIENT", "SETNAME", evil + b" "),
        ("CLIENT", "SETINFO", evil, "1"),
        ("CONFIG", "SET", evil, evil),
        ("ACL", "SETUSER", "default", evil),
        ("ACL", "CAT", evil),
        ("CLIENT", "LIST", "TYPE", evil),
        ("COMMAND", "GETKEYS", evil, evil),
    )
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        for words in commands:
            client.send(*words)
            client.send("ECHO", "next")
            assert isinstance(client.reply(), Exception), words
            assert client.reply() == b"next", words


def _listed(server: Server, *words: str) -> str:
    with Client.to(server) as client:
        return str(client.call(*words))


def test_what_a_client_says_of_itself_does_not_spoil_the_list(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        for name in (b"a b", b"a\nid=1", b"a=\x1b", b"\xff"):
            assert isinstance(client.call("CLIENT", "SETNAME", name), Exception)
            assert isinstance(client.call("CLIENT", "SETINFO", "LIB-NAME", name), Exception)
            assert isinstance(client.call("HELLO", 2, "SETNAME", name), Exception)
        assert len(_listed(server, "CLIENT", "LIST").split("\\n")) == 3


def test_a_wait_on_very_many_keys_that_are_not_there_makes_nothing(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(4_000)]
    with serving(tmp_path / "store") as server, Client.to(server) as client, Client.to(server) as other:
        client.send("XREAD", "BLOCK", 1, "STREAMS", *keys, *["0"] * len(keys))
        assert client.reply() is None
        assert other.call("DBSIZE") == 0
        assert list((tmp_path / "store" / "streams").iterdir()) == []
