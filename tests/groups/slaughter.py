"""Producers and consumers at work on one group while one after the other is killed: run in a process of its own.

Each worker keeps a journal, a file to which it appends a line when a call has returned. What a worker was about to say
when it was killed is missing there; whatever is there has happened. Times are those of the one monotonic clock, so
that journals of several workers can be compared.
"""

import os
import random
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diskstream
from diskstream import Delivery, EntryID, Group
from tests.engine.children import LIMIT_S, say

__all__ = ["Note", "notes", "slaughter"]

PRODUCERS, CONSUMERS = ("p0", "p1"), ("c0", "c1", "c2")
# Each consumer's entries ripen for the others this soon, so that much is claimed.
_IDLE_MS = 20


@dataclass(frozen=True)
class Note:
    """One line of a journal: when the call began and had returned, what it did, with which entry."""

    worker: str
    began_ns: int
    ended_ns: int
    word: str
    entry_id: EntryID


def notes(journals: Path) -> Iterator[Note]:
    """All that workers said."""
    for path in sorted(journals.iterdir()):
        text = path.read_text()
        for line in text[: text.rfind("\n") + 1].splitlines():
            began, ended, word, *ids = line.split()
            for entry_id in ids:
                yield Note(path.name, int(began), int(ended), word, EntryID(entry_id))


class _Journal:
    """What one worker says."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        # A worker that is killed while it writes leaves a part of its line, which is not to begin the next one's.
        os.ftruncate(self._fd, os.pread(self._fd, os.fstat(self._fd).st_size, 0).rfind(b"\n") + 1)

    def note(self, word: str, began_ns: int, ids: list[EntryID]) -> None:
        if ids:
            line = " ".join([str(began_ns), str(time.monotonic_ns()), word, *map(str, ids)])
            os.write(self._fd, line.encode() + b"\n")


def produce(group: Group, journal: _Journal, chance: random.Random) -> None:
    """Adds entries, alone and several at once, now and then a large one; slowly enough for consumers to catch up."""
    while True:
        began = time.monotonic_ns()
        rows = [{"pad": "." * chance.choice((1, 10, 10, 300))} for _ in range(chance.choice((1, 1, 1, 4)))]
        journal.note("added", began, group.stream.add_many(rows))
        select.select([], [], [], chance.random() * 0.004)


def consume(group: Group, journal: _Journal, chance: random.Random, name: str) -> None:
    """Reads, claims, acknowledges, gives back, leaves lying; its own backlog first."""
    member = group.consumer(name)

    def did(word: str, entries: Callable[[], list[Delivery]]) -> list[EntryID]:
        began = time.monotonic_ns()
        given = [entry.id for entry in entries() if not entry.gone]
        journal.note(word, began, given)
        return given

    def ack(ids: list[EntryID]) -> None:
        for entry_id in ids:
            began = time.monotonic_ns()
            if group.ack(entry_id):
                journal.note("acked", began, [entry_id])

    ack(did("again", lambda: member.read("0", count=20)))
    while True:
        match chance.randrange(8):
            case 0:
                given = did("claimed", lambda: member.autoclaim(_IDLE_MS, count=10).entries)
            case 1:
                given = did("again", lambda: member.read("0", count=5))
            case 2:
                # First what lay too long, then new ones: which of both, their deliveries say.
                began = time.monotonic_ns()
                entries = member.read(count=4, claim_ms=_IDLE_MS, block=0.01)
                journal.note("new", began, [entry.id for entry in entries if entry.deliveries == 0])
                journal.note("ripe", began, [entry.id for entry in entries if entry.deliveries > 0])
                given = [entry.id for entry in entries]
            case _:
                given = did("new", lambda: member.read(count=chance.choice((1, 3, 10)), block=0.02))
        if chance.random() < 0.1:
            group.nack(*given)
        elif chance.random() < 0.8:
            ack(given)


# --- the one that forks and kills -------------------------------------------------------------------------------------


def _birth(path: Path, journals: Path, name: str, seed: str, options: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)  # whose signal is fatal: nobody hangs unseen
        group = diskstream.open(path, **options).stream("x").group("g", create=False)
        journal = _Journal(journals / name)
        chance = random.Random(seed)
        if name in PRODUCERS:
            produce(group, journal, chance)
        else:
            consume(group, journal, chance, name)
    except BaseException:  # noqa: BLE001  # a fork must not go on where its parent does
        say("failed", name, traceback.format_exc().replace("\n", " | "))
    os._exit(1)


def _wait_for_more(path: Path, size: int) -> None:
    """Returns once a journal has grown by so much, as its worker goes on; a worker that has ended is told of."""
    until = time.monotonic() + LIMIT_S
    before = path.stat().st_size if path.exists() else 0
    while (path.stat().st_size if path.exists() else 0) < before + size:
        assert time.monotonic() < until, f"{path.name} does nothing"
        select.select([], [], [], 0.0005)


def slaughter(path: str, journals: str, rounds: int, seed: str, options: dict[str, Any]) -> None:
    """Lets workers work, kills one in each round (now and then all of them), and puts others in their place."""
    chance = random.Random(seed)
    where, said = Path(path), Path(journals)
    alive: dict[str, int] = {}
    for turn in range(rounds):
        for name in {*PRODUCERS, *CONSUMERS} - set(alive):
            alive[name] = _birth(where, said, name, f"{seed} {turn} {name}", options)
        victims = sorted(alive) if turn % 10 == 9 or turn == rounds - 1 else [chance.choice(sorted(alive))]
        _wait_for_more(said / chance.choice(victims), chance.choice((1, 100, 1000, 3000)))
        select.select([], [], [], chance.random() * 0.002)  # any moment, not only the one after a line
        for name in victims:
            os.kill(alive[name], signal.SIGKILL)
        for name in victims:
            pid = alive.pop(name)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert code == -signal.SIGKILL, f"{name} ended by itself: {code}"
    say("done")
