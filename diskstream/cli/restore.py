"""`diskstream restore`: a store, or streams of one, out of a backup; and streams put back into a Redis."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from rich.filesize import decimal

import diskstream
from diskstream.backups import Backup, Planned, Restored, Wanted, find_backup, plan, restore
from diskstream.cli.advice import for_command
from diskstream.cli.consent import consent_options
from diskstream.cli.failure import Failure
from diskstream.cli.moments import END, check_order, end_bound, start_bound
from diskstream.cli.options import as_bytes, checked, json_option, not_empty, optional_directory_option
from diskstream.cli.output import plain, printable, text, write_json
from diskstream.cli.progress import bytes_progress
from diskstream.cli.reading_backup import reading_backup, tell_others
from diskstream.cli.restore_redis import restore_to_redis
from diskstream.cli.retention.wording import rule_facts
from diskstream.plurals import number_of
from diskstream.redis_link import check_url

_RULES_TOLD = 5
_FAULTS_TOLD = 5


@click.command("restore")
@click.argument(
    "backup",
    metavar="[BACKUP]",
    type=click.Path(exists=True, file_okay=False, readable=False, path_type=Path),
    required=False,
)
@click.option(
    "--to",
    "target",
    required=True,
    callback=checked(not_empty),
    metavar="DIR|URL",
    help="A directory that is empty or missing; a store; a Redis.",
)
@click.option(
    "-s", "--stream", "streams", multiple=True, type=as_bytes, metavar="NAME", help="Only this; may come again."
)
@click.option(
    "--as",
    "--key",
    "name",
    type=as_bytes,
    callback=checked(not_empty),
    metavar="NAME",
    help="Another name for the one stream.",
)
@click.option("--until", type=END, metavar="ID|TIME", help="Leave out what was added later (to a directory).")
@click.option("--damaged", is_flag=True, help="Take also what is damaged, as it is (to a directory).")
@optional_directory_option("The store to take from, instead of a backup (to a Redis).")
@click.option(
    "--start", type=start_bound, metavar="ID|TIME", help="The first ID; ( before it leaves it out (to a Redis)."
)
@click.option("--end", type=end_bound, metavar="ID|TIME", help="The last ID (to a Redis).")
@click.option("--replace", is_flag=True, help="Let it take the place of a key that holds something else (in a Redis).")
@consent_options
@json_option
def command(*, backup: Path | None, target: str, name: bytes | None, **options: Any) -> None:
    """Make a store out of BACKUP, or put the streams of BACKUP or of a store back into a Redis.

    BACKUP is the directory of a backup, or of several: then the newest is taken that is of the whole store, or of the
    streams named by --stream. Nothing is at DIR before all is there and was read back; where DIR is a store, it gets
    these streams, if their names are free. In a Redis a key appears in one step, when all of it is there and was read
    back: IDs, groups and pending entries too.
    """
    given = SimpleNamespace(**options)
    if name is not None and len(given.streams) != 1:
        raise click.UsageError("--as and --key go with one --stream")
    check_order(given.start or "-", given.end or "+")
    if "://" in target:
        _check_address(target)
        _refuse(given, ("until", "damaged"), "restoring to a directory")
        _restore_to_redis(backup, target, name, given)
        return
    _refuse(given, ("start", "end", "replace"), "restoring to a Redis")
    if backup is None:
        raise click.UsageError("name a BACKUP")
    _restore_to_directory(backup, target, name, given)


def _restore_to_redis(backup: Path | None, target: str, name: bytes | None, given: SimpleNamespace) -> None:
    if backup is None and given.directory is None:
        raise click.UsageError("name a BACKUP, or a store with --dir")
    with contextlib.ExitStack() as held:
        source = given.directory
        if backup is not None:
            source = held.enter_context(reading_backup(find_backup(backup, given.streams), given.streams))
        restore_to_redis(
            source,
            target,
            given.streams,
            key=name,
            start=given.start or "-",
            end=given.end or "+",
            replace=given.replace,
            dry_run=given.dry_run,
            force=given.force,
            as_json=given.as_json,
        )


def _check_address(url: str) -> None:
    try:
        check_url(url)
    except diskstream.ArgumentError as error:
        raise click.UsageError(str(error)) from None


def _refuse(given: SimpleNamespace, names: tuple[str, ...], where: str) -> None:
    for each in names:
        if getattr(given, each):
            raise click.UsageError(f"--{each.replace('_', '-')} is for {where}")


def _restore_to_directory(backup: Path, target: str, name: bytes | None, given: SimpleNamespace) -> None:
    found, path = find_backup(backup, given.streams), Path(target).absolute()
    tell_others(found)
    wanted = Wanted(given.streams, name, given.until, damaged=given.damaged)
    try:
        if given.dry_run:
            _say_plan(plan(found, path, wanted), found, path, given)
            return
        with bytes_progress("restoring") as (on_total, on_bytes):
            restored = restore(found, path, replace(wanted, on_total=on_total, on_bytes=on_bytes))
    except diskstream.StreamExistsError as error:
        what = f"the store {target} has a stream {text(error.name)} already"
        raise Failure(what, hint="--as gives the restored one another name") from None
    if given.as_json:
        write_json(_facts(found, restored))
    else:
        ways = Counter(how.way for how in restored.streams.values())
        listed = ", ".join(f"{count:,} {way}" for way, count in ways.items())
        click.echo(
            f"{restored.path}: {number_of(len(restored.streams), 'stream')} ({listed or 'none'}), "
            f"{number_of(restored.entries, 'entry')}"
            f"{f', {decimal(restored.size_bytes)} of files' if restored.files else ''}, from {_from(found)}"
        )
    if any(how.way == "kept" for how in restored.streams.values()):
        click.echo(
            f"what is known of keys is that of the backup, not of {given.until}: strings, lists, sets and times of "
            "expiry. Its log does not go back to that ID",
            err=True,
        )
    _tell_faults(restored)
    _tell_rules(restored)
    if restored.cold_segments:
        click.echo(
            f"in object storage: {number_of(restored.cold_segments, 'segment')} ({decimal(restored.cold_bytes)}), "
            "shared with the store that was backed up: `diskstream cold sweep` of either may remove what the other "
            f"needs. `diskstream cold fetch --dir {restored.path}` brings them here",
            err=True,
        )


def _say_plan(planned: Planned, found: Backup, path: Path, given: SimpleNamespace) -> None:
    if given.as_json:
        facts = {"streams": planned.streams, "entries": planned.entries, "files": planned.files}
        facts |= {"size_bytes": planned.size_bytes, "into_store": planned.into_store, "dry_run": True}
        write_json({"backup": found.name, "of": found.place, "patterns": found.patterns, "path": path, **facts})
        return
    kind = "the store" if planned.into_store else "a new store,"
    most = " at the most" if given.until is not None else ""
    click.echo(
        f"would restore to {kind} {path}: {number_of(len(planned.streams), 'stream')}, "
        f"{number_of(planned.entries, 'entry')}{most}, {decimal(planned.size_bytes)} of files, from {_from(found)}"
    )


def _tell_faults(restored: Restored) -> None:
    """Says what was taken though it is damaged, and what to do with it."""
    for stream, faults in restored.faults.items():
        for fault in faults[:_FAULTS_TOLD]:
            click.echo(f"{text(stream)} is damaged: {fault}", err=True)
        left = len(faults) - _FAULTS_TOLD
        if left > 0:
            click.echo(f"{text(stream)} has {number_of(left, 'more fault')}", err=True)
    for path, what in restored.job_faults.items():
        click.echo(f"{path} is damaged: {for_command(what)}", err=True)
    if restored.faults and restored.files:  # entries that were copied into a store are sound there
        click.echo(f"`diskstream repair --dir {restored.path}` keeps what can be read of it", err=True)


def _tell_rules(restored: Restored) -> None:
    """Says what else came along: it may take away again what was restored because it had gone."""
    for stream, rule in list(restored.rules.items())[:_RULES_TOLD]:
        click.echo(
            f"{text(stream)} has its rule of retention ({rule}): whoever opens the store for writing goes by it. "
            f"`diskstream retention clear {text(stream)} --dir {restored.path}` keeps everything",
            err=True,
        )
    left = len(restored.rules) - _RULES_TOLD
    if left > 0:
        so = f"so {'has' if left == 1 else 'have'} {number_of(left, 'more stream')}"
        click.echo(f"{so}: `diskstream retention show` lists them", err=True)


def _from(found: Backup) -> str:
    only = ", ".join(map(text, found.patterns))
    name = f"{found.name} (only {only})" if only else found.name
    return f"{name}, a backup of {printable(found.place)}" if found.place else name


def _facts(backup: Backup, restored: Restored) -> dict[str, object]:
    ways = {plain(restored.names.get(place, place)): how.way for place, how in restored.streams.items()}
    return {
        "backup": backup.name,
        "of": backup.place,
        "patterns": backup.patterns,
        "path": restored.path,
        "streams": ways,
        "entries": restored.entries,
        "files": restored.files,
        "size_bytes": restored.size_bytes,
        "cold_segments": restored.cold_segments,
        "cold_bytes": restored.cold_bytes,
        "damaged": restored.faults,
        "job_faults": restored.job_faults,
        "retention": {name: rule_facts(rule) for name, rule in restored.rules.items()},
    }
