"""Reads that wait for more streams than the kernel sleeps on at once."""

import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Store, group_calls, reading, watching
from diskstream._native import wait_bells, wait_turns
from diskstream.engine import stream_folders
from diskstream.engine.files import Files
from diskstream.errors import NoGroupError
from tests.streams.background import Background
from tests.streams.layers import ids

_NAMES = [f"s{number:03}" for number in range(200)]
_WAIT_S = 0.5
_LOOKS_PER_S = 20 + 5 + 15  # for a signal, at all words, and some more


@pytest.fixture
def many(tmp_path: Path) -> Store:
    store = diskstream.open(tmp_path / "many", fsync="os")
    for name in _NAMES:
        store.stream(name).add({"n": 0}, "1-1")
    return store


@pytest.mark.parametrize("there", [True, False])
def test_who_waits_for_many_streams_sleeps_meanwhile(many: Store, *, there: bool) -> None:
    names = _NAMES if there else [f"missing-{name}" for name in _NAMES]
    woken = []
    with many:
        for _ in range(4):  # threads that want the interpreter meanwhile wake it as well, now and then
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
            began = time.monotonic()
            assert many.read(dict.fromkeys(names, "$"), block=_WAIT_S) == {}
            passed_s = max(1.0, time.monotonic() - began)
            woken.append((resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before) / passed_s)
    assert min(woken) <= _LOOKS_PER_S


def test_an_add_of_another_opening_wakes_it(many: Store) -> None:
    with many, diskstream.open(many.path, fsync="os") as other:
        waiting = Background(lambda: many.read(dict.fromkeys(_NAMES, "1-1"), block=60))
        other.stream(_NAMES[150]).add({"n": 1}, "2-1")
        assert {name: ids(found) for name, found in waiting.result().items()} == {_NAMES[150].encode(): ["2-1"]}


def test_a_stream_that_comes_wakes_it(many: Store) -> None:
    with many, diskstream.open(many.path, fsync="os") as other:
        waiting = Background(lambda: many.read(dict.fromkeys([*_NAMES, "new"], "1-1"), block=60))
        other.stream("new").add({"n": 1}, "2-1")
        assert {name: ids(found) for name, found in waiting.result().items()} == {b"new": ["2-1"]}


