"""Retention without anybody calling: in the background of whoever has the stream open, and of nobody else."""

import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import diskstream
from diskstream import RemoteError, RetentionReport, RetentionRule, Store, moving_out
from diskstream.retaining import memory_of
from diskstream.steady_clock import STEP_MS
from tests.engine.children import child, until
from tests.engine.mounts import small_disk
from tests.server.client import Client, packed, serving
from tests.streams import retaining_children
from tests.streams.background import LIMIT_S
from tests.streams.layers import ids, log_of, small_store
from tests.streams.test_retention import fill

QUICK: dict[str, Any] = {"retention_interval_ms": 2}


def retaining_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name in ("diskstream-retention", "diskstream-cold")]


def test_a_rule_is_applied_and_applied_again(tmp_path: Path) -> None:
    with small_store(tmp_path / "s", **QUICK) as store:
        stream = store.stream("x")
        fill(stream, 500)
        stream.set_retention(max_entries=100)
        until(lambda: len(stream) == 100)
        added = fill(stream, 300)
        until(lambda: ids(stream) == [str(entry_id) for entry_id in added[200:]])
        assert stream.info().retention_error is None
    assert retaining_threads() == []


def test_a_rule_is_set_where_no_thread_can_be_started_and_applied_when_one_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with small_store(tmp_path / "s", **QUICK) as store:
        stream = store.stream("x")
        fill(stream, 500)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            assert stream.set_retention(max_entries=100).max_entries == 100
            assert retaining_threads() == []
        until(lambda: len(stream) == 100)


