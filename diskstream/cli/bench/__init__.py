"""`diskstream bench`: what this machine's disk gives."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from diskstream.cli.bench.cases import CASES, POLICIES, Bounds, Case
from diskstream.cli.bench.machine import facts
from diskstream.cli.bench.report import Outcome, show
from diskstream.cli.failure import Failure
from diskstream.cli.options import finite, json_option
from diskstream.cli.output import console, error_console, write_json
from diskstream.cli.stopping import stopping
from diskstream.plurals import number_of

_MAX_ENTRIES: Final = 10_000_000
_OVERHEAD_BYTES: Final = 100


@click.command("bench")
@click.argument("names", metavar="[CASE]...", nargs=-1, type=click.Choice([case.name for case in CASES]))
@click.option(
    "-d",
    "--dir",
    "parent",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    metavar="DIRECTORY",
    help="Where to make the store that is measured; it is removed. [default: the system's temporary directory]",
)
@click.option("--fsync", "policies", type=click.Choice(POLICIES), multiple=True, help="Only these.")
@click.option(
    "--seconds",
    callback=finite,
    type=click.FloatRange(0.01, 3600),
    default=0.5,
    show_default=True,
    help="A round, at most.",
)
@click.option(
    "--entries",
    type=click.IntRange(100, _MAX_ENTRIES),
    default=200_000,
    show_default=True,
    help="Added in a round, at most; what is read has as many.",
)
@click.option("--rounds", type=click.IntRange(1, 1000), default=3, show_default=True, help="The median is shown.")
@click.option(
    "--value-bytes",
    type=click.IntRange(1, 1 << 20),
    default=100,
    show_default=True,
    help="Of an entry.",
)
@json_option
def command(
    *,
    names: tuple[str, ...],
    parent: Path | None,
    policies: tuple[str, ...],
    seconds: float,
    entries: int,
    rounds: int,
    value_bytes: int,
    as_json: bool,
) -> None:
    """Measure adding, reading and consuming under each fsync policy, in a store of its own.

    \b
    add       one entry a call
    add_many  100 entries a call
    range     all entries, read from the newest segments and the page cache
    group     100 entries a read, each read acknowledged by one call

    One process, one thread. Rounds of all cases take turns, so that what else the machine does meets all of them.
    """
    chosen = [case for case in CASES if not names or case.name in names]
    bounds = Bounds(seconds, entries, value_bytes)
    work = [(case, policy) for policy in policies or POLICIES for case in chosen]
    with stopping(), tempfile.TemporaryDirectory(prefix="diskstream-bench-", dir=parent) as temporary:
        _check_room(Path(temporary), bounds)
        machine = facts(Path(temporary))
        samples = _measure(work, rounds, bounds, Path(temporary))
        outcomes = [Outcome(case.name, policy, samples[case.name, policy]) for case, policy in work]
        if as_json:
            for outcome in outcomes:
                write_json({**outcome.facts(), "machine": machine})
        else:
            show(outcomes, machine, bounds, console())


def _check_room(directory: Path, bounds: Bounds) -> None:
    """Entries to be read are there before anything is measured: a disk must not be filled by mistake."""
    # A frame is somewhat larger than its values; the copies of a roll and of sealing come and go.
    needed = 2 * bounds.entries * (bounds.value_bytes + _OVERHEAD_BYTES)
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise Failure(
            f"{number_of(bounds.entries, 'entry')} of {number_of(bounds.value_bytes, 'byte')} may take {needed:,}, and "
            f"{free:,} are free",
            hint="--entries and --value-bytes make it less, --dir names another disk",
        )


def _measure(
    work: list[tuple[Case, str]], rounds: int, bounds: Bounds, directory: Path
) -> dict[tuple[str, str], list[float]]:
    samples: dict[tuple[str, str], list[float]] = {(case.name, policy): [] for case, policy in work}
    terminal = error_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_interactive) as progress:
        task = progress.add_task("", total=rounds * len(work))
        for turn in range(rounds):
            for case, policy in work:
                progress.update(task, description=f"{case.name}, {policy}")
                store = directory / f"{case.name}-{policy}-{turn}"
                try:
                    samples[case.name, policy].append(case.measure(store, policy, bounds))
                except OSError as error:
                    raise Failure(f"{case.name} under {policy}: {error}", hint="--dir names another disk") from error
                progress.advance(task)
    return samples
