"""`diskstream retention set`: the rule by which a stream is kept."""

from __future__ import annotations

from pathlib import Path

import click

import diskstream
from diskstream.cli.amounts import AGE, SIZE
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.options import checked, directory_option, existing_stream, json_option, ref_option, stream_argument
from diskstream.cli.output import attributes, text, write_json
from diskstream.cli.retention.wording import limits_of, rule_facts, what_goes
from diskstream.object_address import Address


@click.command("set")
@stream_argument()
@click.option("--max-age", "max_age_ms", type=AGE, metavar="SPAN", help="Entries older than this go: 90s, 1h30m, 7d.")
@click.option("--max-bytes", type=SIZE, metavar="SIZE", help="Keep so many bytes of the newest: 500MB, 10GiB.")
@click.option("--max-entries", type=click.IntRange(1, 2**63 - 1), metavar="N", help="Keep the newest N.")
@ref_option
@click.option(
    "--to",
    metavar="URL",
    callback=checked(Address.parse),
    help="Move sealed segments there (s3://, file://) instead of removing entries.",
)
@click.option("--on-trim", is_flag=True, help="Trims remove nothing: what they would take moves too. Needs --to.")
@consent_options
@directory_option
@json_option
def command(
    *,
    stream: bytes,
    max_age_ms: int | None,
    max_bytes: int | None,
    max_entries: int | None,
    ref: str,
    to: str | None,
    on_trim: bool,
    dry_run: bool,
    force: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """Set what is kept of STREAM, in the place of the rule before.

    What is beyond any of the limits goes, the oldest first, in the background of every process that has the stream open
    for writing, or by `diskstream retention apply`. Where entries would go at once, it says how many and asks.
    """
    if on_trim and to is None:
        raise click.UsageError("--on-trim moves: say where, with --to")
    if max_age_ms is None and max_bytes is None and max_entries is None and not on_trim:
        raise click.UsageError("give one of --max-age, --max-bytes and --max-entries, or --on-trim")
    limits = {"max_age_ms": max_age_ms, "max_bytes": max_bytes, "max_entries": max_entries}
    try:
        rule = diskstream.RetentionRule(**limits, ref=ref.upper(), to=to, on_trim=on_trim)
    except diskstream.ArgumentError as error:
        raise click.UsageError(str(error)) from None
    # No background of its own: nothing goes by the rule of before while somebody thinks about the question.
    with diskstream.open(directory, read_only=dry_run, create=False, retention_interval_ms=0) as store:
        found = existing_stream(store, stream)
        preview = found.preview_retention(rule)
        length = len(found)
        if not dry_run:
            if preview.removed:
                ask(f"Remove {what_goes(preview)} of the {length:,} of stream {text(stream)}?", force=force)
            found.set_retention(**attributes(rule))
    if as_json:
        beyond = None if rule.to is not None else preview.removed
        write_json({"stream": stream, "retention": rule_facts(rule), "beyond": beyond, "set": not dry_run})
    else:
        said = f"{text(stream)}: keeps at most {', '.join(limits_of(rule))}; beyond it now: {what_goes(preview)}"
        click.echo(f"{said}; nothing was set" if dry_run else said)
