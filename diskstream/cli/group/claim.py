"""`diskstream group claim`: give pending entries to another consumer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import diskstream
from diskstream.cli.amounts import IDLE
from diskstream.cli.completing import complete_consumers
from diskstream.cli.moments import known_id
from diskstream.cli.options import (
    as_bytes,
    directory_option,
    existing_group,
    existing_store,
    group_argument,
    json_option,
    stream_argument,
)
from diskstream.cli.output import entry_facts, entry_line
from diskstream.plurals import number_of

_AT_ONCE: Final = 500

Claimed = diskstream.Delivery | diskstream.EntryID


@click.command("claim")
@stream_argument()
@group_argument
@click.argument("consumer", type=as_bytes, shell_complete=complete_consumers)
@click.argument("ids", metavar="[ID...]", type=known_id, nargs=-1)
@click.option("--min-idle", type=IDLE, metavar="MS|SPAN", help="Only what was delivered so long ago: 60000, 90s, 1h.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="At most so many. Not with IDs.")
@click.option("--justid", is_flag=True, help="Print IDs only, and do not count it as a delivery.")
@directory_option
@json_option
def command(
    *,
    stream: bytes,
    group: bytes,
    consumer: bytes,
    ids: tuple[str, ...],
    min_idle: int | None,
    count: int | None,
    justid: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """Give pending entries to CONSUMER, and print them.

    Either those with these IDs, or, with --min-idle, all whose consumers have had them for so long. The consumer is
    made where it is not there. Pending entries that are gone from the stream are taken off the list.
    """
    if not ids and min_idle is None:
        raise click.UsageError("give IDs, or --min-idle to claim all that is idle for so long")
    if ids and count is not None:
        raise click.UsageError("--count is for claiming without IDs")
    with existing_store(directory) as store:
        taker = existing_group(store, stream, group).consumer(consumer)
        least = min_idle or 0
        if ids:
            claim = taker.claim_ids if justid else taker.claim
            parts: Iterator[list[Claimed]] = iter([list(claim(*ids, min_idle_ms=least))])
        else:
            parts = _idle(taker, least, count, justid=justid)
        for claimed in parts:
            store.sync()
            for each in claimed:
                click.echo(json.dumps(_facts(each)) if as_json else _line(each))


def _idle(taker: diskstream.Consumer, least: int, count: int | None, *, justid: bool) -> Iterator[list[Claimed]]:
    """Go through the whole list, and claim what is idle, a part at a time."""
    start, left, gone = "-", count, 0
    while left is None or left > 0:
        some = _AT_ONCE if left is None else min(left, _AT_ONCE)
        if justid:
            found = taker.autoclaim_ids(least, start, count=some)
            claimed: list[Claimed] = list(found.ids)
            deleted, cursor = found.deleted, found.cursor
        else:
            taken = taker.autoclaim(least, start, count=some)
            claimed = list(taken.entries)
            deleted, cursor = taken.deleted, taken.cursor
        gone += len(deleted)
        yield claimed
        if left is not None:
            left -= len(claimed)
        start = str(cursor)
        if start == "0-0":
            break
    if gone:
        one = "pending entry is gone from the stream: it was taken off the list"
        many = "pending entries are gone from the stream: they were taken off the list"
        click.echo(number_of(gone, one, many), err=True)


def _facts(claimed: Claimed) -> dict[str, object]:
    if isinstance(claimed, diskstream.EntryID):
        return {"id": str(claimed)}
    return {**entry_facts(claimed), "idle_ms": claimed.idle_ms, "deliveries": claimed.deliveries}


def _line(claimed: Claimed) -> str:
    return str(claimed) if isinstance(claimed, diskstream.EntryID) else entry_line(claimed)
