"""Where settings come from, which counts, and what is refused."""

import os
from pathlib import Path

import pytest

from diskstream.commands import globs, key_records, keyspace, stream_read_options
from diskstream.commands.all_commands import table
from diskstream.server import batching, connection
from diskstream.server.config_file import MAX_CONFIG_BYTES, split_line
from diskstream.server.errors import ServeError
from diskstream.server.settings import ServerSettings, from_words, merged, names, size_of
from tests.conftest import RedisServer
from tests.server.client import Client, serving

CONFIG = """
# a remark
port 7000
bind 127.0.0.1 ::1
requirepass "se cret\\x21"
appendfsync no
timeout 5
save 3600 1
maxmemory 100mb
client-output-buffer-limit normal 64mb 16mb 60
client-output-buffer-limit replica 256mb 64mb 60
"""


def test_an_option_counts_more_than_the_environment_and_that_more_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "redis.conf"
    path.write_text(CONFIG, encoding="utf-8")
    environment = {"DISKSTREAM_PORT": "7001", "DISKSTREAM_TIMEOUT": "6", "PORT": "1", "DISKSTREAM_NOT_OURS": "x"}
    found = merged({"port": "7002"}, environment, path)
    assert (found.port, found.timeout, found.fsync) == (7002, 6, "os")
    assert found.bind == ("127.0.0.1", "::1")
    assert found.requirepass == "se cret!"
    assert found.client_output_buffer_limit == 64 << 20
    assert found.ignored == ("save", "maxmemory")
    assert merged({}, environment, path).port == 7001
    assert merged({}, {}, path).port == 7000
    assert merged({}, {}) == ServerSettings()


def test_no_more_is_read_of_a_file_than_settings_take(tmp_path: Path) -> None:
    """Of one without an end, as /dev/zero, it took all memory."""
    path = tmp_path / "redis.conf"
    path.write_bytes(b"port 7000\n".ljust(MAX_CONFIG_BYTES, b"#"))
    assert merged({}, {}, path).port == 7000
    path.write_bytes(b"port 7000\n".ljust(MAX_CONFIG_BYTES + 1, b"#"))
    with pytest.raises(ServeError, match=r"cannot read .*redis.conf: it has more than 1,048,576 bytes") as refused:
        merged({}, {}, path)
    assert refused.value.hint


def test_the_settings_may_come_out_of_a_pipe() -> None:
    """As of a shell's `--config <(...)`, where a password is to be in no file."""
    reading, writing = os.pipe()
    try:
        os.write(writing, b"port 7000\n")
        os.close(writing)
        assert merged({}, {}, Path(f"/dev/fd/{reading}")).port == 7000
    finally:
        os.close(reading)


def test_the_file_is_named_by_info_and_is_for_no_client_to_write(tmp_path: Path) -> None:
    """The server said that it ran without one."""
    path = tmp_path / "redis.conf"
    path.write_text("timeout 5", encoding="utf-8")
    for config, refusal in (
        (path, f"ERR CONFIG REWRITE is not supported: what shall outlast the server is to be written into {path}"),
        (None, "ERR The server is running without a config file"),
    ):
        found = merged({}, {}, config)
        with serving(tmp_path / "store", config_file=found.config_file) as server, Client.to(server) as client:
            assert f"\r\nconfig_file:{config or ''}\r\n".encode() in client.call("INFO", "server")
            assert client.call("CONFIG", "SET", "timeout", 6) == b"OK"
            assert str(client.call("CONFIG", "REWRITE")) == refusal
    assert path.read_text(encoding="utf-8") == "timeout 5"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("prot 1", r"redis\.conf:1: there is no setting prot"),
        ("port", r"redis\.conf: port must be a number from 0 to 65535, not ''"),
        ("port 65536", r"redis\.conf: port must be a number"),
        ("appendfsync sometimes", "must be one of always, everysec, no"),
        ("protected-mode maybe", "must be yes or no"),
        ("proto-max-bulk-len 1tb", "must be a number of bytes"),
        ('requirepass "a', "quotes that do not end"),
    ],
)
def test_a_line_that_cannot_be_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "redis.conf"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(ServeError, match=message):
        merged({}, {}, path)