def test_a_thread_that_an_interrupt_began_goes_and_another_applies_the_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ran on, and the other one beside it; closing the store waited for that one alone."""
    whole, begun = threading.Thread.start, list[threading.Thread]()

    def start(thread: threading.Thread) -> None:
        whole(thread)
        begun.append(thread)
        raise KeyboardInterrupt

    with small_store(tmp_path / "s", **QUICK, fsync="always") as store:
        stream = store.stream("x")
        fill(stream, 500)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            with pytest.raises(KeyboardInterrupt):
                stream.set_retention(max_entries=100)
        begun[0].join(LIMIT_S)
        assert not begun[0].is_alive()
        until(lambda: len(stream) == 100)
    assert retaining_threads() == []


def test_there_is_no_thread_where_there_is_no_rule(tmp_path: Path) -> None:
    with small_store(tmp_path / "s", **QUICK) as store, small_store(tmp_path / "t", retention_interval_ms=0) as other:
        fill(store.stream("x"), 10)
        fill(other.stream("x"), 10)
        other.stream("x").set_retention(max_entries=1)
        assert retaining_threads() == []
        assert len(other.stream("x")) == 10


def test_a_store_that_is_opened_looks_after_what_was_set_before(tmp_path: Path) -> None:
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        fill(store.stream("x"), 100)
        store.stream("x").set_retention(max_entries=10)
    with small_store(tmp_path / "s", **QUICK) as store:
        stream = store.stream("x")
        until(lambda: len(stream) == 10)


def test_another_process_that_has_it_open_applies_what_is_set_here(tmp_path: Path) -> None:
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        fill(stream, 100)
        with child(retaining_children.keep, tmp_path / "s") as other:
            assert other.hear() == "100"
            stream.set_retention(max_entries=10)
            until(lambda: len(stream) == 10)
            stream.clear_retention()
            fill(stream, 100)
            assert len(stream) == 110
        assert len(stream) == 110


def test_a_server_applies_what_is_set_beside_it(tmp_path: Path) -> None:
    with serving(tmp_path / "s") as server, Client.to(server) as client:
        client.sock.sendall(b"".join(packed("XADD", "x", "*", "n", n) for n in range(50)))
        for _ in range(50):
            client.reply()
        with small_store(tmp_path / "s", retention_interval_ms=0) as store:
            store.stream("x").set_retention(max_entries=7)
            until(lambda: len(store.stream("x")) == 7)
        assert client.call("XLEN", "x") == 7
        assert client.call("XRANGE", "x", "-", "+")[0][1] == [b"n", b"43"]


def test_a_forked_child_looks_after_it_too_and_its_parent_goes_on(tmp_path: Path) -> None:
    with child(retaining_children.keep_and_fork, tmp_path / "s") as parent:
        assert [parent.hear() for _ in range(3)] == ["50", "0", "50"]
        assert parent.wait() == 0


def test_a_stream_that_is_renamed_and_removed_meanwhile_is_no_failure(tmp_path: Path) -> None:
    with small_store(tmp_path / "s", **QUICK) as store:
        for turn in range(20):
            fill(store.stream("x"), 60)
            store.stream("x").set_retention(max_entries=7 + turn)
            store.rename("x", "y")
            until(lambda turn=turn: len(store.stream("y")) == 7 + turn)  # type: ignore[misc]  # bound now
            assert store.stream("y").info().retention_error is None
            store.delete("y")


def test_more_streams_than_may_be_open_are_let_go_of(tmp_path: Path) -> None:
    with small_store(tmp_path / "s", max_open_streams=2, **QUICK) as store:
        for number in range(6):
            fill(store.stream(f"x{number}"), 20)
            store.stream(f"x{number}").set_retention(max_entries=5)
        until(lambda: sum(len(store.stream(f"x{number}")) for number in range(6)) == 30)
        assert len(store._logs) <= 2


@pytest.mark.parametrize("ref", ["KEEPREF", "DELREF", "ACKED"])
def test_a_rule_makes_room_on_a_full_disk(tmp_path: Path, ref: str) -> None:
    with small_disk(tmp_path / "disk") as disk, small_store(disk / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        stream.add({"pad": ""})
        stream.group("g", start="0")
        stream.set_retention(max_entries=100, ref=ref)
        with pytest.raises(diskstream.DiskFullError):
            for _ in range(20_000):
                stream.add({"pad": "." * 200})
        with small_store(disk / "s", **QUICK) as keeper:
            beside = keeper.stream("x")
            if ref == "ACKED":
                # A full disk has no room to note who was given what; a group that is removed needs nothing.
                beside.group("g", create=False).destroy()
            until(lambda: len(beside) == 100)
            until(lambda: can_add(stream))
            assert beside.info().retention_error is None


def can_add(stream: diskstream.Stream) -> bool:
    try:
        return stream.add({"pad": "." * 200}) is not None
    except diskstream.DiskFullError:
        return False


@pytest.mark.parametrize("interval", [-1, 3_600_001, 0.5, None, True])
def test_how_often_is_an_option_with_a_range(tmp_path: Path, interval: Any) -> None:
    with pytest.raises(diskstream.ArgumentError, match="retention_interval_ms"):
        diskstream.open(tmp_path / "s", retention_interval_ms=interval)


# --- producers meanwhile, kills ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", ["KEEPREF", "DELREF", "ACKED"])
def test_several_producers_and_keepers_lose_nothing_that_is_new(tmp_path: Path, ref: str) -> None:
    with small_store(tmp_path / "s", **QUICK) as store, small_store(tmp_path / "s", **QUICK) as second:
        stream = store.stream("x")
        stream.add({"by": "start", "n": -1})
        stream.set_retention(max_entries=200, ref=ref)

        def produce(to: Store, name: str) -> None:
            for number in range(800):
                to.stream("x").add({"by": name, "n": number, "pad": "." * 50})

        makers = [threading.Thread(target=produce, args=(to, name)) for to, name in [(store, "a"), (second, "b")]]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        until(lambda: len(stream) == 200)
        kept = [(entry["by"], int(entry["n"])) for entry in stream]
        for name in (b"a", b"b"):
            mine = [number for by, number in kept if by == name]
            assert mine == list(range(800 - len(mine), 800))
        assert stream.info().entries_added == 1601


@pytest.mark.parametrize("seed", range(2))
def test_a_kill_at_any_moment_leaves_the_newest_and_the_rule(tmp_path: Path, seed: int) -> None:
    path, rng = tmp_path / "s", random.Random(seed)
    with small_store(path, retention_interval_ms=0) as store:
        store.stream("x").add({"n": 0})
        store.stream("x").set_retention(max_entries=100, ref="ACKED" if seed % 2 else "KEEPREF")
    said = 0
    for _ in range(3):
        with child(retaining_children.produce, path) as producer:
            for _ in range(rng.randrange(1, 500)):
                said = int(producer.hear())
            said = max([said, *map(int, producer.kill())])
        with small_store(path, retention_interval_ms=0) as store:
            stream = store.stream("x")
            kept = [int(entry["n"]) for entry in stream]
            assert kept == list(range(kept[0], kept[-1] + 1)), "what is left has no gap"
            assert kept[-1] >= said
            assert len(kept) >= min(100, kept[-1] + 1), "never fewer than the rule keeps"
            assert stream.retention == RetentionRule(max_entries=100, ref="ACKED" if seed % 2 else "KEEPREF")
            assert store.verify().ok
            said = kept[-1]


def test_a_rule_that_was_said_to_be_set_is_set_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with small_store(path) as store:
        store.stream("x").add({"n": 0})
    for heard in (1, 2, 3, 50):
        with child(retaining_children.set_and_clear, path) as setter:
            said = [setter.hear() for _ in range(heard)]
            last = int([*said, *setter.kill()][-1])
        with small_store(path, read_only=True) as store:
            # What came right behind the last that was said may be there as well.
            expected = [retaining_children.nth_rule(number) for number in (last, last + 1)]
            assert store.stream("x").retention in expected


# --- the clock --------------------------------------------------------------------------------------------------------


def believed_by(store: Store) -> list[int]:
    """The times that the background goes by from now on, as they come."""
    looked: list[int] = []
    believed = store._retainer._clock.believed

    def noted(wall_ms: int, newest: tuple[int, int] | None = None) -> int:
        looked.append(believed(wall_ms, newest))
        return looked[-1]

    store._retainer._clock.believed = noted  # type: ignore[method-assign]  # looked over the shoulder
    return looked


def test_a_clock_that_jumps_ahead_removes_nothing(tmp_path: Path) -> None:
    clock = [1_800_000_000_000]
    with small_store(tmp_path / "s", clock=lambda: clock[0], **QUICK) as store:
        stream = store.stream("x")
        old = f"{clock[0] - 100_000}-0"
        stream.add({"n": "old"}, old)
        fill(stream, 50)
        stream.set_retention(max_age_ms=50_000)
        until(lambda: len(stream) == 50)
        assert stream.get(old) is None
        clock[0] += 365 * 86_400_000
        added = fill(stream, 10)
        looked = believed_by(store)
        until(lambda: len(looked) > 10)
        assert max(looked) < clock[0] - 364 * 86_400_000
        assert len(stream) == 60
        assert stream.apply_retention(dry_run=True).removed == 50, "who asks for it is taken at his word"
        assert ids(stream)[-1] == str(added[-1])


def test_a_clock_that_is_wrong_from_the_start_removes_nothing_at_first(tmp_path: Path) -> None:
    clock = [1_800_000_000_000]
    with small_store(tmp_path / "s", clock=lambda: clock[0], retention_interval_ms=0) as store:
        fill(store.stream("x"), 50)
        store.stream("x").set_retention(max_age_ms=10 * STEP_MS)
    clock[0] += 365 * 86_400_000
    with small_store(tmp_path / "s", clock=lambda: clock[0], **QUICK) as store:
        stream = store.stream("x")
        looked = believed_by(store)
        until(lambda: len(stream) + len(looked) > 60)
        assert len(stream) == 50
        assert stream.apply_retention().removed == 50


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failure_is_shown_hurts_no_append_and_goes_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diskstream.retainer._LONGEST_RETRY_S", 0.01)
    with small_store(tmp_path / "s", retention_interval_ms=2) as store:
        stream = store.stream("x")
        for n in range(1, 201):
            stream.add({"pad": "." * 100}, f"{n}-0")
        stream.seal()
        sealed = sorted(log_of(store).directory.glob("*.seg"))
        hidden = [path.rename(path.with_suffix(".hidden")) for path in sealed]
        log_of(store).segments.cache.drop_owner(log_of(store).segments._owner)
        clock = 10**9
        store._retainer._clock.believed = lambda *_: clock  # type: ignore[method-assign]  # a stand-in
        within = log_of(store).segments.views()[0].first.ms + 3
        stream.set_retention(max_age_ms=clock - within)  # within a segment, which must be read for it
        until(lambda: error_of(store) is not None)
        assert "no file" in (error_of(store) or "")
        stream.add({"n": 1}, "300-0")
        for path in hidden:
            path.rename(path.with_suffix(".seg"))
        until(lambda: len(stream) == 198)
        until(lambda: stream.info().retention_error is None)


def test_a_failure_keeps_no_stream_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of it must not hold the log that it came from."""

    def fail(log: Any, now: int) -> RetentionReport:
        raise diskstream.StorageError(str(log.directory), "look into", 5, "a test said so")

    monkeypatch.setattr("diskstream.retainer.step", fail)
    with small_store(tmp_path / "s", max_open_streams=1, **QUICK) as store:
        store.stream("x").add({"n": 1})
        store.stream("x").set_retention(max_entries=1)
        until(lambda: error_of(store) is not None)
        gone = weakref.ref(log_of(store))
        store.stream("y").add({"n": 1})
        until(lambda: gone() is None)


