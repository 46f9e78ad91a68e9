"""What was moved, or came back, as it is printed."""

from __future__ import annotations

import click
from rich.filesize import decimal

from diskstream.cli.output import attributes, text, write_json
from diskstream.cold import MoveReport
from diskstream.plurals import number_of


def write_moved(report: MoveReport, doing: str, *, as_json: bool) -> None:
    """One object for each segment and one for the stream; for people one line."""
    if as_json:
        for each in report.segments:
            write_json({"stream": report.stream, "dry_run": report.dry_run, **attributes(each)})
        facts = {"segments": len(report.segments), "entries": report.entries, "size_bytes": report.size_bytes}
        about = {"place": report.place, "already": report.already, "stays": report.stays}
        write_json({"stream": report.stream, "dry_run": report.dry_run, "total": facts, **about})
        return
    click.echo(
        f"{text(report.stream)}: {number_of(len(report.segments), 'segment')}, {number_of(report.entries, 'entry')}, "
        f"{decimal(report.size_bytes)} {doing}"
    )
