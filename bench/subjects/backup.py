"""What a backup costs those who write.

A store with a sealed stream, and a second stream to which one thread adds 500 entries a call, without pause. In every
other turn another process makes backups of the whole store meanwhile, each a full one that copies, checks and flushes
everything, one after the other; it has low priority, as `diskstream backup` has. The row with a rate copies 50 MB a
second at most. Turns alternate, with more rounds than elsewhere, since a ratio near one is asked for, and the disk is
quiet in between. The last row is what such a backup copies in a second, reading back included, when nobody writes.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import diskstream
from bench import ours
from bench.context import Context
from bench.entries import batches, sensor_entries
from bench.model import Figure, Result, Row, Target
from bench.procs import child
from bench.rounds import Contender, rate, take_turns
from diskstream.backups import Settings, make_backup

NAME = "backup"
RATE = "entries/s"
SIZE = 500
ROWS = sensor_entries(40 * SIZE)
BYTES_PER_S = 50_000_000

ALONE = "add_many by 500, no backup"
DURING = "add_many by 500, backups under way"
SLOWED = "add_many by 500, backups at 50 MB/s under way"
COPIED = "a full backup"


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    with ExitStack() as stack:
        path = stack.enter_context(context.fresh("store"))
        with diskstream.open(path) as store:
            ours.fill(store.stream("kept"), ROWS * max(1, context.scale.entries // len(ROWS)))
            store.seal()
        contenders = [
            Contender(ALONE, lambda: _adding(context, path, None)),
            Contender(DURING, lambda: _adding(context, path, 0)),
            Contender(SLOWED, lambda: _adding(context, path, BYTES_PER_S)),
            Contender(COPIED, lambda: _copying(context, path)),
        ]
        # The ratio that is asked for is near one, and single turns differ by more than a tenth.
        figures = take_turns(context, contenders, rounds=2 * context.rounds - 1)
    alone = Figure(RATE, figures[ALONE])
    result.rows.append(Row(DURING, Figure(RATE, figures[DURING]), ALONE, alone, Target("ratio", at_least=0.9)))
    result.rows.append(Row(SLOWED, Figure(RATE, figures[SLOWED]), ALONE, alone))
    result.rows.append(Row(COPIED, Figure("MB/s", figures[COPIED])))


def _adding(context: Context, path: Path, bytes_per_s: int | None) -> float:
    """Entries a second, while backups are made at this rate (0 is none); None: while there are none."""
    with ExitStack() as stack:
        if bytes_per_s is not None:
            target = stack.enter_context(context.fresh("backups"))
            asked = stack.enter_context(child("back_up_for_ever", str(path), str(target), bytes_per_s))
            asked.wait_ready()
            asked.go()
        store = stack.enter_context(diskstream.open(path))
        stream = store.stream(ours.NAME)
        step = ours.add_many_step(stream, batches(ROWS, SIZE))
        step()
        found = rate(step, context.seconds)
        store.delete(ours.NAME)
    return found


def _copying(context: Context, path: Path) -> float:
    with context.fresh("backups") as target:
        began = time.perf_counter()
        made = make_backup(path, target, Settings(full=True))
        return made.header.size_bytes / 1e6 / (time.perf_counter() - began)


def back_up(path: Path, target: Path, bytes_per_s: int) -> None:
    """Makes one full backup, and removes those before."""
    from diskstream.backups import Repository, prune, superfluous

    make_backup(path, target, Settings(full=True, bytes_per_s=bytes_per_s or None, low_priority=True))
    repository = Repository.open(target)
    prune(repository, superfluous(repository.backups(), keep=1))
