"""A stream takes another one's name: whoever dies on the way, at whatever step, leaves both, or has done it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, Store
from diskstream.engine.verify_store import bytes_to_read
from tests.engine.forks import ended, forked
from tests.engine.sample import log_of
from tests.engine.stand_ins import Watched

OLD, NEW = 40, 3
LONG = "y" * 400
_DIED = 9


def fill(store: Store, target: str = "y") -> None:
    store.stream("x").add_many([{"of": "new"} for _ in range(NEW)])
    store.stream(target).add_many([{"of": "old"} for _ in range(OLD)])
    store.stream(target).group("workers", start="0").consumer("one").read(count=5)


def contents(store: Store) -> dict[bytes, list[bytes]]:
    return {name: [entry["of"] for entry in store.stream(name).range()] for name in store.streams()}


def before(target: str = "y") -> dict[bytes, list[bytes]]:
    return {b"x": [b"new"] * NEW, target.encode(): [b"old"] * OLD}


def after(target: str = "y") -> dict[bytes, list[bytes]]:
    return {target.encode(): [b"new"] * NEW}


def dies_at(path: Path, nth: int, work: Callable[[Store], object]) -> bool:
    """A process that dies before the nth of its steps. Returns whether it came to that."""

    def run() -> None:
        taken = 0

        def step(_kind: str, _path: Path) -> None:
            nonlocal taken
            taken += armed
            if taken == nth:
                os._exit(_DIED)

        armed = False
        store = diskstream.open(path, files=Watched(step), retention_interval_ms=0)
        assert contents(store)
        armed = True
        work(store)
        os._exit(0)

    return ended(forked(run)) == _DIED


def rename(store: Store, target: str = "y") -> None:
    store.rename("x", target)


def is_put_aside(path: Path) -> bool:
    return any(child.name.startswith(".replaced-") for child in (path / "streams").iterdir())


def die_half_way(path: Path, target: str = "y") -> None:
    """Leaves the target aside, and its name free."""
    step = 1
    while not is_put_aside(path):
        assert dies_at(path, step, lambda store: rename(store, target)), "it was never aside"
        step += 1


@pytest.mark.parametrize("target", ["y", LONG])
@pytest.mark.parametrize("beside", [False, True], ids=["opened anew", "by one that lives on"])
def test_whatever_step_it_dies_at_both_are_there_or_it_is_done(tmp_path: Path, target: str, beside: bool) -> None:
    seen = []
    for step in range(1, 100):
        path = tmp_path / str(step)
        with diskstream.open(path, retention_interval_ms=0) as survivor:
            fill(survivor, target)
            if not beside:
                survivor.close()
            died = dies_at(path, step, lambda store: rename(store, target))
            seen_beside = contents(survivor) if beside else None
        with diskstream.open(path, retention_interval_ms=0) as store:
            found = contents(store)
            assert seen_beside in (None, found)
            if found == before(target):
                assert store.stream(target).group("workers", create=False).pending().total == 5
            assert store.verify().ok
        assert not [child for child in (path / "streams").iterdir() if child.name.startswith(".")]
        seen.append(found)
        if not died:
            break
    assert seen[0] == before(target)
    assert seen[-1] == after(target)
    turn = seen.index(after(target))
    assert seen == [before(target)] * turn + [after(target)] * (len(seen) - turn)


def test_who_only_reads_finds_what_is_aside(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with diskstream.open(path) as store:
        fill(store)
    die_half_way(path)
    before_all = sorted(child.name for child in (path / "streams").iterdir())
    with diskstream.open(path, read_only=True) as store:
        assert store.exists("y")
        assert contents(store) == before()
        assert store.verify().ok
    assert bytes_to_read(path, frozenset({b"y"}))
    report = diskstream.verify(path)
    assert report.ok
    assert report.entries == OLD + NEW
    assert sorted(child.name for child in (path / "streams").iterdir()) == before_all


FIRST_USES: dict[str, Callable[[Store], object]] = {
    "add": lambda store: store.stream("y").add({"of": "old"}),
    "length": lambda store: len(store.stream("y")),
    "group": lambda store: store.stream("y").group("workers", create=False).info(),
    "verify": lambda store: store.verify(),
    "rename to it": lambda store: store.rename("x", "y"),
    "rename from it": lambda store: store.rename("y", "z"),
    "delete": lambda store: store.delete("y"),
}


@pytest.mark.parametrize("use", FIRST_USES)
def test_who_was_there_already_gives_it_back_before_anything_else(tmp_path: Path, use: str) -> None:
    path = tmp_path / "s"
    expected = {
        "add": {**before(), b"y": [b"old"] * (OLD + 1)},
        "rename to it": after(),
        "rename from it": {b"x": [b"new"] * NEW, b"z": [b"old"] * OLD},
        "delete": {b"x": [b"new"] * NEW},
    }
    with diskstream.open(path, retention_interval_ms=0) as store, diskstream.open(path) as idle:
        fill(store)
        assert contents(idle) == before()
        die_half_way(path)
        FIRST_USES[use](store)
        assert not is_put_aside(path)
        assert contents(store) == contents(idle) == expected.get(use, before())


def test_what_was_let_go_does_not_come_back_when_its_follower_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with diskstream.open(path, retention_interval_ms=0) as store:
        fill(store)
        steps = 1
        while contents(store) != after():
            assert dies_at(path, steps, rename)
            steps += 1
        assert is_put_aside(path), "who died had removed it already, and this shows nothing"
        assert store.delete("y")
        assert contents(store) == {}
    with diskstream.open(path) as store:
        assert contents(store) == {}


def test_the_entries_of_a_stream_are_durable_before_it_is_put_aside(tmp_path: Path) -> None:
    """It may come back behind a power cut, and then is to hold what was acknowledged."""
    path, durable = tmp_path / "s", list[bool]()

    def step(kind: str, file: Path) -> None:
        if kind == "rename" and file.name.startswith(".replaced-"):
            ctl = log_of(store, b"y").ctl
            durable.append(ctl.durable == ctl.written)

    with diskstream.open(path, fsync="os", files=Watched(step)) as store:
        fill(store)
        store.rename("x", "y")
        assert contents(store) == after()
    assert durable == [True]


def test_a_reader_finds_one_or_the_other_while_names_are_taken_over(tmp_path: Path) -> None:
    """There is no moment in which a process finds nothing under the name."""
    path, counts = tmp_path / "s", set[int]()

    def look(_kind: str, _file: Path) -> None:
        with diskstream.open(path, read_only=True) as reader:
            counts.add(len(reader.stream("y")))

    with diskstream.open(path) as store:
        fill(store)
    with diskstream.open(path, files=Watched(look)) as store:
        store.rename("x", "y")
    assert counts == {OLD, NEW}


@pytest.mark.usefixtures("no_keepers")  # which reserve IDs ahead: what died leaves those unused
def test_ids_go_on_above_the_last_one_of_a_stream_that_came_back(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with diskstream.open(path, retention_interval_ms=0) as store:
        fill(store)
        store.stream("y").add({"of": "old"}, last := EntryID(99_999_999_999_999, 0))
        die_half_way(path)
        assert store.stream("y").add({"of": "old"}) == last.next()
