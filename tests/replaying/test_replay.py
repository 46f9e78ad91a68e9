"""Replays into streams and into a Redis: each entry once, whatever comes in between."""

import json
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
from diskstream import ArgumentError, ChangedError, EntryID, NoSuchStreamError, RemoteError, Store
from diskstream.backups import make_backup
from diskstream.checked_json import checked
from diskstream.replaying import (
    CallSink,
    Job,
    Outcome,
    Pacer,
    ToCall,
    ToRedis,
    ToStream,
    measure,
    parse_condition,
    replay,
    run_job,
)
from diskstream.replaying.redis_sink import STATE_PREFIX
from diskstream.replaying.run import MAX_BATCH
from tests.conftest import RedisServer, _start_redis, _stop
from tests.engine.children import child, until
from tests.replaying.processes import killed, slow
from tests.streams.layers import rows

ENTRIES = 5 * MAX_BATCH + 77


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Store]:
    """A store with a stream `x`, a hundred entries a second."""
    with diskstream.open(tmp_path / "source", segment_bytes=1 << 17) as store:
        ids = [EntryID(1_700_000_000_000 + 10 * number, number % 3) for number in range(ENTRIES)]
        store.stream("x").add_many([{"n": number, "mod": number % 10} for number in range(ENTRIES)], ids=ids)
        yield store


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    with redis.Redis(redis_server.host, redis_server.port) as connected:
        connected.flushall()
        yield connected


@pytest.fixture
def url(redis_server: RedisServer) -> str:
    return f"redis://{redis_server.host}:{redis_server.port}/0"


def job(source: Store, target: Path | str, **options: Any) -> Job:
    to = ToRedis(target, b"copy") if isinstance(target, str) else ToStream(target, b"copy")
    return Job(source.path, b"x", to, **{"speed": None, **options})


def values(client: Any, key: str = "copy") -> list[int]:
    return [int(fields[b"n"]) for _, fields in client.xrange(key)]


# --- into a stream ----------------------------------------------------------------------------------------------------


def test_entries_keep_their_ids_or_get_new_ones(source: Store, tmp_path: Path) -> None:
    done = run_job(job(source, tmp_path / "kept"))
    assert (done.replayed.sent, done.complete, done.resumed) == (ENTRIES, True, False)
    run_job(job(source, tmp_path / "new", keep_ids=False))
    with diskstream.open(tmp_path / "kept") as kept, diskstream.open(tmp_path / "new") as new:
        assert rows(kept.stream("copy")) == rows(source.stream("x"))
        assert [pairs for _, pairs in rows(new.stream("copy"))] == [pairs for _, pairs in rows(source.stream("x"))]
        assert next(iter(new.stream("copy"))).id.ms > 1_700_000_100_000


def test_once_complete_it_does_nothing_any_more_but_under_another_name(source: Store, tmp_path: Path) -> None:
    wanted = job(source, tmp_path / "t", keep_ids=False)
    run_job(wanted)
    again = run_job(wanted)
    assert (again.complete, again.resumed, again.replayed.seen) == (True, True, 0)
    other = run_job(job(source, tmp_path / "t", keep_ids=False, name="again"))
    assert other.replayed.sent == ENTRIES
    with diskstream.open(tmp_path / "t") as target:
        assert len(target.stream("copy")) == 2 * ENTRIES


def test_a_name_is_of_one_replay(source: Store, tmp_path: Path) -> None:
    run_job(job(source, tmp_path / "t", name="n", where=("mod=1",)))
    for other in ({"where": ("mod=2",)}, {"keep_ids": False}, {"asked": ("5-0", "+"), "start": EntryID(5, 0)}):
        with pytest.raises(ArgumentError, match="another name"):
            run_job(job(source, tmp_path / "t", **{"name": "n", "where": ("mod=1",), **other}))


