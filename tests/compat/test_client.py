"""Opening, closing and sharing a client; its errors with and without redis-py; replies that are rare."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from redis._parsers import base, helpers

import diskstream
from diskstream import compat
from diskstream.commands.replies import ErrorReply, Map, Raw, Status
from diskstream.compat import errors, own_errors
from diskstream.compat.facts import facts_of_info
from diskstream.compat.opening import parse_url
from diskstream.compat.shapes import parsed
from diskstream.compat.turns import Turns
from diskstream.engine.file_sizes import FileSizes
from tests.compat.backends import Backend, Compat


@pytest.fixture
def local(tmp_path: Path) -> Any:
    made = Compat(tmp_path / "store")
    yield made
    made.close()


@pytest.mark.parametrize("db", [-1, 16, 2024, "x", "", 1.0, True])
def test_a_database_that_there_is_not(tmp_path: Path, db: Any) -> None:
    with pytest.raises(redis.ResponseError, match="out of range"):
        compat.Redis(tmp_path / "store", db)
    with pytest.raises(redis.ResponseError, match="out of range"):
        _ = compat.aio.Redis(tmp_path / "store", db)
    assert not (tmp_path / "store").exists()


def test_a_database_may_be_named_in_digits(tmp_path: Path) -> None:
    with compat.Redis(tmp_path / "store", "3") as client:  # type: ignore[arg-type]  # as of an environment variable
        client.xadd("s", {"a": 1})
    with compat.Redis(tmp_path / "store", 3) as client:
        assert client.xlen("s") == 1
    with compat.Redis(tmp_path / "store", None) as client:  # type: ignore[arg-type]  # as redis-py takes it
        assert client.xlen("s") == 0


def test_an_option_that_can_be_no_key_is_told_as_any_other(tmp_path: Path) -> None:
    with pytest.raises(diskstream.ArgumentError, match=r"fsync must be .* not \['always'\]"):
        compat.Redis(tmp_path / "store", fsync=["always"])


def test_a_clock_that_can_be_no_key_is_shared_with_nobody(tmp_path: Path) -> None:
    @dataclass
    class Standing:
        ms: int

        def __call__(self) -> int:
            return self.ms

    with compat.Redis(tmp_path / "store", clock=Standing(5)) as client, compat.Redis(tmp_path / "store") as other:
        assert client.xadd("s", {"a": 1}) == b"5-0"
        assert other.xlen("s") == 1
        opened = client._link._shared.keyspace
    assert not opened.is_open()


def test_all_databases_stay_where_the_first_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with compat.Redis("store", db=1) as client:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")  # as a daemon, or a notebook
        client.xadd("s", {"a": 1})
        client.config_set("appendfsync", "always")  # which opens all anew
        client.xadd("s", {"a": 2})
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with diskstream.open(tmp_path / "store" / "db1", create=False) as store:
        assert len(store.stream("s")) == 2


@pytest.mark.parametrize("name", ["round", "round/store", "a\0b", b"store", 5, None])
@pytest.mark.parametrize("client", [compat.Redis, compat.aio.Redis])
def test_a_path_that_no_store_can_have_is_refused_as_by_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Callable[[Any], object], name: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("round").symlink_to("round")
    with pytest.raises(diskstream.DiskstreamError) as ours:
        diskstream.open(name)
    with pytest.raises(diskstream.DiskstreamError, match=re.escape(str(ours.value))):
        client(name)


def test_a_relative_path_where_the_working_directory_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(diskstream.DiskstreamError, match="the working directory was removed"):
        compat.Redis("store")


def test_clients_of_one_directory_share_what_is_open(local: Compat) -> None:
    first, second = local.client(), local.client(decode_responses=True)
    assert first._link._shared is second._link._shared
    first.close()
    first.close()
    with pytest.raises(redis.ConnectionError, match="is closed"):
        first.xlen("s")
    assert second.xadd("s", {"a": 1}, id="1-1") == "1-1"  # the other one goes on
    store = second._link._shared.keyspace.store(0)
    second.close()
    assert store.closed
    with local.client() as third:
        assert third.xlen("s") == 1


def test_a_client_that_is_forgotten_gives_back_what_it_had(local: Compat) -> None:
    client = local.client()
    store = client._link._shared.keyspace.store(0)
    local._opened.clear()
    del client
    assert store.closed


def test_other_options_open_the_directory_once_more(local: Compat) -> None:
    first = local.client()
    local.options["fsync"] = "always"
    second = local.client()
    assert first._link._shared is not second._link._shared
    first.xadd("s", {"a": 1})
    assert second.xlen("s") == 1


def test_databases_are_apart(local: Compat) -> None:
    local.client(db=0).xadd("s", {"a": 1})
    assert local.client(db=1).xlen("s") == 0
    assert (local.path / "db1").is_dir()
    with diskstream.open(local.path) as store:
        assert len(store.stream("s")) == 1


def test_threads_have_a_client_in_common(local: Compat) -> None:
    client = local.client()

    def add() -> None:
        for number in range(20):
            client.pipeline().xadd("s", {"n": number}).xadd("s", {"n": number}).execute()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [fields[b"n"] for _, fields in client.xrange("s")]
    assert len(numbers) == 160
    assert numbers[::2] == numbers[1::2]  # nothing came between the two of one transaction


def test_who_wants_to_be_alone_is() -> None:
    turns, entered = Turns(), threading.Event()
    seen: list[str] = []

    def alone() -> None:
        entered.set()
        with turns.alone():
            seen.append("alone")

    with turns.shared():
        thread = threading.Thread(target=alone)
        thread.start()
        entered.wait()
        seen.append("shared")
    thread.join()
    assert seen == ["shared", "alone"]


@pytest.mark.parametrize(
    ("url", "path", "found"),
    [
        ("diskstream:///var/lib/app/0?decode_responses=1", "/var/lib/app", {"db": 0, "decode_responses": True}),
        ("diskstream:///var/lib/app", "/var/lib/app", {}),
        ("diskstream://data/5", "data", {"db": 5}),
        ("diskstream://./a%20b?db=2&protocol=3", "./a b", {"db": 2, "protocol": 3}),
        ("diskstream:///data/2024?db=1", "/data/2024", {"db": 1}),
        (
            "diskstream:///d?fsync=always&cache_bytes=5&audit=no",
            "/d",
            {"fsync": "always", "cache_bytes": 5, "audit": False},
        ),
    ],
)
def test_urls(url: str, path: str, found: dict[str, object]) -> None:
    assert parse_url(url) == (path, found)


@pytest.mark.parametrize(
    "url", ["redis://localhost/0", "diskstream:", "diskstream:///d?protocol=x", "diskstream:///d?audit=5"]
)
def test_urls_of_something_else(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|invalid literal|must be 1 or 0"):
        parse_url(url)


def test_a_client_from_a_url(local: Compat) -> None:
    url = f"diskstream://{local.path}/{3}?decode_responses=1"
    with compat.from_url(url, decode_responses=False, **local.options) as client:
        assert client.xadd("s", {"a": 1}, id="1-1") == "1-1"
        assert "db=3" in repr(client)
    assert " closed" in repr(client)


def test_text_is_encoded_as_asked(local: Compat) -> None:  # which redis-py with hiredis does not do
    client = local.client(encoding="latin-1", decode_responses=True)
    client.xadd("s", {"é": "ü"}, id="1-1")
    assert client.xrange("s") == [("1-1", {"é": "ü"})]
    assert local.client().xrange("s") == [(b"1-1", {b"\xe9": b"\xfc"})]


@pytest.mark.parametrize("value", [True, None, [1], object()])
def test_values_without_bytes_are_refused(backend: Backend, value: object) -> None:
    with pytest.raises(redis.DataError):
        backend.client().xadd("s", {"a": value})


def test_ids_of_diskstream_are_words(local: Compat) -> None:
    client = local.client()
    id = diskstream.EntryID("5-3")
    assert client.xadd("s", {"a": bytearray(b"x"), "b": memoryview(b"y"), "c": 1.5}, id=id) == b"5-3"
    assert client.xrange("s", id, id) == [(b"5-3", {b"a": b"x", b"b": b"y", b"c": b"1.5"})]


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", own_errors.__all__)
def test_own_errors_have_the_tree_of_redis_py(name: str) -> None:
    theirs = getattr(redis.exceptions, name)
    assert [base.__name__ for base in getattr(own_errors, name).__mro__] == [base.__name__ for base in theirs.__mro__]
    assert getattr(errors, name) is theirs


@pytest.mark.parametrize(
    "text", ["ERR syntax error", "WRONGTYPE Operation", "NOGROUP No such", "EXECABORT discarded", "LOADING x", "OOM x"]
)
def test_errors_are_those_that_redis_py_makes_of_a_reply(text: str) -> None:
    parse: Any = base.BaseParser.parse_error  # it has no types
    mine, theirs = errors.error_of(ErrorReply(text.encode())), parse(text)
    assert (type(mine), str(mine), mine.status_code) == (type(theirs), str(theirs), theirs.status_code)


def test_it_works_without_redis_py(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["redis"] = None
from diskstream import compat
from diskstream.commands.replies import ErrorReply
client = compat.Redis("store", commands=(lambda table, caller, words: ErrorReply(b"WRONGTYPE no"), {}))
for call in (lambda: client.xlen("s"), lambda: client.xlen(None)):
    try:
        call()
    except compat.RedisError as error:
        print(type(error).__module__, type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "diskstream.compat.own_errors",
        "ResponseError",
        "diskstream.compat.own_errors",
        "DataError",
    ]


# --- replies ----------------------------------------------------------------------------------------------------------


def test_replies_of_every_kind() -> None:
    reply = [1, True, 1.5, "text", None, Status(b"OK"), Map([(b"a", [1])]), diskstream.EntryID("1-2")]
    assert parsed(reply, 2, bytes) == [1, 1, b"1.5", b"text", None, b"OK", [b"a", [1]], b"1-2"]
    assert parsed(reply, 3, bytes.decode) == [1, True, 1.5, "text", None, "OK", {"a": [1]}, "1-2"]
    assert isinstance(parsed(ErrorReply(b"ERR no"), 3, bytes), redis.ResponseError)
    with pytest.raises(TypeError, match="object"):
        parsed(object(), 3, bytes)


def test_replies_that_are_bytes_for_the_wire() -> None:
    wire = b"*8\r\n:5\r\n$2\r\nab\r\n$-1\r\n*-1\r\n_\r\n#t\r\n,1.5\r\n%1\r\n+a\r\n*1\r\n:1\r\n"
    assert parsed(Raw(wire), 3, bytes) == [5, b"ab", None, None, None, True, 1.5, {b"a": [1]}]
    assert parsed(Raw(b":1\r\n:2\r\n"), 3, bytes) == [1, 2]
    for torn in (b"*2\r\n:1\r\n", b"$5\r\nab\r\n", b"?\r\n", b":1"):
        with pytest.raises(ValueError, match=r".+"):
            parsed(Raw(torn), 3, bytes)


def test_xinfo_looks_at_no_file_of_a_stream(local: Compat, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took longer the more segments there were."""
    client = local.client()
    client.xadd("s", {"a": 1}, id="1-1")
    monkeypatch.setattr(FileSizes, "now", lambda self: pytest.fail(f"looked at the files of {self}"))
    assert client.xinfo_stream("s")["length"] == 1
    assert client.xinfo_stream("s", full=True)["entries-added"] == 1


