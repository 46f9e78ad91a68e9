"""What a client may not do: come in too great a number, not read, say nothing, take what it was not given."""

import resource
import socket
from pathlib import Path

import pytest

import diskstream
from diskstream.server.errors import ServeError
from diskstream.server.listeners import DENIED, check_protected, is_local
from diskstream.server.settings import ServerSettings
from tests.engine.children import child
from tests.engine.holding import most_kib
from tests.server.child import few_descriptors
from tests.server.client import Client, packed, serving, waits_until_blocked

_LARGE = b"x" * (256 << 10)


def test_maxclients(tmp_path: Path) -> None:
    with serving(tmp_path / "store", maxclients=2) as server:
        with Client.to(server) as one, Client.to(server) as two:
            assert one.call("PING") == two.call("PING") == b"PONG"
            with Client.to(server) as three:
                assert str(three.reply()) == "ERR max number of clients reached"
                assert three.at_end()
            assert one.call("PING") == b"PONG"
        assert server.counts.rejected == 1


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs /proc to count memory")
def test_a_client_that_does_not_read_holds_up_itself_only(tmp_path: Path) -> None:
    """It asks for gigabytes, and the server keeps a few megabytes for it; once it reads, it gets all of them."""
    with serving(tmp_path / "store") as server, Client.to(server) as lazy, Client.to(server) as other:
        for _ in range(8):
            other.call("XADD", "s", "*", "n", _LARGE)
        before = most_kib(anew=True)  # what earlier tests took at their most would hide it
        lazy.sock.sendall(packed("XRANGE", "s", "-", "+") * 500 + packed("ECHO", "done"))
        for _ in range(2000):
            assert other.call("PING") == b"PONG"
        connection = next(each for each in server.loop.connections.values() if each.pending)
        assert len(connection.out) < 8 << 20
        assert most_kib() - before < 128 << 10
        for _ in range(20):
            assert len(lazy.reply()) == 8


def test_a_pipeline_is_sent_whole_before_its_replies_are_read(tmp_path: Path) -> None:
    """As redis-py does. The server took no more commands while replies waited, and both waited for the other."""
    with serving(tmp_path / "store") as server, Client.to(server) as client, Client.to(server) as other:
        client.sock.settimeout(60)
        words = [b"%d" % number + b"x" * 10_000 for number in range(4000)]
        client.sock.sendall(b"".join(packed("ECHO", word) for word in words))
        assert other.call("PING") == b"PONG"
        client.sock.shutdown(socket.SHUT_WR)
        assert [client.reply() for _ in words] == words
        assert client.at_end()


def test_a_client_that_sends_no_more_is_given_all_of_a_large_reply(tmp_path: Path) -> None:
    """As one that reads its commands from a file: its end of the connection is closed long before it has read all."""
    with serving(tmp_path / "store") as server, Client.to(server) as client, Client.to(server) as other:
        for _ in range(64):
            other.call("XADD", "s", "*", "n", _LARGE)
        client.send("XRANGE", "s", "-", "+")
        client.sock.shutdown(socket.SHUT_WR)
        for _ in range(100):
            assert other.call("PING") == b"PONG"
        assert len(client.reply()) == 64
        assert client.at_end()


def test_the_output_limit_closes(tmp_path: Path) -> None:
    with serving(tmp_path / "store", client_output_buffer_limit=3 << 20) as server, Client.to(server) as other:
        for _ in range(64):
            other.call("XADD", "s", "*", "n", _LARGE)
        with Client.to(server) as lazy:
            lazy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            ten = packed("XRANGE", "s", "-", "+", "COUNT", 10)  # none of which is over the limit by itself
            lazy.sock.sendall(packed("MULTI") + ten * 6 + packed("EXEC"))
            while not server.counts.output_limit:
                other.call("PING")
        assert other.call("PING") == b"PONG"


