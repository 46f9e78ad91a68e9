"""`diskstream cold move`: sealed segments out to object storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from diskstream.cli.amounts import SIZE_OR_NOTHING, SPAN
from diskstream.cli.cold.amounts import dry_run_option, rate_option
from diskstream.cli.cold.report import write_moved
from diskstream.cli.each_stream import EachStream
from diskstream.cli.moments import single_id
from diskstream.cli.options import checked, directory_option, existing_store, json_option, stream_argument
from diskstream.cli.output import write_json
from diskstream.cli.progress import bytes_progress
from diskstream.cold import move_out
from diskstream.object_address import Address

_STAYS = "the newest sealed segment stays: it holds a copy of the state of the active one"


@click.command("move")
@stream_argument(required=False)
@click.option("--to", "place", required=True, metavar="URL", callback=checked(Address.parse), help="Where to.")
@click.option("--older-than", "older_than_ms", type=SPAN, metavar="SPAN", help="IDs older than this: 30d.")
@click.option("--keep-bytes", type=SIZE_OR_NOTHING, metavar="SIZE", help="All but the newest so many: 10GB.")
@click.option("--keep-entries", type=click.IntRange(min=0), metavar="N", help="All but the newest N entries.")
@click.option("--before", type=single_id, metavar="ID|TIME", help="All below this.")
@rate_option
@dry_run_option
@directory_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    stream: bytes | None,
    place: str,
    bytes_per_s: int | None,
    dry_run: bool,
    directory: Path,
    as_json: bool,
    **rule: Any,
) -> None:
    """Move sealed segments of STREAM, or of all streams, to object storage.

    A segment goes if any of the rules says so, and all of its entries are beyond it. It is put there, read back whole,
    and only then does its local file go. Reads go on as before: what they need is fetched into a bounded cache.

    It may be stopped at any moment and run again.
    """
    if all(given is None for given in rule.values()):
        raise click.UsageError("say what goes: --older-than, --keep-bytes, --keep-entries or --before")
    with existing_store(directory, read_only=dry_run, retention_interval_ms=0) as store:
        each = EachStream(store, stream, on_failed=write_json if as_json else None)
        for found in each.streams:
            with each.doing(found):
                planned = move_out(found, place, dry_run=True, **rule)
                if dry_run:
                    report = planned
                else:
                    title = each.doing_what("moving", found)
                    with bytes_progress(title) as (on_total, progress):
                        on_total(2 * planned.size_bytes)  # put, and read back
                        report = move_out(found, place, progress=progress, bytes_per_s=bytes_per_s, **rule)
                doing = "would be moved" if dry_run else "moved"
                write_moved(report, doing, as_json=as_json)
                if report.stays and not as_json:
                    click.echo(_STAYS, err=True)
    ctx.exit(1 if each.failed else 0)
