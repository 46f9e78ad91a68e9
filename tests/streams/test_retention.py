"""Retention: the rule is a part of the stream, and what is beyond its limits goes, and nothing else."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, RetentionReport, RetentionRule, Store, Stream, retaining
from diskstream._native import MAX_SETTING_BYTES
from diskstream.copying import copy_stream
from diskstream.engine.limits import size_within
from tests.streams.layers import ids, kinds, layered, log_of, rows, small_store

FULL = RetentionRule(max_age_ms=604_800_000, max_bytes=10 << 30, max_entries=10**9, ref="ACKED")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store where nothing goes unless it is told to."""
    with diskstream.open(tmp_path / "store", retention_interval_ms=0) as opened:
        yield opened


def fill(stream: Stream, count: int, size: int = 100) -> list[EntryID]:
    """Entries in frames of ten, so that they come to lie in several segments."""
    return [entry_id for _ in range(0, count, 10) for entry_id in stream.add_many([{"pad": "." * size}] * 10)]


def applied(stream: Stream, **options: Any) -> RetentionReport:
    """All steps. Each is bounded, and there are not endlessly many."""
    removed = references = 0
    for _ in range(10_000):
        report = stream.apply_retention(**options)
        removed, references = removed + report.removed, references + report.references
        if not report.more:
            return RetentionReport(removed, references)
    raise AssertionError("there is always more to do")


# --- the rule ---------------------------------------------------------------------------------------------------------


def test_there_is_none_at_first_and_clearing_says_whether_there_was_one(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"a": 1})
    assert store.stream("x").retention is None
    assert not stream.clear_retention()
    assert stream.set_retention(max_entries=5) == stream.retention == RetentionRule(max_entries=5)
    assert stream.set_retention(max_bytes=7, ref="DELREF") == stream.retention
    assert stream.retention == RetentionRule(max_bytes=7, ref="DELREF"), "it takes the place of the one before"
    assert stream.clear_retention()
    assert store.stream("x").retention is None
    assert stream.apply_retention() == RetentionReport()


def test_setting_the_same_again_writes_nothing(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"a": 1})
    stream.set_retention(max_entries=5)
    before = log_of(store).native.tail[2]
    stream.set_retention(max_entries=5)
    assert log_of(store).native.tail[2] == before


def test_it_is_durable_when_it_is_set(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        store.stream("x").add({"a": 1})
        store.stream("x").set_retention(max_entries=5)
        assert log_of(store).native.is_durable
        store.stream("x").clear_retention()
        assert log_of(store).native.is_durable


def test_it_survives_rolls_seals_compactions_and_openings(tmp_path: Path) -> None:
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        stream.add({"a": 1})
        stream.set_retention(**dataclasses.asdict(FULL))
        fill(stream, 300)
        assert kinds(store).count("rows") > 2
        assert stream.retention == FULL
        stream.seal()
        stream.compact()
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        assert store.stream("x").retention == FULL
        assert store.stream("x").clear_retention()
        store.stream("x").seal()
    with small_store(tmp_path / "s", read_only=True) as store:
        assert store.stream("x").retention is None


def test_it_goes_with_the_stream_to_another_name_and_into_copies(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store, diskstream.open(tmp_path / "t") as other:
        store.stream("x").add({"a": 1})
        store.stream("x").set_retention(**dataclasses.asdict(FULL))
        store.rename("x", "y")
        assert store.stream("y").retention == FULL
        copy_stream(store.stream("y"), other.stream("z"))
        assert other.stream("z").retention == FULL
        store.delete("y")
        store.stream("y").add({"a": 1})
        assert store.stream("y").retention is None, "another stream of that name is another stream"


def test_info_shows_it(store: Store) -> None:
    store.stream("x").add({"a": 1})
    assert store.stream("x").info().retention is None
    store.stream("x").set_retention(max_entries=5)
    assert store.stream("x").info().retention == RetentionRule(max_entries=5)
    assert store.stream("x").info().retention_error is None


def test_a_stream_that_is_not_there_is_not_made(store: Store) -> None:
    calls = (
        lambda: store.stream("x").set_retention(max_entries=5),
        store.stream("x").clear_retention,
        store.stream("x").apply_retention,
        lambda: store.stream("x").retention,
        lambda: store.stream("x").preview_retention(FULL),
    )
    for call in calls:
        with pytest.raises(diskstream.NoSuchStreamError):
            call()
    assert not store.exists("x")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"ref": "ACKED"},
        {"max_age_ms": 0},
        {"max_bytes": -1},
        {"max_entries": 0},
        {"max_entries": 2**63},
        {"max_entries": True},
        {"max_entries": 5.0},
        {"max_age_ms": "7d"},
        {"max_entries": 5, "ref": "acked"},
        {"max_entries": 5, "ref": None},
        {"max_entries": 5, "to": "/mnt/cold"},
        {"max_entries": 5, "to": "http://bucket/x"},
        {"max_entries": 5, "to": b"s3://bucket"},
        {"max_entries": 5, "to": "s3://"},
        {"max_entries": 5, "to": "file://host/folder"},
        {"max_entries": 5, "to": "file:folder"},
        {"max_entries": 5, "to": "s3://[bucket"},
        {"max_entries": 5, "to": "s3://bucket/\n"},
        {"max_entries": 5, "to": "s3://bucket", "ref": "ACKED"},
        {"max_entries": 5, "to": "s3://bucket/" + "x" * MAX_SETTING_BYTES},
    ],
)
def test_what_is_no_rule_is_refused_and_leaves_the_one_before(store: Store, given: dict[str, Any]) -> None:
    stream = store.stream("x")
    stream.add({"a": 1})
    stream.set_retention(max_entries=7)
    with pytest.raises(diskstream.ArgumentError):
        stream.set_retention(**given)
    assert stream.retention == RetentionRule(max_entries=7)


