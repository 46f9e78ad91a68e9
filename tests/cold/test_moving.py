"""Segments leave a stream's directory, are read through from where they are, and come back; nothing else changes."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Stream, cold_segments, retainer
from diskstream.cold import bring_back, move_out
from diskstream.engine.limits import size_within
from diskstream.errors import (
    ArgumentError,
    ChangedError,
    CorruptionError,
    NoSuchStreamError,
    ReadOnlyError,
    RemoteError,
)
from diskstream.retaining import memory_of
from tests.cold.world import ENTRIES, SMALL, filled, names_in, opened, rows, where
from tests.engine.children import until
from tests.engine.sample import log_of


def test_what_was_moved_is_read_as_before_and_comes_back(stream: Stream, place: str, tmp_path: Path) -> None:
    before = rows(stream)
    report = move_out(stream, place, older_than_ms=0)
    moved = len(report.segments)
    assert moved > 5
    assert report.stays
    assert where(stream) == ["cold"] * moved + ["here"]
    assert len(names_in(tmp_path / "store" / "streams", ".cold")) == moved
    assert len(names_in(tmp_path / "store" / "streams", ".seg")) == 1
    info = stream.info()
    assert (info.cold_segments, info.cold_bytes) == (moved, report.size_bytes)
    assert rows(stream) == before
    assert rows(stream, "50", "70") == before[49:70]
    assert [entry.id for entry in stream.revrange("60", "40")] == [row[0] for row in reversed(before[39:60])]
    assert stream.to_arrow().num_rows == ENTRIES
    assert len(stream) == stream.count_from("-") == ENTRIES
    found = stream.get("33-0")
    assert found is not None
    assert found.pairs == before[32][1]
    back = bring_back(stream)
    assert [each.number for each in back.segments] == [each.number for each in report.segments]
    assert set(where(stream)) == {"here"}
    assert names_in(tmp_path / "store" / "streams", ".cold") == []
    assert rows(stream) == before


def test_opening_finds_nothing_to_say_of_stubs_and_asks_no_storage(
    stream: Stream, folder_place: str, tmp_path: Path
) -> None:
    before = rows(stream)
    move_out(stream, folder_place, older_than_ms=0)
    stream._store.close()
    (tmp_path / "place").rename(tmp_path / "elsewhere")
    with opened(tmp_path / "store") as store:
        assert store.recoveries == []
        again = store.stream("x")
        assert len(again) == ENTRIES
        assert str(again.add({"n": "new"}, "1000-0")) == "1000-0"
        assert rows(again, "200", "+")[-1][0].ms == 1000
        with pytest.raises(RemoteError, match=r"there is no folder.*entries 1-0 to"):
            rows(again, "1", "2")
        assert store.verify().ok
        assert again.info().length == ENTRIES + 1
        (tmp_path / "elsewhere").rename(tmp_path / "place")
        assert rows(again)[:-1] == before


@pytest.mark.parametrize(
    ("rule", "stays"),
    [
        ({"before": "100"}, lambda last: last >= 100),
        ({"keep_entries": 50}, lambda last: last > ENTRIES - 50),
        ({"keep_entries": 0}, lambda last: last == ENTRIES),
        ({"keep_bytes": 1 << 40}, lambda last: True),
        ({"keep_bytes": 0}, lambda last: last == ENTRIES),
    ],
)
def test_rules_say_what_goes(
    stream: Stream, folder_place: str, rule: dict[str, int], stays: Callable[[int], bool]
) -> None:
    from diskstream.cold_segments import segments_of

    before = rows(stream)
    move_out(stream, folder_place, **rule)  # type: ignore[arg-type]  # one of its options, of its kind
    for each in segments_of(stream):
        assert (each.where == "here") == stays(each.last.ms), each
    assert rows(stream) == before


def test_age_is_that_of_the_newest_id_by_the_clock_of_the_store(tmp_path: Path, folder_place: str) -> None:
    with opened(tmp_path / "store", clock=lambda: 10_000) as store:
        stream = filled(store)
        assert len(move_out(stream, folder_place, older_than_ms=10_000 - 100).segments) == where(stream).count("cold")
        from diskstream.cold_segments import segments_of

        assert all((each.where == "cold") == (each.last.ms < 100) for each in segments_of(stream))


def test_a_dry_run_says_what_would_go_and_asks_nobody(stream: Stream) -> None:
    report = move_out(stream, "s3://nowhere/x?endpoint_override=http://127.0.0.1:1", older_than_ms=0, dry_run=True)
    assert len(report.segments) > 5
    assert set(where(stream)) == {"here"}


def test_a_second_run_moves_only_what_is_new(stream: Stream, place: str) -> None:
    first = move_out(stream, place, before="100")
    second = move_out(stream, place, older_than_ms=0)
    assert second.already == len(first.segments)
    assert not {each.number for each in first.segments} & {each.number for each in second.segments}


def test_what_came_back_goes_again_without_being_put_again(stream: Stream, place: str) -> None:
    first = move_out(stream, place, older_than_ms=0)
    bring_back(stream)
    assert [each.path for each in move_out(stream, place, older_than_ms=0).segments] == [
        each.path for each in first.segments
    ]


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@bucket/x",
        "s3://bucket/x?access_key=secret",
        "s3://bucket/x?endpoint_override=http://key:secret@host",
        "s3://bucket/x#secret",
        "s3://bucket/../x",
        "s3://bucket/a//b",
        "s3:///x",
        "ftp://secret/x",
        "/tmp/secret",
        "file://secret/x",
        "file:///",
        "abfss://container:secret@account.dfs.core.windows.net/x",
        "https://user:secret@host/x",
        "secret\n",
        "file:///" + "\u4e00" * 500,
        "s3://bucket/" + "x" * 2048,
        "",
    ],
)
def test_a_place_that_cannot_be_is_refused_without_repeating_secrets(stream: Stream, url: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        move_out(stream, url, older_than_ms=0)
    assert "secret" not in str(refused.value).replace("a-secret", "")


def test_a_place_inside_the_store_is_refused(stream: Stream, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="inside the store"):
        move_out(stream, f"file://{tmp_path}/store/streams", older_than_ms=0)


def test_bad_rules_and_streams_are_refused(stream: Stream, folder_place: str) -> None:
    for rule in ({}, {"older_than_ms": -1}, {"keep_bytes": 1.5}, {"keep_entries": True}, {"before": "x"}):
        with pytest.raises(ArgumentError):
            move_out(stream, folder_place, **rule)
    with pytest.raises(ArgumentError):
        move_out(stream, folder_place, older_than_ms=0, bytes_per_s=0)
    with pytest.raises(NoSuchStreamError):
        move_out(stream._store.stream("y"), folder_place, older_than_ms=0)
    with (
        diskstream.open(stream._store.path, read_only=True, **SMALL) as store,
        pytest.raises(ReadOnlyError),
    ):
        move_out(store.stream("x"), folder_place, older_than_ms=0)


def test_two_at_once_are_refused(stream: Stream, folder_place: str) -> None:
    def second(_: int) -> None:
        with opened(stream._store.path) as store, pytest.raises(ChangedError, match="somebody else"):
            move_out(store.stream("x"), folder_place, older_than_ms=0)
        seen.append(True)

    seen: list[bool] = []
    move_out(stream, folder_place, before="30", progress=second)
    assert seen


def test_a_rule_that_another_process_is_applying_has_not_failed(
    tmp_path: Path, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`info` told of an error in every process that had the stream open but the one that was moving."""
    monkeypatch.setattr(retainer, "_BETWEEN_MOVES_S", 0.001)
    with opened(tmp_path / "store", retention_interval_ms=0) as first:
        stream = filled(first, count=60)
        stream.set_retention(max_entries=20, to=folder_place)
        with opened(tmp_path / "store", retention_interval_ms=1) as second:
            other = second.stream("x")
            with cold_segments.opened(stream):  # as long as the first moves
                assert other.info().retention_error is None
                memory = memory_of(log_of(second))
                until(lambda: memory.retry_s > 0)
                assert other.info().retention_error is None
            until(lambda: "cold" in where(other))
            assert other.info().retention_error is None


