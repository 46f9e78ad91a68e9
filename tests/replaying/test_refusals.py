"""A Redis that refuses part of what a replay adds, or whose answer is lost: each entry is there once all the same."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
from diskstream.errors import ChangedError, RemoteError
from diskstream.replaying import Job, ToRedis, measure, run_job
from diskstream.replaying.redis_sink import STATE_PREFIX
from diskstream.replaying.run import MAX_BATCH
from tests.conftest import RedisServer

COUNT = 2 * MAX_BATCH


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with diskstream.open(tmp_path / "source") as store:
        ids = [(number, 0) for number in range(1, COUNT + 1)]
        store.stream("o").add_many([{"n": number} for number, _ in ids], ids=ids)
    return tmp_path / "source"


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    with redis.Redis(redis_server.host, redis_server.port, 11) as found:
        found.flushdb()
        yield found
        found.flushdb()


class Relay:
    """Stands before a Redis; the connection ends before the first transaction with a certain word is answered."""

    def __init__(self, behind: RedisServer, word: bytes) -> None:
        self._behind, self._word = behind, word
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection((self._behind.host, self._behind.port))
                self._open += [near, far]
                lost = threading.Event()
                threading.Thread(target=self._ask, args=(near, far, lost), daemon=True).start()
                threading.Thread(target=self._answer, args=(far, near, lost), daemon=True).start()

    def _ask(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        """The server does all that came before the end of the connection."""
        words = b""
        with contextlib.suppress(OSError):
            while not lost.is_set() and (some := near.recv(1 << 20)):
                words += some
                if words.endswith(b"EXEC\r\n"):
                    if self._word and self._word in words:
                        self._word = b""
                        lost.set()
                    words = b""
                far.sendall(some)
            far.shutdown(socket.SHUT_WR)

    def _answer(self, far: socket.socket, near: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while some := far.recv(1 << 20):
                if not lost.is_set():
                    near.sendall(some)
            near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in self._open:
            each.close()


@pytest.mark.parametrize(("word", "sent"), [(b"plan", 0), (b"XADD", MAX_BATCH), (b"EXPIRE", COUNT)])
def test_a_lost_answer_is_no_rival(
    source: Path, redis_server: RedisServer, client: Any, word: bytes, sent: int
) -> None:
    """It was said that another run was at work, of which one was to end."""
    relay = Relay(redis_server, word)
    try:
        wanted = Job(source, b"o", ToRedis(f"redis://127.0.0.1:{relay.port}/11", b"t"), speed=None)
        with pytest.raises(RemoteError, match="the connection failed"):
            run_job(wanted)
        assert client.xlen("t") == sent
        assert run_job(wanted).complete
        assert [entry[b"n"] for _, entry in client.xrange("t")] == [b"%d" % (n + 1) for n in range(COUNT)]
    finally:
        relay.close()


def test_what_is_refused_behind_what_is_added_is_not_skipped(
    source: Path, redis_server: RedisServer, client: Any
) -> None:
    """The position was behind all of the batch, and the next run called the replay complete."""
    key = ToRedis(f"redis://{redis_server.host}:{redis_server.port}/11", b"t")
    left = 3
    client.xadd("t", {"before": 1}, id=f"{(1 << 64) - 1}-{(1 << 64) - 1 - left}")
    wanted = Job(source, b"o", key, keep_ids=False, end=diskstream.EntryID(MAX_BATCH, 0), speed=None)
    for _ in range(2):
        with pytest.raises(RemoteError, match="exhausted"):
            run_job(wanted)
        state = client.keys(STATE_PREFIX + b"*")[0]
        assert client.hmget(state, "position", "sent") == [b"%d-0" % left, b"%d" % left]
        assert client.xlen("t") == left + 1


def test_a_key_that_becomes_another_in_between_takes_nothing(
    source: Path, redis_server: RedisServer, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    multi, left = redis.client.Pipeline.multi, [2]

    def replace_and_begin(self: Any) -> None:
        left[0] -= 1
        if not left[0]:
            client.set("t", "another")
        multi(self)

    monkeypatch.setattr(redis.client.Pipeline, "multi", replace_and_begin)
    key = ToRedis(f"redis://{redis_server.host}:{redis_server.port}/11", b"t")
    wanted = Job(source, b"o", key, keep_ids=False, speed=None)
    with pytest.raises(RemoteError, match="wrong kind of value"):
        run_job(wanted)
    client.delete("t")
    done = run_job(wanted)
    assert (done.complete, client.xlen("t")) == (True, COUNT)


@pytest.mark.parametrize(
    ("name", "noted"),
    [("plan", b"\xff"), ("position", b"next"), ("position", b"\xff"), ("position", None), ("sent", b"many")],
)
def test_what_is_noted_is_not_believed_where_it_cannot_be_read(
    source: Path, redis_server: RedisServer, client: Any, name: str, noted: bytes | None
) -> None:
    """There were tracebacks, a position was wrong usage, and without one all was added a second time."""
    key = ToRedis(f"redis://{redis_server.host}:{redis_server.port}/11", b"t")

    def stop(_read: int, sent: int) -> None:
        if sent:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(Job(source, b"o", key, keep_ids=False, speed=None, on_entries=stop))
    state = client.keys(STATE_PREFIX + b"*")[0]
    if noted is None:
        client.hdel(state, name)
    else:
        client.hset(state, name, noted)
    for run in (measure, run_job):
        with pytest.raises(ChangedError, match=r"replay (is gone|cannot be read)") as told:
            run(Job(source, b"o", key, keep_ids=False, speed=None))
        assert "--name" in str(told.value.hint)
    assert client.xlen("t") == MAX_BATCH