def error_of(store: Store) -> str | None:
    return memory_of(log_of(store)).error


# --- cold storage -----------------------------------------------------------------------------------------------------


class Cold:
    """Stands in for what moves segments: it notes how it was called and takes the files away."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.fails: Exception | None = None
        self.waits: threading.Event | None = None
        self.waiting = threading.Event()

    def move_out(self, stream: Any, place_url: str, **options: Any) -> dict[str, int]:
        progress: Callable[[int], None] | None = options.pop("progress")
        self.calls.append({"place": place_url, **options})
        if self.fails is not None:
            raise self.fails
        if self.waits is not None:
            self.waiting.set()
            while not self.waits.wait(0.005):
                assert progress is not None
                progress(0)
        return {"segments": 1}


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cold]:
    """In the place of `diskstream.cold.moving`."""
    stand_in, module = Cold(), ModuleType("moving")
    module.move_out = stand_in.move_out  # type: ignore[attr-defined]  # a stand-in
    module.check_place = lambda *_: None  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setattr(moving_out, "_MOVER", "stand_in_for_cold_moving")
    monkeypatch.setitem(sys.modules, "stand_in_for_cold_moving", module)
    yield stand_in
    assert retaining_threads() == []


@contextmanager
def sealed(path: Path, **options: Any) -> Iterator[Store]:
    """A stream in sealed segments, an entry for each second from 1000 s on, and an active one."""
    with small_store(path, clock=lambda: 1_400_000, **options) as store:
        stream = store.stream("x")
        for n in range(300):
            stream.add({"pad": "." * 100}, (1_000_000 + 1000 * n, 0))
        stream.seal()
        stream.add({"pad": ""}, (1_300_000, 0))
        yield store


def test_each_limit_moves_what_is_beyond_it_and_nothing_is_removed(tmp_path: Path, cold: Cold) -> None:
    with sealed(tmp_path / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        stream.set_retention(max_age_ms=200_000, max_bytes=100, max_entries=250, to="s3://bucket/cold")
        report = stream.apply_retention()
        assert report == RetentionReport(moved=({"segments": 1},) * 3)
        limits = [{"older_than_ms": 200_000}, {"keep_bytes": 100}, {"keep_entries": 250}]
        given = {"place": "s3://bucket/cold", "now_ms": 1_400_000, "dry_run": False}
        assert cold.calls == [{**given, **limit} for limit in limits]
        assert len(stream) == 301
        assert stream.apply_retention(dry_run=True).moved
        assert cold.calls[-1]["dry_run"] is True


def test_it_is_not_asked_where_nothing_is_beyond(tmp_path: Path, cold: Cold) -> None:
    with sealed(tmp_path / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        stream.set_retention(max_age_ms=10**9, max_entries=299, max_bytes=1 << 30, to="file:///mnt/cold")
        assert stream.apply_retention() == RetentionReport()
        for path in log_of(store).directory.glob("*.seg"):
            path.unlink()  # as where all was moved
        stream.set_retention(max_age_ms=1, to="file:///mnt/cold")
        assert stream.apply_retention() == RetentionReport()
        assert cold.calls == []


def test_a_slow_object_storage_delays_nothing_else(tmp_path: Path, cold: Cold) -> None:
    cold.waits = threading.Event()
    with sealed(tmp_path / "s", **QUICK) as store:
        stream, other = store.stream("x"), store.stream("other")
        stream.set_retention(max_entries=1, to="s3://bucket")
        assert cold.waiting.wait(20)
        fill(other, 100)
        other.set_retention(max_entries=10)
        until(lambda: len(other) == 10)
        stream.add({"a": 1})
        assert len(stream) == 302
    assert retaining_threads() == [], "an upload under way ends with the store, at its next sign of progress"


def test_it_goes_by_the_time_that_was_planned_with(tmp_path: Path, cold: Cold) -> None:
    """One segment was due, and all that a clock that was ahead called old went with it."""
    with sealed(tmp_path / "s", **QUICK) as store:
        store.stream("x").set_retention(max_age_ms=200_000, to="s3://bucket")
        until(lambda: len(cold.calls) > 0)
        assert 1_300_000 <= cold.calls[0]["now_ms"] < 1_300_000 + STEP_MS + 30_000, "the newest entry vouches for it"


def test_an_object_storage_that_fails_is_tried_again(
    tmp_path: Path, cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diskstream.retainer._LONGEST_RETRY_S", 0.01)
    monkeypatch.setattr("diskstream.retainer._BETWEEN_MOVES_S", 0.01)
    cold.fails = RemoteError("s3://bucket", "it is not there")
    with sealed(tmp_path / "s", **QUICK) as store:
        stream = store.stream("x")
        stream.set_retention(max_entries=1, to="s3://bucket")
        until(lambda: len(cold.calls) > 3)
        assert stream.info().retention_error == "s3://bucket: it is not there"
        with pytest.raises(RemoteError):
            stream.apply_retention()
        cold.fails = None
        until(lambda: stream.info().retention_error is None)
        assert len(stream) == 301


def test_what_cannot_move_says_so_and_sets_no_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_out, "_MOVER", "diskstream.no_such_module")
    with sealed(tmp_path / "s", **QUICK) as store:
        with pytest.raises(diskstream.ArgumentError, match="cold storage"):
            store.stream("x").set_retention(max_entries=1, to="s3://bucket")
        assert store.stream("x").retention is None