@pytest.mark.parametrize(
    "to", ["s3://key:hush@bucket/x", "s3://bucket/x?secret_key=hush", "file://me:hush@localhost/x", "ftp://a:hush@b"]
)
def test_a_secret_gets_neither_into_the_log_nor_into_a_message(store: Store, to: str) -> None:
    store.stream("x").add({"a": 1})
    with pytest.raises(diskstream.ArgumentError) as caught:
        store.stream("x").set_retention(max_entries=5, to=to)
    assert "hush" not in str(caught.value)
    store.sync()
    assert all(b"hush" not in path.read_bytes() for path in store.path.rglob("*.log"))


def test_limits_of_a_step_are_checked(store: Store) -> None:
    store.stream("x").add({"a": 1})
    store.stream("x").set_retention(max_entries=5)
    for limit in (0, -1, "5", 2.0, True):
        with pytest.raises(diskstream.ArgumentError):
            store.stream("x").apply_retention(limit=limit)  # type: ignore[arg-type]  # refused: of a wrong kind


def test_a_store_open_for_reading_shows_what_would_go_and_changes_nothing(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", retention_interval_ms=0) as store:
        store.stream("x").add_many([{"n": n} for n in range(10)])
        store.stream("x").set_retention(max_entries=4)
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        stream = store.stream("x")
        assert stream.apply_retention(dry_run=True) == RetentionReport(removed=6)
        for call in (stream.apply_retention, stream.clear_retention, lambda: stream.set_retention(max_entries=1)):
            with pytest.raises(diskstream.ReadOnlyError):
                call()
        assert len(stream) == 10


def test_a_stream_has_room_for_so_many_settings_and_no_more(store: Store) -> None:
    store.stream("x").add({"a": 1})
    log = log_of(store)
    for number in range(64):
        with log.locked():
            log.retry(lambda number=number: log.native.change([("setting", b"%d" % number, b"v")], 1), held=True)  # type: ignore[misc]  # bound now
    with pytest.raises(diskstream.LimitError):
        store.stream("x").set_retention(max_entries=5)
    assert store.stream("x").add({"a": 2}) == store.stream("x").last_id(), "the stream is as good as before"
    assert len(log.native.settings()) == 64


# --- entries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 5, 150, 320])
@pytest.mark.parametrize("limit", [None, 1, 37])
def test_the_newest_entries_stay_whatever_kind_of_segment_they_lie_in(
    tmp_path: Path, keep: int, limit: int | None
) -> None:
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        made = layered(store)
        made.stream.set_retention(max_entries=keep)
        expected = made.live[-keep:]
        assert made.stream.apply_retention(dry_run=True).removed == len(made.live) - len(expected)
        assert applied(made.stream, limit=limit).removed == len(made.live) - len(expected)
        assert rows(made.stream.range()) == expected
        assert made.stream.apply_retention() == RetentionReport()


def test_a_step_ends_with_the_segment_in_which_its_limit_falls(tmp_path: Path) -> None:
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        fill(stream, 300)
        stream.seal()
        first = log_of(store).segments.views()[0].entries
        stream.set_retention(max_entries=1)
        assert stream.apply_retention(limit=3) == RetentionReport(removed=first, more=True)
        assert len(stream) == 300 - first


@pytest.mark.parametrize("ref", ["KEEPREF", "DELREF", "ACKED"])
def test_what_is_added_between_plan_and_lock_stays(store: Store, monkeypatch: pytest.MonkeyPatch, ref: str) -> None:
    stream = store.stream("x")
    stream.add_many([{"n": n} for n in range(100)], ids=[(n + 1, 0) for n in range(100)])
    stream.set_retention(max_age_ms=1, ref=ref)
    real_plan = retaining.plan

    def plan_then_add(*arguments: Any) -> Any:
        planned = real_plan(*arguments)
        stream.add({"n": "new"}, (200, len(stream)))
        return planned

    monkeypatch.setattr(retaining, "plan", plan_then_add)
    assert stream.apply_retention().removed == 100
    assert [entry["n"] for entry in stream] == [b"new"]


# --- age --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def dated(tmp_path: Path) -> Any:
    """A stream in several segments, an entry for each second from 1000 s on, under a clock that is `clock[0]`."""
    clock = [2_000_000]
    with small_store(tmp_path / "s", retention_interval_ms=0, clock=lambda: clock[0]) as store:
        stream = store.stream("x")
        for n in range(200):
            stream.add({"pad": "." * 100}, (1_000_000 + 1000 * n, 0))
        stream.seal()
        for n in range(200, 300):
            stream.add({"pad": "." * 100}, (1_000_000 + 1000 * n, 0))
        yield stream, clock


@pytest.mark.parametrize(
    ("now", "age", "first"),
    [
        (1_100_000, 50_000, 1_050_000),
        (1_100_000, 50_001, 1_050_000),
        (1_100_000, 49_999, 1_051_000),
        (1_250_000, 1_000, 1_249_000),
        (1_299_500, 1_000, 1_299_000),
        (5_000, 1_000_000, 1_000_000),
        (1_000_000, 1, 1_000_000),
    ],
)
def test_what_is_older_goes_to_the_millisecond(dated: Any, now: int, age: int, first: int) -> None:
    stream, clock = dated
    clock[0] = now
    stream.set_retention(max_age_ms=age)
    applied(stream)
    assert ids(stream)[0] == f"{first}-0"
    assert ids(stream)[-1] == "1299000-0"


def test_all_may_be_too_old_and_the_stream_goes_on(dated: Any) -> None:
    stream, clock = dated
    stream.set_retention(max_age_ms=1000)
    applied(stream)
    assert len(stream) == 0
    assert stream.exists()
    assert stream.add({"a": 1}) == EntryID(clock[0], 0)
    assert stream.retention == RetentionRule(max_age_ms=1000)


def test_times_of_files_say_nothing(dated: Any, tmp_path: Path) -> None:
    stream, clock = dated
    clock[0] = 1_299_000
    stream.set_retention(max_age_ms=10**6)
    for path in (tmp_path / "s").rglob("*.seg"):
        shutil.copy(path, path.with_suffix(".copy"))
        path.with_suffix(".copy").replace(path)
    assert applied(stream).removed == 0


# --- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("part", [0.01, 0.3, 0.7, 0.999])
def test_so_many_bytes_of_the_newest_stay(tmp_path: Path, part: float, sealed: bool) -> None:
    with small_store(tmp_path / "s", retention_interval_ms=0, compression_level=0) as store:
        stream = store.stream("x")
        fill(stream, 400, 200)
        if sealed:
            stream.seal()
        fill(stream, 40, 200)
        before = size_within(log_of(store), {})
        wanted = int(before * part)
        each = before // 440
        stream.set_retention(max_bytes=wanted)
        applied(stream)
        left = size_within(log_of(store), {})
        assert wanted - 2 * each - 64 <= left <= wanted
        assert abs(len(stream) / 440 - part) < 0.05


def test_a_stream_that_is_small_enough_loses_nothing(store: Store) -> None:
    stream = store.stream("x")
    fill(stream, 400, 200)
    stream.set_retention(max_bytes=1 << 20, max_entries=400, max_age_ms=60_000)
    assert applied(stream).removed == 0


def test_each_limit_counts_and_the_narrowest_wins(dated: Any) -> None:
    stream, clock = dated
    clock[0] = 1_300_000
    for rule, left in [({"max_entries": 250}, 250), ({"max_age_ms": 200_000}, 200), ({"max_entries": 150}, 150)]:
        stream.set_retention(**{"max_age_ms": 299_000, "max_bytes": 1 << 30, "max_entries": 299} | rule)
        applied(stream)
        assert len(stream) == left


# --- somebody else meanwhile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", ["KEEPREF", "DELREF", "ACKED"])
def test_what_was_planned_is_done_only_if_it_still_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ref: str
) -> None:
    """Between plan and lock somebody deletes the newest entries: by the old plan too few would be left."""
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        added = fill(stream, 300)
        stream.set_retention(max_entries=100, ref=ref)
        deleted = added[-50:]
        real_plan = retaining.plan

        def plan_then_delete(*arguments: Any) -> Any:
            planned = real_plan(*arguments)
            if deleted:
                stream.delete(*deleted)
                deleted.clear()
            return planned

        monkeypatch.setattr(retaining, "plan", plan_then_delete)
        assert applied(stream).removed == 150
        assert ids(stream) == [str(entry_id) for entry_id in added[150:250]]


