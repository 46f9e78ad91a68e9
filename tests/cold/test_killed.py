"""Whoever moves segments may be killed before any change of the disk: the next run goes on, and nothing is lost."""

import random
import signal
import threading
from pathlib import Path

import pytest

from diskstream.cold import bring_back, move_out
from tests.cold import mover
from tests.cold.s3_server import Door
from tests.cold.world import filled, names_in, opened, rows, where
from tests.engine.children import child


def both_sound(store_path: Path, before: list[object]) -> None:
    with opened(store_path) as store:
        stream = store.stream("x")
        assert rows(stream) == before
        assert store.verify(cold=True).ok
        assert "missing" not in where(stream)


@pytest.mark.parametrize("back", [False, True], ids=["out", "back"])
def test_killed_before_every_change_of_the_disk(tmp_path: Path, folder_place: str, back: bool) -> None:
    path = tmp_path / "store"
    with opened(path) as store:
        stream = filled(store, count=110)
        before: list[object] = list(rows(stream))
        whole = len(where(stream)) - 1
        if back:
            move_out(stream, folder_place, older_than_ms=0)
    kills = 0
    # Every step of one segment: with a step more each time the next run begins in the middle of what the last one left.
    for last in range(6 if back else 9):
        with child(mover.work, path, folder_place, last, back) as process:
            process.rest()
            if process.wait() == -signal.SIGKILL:
                kills += 1
        both_sound(path, before)
    assert kills == (6 if back else 9)
    with opened(path) as store:
        stream = store.stream("x")
        if back:
            bring_back(stream)
            assert set(where(stream)) == {"here"}
        else:
            move_out(stream, folder_place, older_than_ms=0)
            assert where(stream) == ["cold"] * whole + ["here"]
    assert names_in(path / "streams", ".tmp") == []
    both_sound(path, before)


def test_killed_while_the_storage_is_asked(tmp_path: Path, door: Door) -> None:
    path = tmp_path / "store"
    with opened(path) as store:
        before: list[object] = list(rows(filled(store, count=60)))
    chance = random.Random(6)
    for _ in range(4):
        reached = threading.Event()
        left = [chance.randrange(3, 14)]
        with child(mover.work, path, door.url(tmp_path.name), 1 << 30, False) as process:

            def fault(_: object) -> None:
                left[0] -= 1
                if left[0] == 0:
                    process.process.kill()
                    reached.set()

            door.fault = fault
            process.wait()
            assert reached.is_set() or process.process.returncode == 0
        door.fault = lambda _: None
        both_sound(path, before)
    with opened(path) as store:
        move_out(store.stream("x"), door.url(tmp_path.name), older_than_ms=0)
        assert where(store.stream("x"))[:-1] == ["cold"] * (len(where(store.stream("x"))) - 1)
    both_sound(path, before)
