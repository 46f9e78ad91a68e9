"""Processes to be killed. One child forks them, so that each costs milliseconds, and says when one is dead."""

import faulthandler
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import diskstream
from diskstream import Store
from tests.engine.children import LIMIT_S, Child, child, hear, say
from tests.engine.sample import SMALL
from tests.engine.stand_ins import Watched

__all__ = ["Mortal", "Nursery", "nursery"]


class Mortal:
    """A process of the nursery, at work."""

    def __init__(self, nurse: Child) -> None:
        self._nurse = nurse
        word, pid = nurse.hear().split()
        assert word == "born"
        self.pid = int(pid)
        self.said: list[str] = []

    def hear(self) -> str:
        line = self._nurse.hear()
        assert not line.startswith("failed"), line
        self.said.append(line)
        return line

    def hear_until(self, *words: str) -> str:
        """Hears lines until one begins with one of these words."""
        while (line := self.hear()).split()[0] not in words:
            assert line != "dead", self.said
        return line

    def kill(self) -> None:
        """Kills it as `kill -9` does, and hears what it had said until then."""
        os.kill(self.pid, signal.SIGKILL)
        self.hear_until("dead")


class Nursery:
    def __init__(self, nurse: Child) -> None:
        self._nurse = nurse

    def born(self, work: str, path: Path, *arguments: object) -> Mortal:
        self._nurse.tell(" ".join([work, str(path), *map(str, arguments)]))
        return Mortal(self._nurse)


@contextmanager
def nursery() -> Iterator[Nursery]:
    with child(tend) as nurse:
        assert nurse.hear() == "ready"
        yield Nursery(nurse)


# --- in the child -----------------------------------------------------------------------------------------------------


def tend() -> None:
    """Forks a process for each line, which names its work, and waits for its end."""
    faulthandler.cancel_dump_traceback_later()  # it lives as long as its test
    say("ready")
    while True:
        work, *arguments = hear().split()
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            faulthandler.dump_traceback_later(LIMIT_S / 2, exit=True)
            say("born", os.getpid())
            try:
                WORKS[work](*arguments)
            except BaseException:  # noqa: BLE001  # a fork must not go on where its parent does
                say("failed", traceback.format_exc().replace("\n", " | "))
            os._exit(0)
        os.waitpid(pid, 0)
        say("dead")


def _store(path: str, fsync: str, **options: Any) -> Store:
    return diskstream.open(path, **{**SMALL, "fsync": fsync, **options})


def produce(path: str, fsync: str, seed: str) -> None:
    """Adds entries, alone and several at once, until it is killed; says the IDs that it was given."""
    chance = random.Random(int(seed))
    store = _store(path, fsync, seal="background")
    stream = store.stream("x")
    while True:
        size = chance.choice([1, 1, 1, 5])
        rows = [{"by": seed, "pad": "." * chance.randrange(400)} for _ in range(size)]
        say("added", *(stream.add_many(rows) if size > 1 else [stream.add(rows[0])]))


def _stopping(step: int) -> Callable[[str, Path], None]:
    taken = 0

    def count(kind: str, path: Path) -> None:
        nonlocal taken
        taken += 1
        if taken == step:
            say("stopped", kind, path.name)
            signal.pause()

    return count


def keep_house(path: str, fsync: str, step: str) -> None:
    """Adds, rolls, seals, deletes, trims and compacts, and stops before a step of that. Says what it has done."""
    with _store(path, fsync, segment_bytes=20 << 10, files=Watched(_stopping(int(step)))) as store:
        stream = store.stream("x")

        def add(count: int) -> None:
            for _ in range(count):
                say("added", stream.add({"by": "dead", "pad": "." * 2900}))

        add(9)
        stream.seal()
        add(2)
        stream.seal()
        second, third = (entry.id for entry in stream.range(count=4) if entry["by"] == b"dead")
        say("deleting", second)
        stream.delete(second)
        say("deleted", second)
        stream.compact()
        add(1)
        say("trimming", third)
        stream.trim(minid=third)
        say("trimmed", third)
        stream.compact()
    say("done")


def move(path: str, fsync: str, step: str) -> None:
    """Renames one stream, renames another over it, deletes a third, and stops before a step of that."""
    with _store(path, fsync, files=Watched(_stopping(int(step)))) as store:
        for name in ("a", "b", "c", "d"):
            len(store.stream(name))
        say("rename")
        store.rename("a", "e")
        say("replace")
        store.rename("b", "c")
        say("delete")
        store.delete("d")
    say("done")


WORKS: dict[str, Callable[..., None]] = {"produce": produce, "keep_house": keep_house, "move": move}