def test_a_stream_whose_maker_died_before_he_rang_is_found(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LOOK_S", 0.05)
    with many, diskstream.open(many.path, fsync="os") as other:
        waiting = Background(lambda: many.read(dict.fromkeys([*_NAMES, "new"], "1-1"), block=60))
        stream_folders.create_stream(many.path / "streams", b"new", Files())
        other.stream("new").add({"n": 1}, "2-1")
        assert {name: ids(found) for name, found in waiting.result().items()} == {b"new": ["2-1"]}


def test_a_consumer_of_many_streams_is_woken(many: Store) -> None:
    with many, diskstream.open(many.path, fsync="os") as other:
        for name in _NAMES:
            many.stream(name).create_group("g")
        waiting = Background(lambda: many.read_group("g", "c", dict.fromkeys(_NAMES, ">"), block=60))
        other.stream(_NAMES[150]).add({"n": 1}, "2-1")
        assert {name: ids(found) for name, found in waiting.result().items()} == {_NAMES[150].encode(): ["2-1"]}


def test_a_name_that_a_killed_process_gave_to_a_stream_is_found_by_the_look_each_second(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SETTLED_NS", 0)  # as though the directory had not changed for long
    with many, watching.Watch() as watch:
        place = (many, b"new")
        watch.add(*place)
        assert watch.stale() == watch.stale() == []
        stream_folders.create_stream(many.path / "streams", b"new", many._files)  # and rings no bell
        assert watch.stale() == [place]


def test_a_watched_stream_that_was_closed_for_others_is_seen_to_change(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "few", max_open_streams=1) as store, watching.Watch() as watch:
        store.stream("closed").add({"n": 1})
        watch.add(store, b"closed")
        store.stream("open").add({"n": 1})
        with diskstream.open(tmp_path / "few") as other:  # alone with the stream: its page is made anew
            other.stream("closed").add({"n": 2})
            assert watch.changed() == [(store, b"closed")]


def test_who_waits_for_more_than_may_be_open_does_not_open_them_in_turn(
    many: Store, logs_opened: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    many.close()
    monkeypatch.setattr(reading, "_LOOK_S", 0.001)
    logs_opened.clear()
    with diskstream.open(many.path, fsync="os", max_open_streams=8) as few:
        assert few.read(dict.fromkeys(_NAMES, "1-1"), block=3 * _WAIT_S) == {}
        assert len(logs_opened) <= len(_NAMES)  # at first only


_SOME = _NAMES[:20]


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Store]:
    """More streams than may be open, each of which has an entry."""
    with diskstream.open(tmp_path / "crowded", fsync="os", max_open_streams=4) as store:
        for name in _SOME:
            store.stream(name).add({"n": 0}, "1-1")
        yield store


def test_an_end_to_wait_behind_is_found_and_looked_at_in_one_opening(crowded: Store, logs_opened: list[Path]) -> None:
    logs_opened.clear()
    assert crowded.read(dict.fromkeys(_SOME, "$"), block=0.001) == {}
    assert len(logs_opened) <= len(_SOME)


def test_of_more_than_may_be_open_only_those_that_changed_are_opened_again(
    crowded: Store, logs_opened: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for thousands hears of an entry at once, not after each was opened again."""
    sleeps = threading.Event()

    def note(bells: list[Any], timeout_s: float) -> bool:
        sleeps.set()
        return wait_bells(bells, timeout_s)

    monkeypatch.setattr(reading, "wait_bells", note)
    with diskstream.open(crowded.path) as other:
        waiting = Background(lambda: crowded.read(dict.fromkeys(_SOME, "$"), block=60))
        assert sleeps.wait(60)
        logs_opened.clear()
        other.stream(_SOME[10]).add({"n": 1}, "2-1")
        assert {name: ids(found) for name, found in waiting.result().items()} == {_SOME[10].encode(): ["2-1"]}
        assert {place.name for place in logs_opened} == {_SOME[10]}


def test_one_that_was_closed_meanwhile_wakes_who_waits(many: Store) -> None:
    many.close()
    with diskstream.open(many.path, fsync="os", max_open_streams=8) as few, diskstream.open(many.path) as other:
        waiting = Background(lambda: few.read(dict.fromkeys(_NAMES, "1-1"), block=60))
        other.stream(_NAMES[0]).add({"n": 1}, "2-1")
        assert {name: ids(found) for name, found in waiting.result().items()} == {_NAMES[0].encode(): ["2-1"]}


_FEW = _NAMES[:40]
_SLICES = 30


@pytest.fixture
def grouped(many: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The streams with a group each, whose waits are looked after all the time."""
    monkeypatch.setattr(group_calls, "LOOK_MS", 1)
    for name in _FEW:
        many.stream(name).create_group("g")
    many.close()
    return many


@pytest.mark.parametrize("policy", ["os", "always"])
def test_a_consumer_of_more_than_may_be_open_does_not_open_them_in_turn(
    grouped: Store, logs_opened: list[Path], monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """And a place in the queue of a page that is made anew is not given up with the one that went before."""
    stop, slices = threading.Event(), list[int]()

    def note(turns: list[Any], bells: list[Any], timeout_s: float) -> bool:
        slices.append(len(logs_opened))
        if len(slices) == _SLICES:
            stop.set()
        return wait_turns(turns, bells, timeout_s)

    monkeypatch.setattr(group_calls, "wait_turns", note)
    logs_opened.clear()
    with diskstream.open(grouped.path, fsync=policy, max_open_streams=8) as few:
        assert few.read_group("g", "c", dict.fromkeys(_FEW, ">"), block=0, stop=stop) == {}
    assert slices[4] == slices[-1] <= 5 * len(_FEW)  # at first, and once more where that look was noted


@pytest.mark.parametrize("name", [_FEW[0], _FEW[-1]])
def test_a_consumer_is_woken_by_one_that_was_closed_meanwhile(grouped: Store, name: str) -> None:
    with diskstream.open(grouped.path, fsync="os", max_open_streams=8) as few, diskstream.open(grouped.path) as other:
        for number in range(2, 5):
            waiting = Background(lambda: few.read_group("g", "c", dict.fromkeys(_FEW, ">"), block=60))
            other.stream(name).add({"n": 1}, f"{number}-1")
            assert {name: ids(found) for name, found in waiting.result().items()} == {name.encode(): [f"{number}-1"]}


@pytest.mark.parametrize("gone", ["the stream", "the group"])
def test_a_consumer_is_told_that_one_that_was_closed_meanwhile_is_gone(grouped: Store, gone: str) -> None:
    with diskstream.open(grouped.path, fsync="os", max_open_streams=8) as few, diskstream.open(grouped.path) as other:
        waiting = Background(lambda: few.read_group("g", "c", dict.fromkeys(_FEW, ">"), block=60))
        if gone == "the stream":
            other.delete(_FEW[0])
        else:
            other.stream(_FEW[0]).group("g").destroy()
        with pytest.raises(NoGroupError):
            waiting.result()


def test_a_consumer_of_more_than_may_be_open_is_given_what_ripens(grouped: Store) -> None:
    with diskstream.open(grouped.path, fsync="os", max_open_streams=8) as few, diskstream.open(grouped.path) as other:
        other.stream(_FEW[0]).add({"n": 1}, "2-1")
        other.stream(_FEW[0]).group("g").consumer("dead").read()
        found = few.read_group("g", "c", dict.fromkeys(_FEW, ">"), block=60, claim_ms=300)
        assert {name: ids(entries) for name, entries in found.items()} == {_FEW[0].encode(): ["2-1"]}
