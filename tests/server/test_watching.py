"""Watching streams for changes, whoever makes them."""

import threading
from pathlib import Path

import pytest

import diskstream
from diskstream.engine import names, stream_folders
from diskstream.watching import Watch
from tests.engine.children import child
from tests.processes.child import hold

_LONG_S = 30.0


@pytest.fixture
def other(store: diskstream.Store) -> diskstream.Store:
    return diskstream.open(store.path)


def test_what_changes_is_named(store: diskstream.Store, other: diskstream.Store) -> None:
    store.stream("old").add({"a": 1})
    with other, Watch() as watch:
        for name in (b"old", b"new", b"never"):
            assert watch.add(store, name)
            assert not watch.add(store, name)
        assert watch.changed() == []
        other.stream("old").add({"a": 2})
        assert watch.wait(_LONG_S)
        assert watch.changed() == [(store, b"old")]
        assert watch.changed() == []
        other.stream("new").add({"a": 1})
        assert watch.wait(_LONG_S)
        assert (store, b"new") in watch.changed()  # and those that could have come instead
        other.stream("new").add({"a": 2})
        assert watch.changed() == [(store, b"new")]
        other.delete("old")
        assert (store, b"old") in watch.changed()
        watch.remove(store, b"new")
        other.stream("new").add({"a": 3})
        assert (store, b"new") not in watch.changed()
        assert not watch.wait(0.001)


