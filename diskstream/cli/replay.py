"""`diskstream replay`: send entries again, at a pace."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import click

import diskstream
from diskstream.arguments import path_of
from diskstream.backups import find_backup, is_backup
from diskstream.cli.amounts import RATE, SPAN
from diskstream.cli.duration import duration
from diskstream.cli.failure import Failure
from diskstream.cli.moments import check_order, end_bound, start_bound
from diskstream.cli.options import as_bytes, checked, json_option, optional_directory_option
from diskstream.cli.output import entry_facts, error_console, printable, text, write_json
from diskstream.cli.progress import replay_progress
from diskstream.cli.reading_backup import reading_backup
from diskstream.cli.standard_files import check_open
from diskstream.ids import parse_end, parse_start
from diskstream.plurals import number_of
from diskstream.redis_link import check_url, without_word
from diskstream.replaying import SLOWEST, Job, Outcome, Pacer, ToCall, ToRedis, ToStream, measure, run_job
from diskstream.replaying.conditions import parse_condition
from diskstream.system_calls import is_there

_SCHEMES = ("redis", "rediss", "unix")


class _Speed(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click only
    """A number from `SLOWEST` on, or `max`."""

    name = "speed"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            speed = 0.0 if value == "max" else float(str(value))
        except ValueError:
            speed = -1.0
        if value != "max" and not SLOWEST <= speed < float("inf"):
            self.fail(f"{value!r} is neither a number from {SLOWEST:f} on nor max", param, ctx)
        return speed


@click.command("replay")
@click.argument("stream", type=as_bytes)
@optional_directory_option("The store's directory.")
@click.option(
    "--backup",
    metavar="BACKUP",
    type=click.Path(exists=True, file_okay=False, readable=False, path_type=Path),
    help="Read from a backup; of a directory of several, from the newest that is of STREAM.",
)
@click.option(
    "--to", "target", required=True, metavar="TARGET", help="stream:NAME[@STORE], redis://HOST:PORT/DB?key=NAME, or -."
)
@click.option("--start", type=start_bound, metavar="ID|TIME", help="The first ID. [default: the first there is]")
@click.option("--end", type=end_bound, metavar="ID|TIME", help="The last ID. [default: the last there is now]")
@click.option("--since", type=SPAN, metavar="SPAN", help="Only what is not older than this now: 1h.")
@click.option(
    "--where",
    multiple=True,
    callback=checked(parse_condition),
    metavar="CONDITION",
    help="field=value, field~regex, field>number; all of them must hold.",
)
@click.option(
    "--speed", type=_Speed(), metavar="N|max", help="1 is the original pace. [default: 1, and max for standard output]"
)
@click.option("--rate", type=RATE, metavar="N", help="At most N entries a second.")
@click.option(
    "--ids", type=click.Choice(["keep", "new"]), default="keep", show_default=True, help="Of the entries at the target."
)
@click.option("--name", default="", help="Tells this replay from others to the same target: it is done once.")
@click.option("--dry-run", is_flag=True, help="Say what would be sent, and how long it would take; send nothing.")
@json_option
def command(
    *,
    stream: bytes,
    directory: Path | None,
    backup: Path | None,
    target: str,
    start: str | None,
    end: str | None,
    since: int | None,
    where: tuple[str, ...],
    speed: float | None,
    rate: float | None,
    ids: str,
    name: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Send the entries of STREAM again: to a stream, a Redis, or standard output, where each is a line of JSON.

    Each comes as long after the first one as it once did, or N times faster. Stopped or killed, and started again with
    the same words, a replay goes on where it was: each entry is added once. Once complete it does nothing any more,
    unless it is given another --name.
    """
    if since is not None and start is not None:
        raise click.UsageError("give one of --start and --since")
    check_order(start or "-", end or "+")
    first, last = parse_start(start or "-") if since is None else _since(since), parse_end(end or "+")
    asked = (f"since {since} ms" if since is not None else str(first), "+" if end is None else str(last))
    if backup is None and directory is None:
        raise click.UsageError("give --dir, the store's directory, or --backup")
    to = _target(target, directory, backup)
    if isinstance(to, ToCall) and (ids != "keep" or name):
        raise click.UsageError("--ids new and --name are for a stream or a Redis: entries are printed as they are")
    chosen = None if speed == 0 or (speed is None and isinstance(to, ToCall)) else speed or 1.0
    with _source(directory, backup, stream) as source:
        job = Job(source, stream, to, first, last, asked, where, ids == "keep", speed=chosen, rate=rate, name=name)
        if dry_run:
            _measure(job, as_json=as_json)
            return
        with _stopping() as stop, replay_progress(text(stream)) as (on_total, on_entries):
            pacer = Pacer(chosen, rate=rate, stop=stop)
            outcome = run_job(replace(job, pacer=pacer, on_total=on_total, on_entries=on_entries))
        _report(job, outcome, as_json=as_json)


