"""`diskstream trim`: drop the oldest entries."""

from __future__ import annotations

from pathlib import Path

import click

import diskstream
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.moments import single_id
from diskstream.cli.options import (
    directory_option,
    existing_store,
    existing_stream,
    json_option,
    ref_option,
    stream_argument,
)
from diskstream.cli.output import text, write_json
from diskstream.ids import MIN_ID, parse_id
from diskstream.plurals import number_of


@click.command("trim")
@stream_argument()
@click.option("--maxlen", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Keep the newest N.")
@click.option("--minid", type=single_id, metavar="ID|TIME", help="Drop what is older than this.")
@click.option("--approximate", is_flag=True, help="Only what can be dropped cheaply; never more than was asked.")
@click.option(
    "--limit", type=click.IntRange(0, 2**63 - 1), metavar="N", help="With --approximate: look at no more than N."
)
@ref_option
@consent_options
@directory_option
@json_option
def command(
    *,
    stream: bytes,
    maxlen: int | None,
    minid: str | None,
    approximate: bool,
    limit: int | None,
    ref: str,
    dry_run: bool,
    force: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """Drop the oldest entries and print how many were dropped.

    None are where the stream's rule moves on trim: sealed segments then go to cold storage, in the background.
    """
    if (maxlen is None) == (minid is None):
        raise click.UsageError("give one of --maxlen and --minid")
    if limit is not None and not approximate:
        raise click.UsageError("--limit is for --approximate")
    with existing_store(directory, read_only=dry_run) as store:
        found = existing_stream(store, stream)
        length = len(found)
        dropped = found.count("-", f"({parse_id(minid)}") if minid is not None and parse_id(minid) > MIN_ID else 0
        if maxlen is not None:
            dropped = max(0, length - maxlen)
        most = "at most " if approximate or ref == "ACKED" else ""
        would = f"would drop {most}{dropped:,} of {number_of(length, 'entry')}"
        question = f"Drop {most}{dropped:,} of the {number_of(length, 'entry')} of stream {text(stream)}?"
        moves = _moves(found)
        if dropped and moves:
            passed = f"segments that lie wholly among the oldest {dropped:,} of {number_of(length, 'entry')}"
            would = f"would drop none: its rule has sealed {passed} moved to cold storage, where they stay readable"
            question = f"Have sealed {passed} of stream {text(stream)} moved to cold storage, as its rule says?"
        if not dry_run and dropped:
            ask(question, force=force)
            dropped = found.trim(maxlen=maxlen, minid=minid, approximate=approximate, limit=limit, ref=ref)
            store.sync()
        elif moves:
            dropped = 0
    if as_json:
        write_json({"stream": stream, "trimmed": dropped, "dry_run": dry_run})
    else:
        click.echo(would if dry_run else str(dropped))


def _moves(stream: diskstream.Stream) -> bool:
    """Whether a trim removes nothing: see `RetentionRule.on_trim`."""
    try:
        rule = stream.retention
    except diskstream.DiskstreamError:
        return False  # where what cannot be read is about trims, the trim says so, and does nothing
    return rule is not None and rule.on_trim
