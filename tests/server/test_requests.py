"""Requests as they come: together, in pieces, broken, and from several clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.server.serving import Server
from tests.server.client import Client, ErrorLine, packed, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "store") as running:
        yield running


def test_commands_and_replies(server: Server) -> None:
    with Client.to(server) as client:
        assert client.call("PING") == b"PONG"
        assert client.call("ECHO", b"\0\xff\r\n") == b"\0\xff\r\n"
        assert str(client.call("NOTHING", "x")).startswith("ERR unknown command 'NOTHING'")
        first = client.call("XADD", "s", "*", "rider", "Castilla")
        assert client.call("XRANGE", "s", "-", "+") == [[first, [b"rider", b"Castilla"]]]


def test_a_pipeline_is_answered_in_order(server: Server) -> None:
    with Client.to(server) as client:
        client.sock.sendall(b"".join(packed("ECHO", n) + packed("XADD", f"s{n % 3}", "*", "n", n) for n in range(600)))
        ids: list[list[bytes]] = [[], [], []]
        for n in range(600):
            assert client.reply() == str(n).encode()
            ids[n % 3].append(client.reply())
        for n in range(3):
            found = client.call("XRANGE", f"s{n}", "-", "+")
            assert [entry[0] for entry in found] == ids[n]
            assert [int(entry[1][1]) for entry in found] == list(range(n, 600, 3))


def test_a_run_of_adds_becomes_one_frame_and_everyone_gets_its_own_id(server: Server) -> None:
    with Client.to(server) as client:
        client.sock.sendall(b"".join(packed("XADD", "s", "*", "n", n) for n in range(500)) + packed("XLEN", "s"))
        ids = [client.reply() for _ in range(500)]
        assert client.reply() == 500
        assert [entry[0] for entry in client.call("XRANGE", "s", "-", "+")] == ids
    assert server.counts.batched > 0


def test_an_error_within_a_run_is_the_error_of_one(server: Server) -> None:
    """The others are added."""
    large = b"x" * (33 << 20)  # an entry has 32 MiB at most
    with Client.to(server) as client:
        client.sock.sendall(
            packed("XADD", "s", "*", "a", 1) + packed("XADD", "s", "*", "b", large) + packed("XADD", "s", "*", "c", 3)
        )
        first, refused, third = (client.reply() for _ in range(3))
        assert isinstance(refused, ErrorLine)
        assert str(refused) == "ERR Elements are too large to be stored"
        assert [entry[0] for entry in client.call("XRANGE", "s", "-", "+")] == [first, third]


def test_a_wrong_number_of_fields_stays_out_of_the_run(server: Server) -> None:
    with Client.to(server) as client:
        client.sock.sendall(packed("XADD", "s", "*", "a", 1) + packed("XADD", "s", "*", "a", 1, "b"))
        assert isinstance(client.reply(), bytes)
        assert str(client.reply()) == "ERR wrong number of arguments for 'xadd' command"


def test_a_request_may_come_byte_by_byte_and_on_a_line(server: Server) -> None:
    with Client.to(server) as slow, Client.to(server) as other:
        for byte in packed("XADD", "s", "*", "name", "value"):
            slow.sock.sendall(bytes([byte]))
            assert other.call("PING") == b"PONG"
        assert isinstance(slow.reply(), bytes)
        slow.sock.sendall(b"PING hello\r\n")
        assert slow.reply() == b"hello"


def test_what_is_no_request_is_told_so_behind_the_replies_before_it_and_ends_the_connection(server: Server) -> None:
    with Client.to(server) as client, Client.to(server) as other:
        client.sock.sendall(packed("PING") + b"*1\r\n:5\r\n" + packed("PING"))
        assert client.reply() == b"PONG"
        assert str(client.reply()) == "ERR Protocol error: expected '$', got ':'"
        assert client.at_end()
        assert other.call("PING") == b"PONG"
    assert server.counts.protocol_errors == 1


def test_a_word_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "store", proto_max_bulk_len=1 << 20) as server, Client.to(server) as client:
        client.sock.sendall(b"*2\r\n$4\r\nECHO\r\n$2000000\r\n")
        assert str(client.reply()) == "ERR Protocol error: invalid bulk length"
        assert client.at_end()


def test_clients_have_their_own_databases(server: Server) -> None:
    with Client.to(server) as one, Client.to(server) as two:
        assert two.call("SELECT", 3) == b"OK"
        one.call("XADD", "s", "*", "a", 1)
        assert two.call("XLEN", "s") == 0
        assert one.call("XLEN", "s") == 1


def test_the_protocol_changes_between_two_replies(server: Server) -> None:
    with Client.to(server) as client:
        client.sock.sendall(packed("ECHO", "before") + packed("HELLO", 3) + packed("ECHO", "after"))
        assert client.reply() == b"before"
        assert client.line().startswith(b"%")


def test_client_reply_off_and_skip(server: Server) -> None:
    with Client.to(server) as client:
        client.send("CLIENT", "REPLY", "SKIP")
        client.send("ECHO", "not heard")
        assert client.call("ECHO", "heard") == b"heard"
        client.send("CLIENT", "REPLY", "OFF")
        for n in range(10):
            client.send("XADD", "s", "*", "n", n)
        assert client.call("CLIENT", "REPLY", "ON") == b"OK"
        assert client.call("XLEN", "s") == 10


def test_quit_and_a_killed_client(server: Server) -> None:
    with Client.to(server) as client, Client.to(server) as other:
        number = other.call("CLIENT", "ID")
        client.call("CLIENT", "KILL", "ID", number)
        assert other.at_end()
        assert client.call("QUIT") == b"OK"
        assert client.at_end()
