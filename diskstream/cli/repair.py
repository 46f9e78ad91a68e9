"""`diskstream repair`: make a damaged store open again, and say what is lost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

import click

from diskstream.cli.advice import for_command, for_command_each
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.options import as_bytes, directory_option, json_option, none_missing
from diskstream.cli.output import text, write_json
from diskstream.cli.progress import reading_progress
from diskstream.plurals import number_of
from diskstream.repairing import Loss, Repair, check_repairable, repair
from diskstream.verifying import bytes_to_verify

__all__ = ["command"]


@click.command("repair")
@directory_option
@click.option("--stream", "streams", multiple=True, type=as_bytes, metavar="NAME", help="Only this stream; repeatable.")
@click.option("--uuid", type=click.UUID, metavar="UUID", help="The store's, where store.json is lost and you know it.")
@click.option(
    "--name",
    "known",
    multiple=True,
    type=as_bytes,
    metavar="NAME",
    help="A name that a stream may have lost; repeatable.",
)
@click.option("--give-up", is_flag=True, help="Take segments off the list that may still be in object storage.")
@consent_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    directory: Path,
    streams: tuple[bytes, ...],
    uuid: UUID | None,
    known: tuple[bytes, ...],
    give_up: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Do the least that makes a damaged store open and be read.

    No other process may have the store open. What is touched is copied to quarantine/ before. Each range of IDs that is
    lost is named. What was done can be done again; a repair that was killed is finished by the next.

    Exit status 1 where something could not be repaired, and with --dry-run where there is something to repair.
    """
    if not dry_run:
        with none_missing(directory):
            check_repairable(directory, streams=streams, known_names=known)
        ask(f"Repair {directory}? What cannot be read leaves the streams; it stays in quarantine/.", force=force)
    done: list[Repair] = []
    said = 0

    def say() -> None:
        nonlocal said
        for report in done[said:]:
            if as_json:
                write_json(_facts(report, dry_run=dry_run))
            else:
                _show(report, dry_run=dry_run)
        said = len(done)

    try:
        reading = reading_progress("reading", lambda: bytes_to_verify(directory, streams=streams))
        with none_missing(directory), reading as progress:
            for report in repair(
                directory,
                streams=streams,
                uuid=str(uuid or ""),
                known_names=known,
                give_up=give_up,
                dry_run=dry_run,
                progress=progress,
            ):
                done.append(report)
                if progress is None:  # no bar that lines would tear: whoever is killed has said what was done
                    say()
    finally:
        say()
    busy = any(report.actions for report in done)
    failed = any(report.failed for report in done)
    if not as_json and not busy and not failed:
        click.echo("nothing to repair")
    ctx.exit(1 if failed or (dry_run and busy) else 0)


def _facts(report: Repair, *, dry_run: bool) -> dict[str, object]:
    facts: dict[str, object] = {"stream": report.stream, "done": not dry_run and not report.failed}
    for name in ("path", "actions", "losses", "notes", "kept", "failed"):
        facts[name] = for_command_each(getattr(report, name))
    return facts


def _show(report: Repair, *, dry_run: bool) -> None:
    if not (report.actions or report.losses or report.notes or report.failed):
        return
    click.echo(text(report.stream) if report.stream is not None else str(report.path))
    _lines("would do" if dry_run else "did", report.actions)
    _lines("lost", [_loss(loss) for loss in report.losses])
    _lines("note", map(for_command, report.notes))
    _lines("kept", report.kept)
    if report.failed:
        click.echo(f"  not repaired: {for_command(report.failed)}")


def _lines(title: str, lines: Iterable[object]) -> None:
    for line in lines:
        click.echo(f"  {title}: {line}")


def _loss(loss: Loss) -> str:
    where = f"{loss.path.name} at {loss.offset:,}" if loss.size_bytes or loss.offset else loss.path.name
    if not loss.first:
        return f"{where}: {loss.what}"
    count = "entries" if loss.entries is None else f"at most {number_of(loss.entries, 'entry')}"
    until = f"to {loss.last}" if loss.last else "on"
    return f"{where}: {loss.what}: {count} from {loss.first} {until}"
