"""A user who goes on behind every error, in the way that the error says, and knows what must be there in the end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import diskstream
from diskstream import Store
from tests.engine.sample import SMALL, fast_directory
from tests.engine.stand_ins import FailingOnce, Watched

__all__ = ["Work", "at_each_step", "numbers"]


def numbers(store: Store) -> list[int]:
    """What is in the stream: entries are numbered."""
    return [int(entry["n"]) for entry in store.stream("x").range()]


class Work:
    """Fills, seals, trims and compacts a stream, going on behind every error as a careful user would."""

    def __init__(self, path: Path, step: FailingOnce, fsync: str) -> None:
        self.path, self.step = path, step
        self.options: dict[str, Any] = {**SMALL, "segment_bytes": 20 << 10, "fsync": fsync, "files": Watched(step)}
        self.store: Store | None = None
        self.live: list[int] = []
        self.next = 0
        self.errors: list[diskstream.StorageError] = []
        self.background: list[Exception] = []  # what failed there, and was nobody's call

    @property
    def label(self) -> str:
        return f"step {self.step.nth}, {self.step.failed}, failed"

    def opened(self) -> Store:
        if self.store is None:
            self.store = diskstream.open(self.path, **self.options)
        return self.store

    def again(self) -> None:
        """Closes what may be poisoned."""
        store, self.store = self.store, None
        if store is not None:
            keeper = store._keeper
            try:
                store.close()
            except diskstream.StorageError as error:
                self.errors.append(error)
            if keeper is not None and keeper.last_error is not None:
                self.background.append(keeper.last_error)

    def attempt(self, act: Callable[[], object]) -> None:
        """The disk fails once, so it is done the third time at the latest: at once, told of the poison, or reopened."""
        for _ in range(3):
            try:
                act()
                return
            except diskstream.PoisonedError as error:
                self.errors.append(error)
                self.again()
            except diskstream.StorageError as error:
                self.errors.append(error)
        raise AssertionError(f"it does not work again: {self.errors}")

    def add(self, count: int) -> None:
        for _ in range(count):
            self.attempt(self.add_one)

    def add_one(self) -> None:
        """The same number again only where it is not there: an add that failed may have been done."""
        stream = self.opened().stream("x")
        newest = next(stream.revrange(count=1), None)
        if newest is None or int(newest["n"]) != self.next:
            stream.add({"n": self.next, "pad": "." * 2900})
        self.live.append(self.next)
        self.next += 1

    def trim(self, keep: int) -> None:
        self.attempt(lambda: self.opened().stream("x").trim(maxlen=keep))
        self.live = self.live[-keep:]

    def run(self) -> None:
        self.add(11)
        self.attempt(lambda: self.opened().seal())
        self.trim(7)
        self.add(3)
        self.attempt(lambda: self.opened().compact())
        self.again()
        self.add(2)

    def check(self) -> None:
        """What must be there is there, and nothing else, once the store was closed and opened again."""
        with diskstream.open(self.path, **SMALL) as store:
            assert numbers(store) == self.live, self.label
            assert store.recoveries == [], f"{self.label}: {store.recoveries}"
            assert store.verify().ok, self.label


def at_each_step(code: int, kinds: frozenset[str], fsync: str) -> Iterator[Work]:
    """Does the whole work again and again, letting another step of these kinds fail each time; each is checked."""
    with fast_directory() as directory:
        counted = Work(directory / "counted", FailingOnce(code, kinds), fsync)
        counted.run()
        counted.again()
        assert counted.errors == []
        counted.check()
        for nth in range(1, len(counted.step.seen) + 1):
            work = Work(directory / f"{nth}", FailingOnce(code, kinds, nth), fsync)
            work.run()
            work.again()
            if work.step.failed is None:
                continue  # what is done in the background does not come in the same order each time
            work.check()
            yield work
