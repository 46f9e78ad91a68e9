"""What a server's surroundings do to it: the kernel's limits, sockets of others, descriptors that are all taken."""

import contextlib
import errno
import logging
import os
import signal
import socket
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from diskstream.server import metrics
from diskstream.server.errors import ServeError
from diskstream.server.listeners import open_listeners
from diskstream.server.metrics import MetricsEndpoint
from diskstream.server.settings import ServerSettings, from_words
from tests.engine.children import child, until
from tests.server.child import serve
from tests.server.client import Client, packed, serving, waits_until_blocked
from tests.server.turns import Turns


class Full(socket.socket):
    """A listening socket whose clients nobody has a descriptor for."""

    def accept(self) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_probes_further_apart_than_the_kernel_takes_let_clients_in(tmp_path: Path) -> None:
    """Every client was closed as it came, and nothing said why."""
    with serving(tmp_path / "store", tcp_keepalive=86_400) as server, Client.to(server) as client:
        assert client.call("PING") == b"PONG"
        (connection,) = server.loop.connections.values()
        assert isinstance(connection.sock, socket.socket)
        assert connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 32_767


def test_a_terminal_that_goes_takes_no_server_with_it(tmp_path: Path) -> None:
    """As Redis. It ended at once, flushing nothing, and left its Unix socket behind."""
    with (
        child(serve, tmp_path / "store", "everysec") as server,
        Client.connected("127.0.0.1", int(server.hear())) as one,
    ):
        server.process.send_signal(signal.SIGHUP)
        assert one.call("PING") == b"PONG"
        server.process.send_signal(signal.SIGTERM)
        assert server.hear() == "ended"
        assert server.wait() == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to count memory")
def test_the_most_memory_it_had_is_its_own(tmp_path: Path) -> None:
    """It was never less than what the process had that started the server."""
    large = b"x" * (256 << 20)
    with child(serve, tmp_path / "store", "everysec") as started:
        client = Client.connected("127.0.0.1", int(started.hear()))
        with client:
            facts = dict(line.split(b":", 1) for line in client.call("INFO", "memory").splitlines() if b":" in line)
    assert int(facts[b"used_memory"]) <= int(facts[b"used_memory_peak"]) < len(large)


def test_a_unix_socket_of_somebody_who_takes_nobody_in_holds_no_start_up(tmp_path: Path) -> None:
    """Asking whether somebody listens there waited for him to accept."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as stopped, socket.socket(socket.AF_UNIX) as first:
        stopped.bind(path)
        stopped.listen(0)
        first.connect(path)
        socket.setdefaulttimeout(1.0)
        try:
            with pytest.raises(ServeError, match="already in use"):
                open_listeners(ServerSettings(port=0, unixsocket=path))
        finally:
            socket.setdefaulttimeout(None)
    assert Path(path).exists()


def test_without_descriptors_the_log_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It was a line for each tenth of a second: on a disk that may be full of them next."""
    with Turns(tmp_path / "store") as turns, Full() as listener, caplog.at_level(logging.WARNING):
        loop = turns.server.loop
        for _ in range(3):
            loop._accept(listener, lambda _client: None)
            assert loop.resting
            loop._resting_until = 0.0
            turns.turn()
    assert [record.message for record in caplog.records].count(
        "no descriptors for more clients: [Errno 24] Too many open files"
    ) == 1


def test_without_descriptors_the_thread_of_the_metrics_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tried to accept the same scraper again and again, as fast as it could."""
    rests: list[float] = []
    monkeypatch.setattr("diskstream.server.metrics.time.sleep", rests.append)
    endpoint = MetricsEndpoint("127.0.0.1", 0, lambda: "")
    try:
        with Full() as full:
            endpoint._server.socket, listening = full, endpoint._server.socket
            with pytest.raises(OSError, match="Too many open files"):
                endpoint._server.get_request()
            endpoint._server.socket = listening
        assert rests == [0.1]
    finally:
        endpoint.stop()


def test_scrapers_that_never_come_to_an_end_keep_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as have a thread, who said a byte each few seconds, were never closed."""
    endpoint = MetricsEndpoint("127.0.0.1", 0, lambda: "measured 1\n")
    with contextlib.ExitStack() as held:
        held.callback(endpoint.stop)
        address = "127.0.0.1", endpoint.port
        slow = [held.enter_context(socket.create_connection(address)) for _ in range(metrics.MAX_SCRAPERS)]

        def is_let_in() -> bool:
            for each in slow:
                with contextlib.suppress(OSError):
                    each.send(b"G")
            with socket.create_connection(address) as scraper, contextlib.suppress(OSError):
                scraper.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                return b"measured 1" in scraper.makefile("rb").read()
            return False

        assert not is_let_in()
        monkeypatch.setattr(metrics, "_LONGEST_S", 0.0)
        until(is_let_in)