def _since(span_ms: int) -> diskstream.EntryID:
    return diskstream.EntryID(max(0, time.time_ns() // 1_000_000 - span_ms), 0)


@contextmanager
def _source(directory: Path | None, backup: Path | None, stream: bytes) -> Iterator[Path]:
    place = directory if backup is None else backup
    assert place is not None  # was looked at before
    if backup is None or (is_there(place / "store.json") and not is_backup(place)):  # any store will do
        yield place.absolute()
        return
    with reading_backup(find_backup(place, (stream,)), (stream,)) as path:
        yield path


def _target(given: str, directory: Path | None, backup: Path | None) -> ToStream | ToRedis | ToCall:
    if given == "-":
        check_open()
        return ToCall(_print)
    if given.startswith("stream:"):
        name, at, place = given.removeprefix("stream:").rpartition("@")
        if not at:
            name, place = place, "" if directory is None or backup is not None else str(directory)
        if not name or not place:
            raise click.UsageError("name the target as stream:NAME@STORE")
        return ToStream(path_of(place), os.fsencode(name))
    try:
        parts = urlsplit(given)
    except ValueError as error:
        raise click.UsageError(f"--to is no address: {error}") from None
    if parts.scheme in _SCHEMES:
        keys = [word.partition("=")[2] for word in parts.query.split("&") if word.startswith("key=")]
        if len(keys) != 1 or not keys[0]:
            raise click.UsageError("name the stream: redis://HOST:PORT/DB?key=NAME")
        address = without_word(given, "key")
        try:
            check_url(address)
        except diskstream.ArgumentError as error:
            raise click.UsageError(f"--to: {error}") from None
        return ToRedis(address, unquote_to_bytes(keys[0].replace("+", " ")))
    raise click.UsageError("--to is stream:NAME[@STORE], redis://HOST:PORT/DB?key=NAME, or - for standard output")


def _print(entries: Sequence[diskstream.Entry]) -> None:
    click.echo("\n".join(json.dumps(entry_facts(entry)) for entry in entries))


@contextmanager
def _stopping() -> Iterator[Event]:
    """What SIGINT and SIGTERM set: the replay ends after what it is just sending. A second one does not wait."""
    stop = Event()

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature is signal's
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _measure(job: Job, *, as_json: bool) -> None:
    measured = measure(job)
    counted, seconds = measured.counted, measured.seconds
    facts: dict[str, Any] = {
        "entries": counted.sent,
        "read": counted.seen,
        "first": counted.first,
        "last": counted.last,
        "resumed": measured.resumed,
        "complete": measured.complete,
    }
    if as_json:
        write_json({**facts, "seconds": seconds, "target": str(job.target), "dry_run": True})
        return
    if measured.complete:
        click.echo("this replay was complete before: nothing would be done")
        return
    span = "as fast as it goes" if seconds is None else f"in {duration(int(seconds * 1000))}"
    would = "would go on and send" if measured.resumed else "would send"
    click.echo(
        f"{would} {counted.sent:,} of {number_of(counted.seen, 'entry')} to {printable(str(job.target))}, {span}: "
        f"IDs {counted.first} to {counted.last}"
    )


def _report(job: Job, outcome: Outcome, *, as_json: bool) -> None:
    done = outcome.replayed
    facts = {
        "entries": done.sent,
        "read": done.seen,
        "first": done.first,
        "last": done.last,
        "position": outcome.position,
        "resumed": outcome.resumed,
        "complete": outcome.complete,
        "seconds": round(done.seconds, 6),
        "target": str(job.target),
    }
    to_output = isinstance(job.target, ToCall)
    if as_json and not to_output:
        write_json(facts)
    elif not to_output or error_console().is_terminal:
        click.echo(_sentence(job, outcome), err=to_output)
    if done.stopped:
        sys.stdout.flush()
        hint = "start it behind that ID" if to_output else "run this again: it goes on there"
        raise Failure(f"stopped behind {outcome.position}", hint=hint)


def _sentence(job: Job, outcome: Outcome) -> str:
    done = outcome.replayed
    if outcome.complete and outcome.resumed and not done.seen:
        return "this replay was complete before: nothing was done"
    went_on = ", gone on with" if outcome.resumed else ""
    return (
        f"{done.sent:,} of {number_of(done.seen, 'entry')} sent to {printable(str(job.target))}{went_on}, "
        f"{duration(int(done.seconds * 1000))}"
    )