def test_appends_and_seals_go_on_while_segments_move(stream: Stream, folder_place: str) -> None:
    added = []

    def append(_: int) -> None:
        added.append(stream.add({"n": "x" * 5000}))
        stream.seal()

    move_out(stream, folder_place, before="100", progress=append)
    assert len(added) > 5
    assert len(rows(stream)) == ENTRIES + len(added)
    assert stream._store.verify(cold=True).ok


def test_a_damaged_segment_stays_and_is_named(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    victim = sorted((tmp_path / "store" / "streams" / "x").glob("*.seg"))[2]
    data = bytearray(victim.read_bytes())
    data[100] ^= 1
    victim.write_bytes(data)
    with pytest.raises(CorruptionError, match=victim.name):
        move_out(stream, folder_place, older_than_ms=0)
    assert where(stream)[:4] == ["cold", "cold", "here", "here"]
    assert victim.read_bytes() == data


def test_a_trim_takes_stubs_away_and_leaves_objects(stream: Stream, folder_place: str, tmp_path: Path) -> None:
    move_out(stream, folder_place, older_than_ms=0)
    objects = names_in(tmp_path / "place", ".seg")
    assert stream.trim(minid="101") == 100
    assert rows(stream)[0][0].ms == 101
    stream.seal()
    stubs = names_in(tmp_path / "store" / "streams", ".cold")
    assert len(stubs) < len(objects)
    assert names_in(tmp_path / "place", ".seg") == objects
    assert stream._store.verify(cold=True).ok


def test_deletes_trims_and_compactions_beside_cold_segments(stream: Stream, folder_place: str) -> None:
    move_out(stream, folder_place, before="100")
    assert stream.delete("5-0", "150-0", "151-0") == 3
    stream._store.compact("x")
    assert where(stream)[:3] == ["cold"] * 3
    left = [row[0].ms for row in rows(stream)]
    assert left == [number for number in range(1, ENTRIES + 1) if number not in (5, 150, 151)]
    assert stream.trim(maxlen=100) == ENTRIES - 103
    assert [row[0].ms for row in rows(stream)] == left[-100:]
    bring_back(stream)
    stream._store.compact("x")
    assert [row[0].ms for row in rows(stream)] == left[-100:]
    assert stream._store.verify().ok


def test_a_stream_that_is_renamed_or_deleted_takes_its_stubs_along(
    stream: Stream, folder_place: str, tmp_path: Path
) -> None:
    before = rows(stream)
    move_out(stream, folder_place, older_than_ms=0)
    store = stream._store
    store.rename("x", "y")
    assert rows(store.stream("y")) == before
    store.delete("y")
    assert names_in(tmp_path / "store" / "streams", ".cold") == []


@pytest.mark.parametrize("look", ["delete", "get", "range", "splits", "trim"])
def test_another_stream_in_its_place_is_not_taken_for_damage(
    stream: Stream, folder_place: str, tmp_path: Path, look: str
) -> None:
    # Found by the power part: a delete opened the stub of the stream that had been renamed to the name meanwhile.
    store = stream._store
    for name in ("x", "y"):
        if name == "y":
            filled(store, name)
        move_out(store.stream(name), folder_place, older_than_ms=0)
    with opened(tmp_path / "store") as other:
        there = other.stream("x")
        assert len(there) == ENTRIES
        store.rename("y", "x")
        match look:
            case "delete":
                assert there.delete("5-0") == 1
            case "get":
                assert there.get("5-0") is not None
            case "range":
                assert len(list(there.range())) == ENTRIES
            case "splits":
                assert sum(piece.entries for piece in there.splits()) == ENTRIES
            case _:
                assert there.trim(minid="30-0", approximate=False) == 29


def test_a_lease_and_a_copy_read_what_is_cold(stream: Stream, place: str, tmp_path: Path) -> None:
    import shutil

    before = rows(stream)
    move_out(stream, place, older_than_ms=0)
    lease = stream._store.lease(["x"])
    stream._store.sync()
    shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("cold-cache", "ctl", "view"))
    stream._store.delete("x")
    for path in (lease, tmp_path / "copy"):
        with diskstream.open(path, read_only=True) as store:
            assert rows(store.stream("x")) == before
            assert not (path / "cold-cache").exists()
            assert len(store.stream("x").splits(tail=False)) >= 1


