"""What a replay writes to, while it runs: removed, made anew, emptied, and trimmed by its owner."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
from diskstream.backups import Wanted, find_backup, make_backup, restore
from diskstream.errors import ArgumentError, ChangedError, RemoteError
from diskstream.ids import MAX_ID, EntryID
from diskstream.replaying import Job, ToRedis, ToStream, measure, run_job
from diskstream.replaying.plans import Plan, PlanFile
from diskstream.replaying.redis_sink import RedisSink
from diskstream.replaying.run import MAX_BATCH
from tests.conftest import RedisServer
from tests.server.client import serving

COUNT = 4 * MAX_BATCH


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


@pytest.fixture
def key(redis_server: RedisServer) -> ToRedis:
    return ToRedis(f"redis://{redis_server.host}:{redis_server.port}/11", b"t")


def after(count: int, do: Callable[[], object]) -> Callable[[int, int], None]:
    """What is called with entries sent, and does something once so many were."""
    left = [count]

    def count_down(_read: int, sent: int) -> None:
        left[0] -= sent
        if left[0] <= 0 < left[0] + sent:
            do()

    return count_down


def job(source: Path, to: ToStream | ToRedis, **options: Any) -> Job:
    return Job(source, b"o", to, **{"speed": None, **options})


def refused(wanted: Job, *, again: Job) -> None:
    """The run says that its target is another, and so does each that would go on with it."""
    with pytest.raises(ChangedError, match=r"removed|gone|anew") as error:
        run_job(wanted)
    assert "--name" in str(error.value.hint)
    for run in (measure, run_job):
        with pytest.raises(ChangedError, match=r"removed|gone|anew"):
            run(again)


# --- a stream ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("sent", [MAX_BATCH, COUNT], ids=["between two batches", "behind the last one"])
@pytest.mark.parametrize("anew", [False, True])
def test_a_stream_that_is_removed_is_not_called_complete(
    source: Path, tmp_path: Path, keep: bool, sent: int, anew: bool
) -> None:
    """It was made again with what was left, and the plan was complete: running it again did nothing."""
    to = ToStream(tmp_path / "target", b"t")

    def remove() -> None:
        with diskstream.open(to.store) as store:
            store.delete(to.name)
            if anew:
                store.stream(to.name).add({"another": 1}, "1-0")

    wanted = job(source, to, keep_ids=keep)
    refused(job(source, to, keep_ids=keep, on_entries=after(sent, remove)), again=wanted)
    with diskstream.open(to.store, read_only=True) as store:
        assert store.exists(to.name) is anew
        assert len(store.stream(to.name)) == anew, "entries were added to another stream"


def test_a_stream_that_is_renamed_is_not_made_a_second_time(source: Path, tmp_path: Path) -> None:
    to = ToStream(tmp_path / "target", b"t")

    def rename() -> None:
        with diskstream.open(to.store) as store:
            store.rename(to.name, "other")

    refused(job(source, to, on_entries=after(MAX_BATCH, rename)), again=job(source, to))
    with diskstream.open(to.store, read_only=True) as store:
        assert store.streams() == [b"other"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_stream_that_its_owner_trims_is_the_same(source: Path, tmp_path: Path, keep: bool) -> None:
    to = ToStream(tmp_path / "target", b"t")

    def empty() -> None:
        with diskstream.open(to.store) as store:
            store.stream(to.name).trim(maxlen=0)

    assert run_job(job(source, to, keep_ids=keep, on_entries=after(MAX_BATCH, empty))).complete
    with diskstream.open(to.store, read_only=True) as store:
        assert len(store.stream(to.name)) == COUNT - MAX_BATCH


def test_a_position_without_a_plan_is_not_trusted(source: Path, tmp_path: Path) -> None:
    """Of a source that was made anew, what lay below the position was passed over, and the replay called complete."""
    to = ToStream(tmp_path / "target", b"t")
    run_job(job(source, to, name="n"))
    restore(
        find_backup(make_backup(to.store, tmp_path / "backups").path),
        tmp_path / "restored",
        Wanted(until=EntryID(MAX_BATCH, 0)),
    )
    with diskstream.open(source) as store:
        store.delete("o")
        store.stream("o").add_many([{"other": number} for number in (1, 2)], ids=["1-0", f"{COUNT + 1}-0"])
    before = replace(to, store=tmp_path / "restored")
    for keep in (True, False):
        wanted = job(source, before, name="n", keep_ids=keep)
        for run in (measure, run_job):
            with pytest.raises(ChangedError, match="knows of a replay n whose plan is gone") as error:
                run(wanted)
            assert f"--name; it has what it was sent up to {MAX_BATCH}-0" in str(error.value.hint)
    with diskstream.open(before.store, read_only=True) as store:
        assert len(store.stream("t")) == MAX_BATCH
    assert run_job(job(source, before, name="m", keep_ids=False)).replayed.sent == 2


def test_killed_before_its_plan_was_written_it_begins(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = ToStream(tmp_path / "target", b"t")

    def stop(_self: PlanFile, _plan: Plan) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PlanFile, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            run_job(job(source, to))
    done = run_job(job(source, to))
    assert (done.resumed, done.complete, done.replayed.sent) == (False, True, COUNT)


@pytest.mark.parametrize("keep", [True, False])
def test_what_a_commit_record_cannot_hold_is_refused_before_anything_is_there(
    source: Path, tmp_path: Path, keep: bool
) -> None:
    """Only the last entry of a batch was looked at, and behind a refusal an empty stream and a plan were left."""
    to, beyond = ToStream(tmp_path / "target", b"t"), f"5-{2**32 - 1}"
    with diskstream.open(source) as store:
        store.stream("p").add_many([{"n": number} for number in range(3)], ids=["1-0", beyond, "6-0"])
    wanted = replace(job(source, to, keep_ids=keep), stream=b"p")
    for run in (measure, run_job):
        with pytest.raises(ArgumentError, match=f"sequence of {beyond} is beyond"):
            run(wanted)
    with diskstream.open(to.store) as store:
        assert store.streams() == []
    assert run_job(replace(wanted, end=EntryID(4, 0))).replayed.sent == 1


def test_without_anything_to_send_it_is_complete(source: Path, tmp_path: Path) -> None:
    wanted = job(source, ToStream(tmp_path / "target", b"t"), where=("n=nothing",))
    assert [(done.resumed, done.complete) for done in (run_job(wanted), run_job(wanted))] == [
        (False, True),
        (True, True),
    ]


# --- a Redis ----------------------------------------------------------------------------------------------------------


def removed(client: Any) -> None:
    client.delete("t")


def replaced(client: Any) -> None:
    client.delete("t")
    client.xadd("t", {"another": 1}, id="1-0")


def emptied(client: Any) -> None:
    client.flushdb()


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("sent", [MAX_BATCH, COUNT], ids=["between two batches", "behind the last one"])
@pytest.mark.parametrize("change", [removed, replaced])
def test_a_key_that_is_removed_is_not_called_complete(
    source: Path, key: ToRedis, client: Any, keep: bool, sent: int, change: Callable[[Any], None]
) -> None:
    """What had been sent before was missing, with status 0, and running it again did nothing."""
    wanted = job(source, key, keep_ids=keep)
    refused(job(source, key, keep_ids=keep, on_entries=after(sent, lambda: change(client))), again=wanted)
    assert client.xlen("t") == (change is replaced), "entries were added to another stream"


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("sent", [MAX_BATCH, COUNT], ids=["between two batches", "behind the last one"])
def test_a_database_that_is_flushed_is_not_called_complete(
    source: Path, key: ToRedis, client: Any, keep: bool, sent: int
) -> None:
    with pytest.raises(ChangedError, match="is gone"):
        run_job(job(source, key, keep_ids=keep, on_entries=after(sent, lambda: emptied(client))))
    assert client.keys() == []
    assert run_job(job(source, key, keep_ids=keep)).replayed.sent == COUNT


def test_what_was_noted_of_a_replay_is_not_written_anew_without_its_position(
    source: Path, key: ToRedis, client: Any
) -> None:
    """A Redis that is out of memory may have evicted it: of another run, at work, there is no sign."""

    def evict() -> None:
        client.delete(*client.keys("diskstream:replay:*"))

    for sent in (MAX_BATCH, COUNT):
        client.flushdb()
        with pytest.raises(ChangedError, match="what was noted of the replay is gone"):
            run_job(job(source, key, on_entries=after(sent, evict)))
        assert client.keys("diskstream:*") == []


@pytest.mark.parametrize("keep", [True, False])
def test_a_key_that_its_owner_trims_is_the_same(source: Path, key: ToRedis, client: Any, keep: bool) -> None:
    client.xadd("t", {"before": 1}, id="0-1")
    trim = after(MAX_BATCH, lambda: client.xtrim("t", maxlen=0, approximate=False))
    assert run_job(job(source, key, keep_ids=keep, on_entries=trim)).complete
    assert client.xlen("t") == COUNT - MAX_BATCH


def test_a_trim_that_comes_in_between_is_not_taken_for_a_rival(
    source: Path, key: ToRedis, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changed the key behind the look at it, and the replay gave up: somebody else had been faster."""
    multi, trims = redis.client.Pipeline.multi, [3]

    def trim_and_begin(self: Any) -> None:
        if trims[0] and client.xlen("t"):
            trims[0] -= 1
            client.xtrim("t", maxlen=client.xlen("t") - 1, approximate=False)
        multi(self)

    monkeypatch.setattr(redis.client.Pipeline, "multi", trim_and_begin)
    assert run_job(job(source, key)).complete
    assert (trims[0], client.xlen("t")) == (0, COUNT - 3)