def test_what_a_reply_may_have_is_what_it_may_have_now(tmp_path: Path) -> None:
    """A worker that said the same again was answered by the limit of its first time."""
    with serving(tmp_path / "store") as server, Client.to(server) as worker:
        for _ in range(8):
            worker.call("XADD", "s", "*", "n", _LARGE)
        worker.call("XGROUP", "CREATE", "s", "g", 0)

        def read(limit: int) -> int:
            worker.call("CONFIG", "SET", "client-output-buffer-limit", f"normal {limit} 0 0")
            worker.call("XGROUP", "SETID", "s", "g", 0)
            return len(worker.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")[0][1])

        assert [read(limit << 10) for limit in (768, 0, 512, 4096)] == [3, 8, 2, 8]


def test_replies_of_small_entries_are_within_the_limit_as_they_are_sent(tmp_path: Path) -> None:
    """By names and values alone they were many times larger: a client that reads was closed, and NOACK's were lost."""
    with serving(tmp_path / "store", client_output_buffer_limit=2 << 20) as server, Client.to(server) as client:
        with diskstream.open(tmp_path / "store") as store:
            store.stream("s").add_many([{"f": "v"}] * 300_000)
        for words in (("XRANGE", "s", "-", "+"), ("XREVRANGE", "s", "+", "-", "COUNT", 200_000)):
            assert "the reply would have more than 2,097,152 bytes" in str(client.call(*words)), words
        client.call("XGROUP", "CREATE", "s", "g", "0")
        seen = 0
        for _ in range(3):
            seen += len(client.call("XREADGROUP", "GROUP", "g", "c", "NOACK", "STREAMS", "s", ">")[0][1])
        assert client.call("XRANGE", "s", "-", "+", "COUNT", 1)
        groups = client.call("XINFO", "GROUPS", "s")[0]
        assert dict(zip(groups[::2], groups[1::2], strict=True))[b"entries-read"] == seen > 0
        last = b"0"
        for options in ((), ("COUNT", 150_000), ("MAXSIZE", 1 << 30)):
            found = client.call("XREAD", *options, "STREAMS", "s", last)[0][1]
            assert 0 < len(found) < 50_000
            last = found[-1][0]
        assert server.counts.output_limit == 0


def test_a_claim_in_passing_takes_no_more_than_a_reply_has_room_for_and_its_cursor_leads_to_the_rest(
    tmp_path: Path,
) -> None:
    """A COUNT of a million took all that was pending into memory, and the client was closed for the reply."""
    with serving(tmp_path / "store", client_output_buffer_limit=8 << 20) as server, Client.to(server) as client:
        with diskstream.open(tmp_path / "store") as store:
            stream = store.stream("s")
            ids = stream.add_many([{"n": bytes(8000)}] * 2100)
            assert len(stream.group("g", start="0").consumer("a").read(count=2100)) == 2100
        claimed: list[bytes] = []
        cursor, rounds = b"-", 0
        while cursor != b"0-0":
            cursor, found, gone = client.call("XAUTOCLAIM", "s", "g", "b", 0, cursor, "COUNT", 1_000_000)
            claimed += [entry_id for entry_id, _ in found]
            assert dict(client.call("XPENDING", "s", "g")[3]).get(b"b") == b"%d" % len(claimed)
            rounds += 1
        assert claimed == [str(entry_id).encode() for entry_id in ids]
        assert rounds == 3
        client.call("CONFIG", "SET", "client-output-buffer-limit", f"normal {3 << 20} 0 0")
        cursor, found, gone = client.call("XAUTOCLAIM", "s", "g", "c", 0, "-", "COUNT", 1_000_000, "JUSTID")
        assert ([*found, cursor], gone) == (claimed[:1537], [])
        assert server.counts.output_limit == 0


def test_the_query_limit_closes(tmp_path: Path) -> None:
    settings = {"client_query_buffer_limit": 1 << 20}
    with serving(tmp_path / "store", **settings) as server, Client.to(server) as client:
        with pytest.raises(OSError, match=r"."):  # when the server closes is not for us to say
            client.sock.sendall(b"*2\r\n$4\r\nECHO\r\n$100000000\r\n")
            while True:
                client.sock.sendall(_LARGE)
        with Client.to(server) as other:
            assert other.call("PING") == b"PONG"
        assert server.counts.query_limit == 1


def test_a_limit_of_requests_that_is_changed_is_for_who_is_connected_too(tmp_path: Path) -> None:
    """It was for who came from then on: who was there could fill the memory still, and no higher one helped him."""
    large = b"x" * (2 << 20)
    with serving(tmp_path / "store") as server, Client.to(server) as operator, Client.to(server) as other:
        assert other.call("ECHO", large) == large
        assert operator.call("CONFIG", "SET", "proto-max-bulk-len", 1 << 20) == b"OK"
        assert operator.call("CONFIG", "SET", "proto-max-bulk-len", 4 << 20) == b"OK"
        assert other.call("ECHO", large) == large
        assert operator.call("CONFIG", "SET", "proto-max-bulk-len", 1 << 20) == b"OK"
        for client in (operator, other):
            client.sock.sendall(b"*2\r\n$4\r\nECHO\r\n$2097152\r\n")
            assert str(client.reply()) == "ERR Protocol error: invalid bulk length"
            assert client.at_end()


def most_kept(client: Client) -> int:
    """The bytes that are kept of the largest unfinished request."""
    lines = client.call("INFO", "clients").decode().splitlines()
    return int(dict(line.split(":") for line in lines[1:] if ":" in line)["client_recent_max_input_buffer"])


def test_a_limit_that_is_changed_waits_for_the_rest_of_a_request(tmp_path: Path) -> None:
    """But for a request of which more is kept than may be kept by now, whose client is closed."""
    large = b"x" * (2 << 20)
    with (
        serving(tmp_path / "store") as server,
        Client.to(server) as operator,
        Client.to(server) as short,
        Client.to(server) as long,
    ):
        short.sock.sendall(b"*2\r\n$4\r\nECHO\r\n$2")
        long.sock.sendall(packed("ECHO", large)[:-3])
        while most_kept(operator) < len(large):
            pass
        assert operator.call("CONFIG", "SET", "client-query-buffer-limit", 1 << 20) == b"OK"
        assert long.at_end()
        assert server.counts.query_limit == 1
        short.sock.sendall(b"\r\nhi\r\n")
        assert short.reply() == b"hi"
        short.sock.sendall(packed("ECHO", large)[:-3])
        assert short.at_end()


def test_idle_clients_are_closed_and_those_that_wait_are_not(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, Client.to(server) as idle, Client.to(server) as waiting:
        waiting.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        waits_until_blocked(idle, server, 1)
        assert idle.call("CONFIG", "SET", "timeout", 1) == b"OK"  # not before: a slow client is idle as well
        assert idle.at_end()
        with diskstream.open(tmp_path / "store") as store:
            store.stream("s").add({"n": 1})
        assert waiting.reply() is not None


def test_without_descriptors_those_who_are_there_are_served(tmp_path: Path) -> None:
    """The listeners rest meanwhile, so that the loop does not spin over a client that it cannot take."""
    with child(few_descriptors, tmp_path / "store") as server:
        address = ("127.0.0.1", int(server.hear()))
        clients = [Client(socket.create_connection(address)) for _ in range(80)]
        assert server.hear() == "full"
        assert clients[0].call("PING") == b"PONG"
        for each in clients[:60]:
            each.close()
        for each in clients[60:]:
            assert each.call("PING") == b"PONG"
            each.close()
        server.tell()
        assert server.wait() == 0


def test_where_descriptors_are_few_some_are_left_for_what_comes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Redis, fewer clients are let in then; and fewer streams are kept open, instead of refused one day."""

    def no_more(*_of: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (256, 256))
    monkeypatch.setattr(resource, "setrlimit", no_more)
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        settings = server.settings
        assert settings.maxclients + 2 * settings.max_open_streams <= 192
        assert min(settings.maxclients, settings.max_open_streams) >= 40
        assert server.keyspace.options["max_open_streams"] == settings.max_open_streams
        most = str(settings.maxclients)
        assert client.call("CONFIG", "GET", "maxclients") == [b"maxclients", most.encode()]
        refused = str(client.call("CONFIG", "SET", "maxclients", 5000))
        assert refused.endswith(
            f"The operating system is not able to handle the specified number of clients, try with {most}"
        )
        assert client.call("CONFIG", "GET", "maxclients") == [b"maxclients", most.encode()]
        assert client.call("CONFIG", "SET", "maxclients", 20) == b"OK"
        assert (server.settings.maxclients, server.counts.rejected) == (20, 0)


def test_without_a_password_the_server_is_for_this_machine(tmp_path: Path) -> None:
    everywhere = ServerSettings(bind=("0.0.0.0",))
    with pytest.raises(ServeError, match="no password is set") as refused:
        check_protected(everywhere)
    assert "requirepass" in (refused.value.hint or "")
    check_protected(ServerSettings(bind=("0.0.0.0",), requirepass="secret"))
    check_protected(ServerSettings(bind=("0.0.0.0",), protected_mode=False))
    check_protected(ServerSettings(bind=("127.0.0.1", "-::1", "localhost")))
    assert is_local("::ffff:127.0.0.1")
    assert not is_local("10.0.0.1")
    with serving(tmp_path / "store", bind=("0.0.0.0",), protected_mode=False) as server:
        address = own_address()
        if address is None:
            pytest.skip("needs an address that is not of the loopback interface")
        with Client(socket.create_connection((address, server.port))) as client:
            assert client.call("PING") == b"PONG"
            assert client.call("CONFIG", "SET", "protected-mode", "yes") == b"OK"
        with Client(socket.create_connection((address, server.port))) as client:
            assert client.sock.recv(1 << 16) == DENIED


def own_address() -> str | None:
    """An address of this machine that others may use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        found = str(probe.getsockname()[0])
    return None if is_local(found) else found


def test_a_password(tmp_path: Path) -> None:
    with serving(tmp_path / "store", requirepass="secret") as server, Client.to(server) as client:
        for words in (("PING",), ("XADD", "s", "*", "a", "b"), ("XLEN", "s")):
            assert str(client.call(*words)) == "NOAUTH Authentication required."
        assert str(client.call("AUTH", "wrong")).startswith("WRONGPASS")
        large = b"x" * 100_000  # more than who has not said the password may send
        client.sock.sendall(packed("AUTH", "secret") + packed("XADD", "s", "*", "a", large) + packed("XLEN", "s"))
        assert client.reply() == b"OK"
        assert isinstance(client.reply(), bytes)
        assert client.reply() == 1
