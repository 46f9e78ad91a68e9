"""`diskstream restore --to redis://...`: putting streams back into a Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.filesize import decimal

import diskstream
from diskstream.archiving import RestorePlan, RestoreReport, Server, plan_restore, restore_stream
from diskstream.cli.advice import for_command
from diskstream.cli.archive import stopped_by_signals
from diskstream.cli.archive_report import archive_progress
from diskstream.cli.consent import ask
from diskstream.cli.failure import Failure
from diskstream.cli.options import existing_store, existing_stream
from diskstream.cli.output import attributes, text, write_json
from diskstream.plurals import number_of, rate_of

_SHOWN = 10  # of keys that would be replaced


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
    """Puts streams back into a Redis, with their IDs; whole streams with groups and pending entries.

    A key appears in one step, when all of it is there and was read back. Killed and started again, it goes on.
    """
    if key is not None and len(names) != 1:
        raise click.UsageError("another name is for one stream: name it with --stream")
    with existing_store(directory, read_only=True) as store:
        named = [existing_stream(store, name).name for name in dict.fromkeys(names)]
        wanted = named or store.streams()
        server = Server(url)
        try:
            asked: dict[str, Any] = {"key": key, "start": start, "end": end, "replace": replace}
            keys = {name: name if key is None else key for name in wanted}
            if dry_run:
                plans = _planned(store, server, keys, asked, as_json=as_json)
                _say_plans(store, plans, len(wanted), as_json=as_json)
                return
            taken = [each for each in keys.items() if replace and server.kind(each[1]) != "none"]
            if taken and not server.facts.is_ours:
                shown = (_to_be_replaced(store.stream(name), server, there) for name, there in taken[:_SHOWN])
                ask(f"Replace {', '.join(shown)} in {server.shown}?", force=force)
            refused = 0
            with stopped_by_signals() as stop, archive_progress() as progress:
                for name in wanted:
                    try:
                        report = restore_stream(store.stream(name), server, stop=stop, **asked, **progress)
                    except diskstream.DiskstreamError as error:
                        if _is_of_stream(error, server):
                            refused += 1
                            _say_refused(name, keys[name], error, as_json=as_json)
                            continue
                        if as_json:
                            _write_refused(name, keys[name], error)
                        raise
                    if report is None:
                        raise Failure("it was stopped before all was restored", hint="run it again: it goes on")
                    _say(report, as_json=as_json)
        finally:
            server.close()
    if refused:
        raise Failure(f"{refused:,} of {number_of(len(wanted), 'stream was', 'streams were')} not restored: see above")


def _to_be_replaced(stream: diskstream.Stream, server: Server, key: bytes) -> str:
    kind = server.kind(key)
    facts = server.stream(key) if kind == "stream" else None
    what = f"a {kind}" if facts is None else _held(facts.length, facts.last_id, stream)
    return f"{text(key)} ({what})"


def _held(entries: int, last_id: diskstream.EntryID, stream: diskstream.Stream) -> str:
    """What goes with a key, and whether it has been added to since what takes its place was copied."""
    newer = f", newer than the store's, {stream.last_id()}" if last_id > stream.last_id() else ""
    return f"{number_of(entries, 'entry')}, the last ID {last_id}{newer}"


def _planned(
    store: diskstream.Store, server: Server, keys: dict[bytes, bytes], asked: dict[str, Any], *, as_json: bool
) -> list[RestorePlan]:
    plans: list[RestorePlan] = []
    for name, key in keys.items():
        try:
            plans.append(plan_restore(store.stream(name), server, **asked))
        except diskstream.DiskstreamError as error:
            if not _is_of_stream(error, server):
                raise
            _say_refused(name, key, error, as_json=as_json)
    return plans


def _is_of_stream(error: diskstream.DiskstreamError, server: Server) -> bool:
    """Whether an error says nothing of the others: not what the Redis refuses, but also that a cold part is gone."""
    if isinstance(error, diskstream.ChangedError | diskstream.CorruptionError):
        return True
    return isinstance(error, diskstream.RemoteError) and error.where != server.shown


def _say(report: RestoreReport, *, as_json: bool) -> None:
    if as_json:
        write_json({**attributes(report), "seconds": round(report.seconds, 6)})
        return
    click.echo(f"{text(report.key)}: {'left as it is' if report.already_there else _put_back(report)}")
    for note in report.notes:
        click.echo(f"{text(report.key)}: {note}", err=True)


def _put_back(report: RestoreReport) -> str:
    rate = rate_of(report.entries, report.seconds, "entry") if report.seconds > 0 else ""
    words = [f"{number_of(report.entries, 'entry')} with {decimal(report.size_bytes)} in {report.seconds:.2f} s", rate]
    if report.resumed:
        words.append(f"{report.resumed:,} were there from an earlier run")
    words.append(f"{number_of(report.groups, 'group')} with {number_of(report.pending, 'pending entry')}")
    words.append("read back and found the same")
    return ", ".join(filter(None, words))


def _say_refused(name: bytes, key: bytes, error: diskstream.DiskstreamError, *, as_json: bool) -> None:
    if as_json:
        _write_refused(name, key, error)
    hint = getattr(error, "hint", None)
    click.echo(f"{text(key)}: not restored: {for_command(str(error))}{f' ({hint})' if hint else ''}", err=True)


def _write_refused(name: bytes, key: bytes, error: diskstream.DiskstreamError) -> None:
    write_json({"stream": name, "key": key, "error": for_command(str(error)), "hint": getattr(error, "hint", None)})


def _say_plans(store: diskstream.Store, plans: list[RestorePlan], asked: int, *, as_json: bool) -> None:
    for plan in plans:
        if as_json:
            write_json(plan)
            continue
        size, key, goes = number_of(plan.entries, "entry"), text(plan.key), ""
        if plan.key_entries is not None and plan.key_last_id is not None:
            goes = f": {_held(plan.key_entries, plan.key_last_id, store.stream(plan.stream))}"
        said = {
            "restore": f"would restore {size} to {key}",
            "replace": f"would restore {size} to {key}, in the place of the {plan.key_is} that is there{goes}",
            "leave": f"would leave {key} as it is: it holds that already, {size}",
            "refused": f"would be refused: {key} is there, a {plan.key_is}, and holds something else",
        }
        click.echo(f"{text(plan.stream)}: {said[plan.would]}")
    refused = sum(plan.would == "refused" for plan in plans)
    if refused or len(plans) < asked:
        hint = "give one stream another name with --as, or take --replace" if refused else None
        bad = refused + asked - len(plans)
        raise Failure(f"{bad:,} of {number_of(asked, 'stream')} would not be restored", hint=hint)