def test_a_file_of_users_is_not_passed_over(tmp_path: Path) -> None:
    """A server that asked for their passwords let everybody in."""
    file = tmp_path / "redis.conf"
    file.write_text('port 7000\naclfile "/etc/redis/users.acl"\n')
    with pytest.raises(ServeError, match=r"redis.conf:2: aclfile /etc/redis/users.acl: there is one user") as refused:
        merged({}, {}, file)
    assert "requirepass" in str(refused.value.hint)
    file.write_text('aclfile ""\nacllog-max-len 128\nacl-pubsub-default resetchannels\n')
    assert merged({}, {}, file).ignored == ("aclfile", "acllog-max-len", "acl-pubsub-default")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("user default on #5e88 ~* +@all", "user default: there is one user here"),
        ('rename-command FLUSHALL ""', "rename-command FLUSHALL: each command has its own name"),
        ("include /etc/redis/more.conf", "include /etc/redis/more.conf: no other file is read"),
        ("loadmodule /lib/x.so", "loadmodule /lib/x.so: there are no modules"),
        ('tls-protocols "TLSv1.3"', "tls-protocols TLSv1.3: this cannot be set of TLS"),
    ],
)
def test_what_keeps_others_out_is_not_passed_over(tmp_path: Path, line: str, why: str) -> None:
    """It was told of as a name that nobody knows."""
    file = tmp_path / "redis.conf"
    file.write_text(line, encoding="utf-8")
    with pytest.raises(ServeError, match=f"redis.conf:1: {why}") as refused:
        merged({}, {}, file)
    assert refused.value.hint


def test_the_file_of_a_redis_with_replicas_is_read(tmp_path: Path, redis_server: RedisServer) -> None:
    """The server did not start: there was no setting `masterauth`, nor `tls-replication`."""
    file = tmp_path / "redis.conf"
    given = {
        "masterauth": "secret",
        "masteruser": "replica",
        "tls-replication": "no",
        "tls-session-caching": "yes",
        "server_cpulist": "0-3",
        "busy-reply-threshold": "5000",
    }
    file.write_text("".join(f"{name} {value}\n" for name, value in given.items()), encoding="utf-8")
    assert merged({}, {}, file).ignored == tuple(given)
    with Client.connected(redis_server.host, redis_server.port) as client:
        names_there = [name.decode() for name in client.call("CONFIG", "GET", "*")[::2]]
    assert len(names_there) > 100
    file.write_text("".join(f'{name} ""\n' for name in names_there if name not in names()), encoding="utf-8")
    merged({}, {}, file)


def test_a_misspelt_name_is_answered_with_the_right_one() -> None:
    with pytest.raises(ServeError, match="there is no setting max-clients") as refused:
        merged({"max-clients": "5"}, {})
    assert refused.value.hint == "did you mean maxclients?"


def test_a_variable_that_cannot_be_is_named() -> None:
    """Nobody set it: a Service named diskstream does, in Kubernetes."""
    with pytest.raises(ServeError, match=r"^environment variable DISKSTREAM_PORT: port must") as refused:
        merged({}, {"DISKSTREAM_PORT": "tcp://10.0.0.7:6379"})
    assert refused.value.hint is not None
    assert "enableServiceLinks" in refused.value.hint
    with pytest.raises(ServeError, match=r"^environment variable DISKSTREAM_TIMEOUT: timeout must") as refused:
        merged({}, {"DISKSTREAM_TIMEOUT": "soon"})
    assert refused.value.hint is None
    assert merged({"port": "7000"}, {"DISKSTREAM_PORT": "tcp://10.0.0.7:6379"}).port == 7000


def test_sizes_and_words() -> None:
    assert [size_of(text) for text in ("5", "1k", "1kb", "2MB", "1gb")] == [5, 1000, 1024, 2 << 20, 1 << 30]
    assert split_line(""" a  "b \\" c" 'd\\'e' "" """) == ["a", 'b " c', "d'e", ""]


def test_an_escape_is_a_byte_as_redis_writes_a_letter_beyond_ascii() -> None:
    """Each byte was taken for a letter: a file that CONFIG REWRITE had written named another password."""
    assert split_line(r'"p\xc3\xa4ss" "päss" "\xff"') == ["päss", "päss", "\udcff"]