def test_without_threads_who_needs_one_is_told_so_and_the_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first entry of a database, or the first client that waited, ended the server for all of them."""

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with serving(tmp_path / "store") as server, Client.to(server) as one, Client.to(server) as other:
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", start)
            other.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
            waits_until_blocked(one, server, 1)
            told = [one.call("XADD", "s", "*", "n", 1), one.call("BGREWRITEAOF"), one.call("BGREWRITEAOF")]
            assert all("start a thread for" in str(each) for each in told), told
            assert one.call("EXISTS", "s") == 0
        added = one.call("XADD", "s", "*", "n", 2)
        assert other.reply() == [[b"s", [[added, [b"n", b"2"]]]]]
        assert one.call("BGREWRITEAOF") == b"Background append only file rewriting started"
        assert one.call("XLEN", "s") == 1


def test_what_follows_a_quit_is_nobodys(tmp_path: Path) -> None:
    """An error about it was sent behind the OK of QUIT."""
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        client.sock.sendall(packed("QUIT") + b"*x\r\n")
        assert client.reply() == b"OK"
        assert client.at_end()
        assert server.counts.protocol_errors == 0


@pytest.mark.parametrize("silence", [(("CLIENT", "REPLY", "OFF"),), (("CLIENT", "REPLY", "SKIP"),)])
def test_a_wait_ends_in_the_protocol_of_a_hello_that_was_not_answered(
    tmp_path: Path, silence: tuple[tuple[str, ...], ...]
) -> None:
    """The reply was in the protocol from before."""
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        for words in silence:
            client.send(*words)
        client.send("HELLO", 3)
        if silence[0][2] == "OFF":
            assert client.call("CLIENT", "REPLY", "ON") == b"OK"
        client.send("XREAD", "BLOCK", 1, "STREAMS", "s", "$")
        assert client.line() == b"_"


def test_skip_swallows_the_reply_to_reset(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, Client.to(server) as client:
        client.send("CLIENT", "REPLY", "SKIP")
        client.send("RESET")
        assert client.call("ECHO", "heard") == b"heard"


@pytest.mark.parametrize("name", ["unixsocket", "dir", "logfile", "tls-cert-file", "bind"])
def test_a_path_or_address_has_no_nul(name: str) -> None:
    """What a file of settings said so ended in a traceback."""
    with pytest.raises(ServeError, match=f"{name} has a NUL byte"):
        from_words({name: "/tmp/a\0b"})


@pytest.mark.parametrize(("name", "value"), [("bind", "-"), ("bind", "127.0.0.1 -"), ("metrics-bind", "")])
def test_an_address_that_is_none_is_not_every_address(name: str, value: str) -> None:
    """A hyphen with nothing behind it, or a variable that is set to nothing, listened on all interfaces."""
    with pytest.raises(ServeError, match=f"^{name} must be"):
        from_words({name: value})


@pytest.mark.parametrize(("given", "kept"), [("0770", "770"), ("7", "7"), ("", "")])
def test_permissions_are_octal(given: str, kept: str) -> None:
    assert from_words({"unixsocketperm": given}).unixsocketperm == kept


@pytest.mark.parametrize("wrong", ["9", "1777", "rw"])
def test_permissions_that_are_none_are_told_in_a_line(wrong: str) -> None:
    """It listed all five hundred that there are."""
    with pytest.raises(ServeError, match=f"^unixsocketperm must be an octal number up to 777, not '{wrong}'$"):
        from_words({"unixsocketperm": wrong})
