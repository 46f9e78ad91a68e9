"""What each process of a crowd has: its name, its store, its journal; and how it ends."""

import ctypes
import faulthandler
import os
import random
import select
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, cast

import diskstream
from diskstream import Entry, Group, Store, Stream
from tests.crowd.embedded import AioLine, CompatLine
from tests.crowd.journal import SERVED, Journal, Op, packed, read_journal
from tests.crowd.scene import Scene, row_of
from tests.crowd.served import Asked, Given, Line, ServedStream, ServerAwayError

__all__ = ["FOLDERS", "SOCKETS", "Part", "live"]

FOLDERS = STORE, JOURNALS, BACKUPS, COLD, SOCKETS = "store", "journals", "backups", "cold", "sockets"
_PR_SET_PDEATHSIG = 1


@dataclass
class Part:
    """One life of a role.

    Attributes:
        line: answers the commands of who uses a Redis client; None for who uses the store's own methods.
    """

    scene: Scene
    root: Path
    name: str
    life: int
    store: Store
    journal: Journal
    chance: random.Random
    line: Asked | None = None

    @property
    def stream(self) -> Stream:
        """The stream that its role is about, or what is like it as far as roles go."""
        name = "quiet" if self.name[0] in "qwf" else "x"
        return self.store.stream(name) if self.line is None else cast(Stream, ServedStream(self.line, name))

    @property
    def path(self) -> Path:
        """The store's directory."""
        return self.root / STORE

    @property
    def group(self) -> Group:
        """The group that its role is a consumer of: every fourth one of the second."""
        other = self.name.startswith("c") and int(self.name[1:]) % 4 == 3
        return self.stream.group("h" if other else "g", create=False)

    def pause(self, most_s: float) -> None:
        """Lets others go on for a while."""
        select.select([], [], [], self.chance.random() * most_s)

    def rest(self, most_s: float) -> None:
        """The same for those whose work is much, and so is the more where several crowds share the machine."""
        self.pause(most_s * self.scene.beside)

    def before(self) -> Iterator[Op]:
        """What former lives noted, the last of it first."""
        for life in range(self.life - 1, -1, -1):
            path = self.root / JOURNALS / f"{self.name}.{life}"
            if path.exists():
                yield from reversed(read_journal(path))

    def noted(self, entries: Iterable[Entry | Given]) -> dict[str, str]:
        """Entries for the journal, after a look whether each is what its producer made it.

        Raises:
            AssertionError: one is not.
        """
        listed = list(entries)
        keys = [entry["k"].decode() for entry in listed]
        for entry, key in zip(listed, keys, strict=True):
            assert entry.pairs == row_of(key), f"{entry.id} of {self.name} is not what {key} was: {entry.pairs}"
        return {"ids": packed(entry.id for entry in listed), "keys": " ".join(keys)}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _Leaving:
    """Ends a life as `sys.exit` in a handler does; after its step where it came in a finalizer, and went no further."""

    def __init__(self) -> None:
        self.is_told = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self.is_told = True
        raise SystemExit(0)


def _go_on(step: Callable[[], None], leaving: _Leaving) -> None:
    while not leaving.is_told:
        try:
            while not leaving.is_told:
                step()
        except (
            KeyboardInterrupt,
            ServerAwayError,
        ):  # what was under way has an end that nobody knows; the store goes on
            continue


def _line_of(
    way: str, root: Path, options: dict[str, Any], chance: random.Random
) -> AbstractContextManager[Asked | None]:
    """How a life asks for what it does."""
    match way:
        case "server":
            return Line(root / SOCKETS, chance)
        case "compat":
            return CompatLine(root / STORE, options)
        case "asyncio":
            return AioLine(root / STORE, options)
    return nullcontext()


def live(work: Callable[[Part], Callable[[], None]], scene: Scene, root: Path, name: str, life: int) -> int:
    """Forks a life of a role. `work` opens what it needs, and returns what is done again and again.

    Half of all lives end at SIGTERM as programs do that close what they opened, the others at once.
    """
    pid = os.fork()
    if pid:
        return pid
    code, journal = 1, None
    try:  # from the first step on: an interruption would else go on in the supervisor's code, and end everybody
        _die_with_parent()
        faulthandler.enable()
        chance = random.Random(f"{scene.seed} {scene.policy} {name} {life}")
        leaving = _Leaving()
        signal.signal(signal.SIGTERM, leaving if chance.random() < 0.5 else signal.SIG_DFL)
        journal = Journal(root / JOURNALS, name, life)
        options = scene.options(chance)
        way = scene.way_of(name, life)
        with diskstream.open(root / STORE, **options) as store, _line_of(way, root, options, chance) as line:
            part = Part(scene, root, name, life, store, journal, chance, line)
            if isinstance(line, Line | AioLine):
                journal.note(SERVED)
            _go_on(work(part), leaving)
        code = 0
    except (SystemExit, KeyboardInterrupt):
        code = 0
    except BaseException:  # noqa: BLE001  # a fork must not go on where its parent does
        if journal is not None:
            journal.note("failed", how=traceback.format_exc())
    finally:
        os._exit(code)
