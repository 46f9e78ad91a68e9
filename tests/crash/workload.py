"""A store at work on recorded files, with a model beside it, dying now and then."""

import contextlib
import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import diskstream
from diskstream import StorageError, Store
from diskstream.engine.page import POISONED
from tests.crash.beside import Beside
from tests.crash.effects import Effect, Outcome, paths
from tests.crash.model import ID, Names, Promises, State, Timeline
from tests.crash.observe import Violation, look_at_all
from tests.crash.recorder import Interrupted, Killed, RecordingFiles
from tests.crash.view import leave_view, put_view, view_of
from tests.crash.world import StillKeeper, World

__all__ = ["POLICIES", "Workload"]

POLICIES = ("always", "everysec", "interval=50", "os")

_T = TypeVar("_T")


class Workload:
    """Does things to a store, and keeps `promises` of what a cut at any moment may leave.

    Attributes:
        options: of the store.
        kills: how likely an operation is killed in its course.
        interrupts: how likely a signal handler raises in its course, and the process goes on.
        faults: how likely the disk begins to fail in the course of an operation.
        counts: what was done, and what befell it.
        may_flush: whether an operation may wait for a flush: not one beside a flush.
    """

    def __init__(
        self, files: RecordingFiles, world: World, rng: random.Random, options: dict[str, Any], promises: Promises
    ) -> None:
        self.files, self.world, self.rng, self.options, self.promises = files, world, rng, options, promises
        self.kills = self.interrupts = self.faults = 0.0
        self.may_flush = True
        self.path = files.root / "store"
        self.log: list[str] = []
        self.counts: Counter[str] = Counter()
        self._names_in_doubt = False  # a change of names was not flushed, and there was none since
        self.store = self.opened()
        self.view = view_of(self.store)  # kept: a store that closes would close it cleanly
        self.beside: Beside | None = None

    def open_beside(
        self, among: list[Callable[["Workload"], None]], in_flush: list[Callable[["Workload"], None]]
    ) -> None:
        """Another process opens the store too; see `Beside` for what it may do in the middle of other operations."""
        self.beside = Beside(self, among, in_flush)

    @property
    def used(self) -> list[bytes]:
        """The streams that a flush of all reaches."""
        return sorted(self.promises.now) if self.beside is None else self.beside.used()

    # --- life ---------------------------------------------------------------------------------------------------------

    @property
    def always(self) -> bool:
        """Whether each call is durable on return."""
        return bool(self.options["fsync"] == "always")

    @property
    def position(self) -> int:
        """The length of the trace."""
        return self.files.position

    def note(self, text: str) -> None:
        """Writes into the log what is done, for whoever must understand a failure."""
        self.log.append(f"{self.position:5d}  {text}")

    _settled: ClassVar[dict[str, Any]] = {"retention_interval_ms": 0}  # a thread would make no trace twice

    def begin(self) -> Store:
        """Opens the store."""
        return diskstream.open(self.path, files=self.files, clock=self.world.clock, **self._settled, **self.options)

    def opened(self) -> Store:
        """Opens the store, again as often as the opening is killed, or the disk fails."""
        while True:
            try:
                return self.begin()
            except Killed:
                self.note("killed while opening the store")
                self.files.revive()
            except StorageError as error:
                self._excused(error)

    def attempt(self, action: Callable[[], _T]) -> tuple[_T | None, bool]:
        """Does something; the process may die of it, or the disk may fail.

        Returns the result, and whether it went well: where it did not, `settle` says how far it came.
        """
        if self.rng.random() < self.kills:
            self.files.kill_in(min(int(self.rng.expovariate(0.15)), 40), self.rng)
        if self.rng.random() < self.interrupts:
            self.files.interrupt_in(int(self.rng.expovariate(0.3)))
        if self.faults and self.rng.random() < self.faults:
            self.note(self.files.faults.arm(self.rng))
        try:
            result = action()
        except Interrupted:
            self.note("interrupted")
            self.counts["interrupted operations"] += 1
            self.files.spare()
            self._names_in_doubt = True
            if self.store.closed:
                self._take_next()
            return None, False
        except Killed:
            self._bury()
            return None, False
        except StorageError as error:
            self._excused(error)
            self._names_in_doubt = True
            if self.files.spare():
                self._bury()
            else:
                self._go_on()
            return None, False
        if self.files.spare():
            self._bury()
            return None, False
        return result, True

    # --- a process that dies ------------------------------------------------------------------------------------------

    def _bury(self) -> None:
        """Takes the dead process away, and opens the store as the next one, which may die as well."""
        if self.beside is not None:
            self._names_in_doubt = True  # nobody recovers: what it did not come to flush others do not either
            self.beside.bury()
            return
        self.note("killed")
        self.counts["killed processes"] += 1
        self._let_go()
        if self.rng.random() < 0.3:
            self.files.kill_in(self.rng.randint(0, 12), self.rng)
        self.go_next()
        while True:
            try:
                look_at_all(self.store)
                break
            except Killed:
                self.note("killed while opening a stream")
                self._let_go()
                self.go_next()
            except StorageError as error:
                self._excused(error)
                self.files.spare()
                self._let_go()
                self.go_next()
        self.files.spare()

    def go_next(self) -> None:
        """The next process opens the store."""
        if self.faults and self.rng.random() < 0.3:
            self.note(self.files.faults.arm(self.rng, recovering=True))
        self.store = self.opened()
        self.files.faults.forget()
        self.view = view_of(self.store)

    def _let_go(self) -> None:
        """A process that dies closes its descriptors, and says nothing to the disk."""
        for log in list(self.store._logs.values()):  # a process that dies asks nobody
            log.abandon(waits=False)
        self.store._page.close()
        leave_view(self.view)
        self.files.revive()

    # --- a disk that fails --------------------------------------------------------------------------------------------

    def _excused(self, error: StorageError) -> None:
        """Takes an error for what it is if the disk has failed; it may get well again.

        Raises:
            StorageError: nothing has failed since the store was opened.
        """
        if not self.files.faults.fired:
            raise error
        self.note(f"refused: {error}")
        if self.rng.random() < 0.5:
            self.files.faults.relieve()

    @contextlib.contextmanager
    def excusing(self) -> Iterator[None]:
        """Lets pass an error for which the disk may be blamed."""
        try:
            yield
        except StorageError as error:
            self._excused(error)

    def _go_on(self) -> None:
        """After an error, as a user would: with the same store where no stream is poisoned, else with the next one."""
        poisoned = [name for name, log in self.store._logs.items() if not log.closed and log.ctl.flags & POISONED]
        for name in poisoned:
            self._must_refuse(name)
            if self.beside is not None:
                self.beside.must_refuse(name, functools.partial(self._must_refuse, name))
        if (keeper := self.keeper()) is not None:
            keeper.last_error = None
        if self.store.closed or poisoned or self.rng.random() < 0.2:
            self._take_next()

    def _must_refuse(self, name: bytes) -> None:
        """A poisoned stream takes nothing, whatever the disk says now."""
        try:
            self.store.stream(name).add({"taken": "by a poisoned stream"})
        except StorageError:
            return
        raise Violation(f"{name!r} is poisoned, and takes entries")

    def _take_next(self) -> None:
        """Closes what may be poisoned, and opens it again: in the same process, or in the next one."""
        if self.beside is not None:
            self.beside.anew()
            self.note("opened by both")
            return
        if self.rng.random() < 0.3:
            self._let_go()
        else:
            try:
                self.store.close()
            except StorageError as error:
                self._excused(error)
            if self.rng.random() < 0.7:
                leave_view(self.view, cleanly=self.rng.random() < 0.7)
        self.go_next()
        self.note("opened")

    def heal(self) -> None:
        """The disk is well for good, and whatever it did is put right."""
        self.kills = self.interrupts = self.faults = 0.0
        self.files.faults.relieve()
        if self.files.faults.fired:
            self._take_next()
            self.settle()

    def _found(self) -> dict[bytes, State]:
        """All that is there, looked at again as often as the disk fails."""
        while True:
            try:
                return look_at_all(self.store)
            except StorageError as error:
                self._excused(error)
                self.files.faults.relieve()
                self._go_on()

    def reopen(self) -> None:
        """Closes the store, and opens it again: in the same process, or in the next one, which finds a view or none."""
        self.note("close")
        if self.beside is not None:
            keeps = self.used
            try:
                self.store.close()
            except StorageError as error:
                self._excused(error)
                self.beside.anew()
                self.settle()
                return
            for name in keeps:
                self.promises.kept(name, self.position)
            self.store = self.opened()
            return
        _, alive = self.attempt(self.store.close)
        if not alive:
            self.settle()
            return
        self.promises.all_kept(self.position)
        self.files.note_ctl()
        if self.rng.random() < 0.7:
            leave_view(self.view, cleanly=self.rng.random() < 0.7)
            self.files.note_view()
            self._meddle()
        self.note("open")
        self.go_next()

    def _meddle(self) -> None:
        """Somebody removed the view, or put back an older one."""
        chance = self.rng.random()
        if chance < 0.6:
            return
        old = self.rng.choice(self.files.view_images)[1] if chance < 0.8 and self.files.view_images else None
        self.note("without the view" if old is None else "with an older view")
        put_view(self.path, old)

    def keeper(self) -> StillKeeper | None:
        """The store's background, once it has a stream open."""
        keeper = self.store._keeper
        return keeper if isinstance(keeper, StillKeeper) else None

    # --- operations and what they promise -----------------------------------------------------------------------------

    def change(
        self,
        name: bytes,
        effects: Sequence[Effect],
        action: Callable[[], list[Outcome]],
        *,
        durable: bool = False,
        issued: Callable[[list[Outcome]], ID] | None = None,
    ) -> bool:
        """Changes a stream, which is made if need be. `action` gives the outcome of each effect.

        Returns whether the process lived through it.
        """
        began = self.position
        outcomes, alive = self.attempt(action)
        if not alive or outcomes is None:
            self.settle(name, effects, began)
            return False
        is_new = name not in self.promises.now
        timeline = self._made(name, began)
        if is_new or not self._names_in_doubt:
            self._names_kept()
        for effect, outcome in zip(effects, outcomes, strict=True):
            timeline.went(effect.apply(timeline.now, outcome), began)
        if durable or self.always:
            self.promises.kept(name, self.position)
        if issued is not None:
            timeline.issued.append((self.position, issued(outcomes)))
        return True

    def rename_streams(self, names: Names, action: Callable[[], object]) -> bool:
        """Changes names, in one moment. `names` are those behind it."""
        began = self.position
        _, alive = self.attempt(action)
        if not alive:
            self.settle(versions=[names], began=began)
            return False
        self.promises.named(names, began)
        self._names_kept()
        return True

    def plain(self, action: Callable[[], object], *, keeps: Sequence[bytes] = ()) -> bool:
        """Does what changes nothing that a caller sees, and makes streams durable."""
        marks = {name: len(self.promises.now[name].states) for name in keeps}
        with contextlib.nullcontext() if self.beside is None else self.beside.meanwhile(flushing=bool(keeps)):
            _, alive = self.attempt(action)
        if not alive:
            self.settle()
            return False
        for name, mark in marks.items():
            self.promises.kept(name, self.position, mark - 1)
        return True

    def _names_kept(self) -> None:
        self.promises.names_kept(self.position)
        self._names_in_doubt = False

    def _made(self, name: bytes, began: int) -> Timeline:
        if name not in self.promises.now:
            self.promises.named({**self.promises.now, name: Timeline()}, began)
        return self.promises.now[name]

    # --- after a kill -------------------------------------------------------------------------------------------------

    def settle(
        self,
        name: bytes | None = None,
        effects: Sequence[Effect] = (),
        began: int = 0,
        versions: Sequence[Names] = (),
    ) -> None:
        """Finds out how far an operation came that was killed, or refused, and goes on from there.

        Nothing else may have changed.
        """
        found = self._found()
        if name is not None and name not in self.promises.now and name in found:
            self._made(name, began)
        candidates = [self.promises.now, *versions]
        for index, names in enumerate(candidates):
            if set(names) == set(found):
                for version in candidates[1 : index + 1]:
                    self.promises.named(version, began)
                break
        else:
            raise Violation(f"after a kill there are {sorted(found)}, and should be {[sorted(v) for v in candidates]}")
        for key, state in found.items():
            self._settle_stream(key, state, effects if key == name else (), began)

    def _settle_stream(self, name: bytes, found: State, effects: Sequence[Effect], began: int) -> None:
        timeline = self.promises.now[name]
        states = paths(timeline.now, effects, found)
        if found not in states:
            expected = "\n  or ".join(map(str, states))
            raise Violation(f"after a kill {name!r} is\n     {found}\n  and should be\n     {expected}")
        for state in states[1 : states.index(found) + 1]:
            timeline.went(state, began)

    def compare(self) -> None:
        """The store is what the model says.

        Raises:
            Violation: it is not.
        """
        if self.beside is not None:
            self.store.close()  # the other one sees the same
            self.store, self.beside = self.beside.store, None
        found = look_at_all(self.store)
        expected = {name: timeline.now for name, timeline in self.promises.now.items()}
        if found != expected:
            lines = [f"{name!r}\n  {found.get(name)}\n  {expected.get(name)}" for name in sorted({*found, *expected})]
            raise Violation("the store and the model differ:\n" + "\n".join(lines))
