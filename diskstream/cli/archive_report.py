"""What `diskstream archive` shows: a line that counts on a terminal, and what became of each stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

import click
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from diskstream.archiving import ArchiveReport, ArchiveResult, Plan
from diskstream.cli.advice import for_command, for_command_each
from diskstream.cli.output import attributes, error_console, print_table, text, write_json
from diskstream.plurals import number_of, rate_of


class Callbacks(TypedDict, total=False):
    """What those who copy call, by the names of their options."""

    on_entries: Callable[[int, int], None]
    on_expected: Callable[[int], None]


@contextmanager
def archive_progress() -> Iterator[Callbacks]:
    """A bar on standard error: entries, bytes, rate, time left; yields what to call. Silent, and empty, in a pipe."""
    terminal = error_console()
    if not terminal.is_interactive:
        yield {}
        return
    columns = (BarColumn(), TextColumn("{task.fields[said]}", markup=False), TimeRemainingColumn())
    with Progress(*columns, console=terminal, transient=True) as progress:
        task = progress.add_task("", total=0, said="looking")
        counted = [0, 0, 0]

        def on_expected(entries: int) -> None:
            counted[2] += entries
            progress.update(task, total=counted[2])

        def on_entries(entries: int, size: int) -> None:
            counted[0] += entries
            counted[1] += size
            seconds = progress.tasks[0].elapsed or 0.0
            rate = f", {rate_of(counted[0], seconds, 'entry')}" if seconds > 0 else ""
            total = max(counted[0], counted[2])  # more may have come since
            said = f"{number_of(counted[0], 'entry')}, {decimal(counted[1])}{rate}"
            progress.update(task, completed=counted[0], total=total, said=said)

        yield {"on_entries": on_entries, "on_expected": on_expected}


def say_remark(stream: bytes, remark: str) -> None:
    """What was found or noted, as it comes, on standard error."""
    click.echo(f"{text(stream)}: {for_command(remark)}", err=True)


def say_away(what: str) -> None:
    """That the source is waited for, and why, or that it is there again, on standard error."""
    click.echo(what, err=True)


def write_result(result: ArchiveResult, seconds: float, *, as_json: bool) -> None:
    """A table, or one JSON object a stream; what is worth knowing beside it on standard error."""
    for report in result.reports:
        for line in _remarks(report):
            say_remark(report.stream, line)
    for key, kind in result.skipped:
        say_remark(key, f"passed over, it is a {kind}")
    if as_json:
        for report in result.reports:
            write_json(for_command_each(_facts(report)))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("stream", overflow="fold")
    for title in ("entries", "bytes", "entries/s", "read back to", "trimmed", "groups", "pending"):
        table.add_column(title, justify="right", no_wrap=True)
    for report in result.reports:
        table.add_row(
            text(report.stream),
            f"{report.entries:,}",
            decimal(report.size_bytes),
            f"{_rate(report):,.0f}",
            str(report.verified_to or ""),
            f"{report.trimmed:,}",
            f"{report.groups:,}",
            f"{report.pending:,}",
        )
    print_table(table)
    whole = [report for report in result.reports if report.error is None]
    if not whole:
        return  # why, or that there is nothing, stands on standard error
    entries = sum(report.entries for report in whole)
    click.echo(
        f"{number_of(entries, 'entry')} of {number_of(len(whole), 'stream')} in {seconds:.1f} s, read "
        "back and found the same"
    )


def _facts(report: ArchiveReport) -> dict[str, Any]:
    return {**attributes(report), "seconds": round(report.seconds, 6), "rate": round(_rate(report), 1)}


def _rate(report: ArchiveReport) -> float:
    return report.entries / report.seconds if report.seconds > 0 else 0.0


def _remarks(report: ArchiveReport) -> Iterator[str]:
    """What was not said before: see `say_remark`."""
    if report.held_back:
        yield "not all was trimmed: groups of the source have not acknowledged it"
    if report.expires_ms is not None:
        yield f"the source's key expires in {report.expires_ms / 1000:,.0f} s"


def write_plans(plans: list[Plan], *, as_json: bool, unacknowledged: bool = False) -> None:
    """What would be done, a line for each stream; `unacknowledged` where a trim does not ask the groups."""
    limit = "" if unacknowledged else ", as far as groups have acknowledged"
    for each in plans:
        if as_json:
            write_json(for_command_each(each))
            continue
        if each.gone and not each.error:
            where = f"the copy, up to {each.copied_to}, stays"
            click.echo(f"{text(each.stream)}: the key is not at the source any more; {where}")
            continue
        trims = "" if each.trim_to is None else f"; would trim up to {each.trim_to}{limit}"
        why = f"would not be copied: {for_command(each.error)}" if each.error else f"would copy {_about(each)}{trims}"
        click.echo(f"{text(each.stream)}: {why}")


def _about(each: Plan) -> str:
    count = "entries" if each.entries is None else number_of(each.entries, "entry")
    return f"{count} behind {each.copied_to}, up to {each.last_id}, and {number_of(each.groups, 'group')}"