@pytest.mark.parametrize("ref", ["KEEPREF", "DELREF", "ACKED"])
def test_where_others_delete_all_the_time_it_is_planned_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ref: str
) -> None:
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        added = fill(stream, 600)
        stream.group("g", start="0").consumer("c").read(count=600)
        stream.group("g").ack(*added[1:])
        stream.set_retention(max_entries=50, ref=ref)
        newest, tries, real_plan = added[-100:], list[bool](), retaining.plan

        def plan_then_delete(*arguments: Any) -> Any:
            planned = real_plan(*arguments)
            try:
                tries.append(bool(newest and stream.delete(newest.pop())))
            except diskstream.ArgumentError:  # who holds the lock cannot take it again
                tries.append(False)
            return planned

        monkeypatch.setattr(retaining, "plan", plan_then_delete)
        for _ in range(3):
            stream.apply_retention(limit=100)
        assert tries.count(False) == 3, "once for each step, after the others were in vain"
        assert 50 <= len(stream) < 600 - tries.count(True) - 100
        newest.clear()
        monkeypatch.undo()
        applied(stream)
        assert len(stream) == (51 if ref == "ACKED" else 50)


@pytest.mark.parametrize("ref", ["KEEPREF", "DELREF", "ACKED"])
def test_a_rule_that_is_cleared_between_plan_and_lock_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ref: str
) -> None:
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        fill(stream, 320)
        stream.set_retention(max_entries=100, ref=ref)
        real_plan = retaining.plan

        def plan_then_clear(*arguments: Any) -> Any:
            planned = real_plan(*arguments)
            stream.clear_retention()
            assert log_of(store).native.version == planned.version, "nothing else stands against it"
            return planned

        monkeypatch.setattr(retaining, "plan", plan_then_clear)
        assert stream.apply_retention().removed == 0
        assert stream.apply_retention() == RetentionReport()
        assert len(stream) == 320


def test_a_stream_that_is_sealed_and_compacted_in_between_keeps_what_it_should(tmp_path: Path) -> None:
    with small_store(tmp_path / "s", retention_interval_ms=0) as store:
        made = layered(store)
        made.stream.set_retention(max_entries=120)
        expected = made.live[-120:]
        while (report := made.stream.apply_retention(limit=11)).more:
            made.stream.seal()
            made.stream.compact()
        assert not report.more
        assert rows(made.stream.range()) == expected
