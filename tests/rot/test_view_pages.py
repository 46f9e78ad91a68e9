"""A view that a disk has damaged is not given to LMDB, which would end the process; a sound one always is."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream
from diskstream.engine.view_pages import read_rows
from tests.engine.children import ROOT
from tests.engine.sample import SMALL, fast_directory
from tests.rot.lmdb_trials import PAGE, Model, change, opened


@pytest.mark.parametrize("seed", range(4))
def test_what_lmdb_has_written_is_always_sound_and_read_as_lmdb_reads_it(seed: int) -> None:
    """Else each opening would make the view anew: right, and slow."""
    chance, model = random.Random(seed), Model()
    with fast_directory() as path:
        env = opened(path)
        for _ in range(40):
            change(env, model, chance, chance.choice([1, 10, 300]))
            assert dict(read_rows(path / "data.mdb")) == model
        for key in list(model):
            with env.begin(write=True) as txn:
                txn.delete(key)
        assert list(read_rows(path / "data.mdb")) == []
        env.close()


LAST_PAGE_AT = 136  # in a meta page


def test_a_last_page_far_behind_the_end_of_the_file_is_not_believed(tmp_path: Path) -> None:
    """LMDB went on there: a view of some pages became a file of eight gigabytes, nearly all a hole."""
    with diskstream.open(tmp_path / "s", **SMALL, pending_rows=1) as store:
        stream = store.stream("x")
        stream.add_many([{"n": str(number)} for number in range(50)])
        stream.group("g", start="0").consumer("ann").read(count=40)
    data = tmp_path / "s" / "view" / "data.mdb"
    sound = data.read_bytes()
    for at in range(LAST_PAGE_AT + 1, LAST_PAGE_AT + 5):
        for meta in (0, PAGE):
            changed = bytearray(sound)
            changed[meta + at] ^= 0x20
            data.write_bytes(changed)
            with diskstream.open(tmp_path / "s", **SMALL, pending_rows=1) as store:
                assert store.stream("x").group("g").consumer("bob").read(count=1) is not None
                store.stream("x").group("g").set_id("0")
                assert len(store.stream("x").group("g").consumer("ann").read(count=50)) == 50
            assert data.stat().st_size < 1 << 24


def trials(seed: int, *, is_checked: bool) -> tuple[int, list[int]]:
    """How many damaged files were refused, and the numbers of those that ended a process."""
    command = [sys.executable, "-m", "tests.rot.lmdb_trials", str(seed), "1" if is_checked else "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    refused, deaths = json.loads(done.stdout)
    return refused, deaths


@pytest.mark.parametrize("seed", range(2))
def test_what_is_not_refused_does_not_end_lmdb(seed: int) -> None:
    refused, deaths = trials(seed, is_checked=True)
    assert deaths == []
    assert refused > 50


def test_lmdb_does_end_processes_on_what_is_refused() -> None:
    """If it did not, the look would be for nothing."""
    _, deaths = trials(0, is_checked=False)
    assert deaths


def test_a_damaged_view_is_made_anew_when_the_store_is_opened(tmp_path: Path) -> None:
    """Killed in this boot or closed cleanly: it was taken over without a look."""
    with diskstream.open(tmp_path / "s", **SMALL, pending_rows=1) as store:
        stream = store.stream("x")
        stream.add_many([{"n": str(number)} for number in range(50)])
        stream.group("g", start="0").consumer("ann").read(count=40)
        before = stream.group("g").pending_range(count=50)
    data = tmp_path / "s" / "view" / "data.mdb"
    sound = data.read_bytes()
    for at in range(2 * PAGE, len(sound), PAGE):
        changed = bytearray(sound)
        changed[at + 10] ^= 0x80  # the kind of the page
        changed[at + 12] ^= 0x11
        data.write_bytes(changed)
        with diskstream.open(tmp_path / "s", **SMALL, pending_rows=1) as store:
            again = store.stream("x").group("g").pending_range(count=50)
            assert [each.id for each in again] == [each.id for each in before]
