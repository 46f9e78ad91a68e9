"""A view that a disk has damaged is not given to LMDB, which would end the process; a sound one always is."""

import os
import random
from pathlib import Path

import lmdb
import pytest

import diskstream
from diskstream.engine.view_pages import PagesDamaged, check_pages, read_rows
from tests.engine.sample import SMALL, fast_directory

PAGE = 4096
Model = dict[bytes, bytes]


def opened(path: Path) -> lmdb.Environment:
    return lmdb.open(str(path), map_size=1 << 30, sync=False, metasync=False, lib_version=0)


def change(env: lmdb.Environment, model: Model, chance: random.Random, count: int) -> None:
    """Puts and deletes rows as large and as small as a view's, and larger ones."""
    with env.begin(write=True) as txn:
        for _ in range(count):
            if model and chance.random() < 0.45:
                key = next(iter(model)) if chance.random() < 0.5 else chance.choice(list(model))
                txn.delete(key)
                del model[key]
            else:
                key, value = chance.randbytes(45), chance.randbytes(chance.choice([0, 28, 100, 1500, 3000, 9000]))
                txn.put(key, value)
                model[key] = value


@pytest.mark.parametrize("seed", range(4))
def test_what_lmdb_has_written_is_always_sound_and_read_as_lmdb_reads_it(seed: int) -> None:
    """Else each opening would make the view anew: right, and slow."""
    chance, model = random.Random(seed), Model()
    with fast_directory() as path:
        env = opened(path)
        for step in range(40):
            change(env, model, chance, chance.choice([1, 10, 300]))
            check_pages(path / "data.mdb")
            if step % 8 == 0:
                assert dict(read_rows(path / "data.mdb")) == model
        for key in list(model):
            with env.begin(write=True) as txn:
                txn.delete(key)
        check_pages(path / "data.mdb")
        assert list(read_rows(path / "data.mdb")) == []
        env.close()


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bits in the heads of pages above all, where what LMDB follows stands; and pages elsewhere, or gone."""
    pages, changed = len(data) // PAGE, bytearray(data)
    first, second = (chance.randrange(pages) * PAGE for _ in "ab")
    kind = chance.choice(["bit", "bit", "bits", "bytes", "zeros", "swapped", "copied", "cut"])
    if kind in ("bit", "bits"):
        for _ in range(1 if kind == "bit" else 3):
            at = chance.randrange(pages) * PAGE + chance.randrange(chance.choice([24, 64, PAGE]))
            changed[at] ^= 1 << chance.randrange(8)
    elif kind == "bytes":
        at = chance.randrange(pages) * PAGE + chance.randrange(PAGE - 8)
        changed[at : at + 8] = chance.randbytes(8)
    elif kind == "zeros":
        changed[first : first + PAGE] = bytes(PAGE)
    elif kind == "swapped":
        changed[first : first + PAGE], changed[second : second + PAGE] = (
            data[second : second + PAGE],
            data[first : first + PAGE],
        )
    elif kind == "copied":
        changed[first : first + PAGE] = data[second : second + PAGE]
    else:
        del changed[chance.randrange(len(data)) :]
    return bytes(changed)


def outlives(path: Path, model: Model, chance: random.Random) -> bool:
    """Whether a process that reads and changes all of it with LMDB lives on."""
    (path / "lock.mdb").unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        try:
            env = opened(path)
            with env.begin() as txn:
                sum(len(value) for _, value in txn.cursor())
            for _ in range(4):
                with env.begin(write=True) as txn:
                    for key in chance.sample(list(model), 10):
                        txn.delete(key)
                        txn.put(chance.randbytes(45), chance.randbytes(3000))
        finally:
            os._exit(0)  # an error is an answer
    return not os.WIFSIGNALED(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("seed", range(2))
def test_what_is_not_refused_does_not_end_lmdb(seed: int) -> None:
    chance, model = random.Random(seed), Model()
    with fast_directory() as path:
        env = opened(path)
        for _ in range(25):
            change(env, model, chance, chance.choice([1, 10, 40]))
        env.close()
        sound, refused, deaths = (path / "data.mdb").read_bytes(), 0, []
        for number in range(200):
            (path / "data.mdb").write_bytes(damaged(sound, random.Random(f"{seed} {number}")))
            try:
                check_pages(path / "data.mdb")
            except PagesDamaged:
                refused += 1
                continue
            if not outlives(path, model, chance):
                deaths.append(number)
        assert deaths == []
        assert refused > 50


def test_lmdb_does_end_a_process_on_a_page_that_is_refused() -> None:
    """If it did not, the check would be for nothing."""
    chance, model = random.Random(1), Model()
    with fast_directory() as path:
        env = opened(path)
        for _ in range(10):
            change(env, model, chance, 40)
        env.close()
        sound = (path / "data.mdb").read_bytes()
        for number in range(200):
            (path / "data.mdb").write_bytes(damaged(sound, random.Random(f"1 {number}")))
            if not outlives(path, model, chance):
                with pytest.raises(PagesDamaged):
                    check_pages(path / "data.mdb")
                return
        raise AssertionError("LMDB has outlived all damage")


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
