"""`diskstream archive`: move streams of a Redis to disk."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import diskstream
from diskstream.archiving import ArchiveOptions, Archiver, Plan, Server, check_server, plan, reached
from diskstream.cli.amounts import RATE
from diskstream.cli.archive_report import archive_progress, say_away, say_remark, write_plans, write_result
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.failure import Failure
from diskstream.cli.options import as_bytes, checked, json_option, not_empty, place
from diskstream.plurals import number_of
from diskstream.redis_link import check_url


@click.command("archive")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="URL",
    callback=checked(check_url),
    help="The Redis: redis://, rediss:// or unix://.",
)
@click.option(
    "--key",
    "keys",
    required=True,
    multiple=True,
    type=as_bytes,
    callback=checked(not_empty),
    metavar="PATTERN",
    help="A stream, or a pattern as KEYS has them. May be given several times.",
)
@click.option(
    "--to",
    "directory",
    required=True,
    metavar="STORE",
    type=place(file_okay=False),
    help="The store's directory; it is made where there is none.",
)
@click.option(
    "--trim", is_flag=True, help="Trim the source of what was read back and every group has acknowledged; not asked."
)
@click.option("--trim-unacknowledged", is_flag=True, help="With --trim: also of what groups have not acknowledged.")
@click.option("--follow", is_flag=True, help="Go on as entries and keys come, until SIGINT or SIGTERM.")
@click.option("--rate", type=RATE, metavar="N", help="Entries a second, at most.")
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Streams side by side.")
@click.option(
    "--batch", type=click.IntRange(1, 100_000), default=4000, show_default=True, help="Entries of a reply, at most."
)
@click.option("--accept-changed", is_flag=True, help="Go on though the source moved or was made anew.")
@consent_options
@json_option
def command(
    *,
    source: str,
    keys: tuple[bytes, ...],
    directory: Path,
    dry_run: bool,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Copy streams of a Redis to disk, with their IDs, groups and pending entries.

    What was copied is made durable and read back before anything is trimmed, so --trim does not ask. It can be
    killed at any moment and started again: it goes on where it stopped.
    """
    if given["trim_unacknowledged"] and not given["trim"]:
        raise click.UsageError("--trim-unacknowledged means nothing without --trim")
    if dry_run:
        plans: list[Plan] = plan(source, directory, keys, ArchiveOptions(**given))
        write_plans(plans, as_json=as_json, unacknowledged=given["trim_unacknowledged"])
        if any(each.error for each in plans):
            raise Failure("not all of this would be copied")
        return
    if given["trim_unacknowledged"]:
        ask("Trim entries that groups of the source have not acknowledged?", force=force)
    began = time.monotonic()
    with _connected(source, follow=given["follow"]) as (server, stop):
        check_server(server, trim=given["trim"])  # before a store is made that nothing comes into
        with diskstream.open(directory) as store, archive_progress() as progress:
            options = ArchiveOptions(on_remark=say_remark, on_away=say_away, **progress, **given)
            archiver = Archiver(server, store, keys, options)
            try:
                result = archiver.run(stop)
            except diskstream.DiskstreamError as error:
                broken_off = archiver.broken_off(error)
                if broken_off.reports:
                    write_result(broken_off, time.monotonic() - began, as_json=as_json)
                raise
    write_result(result, time.monotonic() - began, as_json=as_json)
    if result.stopped:
        raise Failure("it was stopped before all was copied", hint="run it again: it goes on where it stopped")
    if not result.is_good:
        bad = sum(not report.is_good for report in result.reports)
        raise Failure(
            f"{bad:,} of {number_of(len(result.reports), 'stream needs', 'streams need')} a look: see the findings"
        )


@contextlib.contextmanager
def _connected(url: str, *, follow: bool) -> Iterator[tuple[Server, threading.Event]]:
    """The server, and what signals set; one that is away or loading is waited for by who follows."""
    if not follow:
        with Server(url) as server, stopped_by_signals() as stop:  # connecting heeds no event: a signal ends it at once
            yield server, stop
        return
    with stopped_by_signals() as stop:
        found = reached(url, stop, say_away)
        if found is None:
            raise Failure("it was stopped before the source answered", hint="run it again once the source is there")
        with found:
            yield found, stop


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second one ends the process at once."""
    stop = threading.Event()

    def handle(number: int, _frame: object) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
