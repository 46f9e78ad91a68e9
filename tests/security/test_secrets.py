"""Passwords and keys: in no log, no list, no message, no file; and who may read what a store makes."""

import hmac
import logging
import os
import re
import ssl
import subprocess
from pathlib import Path

import pytest

import diskstream
from diskstream.backups import make_backup
from diskstream.cold import move_out
from diskstream.errors import ArgumentError, DiskstreamError
from diskstream.object_address import Address
from diskstream.objects import _without_secrets
from diskstream.redis_link import connect, shown
from diskstream.server.errors import ServeError
from diskstream.server.settings import ServerSettings, merged
from diskstream.server.tls import context_of
from tests.security.planted import a_store, everything
from tests.server.client import Client, packed, serving

SECRET = "s3cr3t-Pa55word"
ROOT = Path(__file__).parents[2]
ASKED = (
    *("INFO everything", "CLIENT LIST", "CLIENT INFO", "COMMAND DOCS auth", "ACL LIST", "ACL GETUSER default"),
    *("CONFIG SET requirepass", "ACL SETUSER default nosuchrule", "SLOWLOG GET", "MONITOR", "CONFIG REWRITE"),
)


def test_the_server_says_its_password_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever has said it may ask for it by CONFIG GET, as in Redis; it is in nothing else."""
    said: list[str] = []
    with (
        caplog.at_level(logging.DEBUG),
        serving(tmp_path / "store", requirepass=SECRET) as server,
        Client.to(server) as client,
        Client.to(server) as wrong,
    ):
        tries = (("AUTH", SECRET + "x"), ("HELLO", 3, "AUTH", "default", SECRET + "y"), ("AUTH", "a", SECRET))
        said += [str(wrong.call(*words)) for words in tries]
        wrong.sock.sendall(b"POST /?" + SECRET.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.call("AUTH", SECRET) == b"OK"
        said += [str(client.call(*line.split())) for line in ASKED]
        said += [repr(server.settings), repr(server.clients()), repr(server.keyspace), repr(server.loop.connections)]
        assert client.call("CONFIG", "GET", "requirepass") == [b"requirepass", SECRET.encode()]
    said += [caplog.text, *capfd.readouterr()]
    assert [text for text in said if SECRET in text] == []


def test_a_password_is_compared_in_a_time_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared is of one length whatever was said, by the function that takes as long wherever it differs."""
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def seen(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", seen)
    with serving(tmp_path / "store", requirepass=SECRET) as server, Client.to(server) as client:
        for said in ("", "s", SECRET[:-1], SECRET + "x", "x" * 9000):
            assert str(client.call("AUTH", said)).startswith("WRONGPASS")
        assert str(client.call("AUTH", "nobody", SECRET)).startswith("WRONGPASS")
        assert client.call("AUTH", SECRET) == b"OK"
    assert len(compared) == 7
    assert {len(each) for pair in compared for each in pair} == {32}


def test_a_file_of_settings_that_is_wrong_is_not_repeated(tmp_path: Path) -> None:
    config = tmp_path / "redis.conf"
    for line in (
        f'requirepass "{SECRET}',
        f"requirepas {SECRET}",
        f"masterauthx {SECRET}",
        f"rename-command X {SECRET}",
    ):
        config.write_text(line + "\n")
        with pytest.raises(ServeError) as refused:
            merged({}, {}, config)
        assert SECRET not in f"{refused.value} {refused.value.hint}"
    assert merged({}, {"DISKSTREAM_REQUIREPASS": SECRET}).requirepass == SECRET


@pytest.mark.parametrize(
    "url",
    [
        f"redis://user:{SECRET}@host:1/0",
        f"redis://:{SECRET}@host:1",
        f"rediss://:{SECRET}@host:1?ssl_ca_certs=x",
        f"redis://:a/{SECRET}@host:1/0",
        f"redis://:a?{SECRET}@host:1/0",
        f"redis://:a#{SECRET}@host:1/0",
        f"redis://:{SECRET}\u2100@host/0",
        f"redis://[{SECRET}",
        f"redis://host/0?password={SECRET}",
        f"redis://:{SECRET}@host:port/0",
        f"http://user:{SECRET}@host/",
        f"unix://:{SECRET}@/tmp/no-such.sock",
        f"redis://:{SECRET}@127.0.0.1:1/0",
        f"redis://:{SECRET}@127.0.0.1:1/0?no_such_option=1",
    ],
)
def test_the_password_of_a_redis_is_shown_nowhere(url: str) -> None:
    """One with a slash that was not quoted, or a letter that is no host's, was in the message."""
    told = []
    for action in (shown, lambda url: connect(url, timeout_s=0.2)):
        try:
            told.append(str(action(url)))
        except DiskstreamError as error:
            told += [str(error), repr(error)]
    assert [text for text in told if SECRET in text] == []


def test_a_redis_behind_tls_must_prove_who_it_is() -> None:
    redis = pytest.importorskip("redis")
    made = redis.Redis.from_url("rediss://host").connection_pool.make_connection()
    assert made.cert_reqs == ssl.CERT_REQUIRED
    assert made.check_hostname


def test_keys_of_object_storage_are_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY"):
        monkeypatch.setenv(name, f"{SECRET}-{name}")
    told = _without_secrets(f"refused: {SECRET}-AWS_SECRET_ACCESS_KEY and {SECRET}-AZURE_STORAGE_KEY")
    assert SECRET not in told
    with pytest.raises(ArgumentError) as refused:
        Address.parse(f"s3://key:{SECRET}@bucket/x")
    assert SECRET not in str(refused.value)


# --- TLS --------------------------------------------------------------------------------------------------------------


def test_tls_is_no_older_than_1_2_and_asks_for_certificates(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {cert} -subj /CN=localhost -days 2"
    try:
        subprocess.run(command.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs the program openssl, which is not installed")
    with pytest.raises(ServeError, match="tls-ca-cert-file"):
        context_of(ServerSettings(tls_port=1, tls_cert_file=str(cert), tls_key_file=str(key)))
    made = context_of(
        ServerSettings(tls_port=1, tls_cert_file=str(cert), tls_key_file=str(key), tls_ca_cert_file=str(cert))
    )
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2
    assert made.verify_mode == ssl.CERT_REQUIRED
    assert made.options & ssl.OP_NO_RENEGOTIATION
    assert made.options & ssl.OP_NO_COMPRESSION


# --- who may read what is made ----------------------------------------------------------------------------------------


def test_what_is_made_is_for_its_owner_and_to_be_read_by_his_group(tmp_path: Path) -> None:
    """Whatever the umask lets through: with none at all, nobody else may read a file, and no group may write to one."""
    before = os.umask(0)
    try:
        store = a_store(tmp_path / "store")
        with serving(store) as server, Client.to(server) as client:
            for words in (("SET", "k", "v"), ("SELECT", 3), ("XADD", "b", "*", "f", "v"), ("EXPIRE", "b", 1000)):
                client.call(*words)
            client.sock.sendall(packed("BGREWRITEAOF"))
        with diskstream.open(store, pending_rows=1, segment_bytes=8 << 10, seal="manual") as opened:
            stream = opened.stream("s")
            stream.group("g").consumer("ann").read(count=50)
            stream.add_many([{"n": "x" * 100}] * 200)
            opened.stream("x" * 300).add({"n": 1})
            opened.seal()
            opened.compact()
            opened.lease([b"s"])
            make_backup(store, tmp_path / "backups")
            move_out(opened.stream("s"), f"file://{tmp_path}/cold", older_than_ms=0)
    finally:
        os.umask(before)
    found = dict(everything(tmp_path))
    assert len(found) > 40
    wrong = {str(path.relative_to(tmp_path)): oct(mode) for path, mode in found.items() if mode & 0o027}
    assert wrong == {}
    assert {mode & 0o077 for path, mode in found.items() if "view" in path.relative_to(tmp_path).parts} <= {0}


def test_the_servers_log_is_not_for_everybody(tmp_path: Path) -> None:
    from diskstream.cli import serve

    before = os.umask(0)
    logger = logging.getLogger("diskstream.server")
    handlers = list(logger.handlers)
    try:
        serve._log(ServerSettings(logfile=str(tmp_path / "log")))
    finally:
        os.umask(before)
        for each in [each for each in logger.handlers if each not in handlers]:
            logger.removeHandler(each)
            each.close()
        logger.propagate = True
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("given", "wanted"), [("", 0o755), ("700", 0o700), ("770", 0o770)])
def test_a_unix_socket_is_as_it_is_set(tmp_path: Path, given: str, wanted: int) -> None:
    before = os.umask(0o022)
    try:
        with serving(tmp_path / "store", unixsocket=str(tmp_path / "sock"), unixsocketperm=given):
            assert (tmp_path / "sock").stat().st_mode & 0o777 == wanted
    finally:
        os.umask(before)


# --- what the code does not do ----------------------------------------------------------------------------------------

FORBIDDEN = re.compile(
    r"\bpickle\b|\bmarshal\b|\bshelve\b|(?<![.\w])eval\(|(?<![.\w])exec\(|yaml\.load|shell=True|os\.system\(|os\.popen\("
    r"|mktemp\(|extractall\(|CERT_NONE|_create_unverified_context|check_hostname\s*=\s*False|verify\s*=\s*False|os\.umask\("
)


def test_nothing_given_is_ever_run_as_code() -> None:
    offences = []
    for path in sorted(
        each for folder in ("diskstream", "pyspark_diskstream", "tools") for each in (ROOT / folder).rglob("*.py")
    ):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = line.split("#", 1)[0]
            if path.name == "run.py" and "pickle" in code:
                continue  # of Spark's jobs: what its driver sends its own workers, as Spark itself does
            if FORBIDDEN.search(code) and '"""' not in code and "`" not in code:
                offences.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert offences == []
    assert FORBIDDEN.search("x = eval(y)")
    assert FORBIDDEN.search("subprocess.run(x, shell=True)")
