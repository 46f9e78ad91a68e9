"""The workload of the crash simulator on plain files: done once by who is killed, and once by who judges."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from diskstream import PoisonedError, RemoteError, StorageError, Store
from diskstream.engine.files import Files
from diskstream.engine.looks import children
from tests.crash import ops
from tests.crash.faults import Faults
from tests.crash.model import Promises
from tests.crash.observe import Violation
from tests.crash.view import leave_view, view_of
from tests.crash.workload import Workload
from tests.crash.world import World
from tests.kills.tour import TOUR, Effects

__all__ = ["Careful", "Doomed", "Follower", "Judge", "Script", "checked"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class Script:
    """What decides all that a workload does.

    Attributes:
        policy: `Options.fsync`.
        seed: of everything random.
        tour: whether every operation comes, in a set order; else they come by chance.
    """

    policy: str
    seed: int
    tour: bool = False

    def __str__(self) -> str:
        return f"{self.policy}:{self.seed}{'t' if self.tour else ''}"

    @classmethod
    def parse(cls, policy: str, seed: str) -> "Script":
        """The script that is written so."""
        return cls(policy, int(seed.removesuffix("t")), seed.endswith("t"))

    def world(self) -> World:
        """Clock, chance and boot: the same for all who follow this script."""
        return World(f"kills/{self.seed}")

    def options(self) -> dict[str, Any]:
        """Of the store."""
        rng = random.Random(f"options/{self}")
        return {
            "fsync": self.policy,
            "segment_bytes": rng.choice((8 << 10, 8 << 10, 16 << 10)),
            "node_max_entries": rng.choice((1, 4, 16)),
            "node_max_bytes": rng.choice((256, 4096)),
            "compression_level": rng.choice((0, 1)),
            "cache_bytes": rng.choice((0, 1 << 20)),
            "seal": rng.choice(("manual", "background")),
            "pending_rows": rng.choice((1, 2, 4, 100)),
        }


class _Plain(Files):
    """Files that record nothing."""

    position = 0

    def __init__(self, root: Path) -> None:
        self.root = root
        self.faults = Faults()  # which are never armed

    def note_ctl(self) -> None:
        """There is no trace."""

    def note_view(self) -> None:
        """There is no trace."""


class Follower(Workload):
    """Does the same for the same script. Each change of the store is an `attempt`, and they are numbered."""

    def __init__(self, script: Script, root: Path, world: World) -> None:
        self.script = script
        self.taken = 0
        rng = random.Random(f"work/{script}")
        self.steps = rng.randint(8, 40)
        super().__init__(cast(Any, _Plain(root)), world, rng, script.options(), Promises())

    def follow(self) -> Iterator[Callable[[Workload], None]]:
        """Does the script, one operation after the other, and says which was done."""
        if self.script.tour:
            for operation in TOUR:
                yield ops.do(self, operation)
        else:
            for _ in range(self.steps):
                yield ops.step(self)

    def run(self) -> None:
        """The whole script."""
        for _ in self.follow():
            pass
        self.plain(self.store.close)

    def reopen(self) -> None:
        """Closed and opened; the view is closed as the end of a process closes it, or left as a crash does."""
        self.note("close")
        cleanly = self.rng.random() < 0.7
        _, alive = self.attempt(self.store.close)
        if not alive:
            self.settle()
            return
        leave_view(self.view, cleanly=cleanly)
        self.note("open")
        self.go_next()


class Doomed(Follower):
    """Says after each attempt that it is done, until it is killed."""

    def __init__(self, script: Script, root: Path, world: World, said: int) -> None:
        self._said = said
        super().__init__(script, root, world)

    def attempt(self, action: Callable[[], _T]) -> tuple[_T | None, bool]:
        """Does it, and says so."""
        result = action()
        os.write(self._said, b".")
        return result, True


class Judge(Follower):
    """Does what another had done when it was killed, then takes its store over: what it finds must be explained.

    Attributes:
        took_over: whether it came to that already.
    """

    def __init__(self, script: Script, root: Path, world: World, done: int, take_over: Callable[[], Store]) -> None:
        self._done, self._take_over = done, take_over
        self.took_over = False
        super().__init__(script, root, world)

    def attempt(self, action: Callable[[], _T]) -> tuple[_T | None, bool]:
        """Does it, if the other one had."""
        self.taken += 1
        if self.took_over or self.taken <= self._done:
            return action(), True
        self.take_over()
        return None, False

    def take_over(self) -> None:
        """From here on the store is the one that was left."""
        self.note("killed here")
        self.took_over = True
        self.store.close()
        leave_view(self.view)
        self.store = self._take_over()
        self.path = self.store.path
        self.view = view_of(self.store)

    def run(self) -> None:
        """Up to the kill; what is left is judged, and must be a store like any other."""
        for _ in self.follow():
            if self.took_over:
                break
        if not self.took_over:
            self.take_over()
            self.settle()
        self.compare()
        checked(self.store, recovered=True)
        for _ in range(3):
            ops.step(self)
        self.compare()
        self.store.close()
        leave_view(self.view)
        self.go_next()
        self.compare()
        checked(self.store)
        self.store.close()


class Careful(Follower):
    """Goes on behind an error of the disk, as the error says.

    Attributes:
        told: the errors.
        looks: whether to look for effects: of calls that may fail, those are none.
        effects: the operations that had one, when all is done.
    """

    looks = False
    effects: set[str]

    def __init__(self, script: Script, root: Path, world: World) -> None:
        self.told: list[StorageError | RemoteError] = []
        super().__init__(script, root, world)

    def opened(self) -> Store:
        try:
            return super().opened()
        except StorageError as error:
            self.told.append(error)
            return super().opened()

    def attempt(self, action: Callable[[], _T]) -> tuple[_T | None, bool]:
        """Does it; after an error, what became of it is looked for."""
        try:
            return action(), True
        except (StorageError, RemoteError) as error:
            self.told.append(error)
            if isinstance(error, PoisonedError) or self.store.closed:
                self._again()
            return None, False

    def settle(self, *given: Any, **named: Any) -> None:
        """What became of it. Under `always` an answer may rest on nothing that is not durable: then opened again."""
        try:
            super().settle(*given, **named)
        except PoisonedError as error:
            self.told.append(error)
            self._again()
            super().settle(*given, **named)

    def _again(self) -> None:
        try:
            self.store.close()
        except StorageError as error:
            self.told.append(error)
        leave_view(self.view)
        self.go_next()

    def run(self) -> None:
        """The whole script, and what is there in the end. That it is sound is for others to find."""
        effects = Effects(self) if self.looks else None
        for operation in self.follow():
            if effects is not None:
                effects.note(operation)
        self.effects = effects.seen if effects is not None else set()
        for look in (self.compare, self._again, self.compare):
            if not self.attempt(look)[1]:
                look()
        with contextlib.suppress(StorageError):
            self.store.verify(cold=True)  # where the error comes here, it is what verify says
        self.plain(self.store.close)


def checked(store: Store, *, recovered: bool = False) -> None:
    """The store is sound; what its recovery had to finish counts as such where it had reason to.

    Raises:
        Violation: it is not.
    """
    for report in store.recoveries:
        for finding in report.findings:
            if not recovered or finding.kind in ("rotten", "missing", "torn"):
                raise Violation(f"recovery found: {finding}")
    problems = store.verify(cold=True).problems
    if problems:
        raise Violation("verify says " + "; ".join(f"{each.path.name}: {each.what}" for each in problems))
    # Who joins others must leave alone what may be theirs; whoever opens it alone takes it away.
    left = [path for path in children(store.path / "streams") if path.name.startswith(".")]
    if left and not recovered:
        raise Violation(f"left lying about: {left}")
