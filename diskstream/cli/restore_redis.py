"""`diskstream restore --to redis://...`: put streams back into a Redis."""

from __future__ import annotations

from pathlib import Path

import click
from rich.filesize import decimal

import diskstream
from diskstream.archiving import RestoreReport, Server, restore_stream
from diskstream.cli.archive import stopped_by_signals
from diskstream.cli.archive_report import archive_progress
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.failure import Failure
from diskstream.cli.options import as_bytes, directory_option, existing_store, existing_stream, json_option
from diskstream.cli.output import attributes, text, write_json


@click.command("restore")
@click.option("--to", "target", required=True, metavar="URL", help="The Redis: redis://, rediss:// or unix://.")
@click.option(
    "--stream", "names", multiple=True, type=as_bytes, metavar="NAME", help="A stream; all where none is named."
)
@click.option("--key", type=as_bytes, metavar="KEY", help="The name of the one stream there, if it is another.")
@click.option("--start", default="-", show_default=True, metavar="ID", help="The first ID; ( before it leaves it out.")
@click.option("--end", default="+", show_default=True, metavar="ID", help="The last ID.")
@click.option("--replace", is_flag=True, help="Let it take the place of a key that holds something else.")
@directory_option
@consent_options
@json_option
def command(
    *,
    target: str,
    names: tuple[bytes, ...],
    key: bytes | None,
    start: str,
    end: str,
    replace: bool,
    directory: Path,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Put streams back into a Redis, with their IDs; whole streams with groups and pending entries.

    A key appears in one step, when all of it is there and was read back. Killed and started again, it goes on.
    """
    restore_to_redis(
        directory,
        target,
        names,
        key=key,
        start=start,
        end=end,
        replace=replace,
        dry_run=dry_run,
        force=force,
        as_json=as_json,
    )


def restore_to_redis(
    directory: Path,
    url: str,
    names: tuple[bytes, ...],
    *,
    key: bytes | None = None,
    start: str = "-",
    end: str = "+",
    replace: bool = False,
    dry_run: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """What the verb does where `--to` is the address of a Redis."""
    if key is not None and len(names) != 1:
        raise click.UsageError("--key is for one stream: name it with --stream")
    with existing_store(directory, read_only=True) as store:
        wanted = [existing_stream(store, name).name for name in names] if names else store.streams()
        server = Server(url)
        try:
            if dry_run:
                for name in wanted:
                    _say_plan(store.stream(name), server, key or name, (start, end), as_json=as_json)
                return
            taken = [key or name for name in wanted if server.kind(key or name) != "none"] if replace else []
            if taken:
                ask(f"Replace {', '.join(map(text, taken[:10]))} in {server.shown}?", force=force)
            with stopped_by_signals() as stop, archive_progress() as progress:
                for name in wanted:
                    report = restore_stream(
                        store.stream(name),
                        server,
                        key=key,
                        start=start,
                        end=end,
                        replace=replace,
                        stop=stop,
                        **progress,
                    )
                    if report is None:
                        raise Failure("it was stopped before all was restored", hint="run it again: it goes on")
                    _say(report, as_json=as_json)
        finally:
            server.close()


def _say(report: RestoreReport, *, as_json: bool) -> None:
    if as_json:
        write_json({**attributes(report), "seconds": round(report.seconds, 6)})
        return
    rate = f"{report.entries / report.seconds:,.0f} entries/s" if report.seconds > 0 else ""
    words = [f"{report.entries:,} entries with {decimal(report.size_bytes)} in {report.seconds:.2f} s", rate]
    if report.resumed:
        words.append(f"{report.resumed:,} were there from an earlier run")
    words.append(f"{report.groups:,} groups with {report.pending:,} pending entries")
    words.append("read back and found the same")
    click.echo(f"{text(report.key)}: {', '.join(filter(None, words))}")
    for note in report.notes:
        click.echo(f"{text(report.key)}: {note}", err=True)


def _say_plan(stream: diskstream.Stream, server: Server, key: bytes, ends: tuple[str, str], *, as_json: bool) -> None:
    digest, kind = stream.digest(*ends), server.kind(key)
    if as_json:
        write_json({"stream": stream.name, "key": key, "entries": digest.entries, "key_is": kind})
        return
    there = "" if kind == "none" else f"; the key is there, a {kind}"
    click.echo(f"{text(stream.name)}: would restore {digest.entries:,} entries to {text(key)}{there}")