def test_filters_are_all_to_be_met(source: Store, tmp_path: Path) -> None:
    wanted = job(source, tmp_path / "t", where=("mod=3", "n>100", "n~^1"), end=EntryID(1_700_000_003_000, 9))
    measured = measure(wanted)
    counted, seconds = measured.counted, measured.seconds
    expected = [number for number in range(301) if number % 10 == 3 and number > 100 and str(number)[0] == "1"]
    assert (counted.sent, counted.seen, seconds) == (len(expected), 301, None)
    assert not (tmp_path / "t").exists(), "measuring has done something"
    run_job(wanted)
    with diskstream.open(tmp_path / "t") as target:
        assert [int(entry["n"]) for entry in target.stream("copy")] == expected


def test_what_it_would_take_is_told(source: Store, tmp_path: Path) -> None:
    span = 10 * (ENTRIES - 1) / 1000
    assert measure(job(source, tmp_path / "t", speed=1.0)).seconds == pytest.approx(span)
    assert measure(job(source, tmp_path / "t", speed=10.0)).seconds == pytest.approx(span / 10)
    assert measure(job(source, tmp_path / "t", speed=1000.0, rate=100.0)).seconds == pytest.approx(ENTRIES / 100)


def test_loops_are_refused(source: Store, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(source.path)
    for place in (source.path, tmp_path / "alias"):
        with pytest.raises(ArgumentError, match="never end"):
            run_job(Job(source.path, b"x", ToStream(place, b"x"), speed=None))
    run_job(Job(source.path, b"x", ToStream(source.path, b"y"), speed=None))
    assert rows(source.stream("y")) == rows(source.stream("x"))


def test_what_is_not_wanted_need_not_lie_behind_what_the_target_has(tmp_path: Path) -> None:
    """`the first that is replayed` was told of an entry that was not going to be, and the replay refused."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add_many([{"kind": kind} for kind in "abab"], ids=[f"{n}-0" for n in range(1, 5)])
        store.stream("y").add({"kind": "c"}, id="3-1")
        refused = Job(store.path, b"x", ToStream(store.path, b"y"), where=("kind=a",), speed=None)
        for attempt in (measure, run_job):
            with pytest.raises(ArgumentError, match="1-0 is the first that is replayed"):
                attempt(refused)
        with pytest.raises(ArgumentError, match="2-0 is the first that is replayed"):
            run_job(replace(refused, where=("kind=b",)))
        assert run_job(replace(refused, where=("kind=b",), start=EntryID(3, 0))).replayed.sent == 1
        assert [str(entry.id) for entry in store.stream("y")] == ["3-1", "4-0"]


def test_what_cannot_be_is_refused_before_anything_is_sent(source: Store, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "t") as target:
        target.stream("copy").add({"a": 1})
        with pytest.raises(ArgumentError, match="has passed the IDs"):
            run_job(job(source, tmp_path / "t"))
        assert len(target.stream("copy")) == 1
    with pytest.raises(NoSuchStreamError):
        run_job(Job(source.path, b"nothing", ToStream(tmp_path / "u", b"copy"), speed=None))
    with pytest.raises(diskstream.NotAStoreError):
        run_job(Job(tmp_path / "nowhere", b"x", ToStream(tmp_path / "u", b"copy"), speed=None))
    assert not (tmp_path / "u").exists()


def test_from_a_backup(source: Store, tmp_path: Path) -> None:
    made = make_backup(source.path, tmp_path / "backups")
    before = rows(source.stream("x"))
    source.stream("x").trim(maxlen=0)
    run_job(Job(made.path, b"x", ToStream(source.path, b"again"), speed=None))
    assert rows(source.stream("again")) == before


def test_it_ends_with_what_was_there_when_it_began(source: Store, tmp_path: Path) -> None:
    stopping = Pacer()

    def stop(_: int, sent: int) -> None:
        if sent:
            stopping.stop.set()

    first = run_job(job(source, tmp_path / "t", pacer=stopping, on_entries=stop))
    assert (first.complete, first.replayed.sent, first.replayed.stopped) == (False, MAX_BATCH, True)
    left = measure(job(source, tmp_path / "t"))
    assert (left.resumed, left.complete, left.counted.sent) == (True, False, ENTRIES - MAX_BATCH)
    source.stream("x").add({"n": "later"})
    second = run_job(job(source, tmp_path / "t"))
    assert (second.complete, second.resumed, second.replayed.sent) == (True, True, ENTRIES - MAX_BATCH)
    with diskstream.open(tmp_path / "t") as target:
        assert len(target.stream("copy")) == ENTRIES


def test_a_source_that_was_begun_anew_is_not_taken_for_its_end(source: Store, tmp_path: Path) -> None:
    def replace(_: int, sent: int) -> None:
        if sent:
            source.delete("x")

    with pytest.raises(diskstream.DataLossError, match="deleted") as caught:
        run_job(job(source, tmp_path / "t", on_entries=replace))
    assert "failOnDataLoss" not in str(caught.value)  # which is an option of Spark's readers


def test_a_target_that_was_begun_anew_is_found_out(source: Store, tmp_path: Path) -> None:
    run_job(job(source, tmp_path / "t", on_entries=lambda _, __: None, name="n", end=EntryID(1_700_000_000_010, 9)))
    stopping = Pacer()
    stopping.stop.set()
    run_job(job(source, tmp_path / "u", pacer=stopping))
    with diskstream.open(tmp_path / "u") as target:
        target.delete("copy")
        target.stream("copy").add({"another": 1}, "1-0")
    with pytest.raises(ChangedError, match="does not know") as refused:
        run_job(job(source, tmp_path / "u"))
    assert refused.value.hint


def test_two_of_the_same_at_once(source: Store, tmp_path: Path) -> None:
    refused: list[str] = []

    def again(_: int, sent: int) -> None:
        if not refused:
            with pytest.raises(ChangedError, match="at work") as error:
                run_job(job(source, tmp_path / "t"))
            refused.append(str(error.value))

    assert run_job(job(source, tmp_path / "t", on_entries=again)).replayed.sent == ENTRIES
    assert refused


def test_nothing_waits_for_more_to_come(source: Store) -> None:
    """At a pace, an entry is sent when it is due, and not when a batch is full."""
    now, sent = 0.0, list[tuple[float, int]]()

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    pacer = Pacer(1.0, clock=lambda: now, wait=wait)
    sink = CallSink(lambda entries: sent.extend((now, int(entry["n"])) for entry in entries))
    replay(source.stream("x").range(count=50), sink, pacer=pacer, where=[parse_condition("n<1000")])
    assert [number for _, number in sent] == list(range(50))
    assert all(at == pytest.approx(number / 100) for at, number in sent)


def test_to_a_function(source: Store) -> None:
    taken: list[diskstream.Entry] = []
    done: Outcome = run_job(Job(source.path, b"x", ToCall(taken.extend), speed=None, where=("mod=1",)))
    assert [entry["mod"] for entry in taken] == [b"1"] * done.replayed.sent
    assert done.complete


# --- into a Redis -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
def test_into_a_redis(source: Store, client: Any, url: str, keep: bool) -> None:
    done = run_job(job(source, url, keep_ids=keep))
    assert done.complete
    assert values(client) == list(range(ENTRIES))
    if keep:
        assert [entry_id.decode() for entry_id, _ in client.xrange("copy")] == [str(e.id) for e in source.stream("x")]
    again = run_job(job(source, url, keep_ids=keep))
    assert (again.complete, again.replayed.seen) == (True, 0)
    (state,) = client.keys(STATE_PREFIX + b"*")
    assert client.ttl(state) > 0


def test_a_redis_that_is_not_as_it_was_left(source: Store, client: Any, url: str) -> None:
    stopping = Pacer()

    def stop(_: int, sent: int) -> None:
        if sent:
            stopping.stop.set()

    wanted = job(source, url, keep_ids=False)
    assert not run_job(job(source, url, keep_ids=False, pacer=stopping, on_entries=stop)).complete
    left = measure(wanted)
    assert (left.resumed, left.complete, left.counted.sent) == (True, False, ENTRIES - client.xlen("copy"))
    client.delete("copy")
    with pytest.raises(ChangedError, match="is gone"):
        measure(wanted)
    with pytest.raises(ChangedError, match="is gone") as refused:
        run_job(wanted)
    assert "--name" in str(refused.value.hint)
    client.set("copy", "text")
    with pytest.raises(RemoteError, match="is a string"):
        run_job(job(source, url, name="other"))


def test_somebody_else_who_adds_to_a_stream_that_keeps_ids(source: Store, client: Any, url: str) -> None:
    done = 0

    def add(_: int, sent: int) -> None:
        nonlocal done
        done += sent
        if done == 2 * MAX_BATCH:
            client.xadd("copy", {"n": "-1"}, id=f"{2**62}-0")

    with pytest.raises(ChangedError, match="has passed the ID"):
        run_job(job(source, url, on_entries=add))
    assert values(client) == [*range(2 * MAX_BATCH), -1]
    client.xadd("busy", {"n": 0}, id="1900000000000-0")
    with pytest.raises(ArgumentError, match="has passed"):
        run_job(Job(source.path, b"x", ToRedis(url, b"busy"), speed=None))


def test_a_redis_without_memory_takes_a_batch_or_not(source: Store, client: Any, url: str) -> None:
    with pytest.raises(RemoteError, match="out of memory"):
        try:
            done = 0

            def choke(_: int, sent: int) -> None:
                nonlocal done
                done += sent
                if done == MAX_BATCH:
                    client.config_set("maxmemory", "1")

            run_job(job(source, url, keep_ids=False, on_entries=choke))
        finally:
            client.config_set("maxmemory", "0")
    assert values(client) == list(range(MAX_BATCH))
    assert run_job(job(source, url, keep_ids=False)).replayed.sent == ENTRIES - MAX_BATCH
    assert values(client) == list(range(ENTRIES))


def test_a_redis_that_is_killed_and_comes_back(source: Store, tmp_path: Path) -> None:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs the program redis-server, which is not installed")
    settings = {"appendonly": "yes", "appendfsync": "always", "save": ""}
    first, port = _start_redis(program, tmp_path, settings)
    sent_in_all = 0

    def kill(_: int, sent: int) -> None:
        nonlocal sent_in_all
        sent_in_all += sent
        if sent_in_all == 2 * MAX_BATCH:
            first.kill()
            first.wait()

    with pytest.raises(RemoteError, match="connection"):
        run_job(job(source, f"redis://127.0.0.1:{port}/0", keep_ids=False, name="n", on_entries=kill))
    second, port = _start_redis(program, tmp_path, settings)
    try:
        wanted = job(source, f"redis://127.0.0.1:{port}/0", keep_ids=False, name="n")
        with redis.Redis("127.0.0.1", port) as again:
            (state,) = again.keys(STATE_PREFIX + b"*")
            plan = checked(again.hget(state, "plan"))
            again.hset(state, "plan", json.dumps({**plan, "target": str(wanted.target)}))  # its port is another now
            assert run_job(wanted).resumed
            assert values(again) == list(range(ENTRIES))
    finally:
        _stop(second)


# --- killed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", ["keep", "new"])
@pytest.mark.parametrize("to", ["stream", "redis"])
def test_killed_between_batches_each_entry_is_there_once(
    source: Store, tmp_path: Path, client: Any, url: str, to: str, ids: str
) -> None:
    target = str(tmp_path / "t") if to == "stream" else url
    with child(killed, source.path, target, ids) as killer:
        kills, complete, seen = killer.hear().split()
    assert int(kills) >= 4
    assert (complete, seen) == ("True", "0")
    if to == "redis":
        assert values(client) == list(range(ENTRIES))
    else:
        with diskstream.open(tmp_path / "t") as store:
            assert [int(entry["n"]) for entry in store.stream("copy")] == list(range(ENTRIES))


def test_sigint_ends_it_with_what_is_there(source: Store, tmp_path: Path) -> None:
    with child(slow, source.path, tmp_path / "t") as running:

        def has_one() -> bool:
            if not (tmp_path / "t" / "streams" / "copy").exists():
                return False
            with diskstream.open(tmp_path / "t", read_only=True) as target:
                return len(target.stream("copy")) > 0

        until(has_one)
        running.process.send_signal(signal.SIGINT)
        assert running.wait() == 1
    done = run_job(job(source, tmp_path / "t", asked=("0-0", "+")))
    assert done.resumed
    with diskstream.open(tmp_path / "t") as target:
        assert rows(target.stream("copy")) == rows(source.stream("x"))
