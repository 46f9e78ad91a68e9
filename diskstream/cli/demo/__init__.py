"""`diskstream demo`: a store fed by this machine's own telemetry, processes killed, what is left of it, and Spark."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

import diskstream
from diskstream.cli.demo.board import STREAMS, Board
from diskstream.cli.demo.figures import measure
from diskstream.cli.demo.group import GroupStage
from diskstream.cli.demo.phases import Stage, reopen
from diskstream.cli.demo.pipeline import PipelineStage, what_is_missing
from diskstream.cli.demo.readers import Tailed
from diskstream.cli.demo.report import DemoReport, demo_progress, show
from diskstream.cli.demo.sequence import OutOfSequenceError, last_number
from diskstream.cli.failure import Failure
from diskstream.cli.options import finite, json_option, place
from diskstream.cli.output import console, write_json
from diskstream.cli.telemetry import ALL, PROC

_BEFORE_REOPENING: Final = 0.6
"""The part of the time that comes before the store is closed and reopened."""

_SHARING_S: Final = 1.0
"""How long a stream is fed for the consumer group, at most."""


@click.command("demo")
@click.option(
    "-d",
    "--dir",
    "directory",
    type=place(file_okay=False),
    metavar="STORE",
    help="Where to keep the store. [default: a temporary directory]",
)
@click.option(
    "--seconds",
    callback=finite,
    type=click.FloatRange(min=0.2),
    default=8.0,
    show_default=True,
    help="How long to feed it.",
)
@click.option("--keep", is_flag=True, help="Do not remove the temporary directory.")
@click.option("--spark/--no-spark", default=None, help="End with Spark. [default: where Spark and Java are installed]")
@json_option
def command(directory: Path | None, seconds: float, keep: bool, spark: bool | None, as_json: bool) -> None:
    """Feed a store with this machine's telemetry, kill processes, recover, seal, and show figures.

    Two processes append what /proc says of processors, memory, disks and network, a stream each, as fast as it comes.
    Two others follow and read them all the while, and check that no entry is missing or out of place. One producer is
    killed in mid-append; the store is reopened, fed on, sealed and measured. Then three processes share a stream as a
    consumer group; one is killed while it holds entries, which the others claim. At last Spark reads a stream while it
    is still fed, rolls it up by second, archives it, compares the archive with it and draws a chart. Exit status 1 when
    anything is amiss.
    """
    without = what_is_missing()
    if spark and without:
        raise Failure(f"Spark cannot run: {without}", hint="docs/spark.md says what it needs; --no-spark leaves it out")
    spark = spark is not False and without is None
    missing = [telemetry.file for telemetry in ALL if not (PROC / telemetry.file).is_file()]
    if missing:
        raise Failure(f"this machine has no {PROC / missing[0]}", hint="the demo reads telemetry as Linux has it")
    with _directory(directory, keep=keep) as path:
        try:
            report = _run(path, seconds, spark=spark)
        except OutOfSequenceError as error:
            raise Failure(str(error)) from error
        if as_json:
            write_json(report.facts())
        else:
            show(report, console())
            if without is not None:
                click.echo(f"Spark's part was left out: {without}")
            if keep and directory is None:
                click.echo(f"The store is in {path}, what Spark made beside it")


@contextmanager
def _directory(chosen: Path | None, *, keep: bool) -> Iterator[Path]:
    if chosen is not None:
        yield chosen
    elif keep:
        yield Path(tempfile.mkdtemp(prefix="diskstream-demo-")) / "store"
    else:
        with tempfile.TemporaryDirectory(prefix="diskstream-demo-") as temporary:
            yield Path(temporary) / "store"


def _run(directory: Path, seconds: float, *, spark: bool) -> DemoReport:
    context = multiprocessing.get_context("spawn")
    board = Board(context)
    start = _start_of(directory)
    with demo_progress(seconds, board) as phase:
        part = seconds * _BEFORE_REOPENING
        first = Stage(context, directory, board, phase("feeding, one will be killed", 0))
        before = first.feed(part, kill=True, after=start)
        phase("reopening", part)
        reopened = reopen(directory, before)
        second = Stage(context, directory, board, phase("feeding on", part))
        after = second.feed(seconds - part, kill=False, after=before.tailed)
        phase("sealing and measuring", seconds)
        with diskstream.open(directory) as store:
            store.sync()
            log_bytes = sum(store.stream(name).info().size_bytes for name in STREAMS if store.exists(name))
            sealed = store.seal()
            figures = measure(store, board)
        third = GroupStage(context, directory, Board(context), phase("a group shares a stream", seconds))
        shared = third.share(min(_SHARING_S, seconds))
        piped = None
        if spark:
            last = PipelineStage(context, directory, Board(context), phase("Spark reads, rolls up, archives", seconds))
            piped = last.pipe(directory.parent / f"{directory.name}-spark")
    return DemoReport(str(directory), before, reopened, after, sealed, log_bytes, figures, shared, piped)


def _start_of(directory: Path) -> Tailed:
    """Make the store. Where it is there already, the demo goes on behind its newest entries."""
    start = Tailed()
    with diskstream.open(directory) as store:
        for name in STREAMS:
            if store.exists(name):
                newest = next(iter(store.stream(name).revrange(count=1)), None)
                start.positions[name] = "0-0" if newest is None else str(newest.id)
                start.numbers[name] = last_number(store.stream(name))
    return start
