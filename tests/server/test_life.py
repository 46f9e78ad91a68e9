"""How a server starts and ends, what it keeps, and the ways in."""

import contextlib
import gc
import json
import logging
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.errors import StorageError
from diskstream.server.errors import ServeError
from diskstream.server.listeners import open_listeners
from diskstream.server.serving import Server
from diskstream.server.settings import ServerSettings, names
from diskstream.server.tls import context_of
from tests.engine.children import child, until
from tests.server.child import serve
from tests.server.client import Client, packed, serving


def connect(port: int) -> Client:
    return Client(socket.create_connection(("127.0.0.1", port)))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_all_is_kept(tmp_path: Path, how: signal.Signals) -> None:
    with child(serve, tmp_path / "store", "everysec") as server:
        with connect(int(server.hear())) as client, connect(client.sock.getpeername()[1]) as waiting:
            waiting.send("XREAD", "BLOCK", 0, "STREAMS", "x", "$")
            client.sock.sendall(b"".join(packed("XADD", "s", "*", "n", n) for n in range(1000)))
            ids = [client.reply() for _ in range(1000)]
            server.process.send_signal(how)
            assert client.at_end()
            assert waiting.at_end()
        assert server.hear() == "ended"
        assert server.wait() == 0
    with diskstream.open(tmp_path / "store", create=False) as store:
        assert [str(entry.id).encode() for entry in store.stream("s").range()] == ids


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_what_was_answered_survives_a_kill(tmp_path: Path, fsync: str) -> None:
    with child(serve, tmp_path / "store", fsync) as server, connect(int(server.hear())) as client:
        client.sock.sendall(b"".join(packed("XADD", "s", "*", "n", n) for n in range(300)))
        ids = [client.reply() for _ in range(300)]
        server.kill()
    with diskstream.open(tmp_path / "store", create=False) as store:
        assert [str(entry.id).encode() for entry in store.stream("s").range()] == ids


def test_under_always_a_reply_stands_behind_its_flush(tmp_path: Path) -> None:
    """Whoever has the reply finds the entry below what the page says is on disk; and a turn's adds share a flush."""
    with serving(tmp_path / "store", appendfsync="always") as server, Client.to(server) as client:
        client.sock.sendall(b"".join(packed("XADD", "s", "*", "n", n) for n in range(200)))
        for _ in range(200):
            client.reply()
            log = server.keyspace.store(0)._log(b"s", create=False)
            assert log is not None
            assert log.ctl.durable == log.ctl.written
    assert server.counts.batched > 100


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_a_pipeline_of_a_thousand_adds_is_one_frame(tmp_path: Path, fsync: str) -> None:
    """And so one flush under `always`. By a Unix socket, which hands over all that was sent."""
    socket_path = tmp_path / "socket"
    pipeline = b"".join(packed("XADD", "s", "*", "n", n) for n in range(1000))
    with (
        serving(tmp_path / "store", appendfsync=fsync, unixsocket=str(socket_path)) as server,
        socket.socket(socket.AF_UNIX) as sock,
    ):
        sock.connect(str(socket_path))
        with Client(sock) as client:
            client.call("XADD", "s", "*", "n", "the first makes the stream")
            log = server.keyspace.store(0)._log(b"s", create=False)
            assert log is not None
            before = log.native.tail[2]
            sock.sendall(pipeline)
            ids = [client.reply() for _ in range(1000)]
            assert log.native.tail[2] == before + 1
            assert len(set(ids)) == 1000
            assert client.call("XLEN", "s") == 1001


def test_shutdown(tmp_path: Path) -> None:
    with child(serve, tmp_path / "store", "everysec") as server, connect(int(server.hear())) as client:
        client.call("XADD", "s", "*", "a", "b")
        client.send("SHUTDOWN")
        assert server.hear() == "ended"
    with diskstream.open(tmp_path / "store", create=False) as store:
        assert len(store.stream("s")) == 1


