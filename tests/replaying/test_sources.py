"""What a replay reads from, and writes to, between two runs: damaged, removed, made anew."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
from diskstream import CorruptionError, DataLossError
from diskstream.errors import ChangedError
from diskstream.replaying import Job, Pacer, ToRedis, ToStream, measure, run_job
from diskstream.replaying.conditions import parse_condition
from tests.conftest import RedisServer

COUNT = 3000


def filled(path: Path, value: str = "old") -> None:
    with diskstream.open(path) as store:
        ids = [(number, 0) for number in range(1, COUNT + 1)]
        for start in range(0, COUNT, 100):
            part = ids[start : start + 100]
            store.stream("o").add_many([{"v": f"{value}{number}"} for number, _ in part], ids=part)


def job(tmp_path: Path, to: Any, **options: Any) -> Job:
    return Job(tmp_path / "source", b"o", to, **{"speed": None, **options})


def stopped_after(count: int) -> dict[str, Any]:
    """Options of a job that is stopped behind so many entries."""
    stop, sent = threading.Event(), [0]

    def count_up(_read: int, more: int) -> None:
        sent[0] += more
        if sent[0] >= count:
            stop.set()

    return {"pacer": Pacer(None, stop=stop), "on_entries": count_up}


def to_stream(tmp_path: Path) -> ToStream:
    return ToStream(tmp_path / "target", b"t")


def test_what_may_have_followed_a_damage_is_not_passed_over(tmp_path: Path) -> None:
    """The log ended where it was damaged, and the replay was complete, with status 0, now and after a repair."""
    filled(tmp_path / "source")
    (log,) = (tmp_path / "source" / "streams").glob("*/*.log")
    data = bytearray(log.read_bytes())
    data[data.index(b"old2950")] ^= 0xFF
    log.write_bytes(data)
    for run in (measure, run_job):
        with pytest.raises(CorruptionError):
            run(job(tmp_path, to_stream(tmp_path)))
    list(diskstream.repair(tmp_path / "source"))
    done = run_job(job(tmp_path, to_stream(tmp_path)))
    assert done.complete
    assert done.replayed.sent >= COUNT - 100


def made_anew(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "source") as store:
        store.delete("o")
    filled(tmp_path / "source", "NEW")


def test_a_source_that_was_made_anew_is_not_gone_on_with(tmp_path: Path) -> None:
    """Half of the target was the one stream, and half the other."""
    filled(tmp_path / "source")
    first = run_job(job(tmp_path, to_stream(tmp_path), **stopped_after(500)))
    assert not first.complete
    made_anew(tmp_path)
    with pytest.raises(ChangedError, match="was removed and made anew since the replay began"):
        run_job(job(tmp_path, to_stream(tmp_path)))


def test_nor_one_that_is_made_anew_while_it_is_replayed(tmp_path: Path) -> None:
    filled(tmp_path / "source")
    done = [False]

    def once(_read: int, sent: int) -> None:
        if not done[0]:
            done[0] = True
            made_anew(tmp_path)

    with pytest.raises((DataLossError, ChangedError, diskstream.DiskstreamError)):
        run_job(job(tmp_path, to_stream(tmp_path), on_entries=once))


@pytest.fixture
def client(redis_server: RedisServer) -> Any:
    with redis.Redis(redis_server.host, redis_server.port, 11) as found:
        found.flushdb()
        yield found
        found.flushdb()


def emptied(client: Any) -> None:
    client.delete("t")
    client.xadd("t", {"other": "x"}, id="5-0")


@pytest.mark.parametrize("keep_ids", [True, False])
@pytest.mark.parametrize("change", [emptied, lambda client: client.delete("t")])
def test_a_key_that_was_begun_anew_is_not_gone_on_with(
    tmp_path: Path, redis_server: RedisServer, client: Any, keep_ids: bool, change: Callable[[Any], None]
) -> None:
    """What had been replayed before was missing, with status 0."""
    filled(tmp_path / "source")
    to = ToRedis(f"redis://{redis_server.host}:{redis_server.port}/11", b"t")
    run_job(job(tmp_path, to, keep_ids=keep_ids, **stopped_after(1000)))
    change(client)
    with pytest.raises(ChangedError, match=r"begun anew|is gone"):
        run_job(job(tmp_path, to, keep_ids=keep_ids))


@pytest.mark.parametrize("keep_ids", [True, False])
def test_one_that_others_trim_and_add_to_is(
    tmp_path: Path, redis_server: RedisServer, client: Any, keep_ids: bool
) -> None:
    filled(tmp_path / "source")
    to = ToRedis(f"redis://{redis_server.host}:{redis_server.port}/11", b"t")
    first = run_job(job(tmp_path, to, keep_ids=keep_ids, **stopped_after(1000)))
    client.xtrim("t", maxlen=0, approximate=False)
    done = run_job(job(tmp_path, to, keep_ids=keep_ids))
    assert done.complete
    assert client.xlen("t") == COUNT - first.replayed.sent


@pytest.mark.parametrize(
    ("condition", "value", "meets"),
    [
        ("n>9007199254740992", b"9007199254740993", True),
        ("n>1700000000000000000", b"1700000000000000001", True),
        ("n<=1700000000000000000", b"1700000000000000001", False),
        ("n>=0.1", b"0.10", True),
        ("n<1e999", b"1e998", True),
        ("n>1", b"1e99999999999999999999", False),
        ("n>1", b"nan", False),
    ],
)
def test_numbers_are_compared_as_they_are_written(condition: str, value: bytes, meets: bool) -> None:
    """As floats neighbours beyond 2^53 were the same: entries were skipped, or taken that were not asked for."""
    assert parse_condition(condition).meets(value) is meets
