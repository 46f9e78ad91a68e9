"""Starts everybody, and kills, ends, stops and interrupts them at random: run in a process of its own."""

import faulthandler
import os
import random
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.crowd.consuming import consume, wait_in_group
from tests.crowd.journal import Journal
from tests.crowd.keeping import back_up, move, seal, shuffle_names, trim, verify
from tests.crowd.looking import follow, look
from tests.crowd.part import JOURNALS, Part, live
from tests.crowd.producing import produce, produce_quietly
from tests.crowd.scene import Scene
from tests.crowd.serving import serve
from tests.engine.children import say

__all__ = ["PATIENCE_S", "supervise"]

# Who was told to end, or is at work on one operation, for so long hangs.
PATIENCE_S = 30.0
_LETTERS = {"p": produce, "c": consume, "r": look, "q": produce_quietly, "w": wait_in_group, "f": follow, "s": serve}
_NAMES = {"trimmer": trim, "sealer": seal, "mover": move, "backup": back_up, "verifier": verify, "namer": shuffle_names}
_SIGNALS = {"kill": signal.SIGKILL, "end": signal.SIGTERM, "stop": signal.SIGSTOP, "interrupt": signal.SIGINT}
_BAG = ("kill",) * 8 + ("end",) * 4 + ("stop",) * 4 + ("interrupt",) * 3


def _work(name: str) -> Callable[[Part], Callable[[], None]]:
    return _NAMES[name] if name in _NAMES else _LETTERS[name[0]]


@dataclass
class _Life:
    pid: int
    life: int
    ends_by: float | None = None  # it was told to end
    goes_on_at: float | None = None  # it is stopped
    told: bool = False  # a signal may have ended it


class _Supervisor:
    def __init__(self, scene: Scene, root: Path) -> None:
        self.scene, self.root = scene, root
        self.chance = random.Random(f"supervisor {scene.seed} {scene.policy}")
        self.journal = Journal(root / JOURNALS, "supervisor", 0)
        self.alive: dict[str, _Life] = {}
        self.lives: dict[str, int] = {}

    def start(self, name: str) -> None:
        life = self.lives[name] = self.lives.get(name, -1) + 1
        self.journal.note("start", role=name, life=life)
        self.alive[name] = _Life(live(_work(name), self.scene, self.root, name, life), life)

    def _signal(self, name: str, word: str) -> None:
        each = self.alive[name]
        os.kill(each.pid, _SIGNALS[word])
        self.journal.note(word, role=name, life=each.life)

    def go_on(self, name: str) -> None:
        each = self.alive[name]
        each.goes_on_at = None
        os.kill(each.pid, signal.SIGCONT)
        self.journal.note("go on", role=name, life=each.life)

    def strike(self) -> None:
        """One event, whom and how by chance."""
        free = [name for name, each in self.alive.items() if each.goes_on_at is None and each.ends_by is None]
        if not free:
            return
        name, word = self.chance.choice(sorted(free)), self.chance.choice(_BAG)
        each = self.alive[name]
        each.told = each.told or word != "stop"
        self._signal(name, word)
        if word == "end":
            each.ends_by = time.monotonic() + PATIENCE_S
        elif word == "stop":
            each.goes_on_at = time.monotonic() + self.chance.random() * self.scene.stop_s
            if self.chance.random() < 0.2:  # and then it is killed as it lies there
                self._signal(name, "kill")

    def look_around(self) -> None:
        """Wakes who was stopped long enough, and notes who is dead."""
        now = time.monotonic()
        for name, each in list(self.alive.items()):
            pid, status = os.waitpid(each.pid, os.WNOHANG)
            if pid:
                self._dead(name, status)
            elif each.goes_on_at is not None and now > each.goes_on_at:
                self.go_on(name)
            elif each.ends_by is not None and now > each.ends_by:
                self.journal.note("failed", how=f"{name}.{each.life} was told to end, and did not")
                os.kill(each.pid, signal.SIGABRT)  # which says where it was
                each.ends_by = None

    def _dead(self, name: str, status: int) -> None:
        each = self.alive.pop(name)
        code = os.waitstatus_to_exitcode(status)
        self.journal.note("dead", role=name, life=each.life, code=code)
        if not each.told and code != -signal.SIGKILL:
            self.journal.note("failed", how=f"{name}.{each.life} ended by itself: {code}")

    def kill_all(self) -> None:
        """The end: all at once, as with a machine whose processes are killed."""
        for each in self.alive.values():
            os.kill(each.pid, signal.SIGKILL)
        for name, each in list(self.alive.items()):
            self._dead(name, os.waitpid(each.pid, 0)[1])

    def run(self) -> None:
        until = time.monotonic() + self.scene.seconds
        strikes_at = time.monotonic() + self.scene.event_s
        while (now := time.monotonic()) < until:
            for name in self.scene.roles():
                if name not in self.alive:
                    self.start(name)
            if now >= strikes_at:
                self.strike()
                strikes_at = now + self.chance.random() * self.scene.event_s
            select.select([], [], [], 0.02)
            self.look_around()
        self.kill_all()


def supervise(root: str, seed: int, scene: dict[str, object]) -> None:
    """Runs a scene to its end."""
    faulthandler.cancel_dump_traceback_later()
    supervisor = _Supervisor(Scene(**scene), Path(root))  # type: ignore[arg-type]  # came as JSON
    try:
        supervisor.run()
    finally:
        supervisor.kill_all()
    say("done", seed)