@pytest.mark.parametrize("how", ["NOSAVE", "FORCE"])
def test_a_disk_that_fails_keeps_no_server_from_ending_that_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """As in a Redis: without these words SHUTDOWN is refused, with them it was, too."""

    def fails() -> None:
        raise StorageError("somewhere", "flush", 5, "Input/output error")

    with serving(tmp_path / "store") as server, Client.to(server) as client:
        monkeypatch.setattr(server.keyspace, "sync", fails)
        assert str(client.call("SHUTDOWN", "NOW")).startswith("MISCONF")
        client.send("SHUTDOWN", "NOW", how)
        until(lambda: server.loop.stopping)


def test_a_server_that_ends_leaves_the_unix_socket_of_the_next_one(tmp_path: Path) -> None:
    """It removed whatever had the name: the next server, which had made it anew, was not to be reached there."""
    path = tmp_path / "socket"
    with contextlib.ExitStack() as next_one:
        with serving(tmp_path / "store", unixsocket=str(path)):
            path.unlink()
            next_one.enter_context(serving(tmp_path / "other", unixsocket=str(path)))
        with socket.socket(socket.AF_UNIX) as plain:
            plain.connect(str(path))
            with Client(plain) as client:
                assert client.call("PING") == b"PONG"
    assert not path.exists()