def test_info_is_read_as_redis_py_reads_it() -> None:
    text = "# Server\r\nversion:7.0.15\r\nup:5\r\nload:1.5\r\nempty:\r\nlist:a,1,b\r\nno colon\r\n"
    text += "db0:keys=1,expires=0,x\r\nmodule:name=a,ver=1\r\nmodule:name=b,ver=2\r\nurl:http://a:5\r\nodd:a=b=1\r\n"
    assert facts_of_info(text) == helpers.parse_info(text)  # type: ignore[no-untyped-call]  # it has no types


@pytest.mark.parametrize("words", [[b""], [b"", "PING"], [b"", b"", 1]])
def test_an_empty_name_is_an_unknown_command(backend: Backend, words: list[object]) -> None:
    with pytest.raises(redis.ResponseError, match="unknown command ''"):
        backend.client().execute_command(*words)
    assert backend.client().execute_command("", "PING")  # which redis-py takes for no word, not for an empty one


@pytest.mark.parametrize("name", ["", " "])
def test_so_is_a_command_of_no_words(local: Compat, name: str) -> None:
    """Redis does not answer it."""
    client = local.client()
    with pytest.raises(redis.ResponseError, match="unknown command ''"):
        client.execute_command(name)
    for transaction in (True, False):
        pipe = client.pipeline(transaction=transaction)
        with pytest.raises(redis.ResponseError, match="unknown command ''"):
            pipe.execute_command(name).execute()
