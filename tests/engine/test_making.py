"""Two processes that make the same thing at once make one thing."""

import json
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Store
from tests.engine.children import Child, child
from tests.engine.sample import SMALL, files_of
from tests.engine.stand_ins import Watched
from tests.engine.users import make, make_until

ROUNDS = 8


def race(path: Path, makers: int, stream: str) -> list[list[str]]:
    """Starts processes that are held at the same line and let go together. What each of them says."""
    started: list[Child] = []
    try:
        started.extend(Child(make, path, stream, number) for number in range(makers))
        for maker in started:
            assert maker.hear() == "ready"
        said: list[list[str]] = [[] for _ in started]
        for _ in range(ROUNDS):
            for maker in started:
                maker.tell()
            for number, maker in enumerate(started):
                said[number].append(maker.hear())
        return said
    finally:
        for maker in started:
            with maker.process:
                maker.kill()


def test_two_processes_make_the_same_store_and_the_same_stream_at_once(tmp_path: Path) -> None:
    said = race(tmp_path, 3, "x")
    for turn in range(ROUNDS):
        with diskstream.open(tmp_path / f"{turn}", create=False) as store:
            assert store.streams() == [b"x"]
            ids = [str(entry.id) for entry in store.stream("x").range()]
            assert sorted(ids) == sorted(lines[turn] for lines in said), "an entry was lost, or an ID given twice"
            assert sorted(entry["by"] for entry in store.stream("x").range()) == [b"0", b"1", b"2"]
            assert store.verify().ok
        left = set(files_of(tmp_path / f"{turn}"))
        assert left == {"store.json", "ctl", "streams/x/00000001.log", "streams/x/ctl"}


def test_a_stream_with_a_long_name_is_made_once_too(tmp_path: Path) -> None:
    name = "long " * 200
    said = race(tmp_path, 2, name)
    for turn in range(ROUNDS):
        with diskstream.open(tmp_path / f"{turn}") as store:
            assert store.streams() == [name.encode()]
            assert {str(entry.id) for entry in store.stream(name).range()} == {lines[turn] for lines in said}


def open_at(path: Path, wanted: str, then: Any) -> Store:
    """Opens a store, doing something else just before one step of making it."""
    done = False

    def step(kind: str, at: Path) -> None:
        nonlocal done
        if kind == wanted and not done:
            done = True
            then()

    return diskstream.open(path, **SMALL, files=Watched(step))


@pytest.mark.parametrize("step", ["mkdir", "create", "write", "sync", "link", "unlink", "sync_dir"])
def test_another_process_may_come_in_at_any_step_of_making_a_store(tmp_path: Path, step: str) -> None:
    others: list[Store] = []
    with open_at(tmp_path / "s", step, lambda: others.append(diskstream.open(tmp_path / "s", **SMALL))) as store:
        (other,) = others
        with other:
            first, second = other.stream("x").add({"n": 1}), store.stream("x").add({"n": 2})
            assert [entry.id for entry in store.stream("x").range()] == [first, second]
            assert [entry.id for entry in other.stream("x").range()] == [first, second]
    description = json.loads((tmp_path / "s" / "store.json").read_text())
    assert description["format_version"] == 1
    assert not list((tmp_path / "s").glob("*.tmp"))


def test_a_maker_that_dies_leaves_nothing_that_is_in_the_way(tmp_path: Path) -> None:
    """Killed before each of the steps in which a store and its first stream are made."""
    for number in range(1, 40):
        path = tmp_path / f"{number}"
        with child(make_until, path, number) as maker:
            done = maker.hear()
            maker.kill()
        with diskstream.open(path, **SMALL) as store:
            store.stream("x").add({"n": "after"})
            assert [entry["n"] for entry in store.stream("x").range()][-1] == b"after"
            assert store.streams() == [b"x"]
        left = {name for name in files_of(path) if ".new-" in name or name.endswith(".tmp")}
        assert left == set()
        if done == "made":
            break
    else:
        raise AssertionError("making a store takes too many steps")
    assert number > 8


WAITS = ("sync", "sync_dir", "flush", "pwrite_sync")  # for the disk


def test_a_new_stream_waits_for_the_disk_to_be_made_and_to_reserve_ids_and_no_more(tmp_path: Path) -> None:
    steps: list[tuple[str, str]] = []
    with diskstream.open(
        tmp_path / "s", **SMALL, files=Watched(lambda kind, at: steps.append((kind, at.name)))
    ) as store:
        steps.clear()
        store.stream("x").add({"n": 1})
        assert [kind for kind, _ in steps if kind in WAITS] == ["sync", "sync_dir", "sync_dir", "pwrite_sync"]


def test_a_new_stream_that_others_had_before_its_maker_is_flushed_as_any(tmp_path: Path) -> None:
    """They may have added to it, and been killed before their flush."""
    steps: list[tuple[str, str]] = []
    others: list[diskstream.EntryID] = []

    def step(kind: str, at: Path) -> None:
        steps.append((kind, at.name))
        if (kind, at.name) == ("sync_dir", "streams") and (at / "x").exists() and not others:
            with diskstream.open(tmp_path / "s", **SMALL) as other:
                others.append(other.stream("x").add({"n": "theirs"}))

    with diskstream.open(tmp_path / "s", **SMALL, files=Watched(step)) as store:
        steps.clear()
        ours = store.stream("x").add({"n": "ours"})
        made = ["sync", "sync_dir", "sync_dir"]
        assert [kind for kind, _ in steps if kind in WAITS][:6] == [*made, "flush", "sync_dir", "sync_dir"]
        assert [entry.id for entry in store.stream("x").range()] == [*others, ours]
