"""`diskstream verify`: read everything and say what is damaged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.filesize import decimal

import diskstream
from diskstream.cli.advice import for_command, for_command_each
from diskstream.cli.options import as_bytes, directory_option, json_option, none_missing
from diskstream.cli.output import attributes, text, write_json
from diskstream.cli.progress import reading_progress
from diskstream.plurals import number_of
from diskstream.verifying import bytes_to_verify, verify


@click.command("verify")
@directory_option
@click.option("--stream", "streams", multiple=True, type=as_bytes, metavar="NAME", help="Only this stream; repeatable.")
@click.option("--cold", is_flag=True, help="Fetch and read what is in object storage too.")
@json_option
@click.pass_context
def command(ctx: click.Context, *, cold: bool, directory: Path, streams: tuple[bytes, ...], as_json: bool) -> None:
    """Read every byte of the store against its checksums.

    Nothing is changed, and other processes may go on writing. Exit status 1 where something is damaged: then each fault
    is named with its file, its place in it, what that means, and the IDs that it touches.
    """
    began = time.monotonic()
    reading = reading_progress("verifying", lambda: bytes_to_verify(directory, streams=streams, cold=cold))
    with none_missing(directory), reading as progress:
        report = verify(directory, streams=streams, progress=progress, cold=cold)
    seconds = time.monotonic() - began
    if as_json:
        write_json({"ok": report.ok, **for_command_each(attributes(report)), "seconds": round(seconds, 3)})
    else:
        for line in _faults(report.problems):
            click.echo(line)
        for note in report.notes:
            click.echo(f"note: {note}")
        rate = (report.size_bytes + report.raw_bytes) and decimal(int(report.raw_bytes / max(seconds, 0.001)))
        unpacked = f" ({decimal(report.raw_bytes)} unpacked, {rate}/s)" if report.raw_bytes else ""
        click.echo(
            f"{number_of(report.streams, 'stream')}, {number_of(report.segments, 'segment')}, "
            f"{number_of(report.entries, 'entry')}, {decimal(report.size_bytes)} read{unpacked}: "
            f"{number_of(len(report.problems), 'fault')}"
        )
        if report.cold_segments and not cold:
            size = decimal(report.cold_bytes)
            click.echo(
                f"not read: {number_of(report.cold_segments, 'segment')} ({size}) in object storage; --cold reads them"
            )
        if any(_is_for_a_repair(problem) for problem in report.problems):
            click.echo("diskstream repair --dry-run says what can be kept", err=True)
    ctx.exit(0 if report.ok else 1)


def _is_for_a_repair(problem: diskstream.Problem) -> bool:
    """A repair leaves alone stubs, objects in storage (which have no path here), and how far a job has come."""
    path = problem.path
    of_jobs = path.parent.name == "archives" or path.parent.parent.name in ("commits", "replays")
    return path.suffix != ".cold" and path.is_absolute() and not of_jobs


def _faults(problems: list[diskstream.Problem]) -> Iterator[str]:
    """A fault each, and all that is the matter of one place told once: it may be that of a million segments."""
    of_places: dict[str, list[diskstream.Problem]] = {}
    for problem in problems:
        if problem.place:
            of_places.setdefault(problem.place, []).append(problem)
        else:
            yield _fault(problem)
    for place, some in of_places.items():
        if len(some) == 1:
            yield _fault(some[0])
            continue
        streams = len({problem.stream for problem in some})
        entries = sum(problem.entries or 0 for problem in some)
        yield (
            f"{place}: {number_of(len(some), 'segment')} of {number_of(streams, 'stream')}, "
            f"{number_of(entries, 'entry')}, cannot be read from there; "
            f"--json lists them, the first is\n{_fault(some[0])}"
        )


def _fault(problem: diskstream.Problem) -> str:
    name = f"{text(problem.stream)}: " if problem.stream else ""
    ids = ""
    if problem.first:
        ids = f", IDs {problem.first} to {problem.last}" if problem.last else f", IDs from {problem.first} on"
    meaning = f"\n    {problem.meaning}" if problem.meaning else ""
    return f"{name}{problem.path} at {problem.offset:,}: {for_command(problem.what)}{ids}{meaning}"
