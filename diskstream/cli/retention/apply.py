"""`diskstream retention apply`: remove, or move, now what is beyond the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import diskstream
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.each_stream import tell_failed
from diskstream.cli.options import directory_option, existing_stream, json_option, stream_argument, whole
from diskstream.cli.output import text, write_json
from diskstream.cli.retention.bar import removing
from diskstream.cli.retention.wording import what_goes


@click.command("apply")
@stream_argument(required=False)
@consent_options
@directory_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, *, stream: bytes | None, dry_run: bool, force: bool, directory: Path, as_json: bool
) -> None:
    """Remove, or move, now what is beyond the rule of STREAM, or beyond those of all streams.

    For streams that no process has open, and to see what a rule does. It goes by the clock as it is now.
    """
    failed = ruled = 0
    # No background of its own: what goes is what was asked about.
    with diskstream.open(directory, read_only=dry_run, create=False, retention_interval_ms=0) as store:
        if stream is not None:
            existing_stream(store, stream)
        for name in store.streams() if stream is None else [stream]:
            try:
                found = whole(store.stream(name))
                rule = found.retention
                if rule is None:
                    if stream is not None:
                        click.echo(f"{text(name)}: it has no rule, so everything is kept", err=True)
                    continue
                ruled += 1
                looks = dry_run or rule.to is None  # a move takes nothing away that it would have to ask for
                beyond = found.apply_retention(dry_run=True) if looks else diskstream.RetentionReport()
                if not dry_run and beyond.removed:
                    ask(f"Remove {what_goes(beyond)} of stream {text(name)}?", force=force)
                report = beyond if dry_run else _apply(found, beyond)
            except diskstream.NoSuchStreamError:
                continue  # removed meanwhile
            except diskstream.DiskstreamError as error:
                failed += 1
                tell_failed(name, error, as_json=as_json)
                continue
            if as_json:
                facts = {"removed": report.removed, "references": report.references, "moved": report.moved}
                write_json({"stream": name, **facts, "dry_run": dry_run})
            else:
                click.echo(f"{text(name)}: {'would go' if dry_run else 'gone'}: {what_goes(report)}")
        if stream is None and not ruled and not failed:
            click.echo("no stream has a rule, so everything is kept", err=True)
    ctx.exit(1 if failed else 0)


def _apply(stream: diskstream.Stream, beyond: diskstream.RetentionReport) -> diskstream.RetentionReport:
    """All steps, with a bar."""
    removed = references = 0
    moved: tuple[Any, ...] = ()
    with removing(f"removing from {text(stream.name)}", beyond.removed) as advance:
        while True:
            report = stream.apply_retention()
            removed, references, moved = (
                removed + report.removed,
                references + report.references,
                moved + report.moved,
            )
            advance(report.removed)
            if not report.more:
                return diskstream.RetentionReport(removed, references, moved)
