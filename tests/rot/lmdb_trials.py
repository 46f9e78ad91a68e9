"""Damaged environments of LMDB, and forked processes that use them: ``python -m tests.rot.lmdb_trials SEED CHECKED``.

It is a program of its own: it forks, and what it forks may die. It prints how many of the damaged files were refused by
our own look at the pages, and which of the others ended their process; with CHECKED 0 nothing is refused.
"""

import json
import os
import random
import sys
from pathlib import Path

import lmdb

from diskstream.engine.view_pages import PagesDamaged, read_rows
from tests.engine.sample import fast_directory

__all__ = ["Model", "change", "opened"]

PAGE = 4096
TRIALS = 200
Model = dict[bytes, bytes]


def opened(path: Path) -> lmdb.Environment:
    """An environment as a view's."""
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
        changed[first : first + PAGE] = data[second : second + PAGE]
        changed[second : second + PAGE] = data[first : first + PAGE]
    elif kind == "copied":
        changed[first : first + PAGE] = data[second : second + PAGE]
    else:
        del changed[chance.randrange(len(data)) :]
    return bytes(changed)


def _outlives(path: Path, model: Model, chance: random.Random) -> bool:
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


def main(seed: int, *, is_checked: bool) -> None:
    """Tries so many damages."""
    chance, model = random.Random(seed), Model()
    refused, deaths = 0, []
    with fast_directory() as path:
        env = opened(path)
        for _ in range(25):
            change(env, model, chance, chance.choice([1, 10, 40]))
        env.close()
        data = path / "data.mdb"
        sound = data.read_bytes()
        for number in range(TRIALS):
            data.write_bytes(damaged(sound, random.Random(f"{seed} {number}")))
            try:
                list(read_rows(data))
            except PagesDamaged:
                refused += 1
                if is_checked:
                    continue
            if not _outlives(path, model, chance):
                deaths.append(number)
    sys.stdout.write(json.dumps([refused, deaths]))


if __name__ == "__main__":
    main(int(sys.argv[1]), is_checked=sys.argv[2] == "1")
