"""Random sequences by the thousand, each from a seed; where one fails, the shortest that fails alike."""

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from tests.engine.sample import fast_directory
from tests.groups.bout import Bout, Clock, DisagreementError, Ours
from tests.groups.grammar import Dice, Grammar, Times
from tests.groups.grammar import options as options_by
from tests.groups.ops import Op
from tests.groups.our_side import OurSide
from tests.groups.their_side import TheirSide

__all__ = ["SEED", "SHARES", "STEPS", "MakeOurs", "Trials", "bout"]

# How many sequences, and where the seeds begin: a failure says which seed it had, and that alone is run again by
# DISKSTREAM_GROUP_SEED=... DISKSTREAM_GROUP_SEQUENCES=1.
_SEQUENCES = int(os.environ.get("DISKSTREAM_GROUP_SEQUENCES", "2000"))
SEED = int(os.environ.get("DISKSTREAM_GROUP_SEED", "1"))
STEPS = 50
# The seeds, shared out to tests that take half a minute each.
SHARES = [range(first, min(first + 250, SEED + _SEQUENCES)) for first in range(SEED, SEED + _SEQUENCES, 250)]

# A sequence takes a tenth of a second; one that works for so long never ends.
_MOST_CPU_S = 20.0
# Shorter sequences are looked for this often at most.
_MOST_REPLAYS = 500


Options = dict[str, Any]
MakeOurs = Callable[[Path, Options, Clock], Ours]


@contextmanager
def bout(theirs: TheirSide | None, options: Options, make_ours: MakeOurs = OurSide) -> Iterator[Bout]:
    """All sides, with a new store."""
    clock = Clock(1_000)
    with fast_directory() as directory, closing(make_ours(directory / "store", options, clock)) as ours:
        yield Bout(clock, ours, theirs)


@contextmanager
def _ending() -> Iterator[None]:
    """Ends what goes on for ever, so that its seed is told."""

    def end(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"worked for {_MOST_CPU_S} seconds")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _threads_watched() -> Iterator[None]:
    """What a thread raised is raised at the end, where nothing else is."""
    raised: list[BaseException] = []
    before = threading.excepthook
    threading.excepthook = lambda args: raised.append(args.exc_value or args.exc_type())
    try:
        yield
    finally:
        threading.excepthook = before
    if raised:
        raise raised[0]


@dataclass(frozen=True)
class _Failure:
    """What went wrong. `about` is the same for sequences that show the same mistake."""

    about: str
    text: str


class Trials:
    """Sequences beside the model and, where there is one, a server."""

    def __init__(
        self,
        weights: dict[str, int],
        times: Times,
        theirs: TheirSide | None = None,
        make_ours: MakeOurs = OurSide,
    ) -> None:
        self._weights, self._times, self._theirs, self._make_ours = weights, times, theirs, make_ours

    def run(self, seeds: Iterable[int], steps: int = STEPS) -> None:
        """Runs one sequence for each seed, up to the first that fails."""
        for seed in seeds:
            options = options_by(Dice(seed))
            done: list[Op] = []
            failure = self._play(options, lambda made: islice(self._drawn(made, seed), steps), done)
            if failure is not None:
                raise AssertionError(self._told(seed, options, failure, done))

    def replay(self, ops: Sequence[Op], **options: Any) -> None:
        """Runs a sequence that failed once."""
        failure = self._play(options, lambda made: ops, [])
        assert failure is None, failure.text

    def _drawn(self, made: Bout, seed: int) -> Iterator[Op]:
        grammar = Grammar(made.model, self._weights, self._times)
        grammar.chance = Dice(seed)
        yield from grammar.begin()
        while True:
            yield grammar.next()

    def _play(self, options: Options, ops: Callable[[Bout], Iterable[Op]], done: list[Op]) -> _Failure | None:
        """Adds to `done` what was tried."""
        try:
            with _threads_watched(), _ending(), bout(self._theirs, options, self._make_ours) as made:
                for op in ops(made):
                    done.append(op)
                    made.do(op)
                made.end()
        except DisagreementError as error:
            return _Failure(error.about, str(error))
        except TimeoutError:
            return _Failure("no end", traceback.format_exc())
        except Exception as error:  # noqa: BLE001  # whatever it is: it is what is looked for
            return _Failure(f"{type(error).__name__} in {_place(error)}", traceback.format_exc())
        return None

    # --- shorter ------------------------------------------------------------------------------------------------------

    def _told(self, seed: int, options: Options, failure: _Failure, done: list[Op]) -> str:
        ops, found = self._shortest(options, done, failure)
        listed = "".join(f"\n    {op!r}" for op in ops)
        again = f"DISKSTREAM_GROUP_SEED={seed} DISKSTREAM_GROUP_SEQUENCES=1"
        return f"seed {seed}, {options} (to see it again: {again})\n[{listed}\n]\n{found.text}"

    def _shortest(self, options: Options, ops: list[Op], failure: _Failure) -> tuple[list[Op], _Failure]:
        """Leaves out, and makes less of, whatever the failure does not need."""
        replays = 0
        while True:
            for shorter in _shorter(ops):
                replays += 1
                found = self._play(options, lambda made: shorter, [])
                if found is not None and found.about == failure.about:
                    ops, failure = shorter, found
                    break
                if replays >= _MOST_REPLAYS:
                    return ops, failure
            else:
                return ops, failure


def _shorter(ops: list[Op]) -> Iterator[list[Op]]:
    """Sequences with less in them, the shortest first."""
    size = len(ops) // 2
    while size:
        for start in range(len(ops) - size, -1, -size):
            yield ops[:start] + ops[start + size :]
        size //= 2
    for place, op in enumerate(ops):
        for less in _less(op):
            yield [*ops[:place], less, *ops[place + 1 :]]


def _less(op: Op) -> Iterator[Op]:
    """The same operation with less to say."""
    if op.by or op.seen:
        yield replace(op, by=0, seen=0)
    for name, value in op.args.items():
        if name in ("ids", "entries", "streams", "fields") and len(value) > 1:
            for place in range(len(value)):
                yield replace(op, args={**op.args, name: value[:place] + value[place + 1 :]})
        elif name in _OPTIONAL:
            yield replace(op, args={key: kept for key, kept in op.args.items() if key != name})
    for name, small in (("entries", _small_rows), ("fields", _small_fields)):
        if name in op.args and (less := small(op.args[name])) != op.args[name]:
            yield replace(op, args={**op.args, name: less})


_OPTIONAL = {
    *("trim", "ref", "nomkstream", "added", "deleted", "count", "max_count", "max_bytes", "claim", "noack", "way"),
    *("idle", "time", "retry", "force", "justid", "last_id", "consumer", "entries_read", "mkstream", "message"),
}


def _small_fields(fields: Any) -> Any:
    return [(name, value[:1]) for name, value in fields]


def _small_rows(rows: Any) -> Any:
    return [(id, _small_fields(fields)) for id, fields in rows]


def _place(error: BaseException) -> str:
    """Where an error came from."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"
