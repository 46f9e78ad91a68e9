"""A group that follows a query of many streams: only what moved is touched, and what was missed is made up for."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Store
from diskstream.errors import StorageError
from diskstream.group import Group

pytest.importorskip("pyspark.sql.streaming.datasource")

from diskstream.spark import offsets, stream_reader
from diskstream.spark.acknowledge import Follower
from tests.spark.test_stream_units import Offset, Query, fill

NAMES = [f"s{number}" for number in range(6)]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the streams that were opened for writing since the list was last emptied."""
    names: list[str] = []
    really: Callable[..., Any] = Store._open_log

    def noted(store: Store, name: bytes, where: Path, **named: Any) -> Any:
        if not store.read_only:
            names.append(name.decode())
        return really(store, name, where, **named)

    monkeypatch.setattr(Store, "_open_log", noted)
    return names


def wide(store: Store, **options: Any) -> Query:
    for name in NAMES:
        fill(store, range(1, 4), name)
    query = Query(store.path, streampattern="s*", streams=None, group="g", **options)
    assert len(query.batch()) == 3 * len(NAMES)
    return query


def reached(store: Store) -> dict[str, str]:
    found = {}
    for name in NAMES:
        groups = {each.name: each for each in store.stream(name).groups()}
        found[name] = str(groups[b"g"].last_delivered_id) if b"g" in groups else "-"
    return found


def test_the_listener_touches_only_the_streams_that_moved(store: Store, opened: list[str]) -> None:
    follower = Follower()
    query = wide(store)
    follower.acknowledge_progress([json.dumps(query.offset)])
    fill(store, range(4, 6), "s3")
    assert len(query.batch()) == 2
    opened.clear()
    follower.acknowledge_progress([json.dumps(query.offset)])
    assert opened == ["s3"]
    assert reached(store) == {**dict.fromkeys(NAMES, "3-0"), "s3": "5-0"}


def test_of_streams_that_are_read_no_more_nothing_is_remembered(store: Store, opened: list[str]) -> None:
    """A driver lives long, and a query by pattern may see any number of streams come and go."""
    follower = Follower()
    for name in NAMES:
        fill(store, range(1, 4), name)
    ends = {name.encode(): EntryID("3-0") for name in NAMES}
    known = {name: store.stream(name).identity() or b"" for name in ends}
    few = {name: each for name, each in ends.items() if name != b"s3"}
    for positions in (ends, few):
        follower.acknowledge(
            offsets.encode(positions, str(store.path), "g", streams={name: known[name] for name in positions})
        )
    opened.clear()
    follower.acknowledge(offsets.encode(ends, str(store.path), "g", streams=known))
    assert opened == ["s3"]


def test_where_none_moved_the_store_is_not_opened(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower()
    query = wide(store)
    follower.acknowledge(query.offset)
    monkeypatch.setattr(diskstream, "open", lambda *_, **__: pytest.fail("opened a store"))
    follower.acknowledge(query.offset)


def test_the_reader_tells_the_group_in_the_store_that_it_has_open(store: Store, opened: list[str]) -> None:
    query = wide(store)
    opened.clear()
    query.reader.commit(query.offset)
    assert opened == []
    assert reached(store) == dict.fromkeys(NAMES, "3-0")


def test_what_the_query_has_not_come_to_yet_stays_as_well(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream had no group before the first batch with entries of it was done, and so a trim took all that it had."""
    monkeypatch.setattr(stream_reader, "_LIST_EVERY_S", -1.0)

    def trimmed(*names: str) -> list[int]:
        for name in names:
            store.stream(name).trim(maxlen=0, ref="ACKED")
        return [len(store.stream(name)) for name in names]

    for name in NAMES[:2]:
        fill(store, range(1, 4), name)
    query = Query(store.path, streampattern="s*", streams=None, group="g", maxentriespertrigger=1)
    assert trimmed(*NAMES[:2]) == [3, 3], "before the first batch"
    assert query.batch() == [(NAMES[0], 1)]
    query.reader.commit(query.offset)
    assert trimmed(*NAMES[:2]) == [2, 3], "before the first of them was read"
    fill(store, range(1, 4), NAMES[2])
    query.latest()
    assert trimmed(*NAMES[:3]) == [2, 3, 3], "of a stream that came later"
    left = {(NAMES[0], 2), (NAMES[0], 3), *((name, n) for name in NAMES[1:3] for n in (1, 2, 3))}
    assert sorted(row for _ in range(8) for row in query.batch()) == sorted(left)


def failing_once(monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
    really, failures = Group.advance, [name]

    def fail(group: Group, to: EntryID) -> bool:
        if group.stream.name in failures:
            failures.remove(group.stream.name)
            raise StorageError("a disk", "write", 5, "it said no")
        return really(group, to)

    monkeypatch.setattr(Group, "advance", fail)


def test_what_failed_holds_up_no_other_stream_and_is_told_again_though_it_stands_still(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower()
    query = wide(store)
    failing_once(monkeypatch, b"s2")
    follower.acknowledge_progress([json.dumps(query.offset)])
    assert reached(store) == {**dict.fromkeys(NAMES, "3-0"), "s2": "0-0"}
    fill(store, range(4, 6), "s3")
    query.batch()
    follower.acknowledge_progress([json.dumps(query.offset)])
    assert reached(store) == {**dict.fromkeys(NAMES, "3-0"), "s3": "5-0"}


def test_what_somebody_undid_is_made_up_for_with_the_next_batch(store: Store) -> None:
    follower = Follower()
    query = wide(store)
    follower.acknowledge(query.offset)
    store.stream("s1").group("g", create=False).destroy()
    store.stream("s4").group("g", create=False).set_id("1-0")
    follower.acknowledge(query.offset)
    query.reader.commit(query.offset)
    assert reached(store) == dict.fromkeys(NAMES, "3-0")


def test_a_query_whose_store_was_moved_has_its_group_follow_there(store: Store, tmp_path: Path) -> None:
    """Spark commits the batch before a restart anew, and that has the path of before."""
    query = wide(store)
    before: Offset = query.offset
    query.reader.stop()
    store.close()
    shutil.move(store.path, tmp_path / "moved")
    again = Query(tmp_path / "moved", before, streampattern="s*", streams=None, group="g")
    again.reader.commit(before)
    with diskstream.open(tmp_path / "moved") as moved:
        assert reached(moved) == dict.fromkeys(NAMES, "3-0")


def test_a_query_without_a_group_opens_nothing_for_it(store: Store, opened: list[str]) -> None:
    for name in NAMES:
        fill(store, range(1, 4), name)
    query = Query(store.path, streampattern="s*", streams=None)
    query.reader.stop()
    opened.clear()
    query.reader.commit(query.offset)
    assert opened == []
