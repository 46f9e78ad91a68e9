"""`diskstream retention show`: the rules of one stream, or of all that have one."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

import diskstream
from diskstream.cli.each_stream import tell_failed
from diskstream.cli.options import (
    directory_option,
    existing_store,
    existing_stream,
    json_option,
    stream_argument,
    whole,
)
from diskstream.cli.output import print_table, text, write_json
from diskstream.cli.retention.wording import limits_of, rule_facts, what_goes
from diskstream.redis_link import shown


@click.command("show")
@stream_argument(required=False)
@directory_option
@json_option
@click.pass_context
def command(ctx: click.Context, *, stream: bytes | None, directory: Path, as_json: bool) -> None:
    """Show what is kept of STREAM, or of all streams that have a rule, and what is beyond it now."""
    table = Table("stream", "kept at most", "of groups", "the rest", "beyond it now", box=None, pad_edge=False)
    failed = 0
    with existing_store(directory, read_only=True) as store:
        if stream is not None:
            existing_stream(store, stream)
        for name in store.streams() if stream is None else [stream]:
            try:
                rule = whole(store.stream(name)).retention
                beyond = None if rule is None or rule.to is not None else store.stream(name).preview_retention(rule)
            except diskstream.NoSuchStreamError:
                continue  # removed meanwhile
            except diskstream.DiskstreamError as error:
                failed += 1
                tell_failed(name, error, as_json=as_json)
                continue
            if rule is None and stream is None:
                continue
            if as_json:
                write_json(
                    {
                        "stream": name,
                        "retention": rule_facts(rule),
                        "beyond": None if beyond is None else beyond.removed,
                    }
                )
            elif rule is None:
                click.echo(f"{text(name)}: everything is kept")
            else:
                rest = "is removed" if rule.to is None else f"is moved to {shown(rule.to)}"
                table.add_row(
                    Text(text(name)),
                    ", ".join(limits_of(rule)),
                    rule.ref,
                    Text(rest),
                    "" if beyond is None else what_goes(beyond),
                )
    if not as_json and table.row_count:
        print_table(table)
    elif not as_json and stream is None and not failed:
        click.echo("no stream has a rule, so everything is kept", err=True)
    ctx.exit(1 if failed else 0)
