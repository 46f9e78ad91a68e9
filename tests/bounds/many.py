"""Thousands of streams through few open ones, and a disk that is full at one place after the other."""

import contextlib
import random
from collections import Counter
from pathlib import Path

import pytest

import diskstream
from diskstream import DiskFullError, Store
from tests.bounds.cycles import SMALL
from tests.bounds.held import held
from tests.engine.mounts import fill, small_disk
from tests.engine.sample import fast_directory

__all__ = ["full_disks", "many_streams"]

_OPEN = 32


def many_streams(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Adds to so many streams in turn, lists them, closes and opens. Says what was tried, and what is not right."""
    chance, wrong = random.Random(seed), list[str]()
    with fast_directory() as path:
        with diskstream.open(path / "store", **{**SMALL, "max_open_streams": _OPEN}) as store:
            first = held(path, store)
            for number in range(count):
                store.stream(f"s{number}").add({"n": number})
            for number in chance.sample(range(count), count // 4):
                store.stream(f"s{number}").add({"n": number})
            after = held(path, store)
            # Each open stream has two descriptors and two mappings, and the view its own few.
            wrong += [
                f"{after[what] - first[what]} {what} more with {count} streams, of which {_OPEN} may be open"
                for what in ("descriptors", "mappings")
                if after[what] - first[what] > 2 * _OPEN + 16
            ]
        with diskstream.open(path / "store", **{**SMALL, "max_open_streams": _OPEN}) as store:
            names = store.streams()
            entries = sum(len(store.stream(name)) for name in names)
            if (len(names), entries) != (count, count + count // 4):
                wrong.append(f"{len(names)} streams and {entries} entries, added were {count} and {count + count // 4}")
    return Counter({"streams through 32 open ones": count}), wrong


def full_disks(seed: int) -> tuple[Counter[str], list[str], str]:
    """A disk with room for less and less. Says what was tried, what is not right, and why it was not tried."""
    tried, chance = Counter[str](), random.Random(seed)
    with fast_directory() as above:
        try:
            with small_disk(above / "disk", "2m") as disk:
                for room in chance.sample(range(0, 96 << 10, 4 << 10), 8):
                    tried["disks that were full"] += 1
                    if wrong := _one_full_disk(disk, room):
                        return tried, [f"with room for {room} bytes, seed {seed}: {wrong}"], ""
        except pytest.skip.Exception as skipped:
            return tried, [], str(skipped)
    return tried, [], ""


def _numbers(store: Store) -> list[int]:
    return [int(entry["n"]) for entry in store.stream("x").range()]


def _one_full_disk(disk: Path, room: int) -> str:
    """What is not right; empty where all is."""
    path = disk / f"store-{room}"
    done = 0
    with diskstream.open(path, **SMALL) as store:
        stream = store.stream("x")
        group = stream.group("g", start="0")
        reserve = disk / "reserve"
        reserve.write_bytes(bytes(room))
        filler = fill(disk)
        reserve.unlink()
        refused = False
        while not refused:
            try:
                stream.add({"n": done, "pad": "." * 700})
                done += 1
                group.consumer("c").read(count=1, noack=True)
                if done % 20 == 0:
                    stream.seal()
                    stream.compact()
            except DiskFullError:
                refused = True
        if _numbers(store) not in (list(range(done)), list(range(done + 1))):
            return f"{_numbers(store)[-3:]} are the last ones, and {done} were added"
        done = len(stream)
        filler.unlink()
        for number in range(done, done + 30):
            stream.add({"n": number, "pad": "." * 700})
        stream.seal()
        group.consumer("c").read(count=100)
        if _numbers(store) != list(range(done + 30)):
            return "with room again, not all is there"
        if not store.verify().ok:
            return f"verify says {store.verify().problems}"
    with diskstream.open(path, **SMALL) as store:
        if _numbers(store) != list(range(done + 30)) or store.recoveries:
            return f"opened again: {store.recoveries}"
        store.delete("x")
    with contextlib.suppress(FileNotFoundError):
        (disk / "filler").unlink()
    return ""
