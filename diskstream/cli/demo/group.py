"""Three processes share a stream as a consumer group, and one of them is killed while it holds entries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import diskstream
from diskstream.cli.demo.board import Board
from diskstream.cli.demo.phases import Stage
from diskstream.cli.demo.producer import produce
from diskstream.cli.demo.sequence import NUMBER
from diskstream.cli.demo.workers import PATIENCE_S, Worker, wait_for_trouble
from diskstream.cli.failure import Failure
from diskstream.cli.telemetry import CPU

SHARED: Final = CPU.name
GROUP: Final = "demo"
RESULTS: Final = "processed"
"""The stream to which the workers add a line for each entry that they processed, before they acknowledge it."""
MEMBERS: Final = ("worker-1", "worker-2", "worker-3")
VICTIM: Final = MEMBERS[1]

_CLAIM_MS: Final = 300
_WAIT_S: Final = 0.1
_MAX_KILLS: Final = 20
_TICK_S: Final = 0.02


@dataclass(slots=True)
class Member:
    """What a worker did."""

    name: str
    processed: int = 0  # entries that nobody had processed before
    claimed: int = 0  # of all that it processed, those that another had been given before
    repeated: int = 0  # entries that another had processed, but not acknowledged
    held: int | None = None  # pending when it was killed; None where it was not


@dataclass(slots=True)
class Shared:
    """What the group came to."""

    stream: str
    entries: int
    seconds: float
    kills: int
    members: list[Member]


def work(directory: Path, name: str, board: Board) -> None:
    """Process entries as they come, and those that others left lying, until the board says stop."""
    with diskstream.open(directory) as store:
        consumer = store.stream(SHARED).group(GROUP, create=False).consumer(name)
        results = store.stream(RESULTS)
        while not board.readers_stop:
            for entry in consumer.entries(ack=True, block=_WAIT_S, claim_ms=_CLAIM_MS):
                results.add(((NUMBER, entry[NUMBER]), ("worker", name), ("deliveries", entry.deliveries)))


class GroupStage(Stage):
    """Where the group works. One more producer feeds the stream meanwhile."""

    def share(self, seconds: float) -> Shared:
        """All entries of the stream, and those of so many seconds more, go through the group."""
        board = self._board
        board.producers_stop = board.readers_stop = False
        with diskstream.open(self._directory) as store, self._workers() as workers:
            stream, results = store.stream(SHARED), store.stream(RESULTS)
            stream.group(GROUP, create=False).destroy()  # an earlier run's
            group, before = stream.create_group(GROUP, "0"), results.last_id()
            team = {name: self._start(workers, name, work, name, board) for name in MEMBERS}
            producer = self._start(workers, f"producer of {SHARED}", produce, (SHARED,), board)
            self._wait_for(workers, "the group was not at work", lambda: _are_all_active(group))
            started = monotonic()
            self._feed_for(started, seconds * random.uniform(0.3, 0.6), workers)
            kills, held = self._kill_holding(group, team, workers)
            living = [producer, *(worker for name, worker in team.items() if name != VICTIM)]
            self._feed_for(started, seconds, living)
            board.producers_stop = True
            self._finish(producer, started)
            self._wait_for(living[1:], "the group did not come to the end of its stream", lambda: _is_done(group))
            took = monotonic() - started
            board.readers_stop = True
            for worker in living[1:]:
                self._finish(worker, started)
            numbers = (int(entry[NUMBER]) for entry in stream.range())
            lines = results.range(f"({before}")
            members = account(numbers, ((int(e[NUMBER]), e["worker"].decode(), int(e["deliveries"])) for e in lines))
            next(member for member in members if member.name == VICTIM).held = held
            return Shared(SHARED, len(stream), took, kills, members)

    def _wait_for(self, workers: list[Worker], otherwise: str, is_so: Callable[[], bool]) -> None:
        deadline = monotonic() + PATIENCE_S
        while not is_so():
            if monotonic() > deadline:
                raise Failure(f"{otherwise} within {PATIENCE_S:.0f} s")
            wait_for_trouble(workers, _TICK_S)

    def _kill_holding(self, group: diskstream.Group, team: dict[str, Worker], workers: list[Worker]) -> tuple[int, int]:
        """Kill a worker while it holds entries. One that had just acknowledged its last is replaced, and then that."""
        victim = team[VICTIM]
        for kills in range(1, _MAX_KILLS + 1):
            self._wait_for([victim], f"{VICTIM} was given nothing", lambda: _held(group) > 0)
            victim.kill()
            if held := _held(group):
                return kills, held
            workers.remove(victim)
            victim.close()
            victim = self._start(workers, VICTIM, work, VICTIM, self._board)
        raise Failure(f"{VICTIM} was killed {_MAX_KILLS} times and never held an entry")


def _held(group: diskstream.Group) -> int:
    return group.pending().consumers.get(VICTIM.encode(), 0)


def _are_all_active(group: diskstream.Group) -> bool:
    return sum(info.active_ms is not None for info in group.consumers()) == len(MEMBERS)


def _is_done(group: diskstream.Group) -> bool:
    info = group.info()
    return info.pending == 0 and info.lag == 0


def account(numbers: Iterable[int], lines: Iterator[tuple[int, str, int]]) -> list[Member]:
    """Hold what the workers wrote down against what there was.

    Args:
        numbers: those of all entries.
        lines: in order, the number of an entry, who processed it, and how often it had been delivered before.

    Raises:
        Failure: an entry was left out, made up, or given to two without having been claimed.
    """
    members = {name: Member(name) for name in MEMBERS}
    deliveries: dict[int, list[int]] = {number: [] for number in numbers}
    for number, worker, before in lines:
        if number not in deliveries:
            raise Failure(f"{worker} processed an entry with number {number:,}, which stream {SHARED} does not have")
        if before in deliveries[number]:
            raise Failure(f"entry {number:,} of stream {SHARED} was given to two workers, though none had claimed it")
        member = members[worker]
        member.claimed += before > 0
        if deliveries[number]:
            member.repeated += 1
        else:
            member.processed += 1
        deliveries[number].append(before)
    if missing := [number for number, found in deliveries.items() if not found]:
        raise Failure(
            f"stream {SHARED}: {len(missing):,} entries were processed by nobody, the first has number {missing[0]:,}"
        )
    return list(members.values())