@pytest.mark.parametrize("counts", [True, False], ids=["a Redis that counts", "one older than 7"])
def test_a_key_that_goes_just_before_new_ids_are_given_is_found_out(
    source: Path, key: ToRedis, client: Any, monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    """Others may add to it at any time, so it is not watched: what was added made the key anew."""
    multi, info, left = redis.client.Pipeline.multi, redis.Redis.xinfo_stream, [True]

    def remove_and_begin(self: Any) -> None:
        if left and client.xlen("t"):
            left.clear()
            client.delete("t")
        multi(self)

    def told(self: Any, *words: Any) -> Any:
        return {name: value for name, value in info(self, *words).items() if counts or name != "entries-added"}

    monkeypatch.setattr(redis.client.Pipeline, "multi", remove_and_begin)
    monkeypatch.setattr(redis.Redis, "xinfo_stream", told)
    wanted = job(source, key, keep_ids=False)
    refused(wanted, again=wanted)
    assert client.xlen("t") == MAX_BATCH


def test_behind_the_greatest_id_nothing_is_left(
    source: Path, key: ToRedis, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before it was called complete, it added the last entry again."""
    with diskstream.open(source) as store:
        store.stream("o").add({"n": "last"}, MAX_ID)

    def stop(_self: RedisSink, _plan: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RedisSink, "complete", stop)
        with pytest.raises(KeyboardInterrupt):
            run_job(job(source, key, keep_ids=False))
    totals: list[int] = []
    wanted = job(source, key, keep_ids=False, on_total=totals.append)
    assert measure(wanted).counted.seen == 0
    done = run_job(wanted)
    assert (done.resumed, done.complete, done.replayed.seen, totals) == (True, True, 0, [0])
    assert client.xlen("t") == COUNT + 1


def test_a_server_of_ours_has_no_place_for_the_position(source: Path, tmp_path: Path) -> None:
    """It said which command it does not know, and not what to do."""
    with serving(tmp_path / "served") as server, pytest.raises(RemoteError, match="does not know a command") as told:
        run_job(Job(source, b"o", ToRedis(f"redis://127.0.0.1:{server.port}", b"t"), speed=None))
    assert "with args" not in str(told.value)
    assert "name its store instead (stream:NAME@STORE)" in (told.value.hint or "")


@pytest.mark.parametrize(
    "refusal",
    [
        redis.exceptions.ClusterCrossSlotError("Keys in request don't hash to the same slot"),
        redis.exceptions.ClusterDownError("Hash slot not served"),
        redis.exceptions.MovedError("7000 127.0.0.1:7001"),
    ],
    ids=["two slots", "no slot", "elsewhere"],
)
def test_a_node_of_a_cluster_is_told_to_be_one(
    source: Path, key: ToRedis, monkeypatch: pytest.MonkeyPatch, refusal: redis.RedisError
) -> None:
    """It said that keys do not hash to the same slot, and not what to do."""

    def refuse(*_: object) -> None:
        raise refusal

    monkeypatch.setattr(RedisSink, "_add", refuse)
    with pytest.raises(RemoteError, match="a node of a cluster, which holds a part of the keys") as told:
        run_job(job(source, key))
    assert "name a server that is in no cluster" in (told.value.hint or "")
