"""What the demo does with a store, one phase after another: feed and read, kill, reopen, feed on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import SpawnContext
from pathlib import Path
from time import monotonic, monotonic_ns, perf_counter
from typing import Any, Final

import diskstream
from diskstream.cli.demo.board import STREAMS, Board, Word
from diskstream.cli.demo.producer import produce
from diskstream.cli.demo.readers import Ranged, Tailed, read_ranges, tail
from diskstream.cli.demo.sequence import last_number
from diskstream.cli.demo.workers import PATIENCE_S, Worker, wait_for_trouble
from diskstream.cli.failure import Failure
from diskstream.cli.telemetry import CPU, DISKS, MEMORY, NETWORK

VICTIM: Final = (CPU.name, MEMORY.name)
SURVIVOR: Final = (DISKS.name, NETWORK.name)
_WATCHED: Final = CPU.name  # the stream in whose appends the victim is killed
_MAX_KILLS: Final = 5
_TICK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Killed:
    """A producer's end: how many kills it took to hit an append, and what it had been promised until then."""

    kills: int
    in_append: bool
    pending: int  # entries of the append it was in
    acknowledged: dict[str, int]  # the newest number whose append had returned, by stream


@dataclass(slots=True)
class Fed:
    """What a phase of feeding came to."""

    seconds: float
    tailed: Tailed
    ranged: Ranged
    killed: Killed | None = None


@dataclass(slots=True)
class Reopened:
    """What a recovery found."""

    recoveries: dict[str, list[diskstream.RecoveryReport]] = field(default_factory=dict)  # none where all was sound
    seconds: dict[str, float] = field(default_factory=dict)  # until each could be read
    numbers: dict[str, int] = field(default_factory=dict)  # of the newest entry of each stream


class Stage:
    """Where the processes of the demo are started, and where none of them is left behind."""

    def __init__(self, context: SpawnContext, directory: Path, board: Board, on_tick: Callable[[float], None]) -> None:
        self._context = context
        self._directory = directory
        self._board = board
        self._on_tick = on_tick

    def feed(self, seconds: float, *, kill: bool, after: Tailed) -> Fed:
        """Two producers write and two other processes read, for so long. With `kill` one producer dies half-way."""
        board = self._board
        board.producers_stop = board.readers_stop = False
        with self._workers() as workers:
            readers = [
                self._start(workers, "tailing process", tail, after, board),
                self._start(workers, "ranging process", read_ranges, board),
            ]
            victim = self._start(workers, "producer of cpu and memory", produce, VICTIM, board)
            producers = [self._start(workers, "producer of disks and network", produce, SURVIVOR, board)]
            self._wait_for_feed([*readers, *producers, victim])
            started = monotonic()
            killed = None
            if kill:
                self._feed_for(started, seconds / 2, [*readers, *producers, victim])
                killed = self._kill_in_append(victim, workers)
            else:
                producers.append(victim)
            self._feed_for(started, seconds, [*readers, *producers])
            board.producers_stop = True
            for producer in producers:
                self._finish(producer, started)
            took = monotonic() - started
            board.readers_stop = True
            tailed, ranged = (self._finish(reader, started) for reader in readers)
        return Fed(took, tailed, ranged, killed)

    @contextmanager
    def _workers(self) -> Iterator[list[Worker]]:
        workers: list[Worker] = []
        try:
            yield workers
        finally:
            for worker in workers:
                worker.close()

    def _start(self, workers: list[Worker], title: str, function: Callable[..., Any], *arguments: Any) -> Worker:
        worker = Worker(self._context, title, function, self._directory, *arguments)
        workers.append(worker)
        return worker

    def _wait_for_feed(self, workers: list[Worker]) -> None:
        """Processes take a while to start. The clock starts when both producers are at work."""
        board, watched = self._board, (VICTIM[0], SURVIVOR[-1])
        before = {name: board.get(name, Word.APPENDED) for name in watched}
        deadline = monotonic() + PATIENCE_S
        while any(board.get(name, Word.APPENDED) == before[name] for name in watched):
            if monotonic() > deadline:
                raise Failure(f"a producer appended nothing for {PATIENCE_S:.0f} s")
            wait_for_trouble(workers, _TICK_S)

    def _feed_for(self, started: float, seconds: float, workers: list[Worker]) -> None:
        while (left := started + seconds - monotonic()) > 0:
            wait_for_trouble(workers, min(_TICK_S, left))
            self._on_tick(monotonic() - started)

    def _finish(self, worker: Worker, started: float) -> Any:
        """The result of a process that was told to end."""
        deadline = monotonic() + PATIENCE_S
        while not worker.connection.poll(_TICK_S) and monotonic() < deadline:
            self._on_tick(monotonic() - started)
        return worker.result()

    def _kill_in_append(self, victim: Worker, workers: list[Worker]) -> Killed:
        """Kill the producer while it appends. One that had just left its append is replaced, and that one killed."""
        board, kills, pending = self._board, 0, 0
        for kills in range(1, _MAX_KILLS + 1):
            self._wait_for_append(victim)
            victim.kill()
            pending = board.get(_WATCHED, Word.PENDING)
            if pending or kills == _MAX_KILLS:
                break
            victim = self._start(workers, victim.title, produce, VICTIM, board)
        acknowledged = {name: board.get(name, Word.ACKNOWLEDGED) for name in STREAMS}
        return Killed(kills, bool(pending), pending, {name: acknowledged[name] for name in VICTIM})

    def _wait_for_append(self, victim: Worker) -> None:
        """Spin until an append begins, and on to a random place in it: it is over before a sleeper would wake."""
        board = self._board
        before = board.get(_WATCHED, Word.APPENDED)
        deadline = monotonic() + PATIENCE_S
        while not (board.get(_WATCHED, Word.PENDING) and board.get(_WATCHED, Word.APPENDED) > before):
            if victim.connection.poll():
                victim.result()
            if monotonic() > deadline:
                raise Failure(f"the {victim.title} appended nothing for {PATIENCE_S:.0f} s")
        ns_each = board.get(_WATCHED, Word.APPEND_NS) / board.get(_WATCHED, Word.APPENDED)
        moment = monotonic_ns() + random.random() * ns_each * board.get(_WATCHED, Word.PENDING)
        while monotonic_ns() < moment:
            pass


def reopen(directory: Path, fed: Fed) -> Reopened:
    """Open the store alone, which recovers it, and hold what is there against what was promised."""
    found = Reopened()
    with diskstream.open(directory) as store:
        for name in STREAMS:
            if store.exists(name):
                known, started = len(store.recoveries), perf_counter()
                found.numbers[name] = last_number(store.stream(name))
                found.seconds[name] = perf_counter() - started
                found.recoveries[name] = store.recoveries[known:]
    for name, seen in fed.tailed.numbers.items():
        if found.numbers.get(name, 0) < seen:
            raise Failure(
                f"stream {name}: the tailing process read {seen:,} entries, {found.numbers.get(name, 0):,} are left"
            )
    if fed.killed is not None:
        for name, acknowledged in fed.killed.acknowledged.items():
            extra = found.numbers.get(name, 0) - acknowledged
            pending = fed.killed.pending if name == _WATCHED else extra
            if extra < 0:
                raise Failure(f"stream {name}: {acknowledged:,} entries were acknowledged, {-extra:,} of them are lost")
            if extra not in (0, pending):
                raise Failure(f"stream {name}: {extra:,} entries of an append of {pending:,} were kept: it was torn")
    return found