def test_progress_counts_each_byte_twice(stream: Stream, place: str) -> None:
    handled: list[int] = []
    report = move_out(stream, place, older_than_ms=0, progress=handled.append, bytes_per_s=1e9)
    assert sum(handled) == 2 * report.size_bytes
    fetched: list[int] = []
    assert bring_back(stream, progress=fetched.append).size_bytes == sum(fetched)


@pytest.mark.parametrize("change", ["deleted", "renamed", "replaced"])
def test_a_stream_that_goes_while_its_segments_come_back_is_no_loss_of_objects(
    stream: Stream, folder_place: str, tmp_path: Path, change: str
) -> None:
    """That its own half of a file was gone was told as an object that was not there any more."""
    move_out(stream, folder_place, older_than_ms=0)

    def goes(_: int) -> None:
        with opened(tmp_path / "store") as other:
            if change == "deleted":
                other.delete("x")
            elif change == "renamed":
                other.rename("x", "y")
            else:
                other.stream("y").add({"n": "1"})
                other.rename("y", "x")

    with pytest.raises(NoSuchStreamError, match="deleted or renamed meanwhile"):
        bring_back(stream, progress=goes)


def test_some_segments_come_back(stream: Stream, folder_place: str) -> None:
    move_out(stream, folder_place, older_than_ms=0)
    assert len(bring_back(stream, start="50", end="50", dry_run=True).segments) == 1
    assert len(bring_back(stream, start="50", end="50").segments) == 1
    assert where(stream).count("here") == 2


def test_what_was_moved_away_does_not_count_as_bytes_here(tmp_path: Path) -> None:
    """Who remembered the size of its file trimmed it, to be kept though it was."""
    chance = random.Random(1)
    options: dict[str, Any] = {"retention_interval_ms": 0, "segment_bytes": 8192, "seal": "manual"}
    with diskstream.open(tmp_path / "s", **options) as store:
        stream = store.stream("x")
        for number in range(500):
            stream.add({"n": number, "noise": chance.randbytes(60)})
        stream.seal()
        local = stream._use(lambda log: size_within(log, {}), 0)
        stream.set_retention(max_bytes=local + 4000)
        assert stream.apply_retention().removed == 0
        assert move_out(stream, f"file://{tmp_path / 'cold'}", keep_entries=100).segments
        stream.add_many([{"n": number, "noise": chance.randbytes(60)} for number in range(100)])
        assert stream.apply_retention(dry_run=True).removed == 0
        assert stream.apply_retention().removed == 0
        assert len(stream) == 600


def test_a_child_that_was_forked_while_segments_moved_keeps_nobody_from_moving_more(
    stream: Stream, folder_place: str
) -> None:
    reader, writer = os.pipe()
    with cold_segments.opened(stream):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # until its parent says so
            os._exit(0)
    try:
        assert move_out(stream, folder_place, keep_entries=50).segments
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)
