"""Archiving over TLS and over a Unix socket: the connection that reads entries is of the same kind as the others."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

import diskstream
from diskstream.checked_json import with_check
from diskstream.errors import ArgumentError, RemoteError
from diskstream.redis_link import connect, shown
from tests.archiving.world import World
from tests.conftest import RedisServer, _free_port, _start_redis, _stop


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="ds-") as path:
        yield Path(path)


def both_ways(url: str, client: "redis.Redis", directory: Path) -> None:
    """Out and back."""
    world = World(url, client, directory)
    made = world.fill("s", 500)
    assert world.archive("--trim")["s"]["trimmed"] == 500
    world.run("restore", "--to", url, "--dir", str(directory), "--stream", "s", "--key", "back")
    assert world.source("back") == made


@pytest.fixture
def local(tmp_path: Path, sockets: Path) -> Iterator[World]:
    """A server behind a Unix socket."""
    if shutil.which("redis-server") is None:
        pytest.skip("needs the program redis-server, which is not installed")
    process, _ = _start_redis("redis-server", tmp_path, {"save": "", "unixsocket": str(sockets / "redis")})
    try:
        with redis.Redis(unix_socket_path=str(sockets / "redis")) as client:
            yield World(f"unix://{sockets / 'redis'}", client, tmp_path / "store")
    finally:
        _stop(process)


def test_a_unix_socket(local: World) -> None:
    both_ways(local.url, local.client, local.directory)


@pytest.mark.parametrize("more", ["", "&db=2", "&socket_timeout=5&db=2"])
def test_a_replay_to_a_unix_socket(local: World, more: str) -> None:
    """Its address lost two slashes, and was none any more."""
    with diskstream.open(local.directory) as store:
        store.stream("s").add({"a": 1}, "1-0")
    words = ("replay", "s", "--dir", str(local.directory), "--to", f"{local.url}?key=a%20b{more}", "--speed", "max")
    assert f"to {local.url}?key=a b" in local.run(*words).stdout
    local.client.select(2 if more else 0)
    assert local.client.xlen("a b") == 1


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("unix:///run/redis.sock?db=3&password=secret", "unix:///run/redis.sock"),
        ("unix://ann:secret@/run/redis.sock", "unix://ann@/run/redis.sock"),
        ("unix://:secret@/run/redis.sock", "unix:///run/redis.sock"),
        ("unix:////run/redis.sock", "unix:////run/redis.sock"),
        ("unix:/run/redis.sock", "unix:/run/redis.sock"),
        ("localhost:6379", "localhost:6379"),
        ("redis://h:1/2?password=secret", "redis://h:1/2"),
    ],
)
def test_an_address_is_shown_as_it_was_written(url: str, wanted: str) -> None:
    assert shown(url) == wanted


@pytest.mark.parametrize(
    "word",
    ["decode_responses=True", "encoding=utf-16", "retry=5", "retry_on_error=5", "legacy_responses=0", "no_such=1"],
)
def test_an_address_sets_nothing_of_how_replies_are_read(local: World, word: str) -> None:
    """There were tracebacks: names and values that came as text, and a retry that was one."""
    with pytest.raises(ArgumentError, match="behind \\? stand settings of the connection"):
        connect(f"redis://127.0.0.1:1/0?{word}")
    told = local.run("archive", "--from", f"{local.url}?{word}", "--key", "s", "--to", str(local.directory), code=2)
    assert word not in told.output
    with connect(f"{local.url}?socket_timeout=20&client_name=ann&protocol=2&health_check_interval=0") as client:
        assert client.client_getname() in ("ann", b"ann")  # of redis-py 8, and before


def test_a_checkpoint_with_the_address_as_it_was_written_before_is_of_the_same_server(local: World) -> None:
    """It has one slash instead of three. The server was started anew since, so it has nothing else to be known by."""
    local.fill("s", 10)
    local.archive()
    (checkpoint,) = (local.directory / "archives").glob("*.json")
    facts = json.loads(checkpoint.read_text())
    assert facts.pop("source") == local.url
    del facts["check"]
    before = {**facts, "source": "unix:" + local.url.removeprefix("unix://"), "replication_ids": ["0" * 39 + "1"]}
    checkpoint.write_text(json.dumps(with_check(before)))
    local.fill("s", 5, first=11)
    assert local.archive()["s"]["entries"] == 5
    assert json.loads(checkpoint.read_text())["source"] == local.url


def test_tls_where_there_is_none(tmp_path: Path, redis_server: RedisServer) -> None:
    """Who asks for TLS waits for an answer that a server without it never gives."""
    url = f"rediss://{redis_server.host}:{redis_server.port}"
    with pytest.raises(RemoteError) as told:
        connect(url, timeout_s=0.2)
    assert told.value.hint == "does it speak TLS at this port? redis:// is without"


def test_tls(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None or shutil.which("openssl") is None:
        pytest.skip("needs the programs redis-server and openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *subject, "-days", "2"], check=True, capture_output=True)
    port = _free_port()
    settings = {
        "save": "",
        "tls-port": str(port),
        "tls-cert-file": str(certificate),
        "tls-key-file": str(key),
        "tls-ca-cert-file": str(certificate),
        "tls-auth-clients": "no",
    }
    process, _ = _start_redis("redis-server", tmp_path, settings)
    try:
        with redis.Redis("localhost", port, ssl=True, ssl_ca_certs=str(certificate)) as client:
            both_ways(f"rediss://localhost:{port}/0?ssl_ca_certs={certificate}", client, tmp_path / "store")
        world = World(f"rediss://localhost:{port}/0", client, tmp_path / "other")
        assert "certificate" in world.refused()  # one that nobody vouches for
    finally:
        _stop(process)


@pytest.mark.parametrize("place", ["localhost:1", "nowhere.invalid"])
def test_where_nobody_answers_the_address_is_to_be_looked_at(place: str) -> None:
    """It said to run the same again, which is no help with a wrong port."""
    with pytest.raises(RemoteError) as refused:
        connect(f"redis://{place}", timeout_s=5)
    assert refused.value.hint == "run this again when it is there; see that the address is right"