def test_a_line_ends_where_redis_ends_it(tmp_path: Path) -> None:
    """What Unicode has for ends of lines cut remarks in two, and what followed in them was taken for a setting."""
    path = tmp_path / "redis.conf"
    path.write_text("# ours\u2028timeout 9\x0ctimeout 9\r\nport 7000\r\n", encoding="utf-8", newline="")
    found = merged({}, {}, path)
    assert (found.port, found.timeout) == (7000, 0)


def test_a_value_of_several_words_stands_in_quotes_as_in_redis(tmp_path: Path) -> None:
    """The password was `a b`, which nobody had meant."""
    path = tmp_path / "redis.conf"
    path.write_text("requirepass a b\n", encoding="utf-8")
    with pytest.raises(ServeError, match=r"redis\.conf:1: requirepass takes one value, not 2$"):
        merged({}, {}, path)
    path.write_text('requirepass "a b"\nbind 127.0.0.1 -::1\n', encoding="utf-8")
    found = merged({}, {}, path)
    assert (found.requirepass, found.bind) == ("a b", ("127.0.0.1", "-::1"))


def test_every_setting_is_in_the_page_and_shown_as_it_is_set() -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    shown = ServerSettings().as_text()
    for name in names():
        assert f"| `{name}` | {f'`{shown[name]}`' if shown[name] else ''} |".replace("|  |", "| |") in page, name
    again = merged(shown, {})
    assert again == ServerSettings()


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        ("| databases | 16 |", keyspace.DATABASES == 16),
        ("| a pattern of KEYS, SCAN, CONFIG GET | 16 KiB |", globs._MAX_BYTES == 16 << 10),
        ("| 1 to 4096 bytes; of a key of another type a mebibyte |", key_records.MAX_VALUE_BYTES == 1 << 20),
        ("| 4,096, and what the last one sent in a row; 64 MiB |", batching._MOST_ENTRIES == 4096),
        ("| replies waiting for a client | 1 MiB and one reply |", connection.SOFT_OUT_BYTES == 1 << 20),
        ("| a reply to XREAD, XREADGROUP with no COUNT, or one above 1000 |", stream_read_options.FEW == 1000),
    ],
)
def test_the_limits_of_the_page_are_those_of_the_code(row: str, holds: bool) -> None:
    """Of a frame it said 1,024 entries or 4 MiB: one of a quick client had more."""
    assert row in (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    assert holds


def test_every_command_is_in_the_page_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    rows = page.partition("## Commands")[2].partition("\n## ")[0].splitlines()
    named = {word: row.split()[1] for row in rows if row.startswith("| ") for word in row.split() if word.isupper()}
    assert named == {name.upper(): command.group for name, command in table().items()}


@pytest.mark.parametrize("text", ["pubsub 33554432 8388608 60", "replica 0 0 0 pubsub 1mb 0 0"])
def test_the_limit_of_other_classes_of_clients_is_not_that_of_normal_ones(text: str) -> None:
    """It became 0, which is no limit."""
    settings = from_words({"client-output-buffer-limit": "normal 1mb 0 0"})
    settings.set("client-output-buffer-limit", text)
    assert settings.client_output_buffer_limit == 1 << 20
    settings.set("client-output-buffer-limit", f"{text} NORMAL 2mb 0 0")
    assert settings.client_output_buffer_limit == 2 << 20


def test_a_limit_of_no_clients_that_there_are_leaves_the_one_that_counts_to_be_seen(tmp_path: Path) -> None:
    """CONFIG GET answered with what was said last, which need not name the limit that clients are closed at."""
    with serving(tmp_path / "store") as server, Client.to(server) as client:

        def shown() -> list[bytes]:
            found: list[bytes] = client.call("CONFIG", "GET", "client-output-buffer-limit")
            return found[1].split()[:2]

        assert client.call("CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0") == b"OK"
        assert client.call("CONFIG", "SET", "client-output-buffer-limit", "pubsub 2mb 0 0") == b"OK"
        assert shown() == [b"normal", b"1048576"]
        assert server.settings.client_output_buffer_limit == 1 << 20
        assert client.call("CONFIG", "SET", "client-output-buffer-limit", "3mb") == b"OK"
        assert shown() == [b"normal", b"3145728"]
        assert server.settings.client_output_buffer_limit == 3 << 20