def test_a_name_that_another_gave_to_a_new_stream_is_watched_on(
    store: diskstream.Store, other: diskstream.Store
) -> None:
    """Though this opening still has the old one, whose bell rings for the last time."""
    with other, Watch() as watch:
        for turn in range(5):
            other.stream("s").add({"turn": turn})
            store.stream("s").last_id()
            watch.add(store, b"s")
            other.delete("s")
            other.stream("s").add({"turn": turn})
            assert watch.changed() == [(store, b"s")]
            other.stream("s").add({"turn": turn})
            assert watch.changed() == [(store, b"s")]
            other.delete("s")
            watch.changed()


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The names that a place was looked for."""
    found: list[bytes] = []
    place = diskstream.Store._place

    def look(store: diskstream.Store, name: bytes) -> Path:
        found.append(name)
        return place(store, name)

    monkeypatch.setattr(diskstream.Store, "_place", look)
    return found


NAMES = [b"never %d" % number for number in range(2000)]


def test_a_name_that_comes_does_not_make_all_others_be_looked_for(
    store: diskstream.Store, other: diskstream.Store, looked: list[bytes]
) -> None:
    with other, Watch() as watch:
        for name in (*NAMES, b"new", b"x" * 500, b"ASIDE"):
            watch.add(store, name)
        for name in (b"new", b"x" * 500):
            looked.clear()
            other.stream(name).add({"a": 1})
            looked.clear()
            assert watch.changed() == [(store, name)]
            assert watch.stale() == []
            assert set(looked) <= {b"new", b"x" * 500}
        other.stream("ASIDE").add({"a": 1})
        there = names.encode_name(b"ASIDE")
        (store.path / "streams" / there).rename(store.path / "streams" / f".replaced-{there}")
        assert watch.changed() == [(store, b"ASIDE")]  # and gave it its name back, which rings
        assert watch.changed() == []
        assert not watch.wait(0.001)
        other.stream(NAMES[7]).add({"a": 1})
        assert watch.wait(_LONG_S)
        assert watch.changed() == [(store, NAMES[7])]


def test_few_names_are_looked_for_one_by_one_where_there_are_many_streams(
    store: diskstream.Store, other: diskstream.Store, looked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_folders, "_LISTED_FOR_A_LOOK", 1)
    for number in range(30):
        store.stream(f"s{number}")._log(create=True)
    with other, Watch() as watch:
        for name in NAMES[:20]:
            watch.add(store, name)
        looked.clear()
        other.stream("new").add({"a": 1})
        looked.clear()
        assert watch.changed() == [(store, name) for name in NAMES[:20]]
        assert looked == NAMES[:20]


def test_a_read_of_many_names_does_not_look_for_each(store: diskstream.Store, looked: list[bytes]) -> None:
    store.stream("s").add({"a": 1}, "1-1")
    looked.clear()
    assert [*store.read(dict.fromkeys([*NAMES, b"s"], "0"), block=0.01)] == [b"s"]
    store.delete("s")
    looked.clear()
    assert store.read(dict.fromkeys([*NAMES, b"s"], "0"), block=0.01) == {}
    assert not set(looked) & set(NAMES)


def test_a_ring_is_not_lost_where_bells_are_looked_up_again(store: diskstream.Store, other: diskstream.Store) -> None:
    store.stream("s").add({"n": 1})
    with other, Watch() as watch:
        watch.add(store, b"s")
        assert (watch.changed(), watch.stale()) == ([], [])
        other.stream("s").add({"n": 2})
        assert watch.stale() == [(store, b"s")]
        assert (watch.changed(), watch.stale()) == ([], [])


def test_a_wait_ends_when_another_process_appends(store: diskstream.Store) -> None:
    with child(hold, store.path, "everysec") as process, Watch() as watch:
        assert process.hear() == "ready 0"
        watch.add(store, b"x")
        for _ in range(3):
            process.tell()
            while not watch.changed():
                watch.wait(_LONG_S)
            process.hear()


def test_a_wait_is_interrupted_from_another_thread(store: diskstream.Store) -> None:
    with Watch() as watch:
        watch.add(store, b"s")
        found: list[bool] = []
        waiting = threading.Thread(target=lambda: found.append(watch.wait(_LONG_S)))
        waiting.start()
        watch.interrupt()
        waiting.join(_LONG_S)
        assert found == [True]
        watch.interrupt()
        assert watch.wait(_LONG_S)  # one that came before
        assert not watch.wait(0.001)


def test_what_cannot_be_opened_changes_once(store: diskstream.Store, tmp_path: Path) -> None:
    store.stream("s").add({"a": 1})
    with Watch() as watch:
        watch.add(store, b"s")
        store.close()
        assert watch.changed() == [(store, b"s")]
        assert watch.changed() == []
        assert watch.stale() == []


MANY = [b"of many %d" % number for number in range(40)]


def test_more_than_may_be_open_are_watched_without_being_opened_in_turn(
    tmp_path: Path, logs_opened: list[Path]
) -> None:
    """Each look closed others, and whoever opened one rang for it: a server did nothing else any more."""
    with diskstream.open(tmp_path / "s", fsync="os", max_open_streams=8) as store, Watch() as watch:
        for name in MANY:
            store.stream(name).add({"n": 1})
        for name in MANY:
            watch.add(store, name)
        store.read(dict.fromkeys(MANY, "$"))  # a look, as of whoever waits for them
        assert watch.changed() == []
        watch.stale()
        logs_opened.clear()
        for _ in range(3):
            assert (watch.changed(), watch.stale()) == ([], [])
        assert logs_opened == []


def test_closing_one_rings_for_nobody(tmp_path: Path) -> None:
    """A look as a consumer is noted, and the mark at the end of a log that is closed behind it rang."""
    with diskstream.open(tmp_path / "s", fsync="os", max_open_streams=8) as store, Watch() as watch:
        for name in MANY:
            store.stream(name).add({"n": 1})
            store.stream(name).create_group("g")
        for name in MANY:
            watch.add(store, name)
        assert store.read_group("g", "c", dict.fromkeys(MANY, ">")) == {}
        assert (watch.changed(), watch.stale(), watch.changed()) == ([], [], [])


def test_what_happens_to_one_that_is_closed_here_is_noticed(tmp_path: Path) -> None:
    with (
        diskstream.open(tmp_path / "s", fsync="os", max_open_streams=2) as store,
        diskstream.open(tmp_path / "s", fsync="os") as other,
        Watch() as watch,
    ):
        for name in MANY[:8]:
            store.stream(name).add({"n": 1})
            watch.add(store, name)
        watch.stale()
        other.stream(MANY[0]).add({"n": 2})
        assert watch.wait(_LONG_S)
        assert watch.changed() == [(store, MANY[0])]
        other.delete(MANY[1])
        assert watch.changed() == [(store, MANY[1])]
        other.stream(MANY[1]).add({"n": 3})
        assert (store, MANY[1]) in watch.changed()
        place = store.path / "streams" / names.encode_name(MANY[2])
        (place / "ctl").unlink()  # by somebody who does not know better
        other.stream(MANY[2]).add({"n": 2})
        assert (store, MANY[2]) in [*watch.changed(), *watch.stale()]
        page, _, _ = watch._pages[store, MANY[3]]
        watch._pages[store, MANY[3]] = page, (1, 1), None  # as where a writer was killed before it rang
        assert watch.stale() == [(store, MANY[3])]
