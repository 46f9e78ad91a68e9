"""`Store`: opening, closing, and what it does with streams as a whole."""

import asyncio
import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import (
    ArgumentError,
    ClosedError,
    DiskstreamError,
    NoSuchStreamError,
    NotAStoreError,
    ReadOnlyError,
    Store,
    Stream,
    StreamExistsError,
    aio,
)
from diskstream.copying import temporary_name
from tests.streams.layers import Layered, ids, kinds, layered, rows, small_store


class Path2(os.PathLike[str]):
    """A path of somebody else's making."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


# --- opening and closing ----------------------------------------------------------------------------------------------


def test_it_is_made_where_there_is_none_and_found_where_there_is(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "store"
    with diskstream.open(path) as store:
        assert store.path == path
        assert not store.closed
        assert store.streams() == []
        store.stream("x").add({"a": 1}, "5-3")
    assert sorted(each.name for each in path.iterdir() if each.name != "ctl") == ["store.json", "streams"]
    with diskstream.open(path, create=False) as store:
        assert ids(store.stream("x")) == ["5-3"]


@pytest.mark.parametrize("kind", [str, Path, Path2])
def test_its_path_is_text_or_anything_that_is_a_path(tmp_path: Path, kind: Any) -> None:
    with diskstream.open(kind(tmp_path / "store")) as store:
        store.stream("x").add({"a": 1})
        assert store.path == tmp_path / "store"


def test_an_empty_directory_becomes_a_store_and_any_other_does_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    diskstream.open(tmp_path / "empty").close()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("hello")
    with pytest.raises(NotAStoreError, match=r"letter\.txt"):
        diskstream.open(tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter.txt"]
    (tmp_path / "file").write_text("hello")
    with pytest.raises(NotAStoreError):
        diskstream.open(tmp_path / "file")


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}])
def test_it_is_not_made_where_that_is_not_wanted(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(NotAStoreError):
        diskstream.open(tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_closing_twice_is_fine_and_leaving_its_block_closes_it(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("x").add({"a": 1})
    assert store.closed
    store.close()
    assert "closed" in repr(store)
    with pytest.raises(KeyError), diskstream.open(tmp_path / "store") as store:
        raise KeyError
    assert store.closed


def test_what_was_added_is_there_again_after_closing(tmp_path: Path) -> None:
    with small_store(tmp_path / "store") as store:
        made = layered(store)
    for _ in range(3):
        with small_store(tmp_path / "store") as store:
            assert rows(store.stream("x")) == made.live
            assert store.recoveries == []
            assert len(set(kinds(store))) == 4


def test_one_process_may_open_it_twice(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as one, diskstream.open(tmp_path / "store") as other:
        one.stream("x").add({"a": 1}, "1-0")
        other.stream("x").add({"a": 2}, "2-0")
        one.stream("x").add({"a": 3}, "3-0")
        assert ids(one.stream("x")) == ids(other.stream("x")) == ["1-0", "2-0", "3-0"]
        assert other.delete("x")
        assert not one.exists("x")
        assert one.stream("x").add({"a": 4}, "1-0") is not None
        assert ids(other.stream("x")) == ["1-0"]


def test_open_for_reading_only_it_reads_and_refuses_to_write(tmp_path: Path) -> None:
    with small_store(tmp_path / "store") as store:
        made = layered(store)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")}
    with diskstream.open(tmp_path / "store", read_only=True) as store:
        stream = store.stream("x")
        assert rows(stream.range()) == rows(stream.revrange())[::-1] == made.live
        assert len(stream) == len(made.live)
        assert store.verify().ok
        for call in (
            lambda: stream.add({"a": 1}),
            lambda: stream.add({"a": 1}, maxlen=5),
            lambda: stream.add_many([{"a": 1}]),
            lambda: stream.delete(made.live[0][0]),
            lambda: stream.trim(maxlen=1),
            lambda: stream.set_id("99999-0"),
            lambda: store.delete("x"),
            lambda: store.rename("x", "y"),
            lambda: store.stream("new").add({"a": 1}),
        ):
            with pytest.raises(ReadOnlyError):
                call()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")} == before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fsink": "always"}, "no such option: fsink; did you mean fsync"),
        ({"readonly": True}, "no such option: readonly; did you mean read_only"),
        ({"fsync": "never"}, "fsync must be 'always', 'everysec', 'interval=MS' or 'os', not 'never'"),
        ({"fsync": "interval=0"}, "the interval of fsync must be"),
        ({"fsync": None}, "fsync must be"),
        ({"audit": "no"}, "audit must be True or False, not 'no'"),
        ({"decode_responses": "no"}, "decode_responses must be True or False, not 'no'"),
        ({"seal": "never"}, "seal must be 'background' or 'manual'"),
        ({"segment_bytes": 8191}, "segment_bytes must be"),
        ({"segment_bytes": "8192"}, "segment_bytes must be"),
        ({"node_max_entries": 0}, "node_max_entries must be"),
        ({"node_max_bytes": 1 << 40}, "node_max_bytes must be"),
        ({"compression_level": 20}, "compression_level must be"),
        ({"cache_bytes": -1}, "cache_bytes must be"),
    ],
)
def test_an_option_that_cannot_be_is_named(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        diskstream.open(tmp_path / "store", **options)
    assert text in str(caught.value)
    assert not (tmp_path / "store").exists()


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_stream_that_is_not_finished_is_listed_for_who_asks_alone(store: Store) -> None:
    """An application that goes over its streams trimmed what a restore was making, and found names that nobody gave."""
    hidden = temporary_name()
    store.stream(hidden).add({"n": 1})
    store.stream("a").add({"n": 1})
    assert (store.streams(), store.streams("*"), [each.name for each in store]) == ([b"a"], [b"a"], [b"a"])
    assert store.streams(unfinished=True) == store.streams("*", unfinished=True) == [hidden, b"a"]
    assert asyncio.run(_listed(store, unfinished=True)) == [hidden, b"a"]


async def _listed(store: Store, *, unfinished: bool) -> list[bytes]:
    async with await aio.open(store.path) as opened:
        return await opened.streams(unfinished=unfinished)


def test_streams_are_listed_in_byte_order_and_by_pattern(store: Store) -> None:
    for name in ("race:italy", "race:france", "other", b"\xff", "Race:france"):
        store.stream(name).add({"a": 1})
    everything = [b"Race:france", b"other", b"race:france", b"race:italy", b"\xff"]
    assert store.streams() == everything
    assert store.streams("race:*") == store.streams(b"race:*") == [b"race:france", b"race:italy"]
    assert store.streams("?ace:france") == [b"Race:france", b"race:france"]
    assert store.streams("[Ro]*") == [b"Race:france", b"other"]
    assert store.streams("race") == []
    assert [stream.name for stream in store] == everything
    assert all(isinstance(stream, Stream) for stream in store)


def test_a_stream_exists_once_something_was_added(store: Store) -> None:
    stream = store.stream("x")
    assert not stream.exists()
    assert not store.exists("x")
    assert "x" not in store
    assert list(stream) == []
    stream.add({"a": 1})
    assert stream.exists()
    assert store.exists(b"x")
    assert "x" in store


def test_deleting_a_stream_forgets_all_of_it(tmp_path: Path) -> None:
    with small_store(tmp_path / "store") as store:
        stream = layered(store).stream
        before = list((tmp_path / "store" / "streams").iterdir())
        assert len(before) == 1
        assert store.delete("x")
        assert not store.delete("x")
        assert list((tmp_path / "store" / "streams").iterdir()) == []
        assert not stream.exists()
        assert list(stream) == []
        assert len(stream) == 0
        assert str(stream.add({"a": 1}, "0-1")) == "0-1"
        info = stream.info()
        assert (info.length, info.entries_added, str(info.max_deleted_entry_id)) == (1, 1, "0-0")
    with small_store(tmp_path / "store") as store:
        assert ids(store.stream("x")) == ["0-1"]


def test_renaming_a_stream_takes_all_of_it_along(tmp_path: Path) -> None:
    with small_store(tmp_path / "store") as store:
        made = layered(store)
        before = made.stream.info()
        store.rename("x", "y")
        assert store.streams() == [b"y"]
        assert list(made.stream) == []
        after = store.stream("y").info()
        assert (after.name, after.length, after.last_generated_id) == (b"y", before.length, before.last_generated_id)
        assert (after.entries_added, after.max_deleted_entry_id) == (before.entries_added, before.max_deleted_entry_id)
        assert rows(store.stream("y")) == made.live
        store.stream("y").add({"a": 1}, "99999-0")
        made.stream.add({"a": 1}, "1-0")
    with small_store(tmp_path / "store") as store:
        assert store.streams() == [b"x", b"y"]
        assert rows(store.stream("y"))[:-1] == made.live
        assert ids(store.stream("x")) == ["1-0"]


def test_renaming_replaces_what_has_the_name_unless_told_not_to(store: Store) -> None:
    store.stream("a").add({"n": 1}, "1-0")
    store.stream("b").add({"n": 2}, "2-0")
    with pytest.raises(StreamExistsError, match="already has a stream 'b'"):
        store.rename("a", "b", replace=False)
    assert store.streams() == [b"a", b"b"]
    store.rename("a", "b")
    assert store.streams() == [b"b"]
    assert ids(store.stream("b")) == ["1-0"]
    store.rename("b", "b")
    store.rename("b", "c", replace=False)
    assert ids(store.stream("c")) == ["1-0"]


def test_renaming_needs_a_stream(store: Store) -> None:
    for new in ("b", "a"):
        with pytest.raises(NoSuchStreamError, match=r"^no such key"):
            store.rename("a", new)
    assert store.streams() == []


@pytest.mark.parametrize("call", ["seal", "compact"])
def test_keeping_one_stream_needs_it(store: Store, call: str) -> None:
    with pytest.raises(NoSuchStreamError):
        getattr(store, call)("x")
    assert not store.exists("x")
    assert getattr(store, call)() in (0, [])
    assert store.stream("x").seal() == 0
    assert store.stream("x").compact() is None


def test_sealing_and_compacting_change_nothing_that_is_read(small: Store) -> None:
    made = layered(small)
    assert made.stream.seal() > 0
    assert made.stream.seal() == 0
    assert set(kinds(small)) == {"compacted", "sealed", "active"}
    assert rows(made.stream) == made.live
    report = made.stream.compact()
    assert report is not None
    assert report.entries_dropped > 0
    assert report.bytes_after < report.bytes_before
    assert (report.segments_after, set(kinds(small))) == (len(kinds(small)) - 1, {"compacted", "active"})
    assert rows(made.stream) == made.live
    assert small.verify().ok


def test_sealing_and_compacting_tell_the_entries_and_the_bytes_that_they_have_written(small: Store) -> None:
    made = Layered(small, small.stream("x"))
    made.add(140)
    told: list[tuple[int, int]] = []
    assert small.seal("x", progress=lambda entries, size: told.append((entries, size))) > 0
    files = sum(path.stat().st_size for path in small.path.rglob("*.seg"))
    assert (sum(entries for entries, _ in told), sum(size for _, size in told)) == (140, files)
    made.delete(range(0, 140, 2))
    told.clear()
    (report,) = small.compact("x", progress=lambda entries, size: told.append((entries, size)))
    assert sum(size for _, size in told) == report.bytes_after


# --- after closing ----------------------------------------------------------------------------------------------------


def test_after_closing_everything_says_so(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        stream = store.stream("x")
        stream.add({"a": 1}, "5-3")
        ranged, audited = stream.range(), stream.audit()
    for call in (
        lambda: store.stream("x"),
        store.streams,
        lambda: store.exists("x"),
        lambda: "x" in store,
        lambda: list(store),
        lambda: store.delete("x"),
        lambda: store.rename("x", "y"),
        lambda: store.read({"x": "0"}),
        store.sync,
        store.seal,
        store.compact,
        store.verify,
        lambda: stream.add({"a": 1}),
        lambda: stream.add({"a": 1}, "9-9", maxlen=4),
        lambda: stream.add_many([{"a": 1}]),
        lambda: next(ranged),
        lambda: list(stream),
        lambda: list(stream.revrange()),
        lambda: stream.get("5-3"),
        lambda: stream.read("0"),
        lambda: next(stream.tail("0")),
        lambda: len(stream),
        stream.exists,
        lambda: stream.delete("5-3"),
        lambda: stream.trim(maxlen=0),
        lambda: stream.set_id("9-9"),
        stream.info,
        stream.columns,
        stream.to_arrow,
        lambda: list(stream.audit()),
        lambda: next(audited),
        stream.audit_table,
        stream.seal,
        stream.compact,
        lambda: stream.wait_durable("5-3"),
    ):
        with pytest.raises(ClosedError, match="is closed: open the store again"):
            call()
    with diskstream.open(tmp_path / "store") as store:
        assert ids(store.stream("x")) == ["5-3"]


def test_a_block_does_not_begin_on_a_store_that_was_closed(store: Store) -> None:
    """It ran up to its first call, with what it does before that."""
    store.close()
    with pytest.raises(ClosedError, match="is closed: open the store again"), store:
        pytest.fail("it began")

    async def enter() -> None:
        async with aio.Store(store):
            pytest.fail("it began")

    with pytest.raises(ClosedError):
        asyncio.run(enter())


def test_all_errors_are_of_one_tree(store: Store) -> None:
    store.close()
    with pytest.raises(DiskstreamError):
        store.streams()


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_is_open_says_how_another_process_comes_to_it(tmp_path: Path, send: Callable[[object], object]) -> None:
    """As an argument of a process that is not forked, it could not be pickled for a lock of ours."""
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("x")
        stream.add({"n": "1"})
        group = stream.group("g")
        for each in (store, stream, group, group.consumer("c"), aio.Store(store), aio.Store(store).stream("x")):
            if send is copy.copy and not isinstance(each, diskstream.Store):
                continue  # a copy of a handle is one
            with pytest.raises(TypeError, match=f"send the path '{store.path}'"):
                send(each)