def test_a_unix_socket_and_what_a_killed_server_left_of_one(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with serving(tmp_path / "store", unixsocket=str(path), unixsocketperm="700") as server:
        assert path.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
            with Client(sock) as client:
                assert client.call("PING") == b"PONG"
        with pytest.raises(ServeError, match="in use"), serving(tmp_path / "other", unixsocket=str(path)):
            pass
        assert server.port == 0
    assert not path.exists()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server:
        taken = pytest.raises(ServeError, match=f"port {server.port}: .*in use")
        with taken, serving(tmp_path / "other", port=server.port):
            pass


def test_the_command_says_what_to_do_about_an_address(tmp_path: Path) -> None:
    """It named the error of the system, and no way out."""
    words = ["serve", "--dir", str(tmp_path / "store")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = CliRunner().invoke(main, [*words, "--port", str(taken.getsockname()[1]), "--bind", "127.0.0.1"])
    assert told.exit_code == 1
    assert "hint: another program, perhaps a Redis, listens there" in told.stderr
    told = CliRunner().invoke(main, [*words, "--port", "0", "--bind", "203.0.113.77", "--requirepass", "x"])
    assert told.exit_code == 1
    assert "hint: bind names addresses of this machine" in told.stderr
    (tmp_path / "notes").write_text("mine")
    told = CliRunner().invoke(main, [*words, "--port", "0", "--unixsocket", str(tmp_path / "notes")])
    assert told.exit_code == 1
    assert "or it is a file that is no socket" in told.stderr
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_port_of_both_kinds_is_not_said_to_be_another_programs() -> None:
    with pytest.raises(ServeError, match="port and tls-port are both 7000"):
        open_listeners(ServerSettings(port=7000, tls_port=7000))


def test_metrics(tmp_path: Path) -> None:
    with serving(tmp_path / "store", metrics_port=-1) as server, Client.to(server) as client:
        client.sock.sendall(packed("XADD", "s", "*", "a", "b") * 10)
        for _ in range(10):
            client.reply()
        assert server.metrics is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        assert "diskstream_server_commands_total 10" in lines
        assert "diskstream_server_clients 1" in lines
        names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
        assert names == {line.split()[0] for line in lines if not line.startswith("#")}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that vouches for itself, in `cert.pem` and `key.pem` of a folder."""
    make_certificate(tmp_path)
    return tmp_path


def make_certificate(folder: Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the program openssl, which is not installed")
    command = [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def tls_client(context: ssl.SSLContext, port: int) -> Client:
    plain = socket.create_connection(("127.0.0.1", port))
    try:
        return Client(context.wrap_socket(plain, server_hostname="localhost"))
    except OSError:
        plain.close()
        raise


@pytest.mark.parametrize("asked", ["no", "yes"])
def test_tls(certificate: Path, asked: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    files = {"tls_cert_file": certificate / "cert.pem", "tls_key_file": certificate / "key.pem"}
    settings = {name: str(path) for name, path in files.items()} | {"tls_auth_clients": asked, "tls_port": port}
    if asked == "yes":
        settings["tls_ca_cert_file"] = str(certificate / "cert.pem")
    context = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with serving(certificate / "store", **settings) as server:
        assert server.port == 0
        if asked == "yes":
            with pytest.raises(OSError, match=r"."), tls_client(context, port) as client:
                client.send("PING")
                assert client.sock.recv(1) != b""
            context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        with tls_client(context, port) as client:
            large = b"x" * (3 << 20)
            assert client.call("ECHO", large) == large
            client.sock.sendall(packed("XADD", "s", "*", "a", "b") * 100)
            assert len({client.reply() for _ in range(100)}) == 100
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(packed("PING"))  # no TLS
            with contextlib.suppress(ConnectionResetError):
                assert plain.recv(1 << 16)[:1] != b"+"


def test_a_client_too_many_is_told_nothing_in_plain_text_where_tls_is_spoken(certificate: Path) -> None:
    """It would take the words for a broken handshake of a server that speaks no TLS."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    files = {"tls_cert_file": str(certificate / "cert.pem"), "tls_key_file": str(certificate / "key.pem")}
    context = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    settings = files | {"tls_auth_clients": "no", "tls_port": port, "maxclients": 1}
    with serving(certificate / "store", **settings) as server, tls_client(context, port) as client:
        assert client.call("PING") == b"PONG"
        with socket.create_connection(("127.0.0.1", port)) as another:
            another.settimeout(30)
            assert another.recv(100) == b""
        assert server.counts.rejected == 1


def test_the_log_says_why_there_is_no_tls_with_a_client(certificate: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The client sees a connection that ends: who runs the server was told nothing. Each reason once, whoever comes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    cert, key = str(certificate / "cert.pem"), str(certificate / "key.pem")
    untrusting, nameless = ssl.create_default_context(), ssl.create_default_context(cafile=cert)
    with (
        caplog.at_level(logging.WARNING, "diskstream.server"),
        serving(certificate / "store", tls_port=port, tls_cert_file=cert, tls_key_file=key, tls_ca_cert_file=cert),
    ):
        for context in (untrusting, nameless, nameless):
            with contextlib.suppress(OSError), tls_client(context, port) as client:
                client.at_end()
        with Client.connected("127.0.0.1", port) as plain:
            plain.send("PING")
            plain.at_end()
        with Client.connected("127.0.0.1", port):
            pass  # who comes and goes, as checks of health do, is no news
    said = [message.rpartition("no TLS with it: ")[2] for message in caplog.messages]
    assert said == ["tlsv1 alert unknown ca", "peer did not return a certificate", "wrong version number"]


def test_certificates_that_were_renewed_are_read_without_a_restart(
    certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are good for some weeks: who is connected stays, and a renewal that went wrong keeps nobody out."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    cert, key = certificate / "cert.pem", certificate / "key.pem"
    context = ssl.create_default_context(cafile=str(cert))
    settings = {"tls_port": port, "tls_cert_file": str(cert), "tls_key_file": str(key), "tls_auth_clients": "no"}

    def shown(client: Client) -> bytes | None:
        assert isinstance(client.sock, ssl.SSLSocket)
        return client.sock.getpeercert(binary_form=True)

    def renewed(said: str) -> None:
        signal.raise_signal(signal.SIGHUP)
        while not any(said in message for message in caplog.messages):
            assert staying.call("PING") == b"PONG"

    with (
        caplog.at_level(logging.WARNING, "diskstream.server"),
        serving(certificate / "store", **settings) as server,
        server.signals(),
        tls_client(context, port) as staying,
    ):
        old = shown(staying)
        key.rename(certificate / "old.pem")
        renewed("the certificates stay those of before: cannot use the certificates")
        with tls_client(context, port) as client:
            assert shown(client) == old
        make_certificate(certificate)
        renewed("read the certificates anew")
        with tls_client(ssl.create_default_context(cafile=str(cert)), port) as client:
            assert shown(client) == ssl.PEM_cert_to_DER_cert(cert.read_text()) != old
        assert staying.call("PING") == b"PONG"


def test_certificates_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(ServeError, match="tls-cert-file"), serving(tmp_path / "store", tls_port=1):
        pass


def test_a_key_with_a_pass_phrase_is_refused_and_nobody_asked(certificate: Path) -> None:
    """OpenSSL asked on the terminal, behind SIGHUP while all clients waited; without one it was `Invalid argument`."""
    make = ["openssl", "pkey", "-in", "key.pem", "-aes256", "-passout", "pass:secret", "-out", "locked.pem"]
    subprocess.run(make, cwd=certificate, check=True, capture_output=True)
    cert, locked = str(certificate / "cert.pem"), str(certificate / "locked.pem")
    code = "import sys; from diskstream.server.tls import *; from diskstream.server.settings import *; "
    code += "context_of(ServerSettings(tls_port=1, tls_cert_file=sys.argv[1], tls_key_file=sys.argv[2]))"
    made = subprocess.run(
        [sys.executable, "-c", code, cert, locked],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert f"the key {locked} is encrypted" in made.stderr.splitlines()[-1]
    assert "Enter" not in made.stdout + made.stderr


@pytest.mark.parametrize("content", [None, ""])
def test_of_the_files_of_tls_the_one_that_is_wrong_is_named(certificate: Path, content: str | None) -> None:
    """Where the file of those who vouch for clients was missing, the two others were said to be."""
    authority = certificate / "authority.pem"
    if content is not None:
        authority.write_text(content)
    cert, key = str(certificate / "cert.pem"), str(certificate / "key.pem")
    settings = ServerSettings(tls_port=1, tls_cert_file=cert, tls_key_file=key, tls_ca_cert_file=str(authority))
    with pytest.raises(ServeError, match=re.escape(f"cannot use the certificates ({authority}): ")):
        context_of(settings)


def test_the_command_line_tells_of_every_setting() -> None:
    found = CliRunner().invoke(main, ["serve", "--help"], prog_name="diskstream")
    assert found.exit_code == 0
    for name in names():
        assert f"--{name}" in found.output
    assert "--fsync" in found.output


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    for words, message, code in (
        (["--port", "x"], "port must be a number", 2),
        (["--bind", "0.0.0.0"], "no password is set", 1),
        (["--config", str(tmp_path / "none")], "cannot read", 1),
    ):
        found = CliRunner().invoke(main, ["serve", "--dir", str(tmp_path / "store"), *words])
        assert found.exit_code == code
        assert message in found.output


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_line_says_where_it_serves(tmp_path: Path, as_json: bool) -> None:
    program = "from diskstream.cli import main; main()"
    words = ["serve", "--dir", str(tmp_path / "store"), "--port", "0", "--metrics-port", "0"]
    command = [sys.executable, "-u", "-c", program, *words, *(["--json"] if as_json else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if as_json:
                told = json.loads(line)
                assert told["dir"] == str(tmp_path / "store")
                address = told["listeners"][0]["address"]
            else:
                assert str(tmp_path / "store") in line
                address = line.partition(" at ")[2].partition(" (")[0]
            with connect(int(address.rpartition(":")[2])) as client:
                client.send("PING")
                assert client.reply() == b"PONG"
        finally:
            process.terminate()
        assert process.wait(30) == 0


def test_a_garbage_collection_does_not_look_at_what_was_there_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All clients would wait for it, for some ten milliseconds."""
    looked_at: list[int] = []
    there = len(gc.get_objects())
    monkeypatch.setattr(Server, "run", lambda _: looked_at.append(len(gc.get_objects())))
    found = CliRunner().invoke(main, ["serve", "--dir", str(tmp_path / "store"), "--port", "0"])
    assert found.exit_code == 0, found.output
    assert looked_at[0] < there / 10
    assert gc.get_freeze_count() == 0, "a program that goes on has its garbage collected as before"
