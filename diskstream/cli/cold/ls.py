"""`diskstream cold ls`: what is where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

import diskstream
from diskstream.cli.each_stream import EachStream
from diskstream.cli.options import checked, directory_option, existing_store, json_option, stream_argument, whole
from diskstream.cli.output import print_table, text, write_json
from diskstream.cold.listing import Line, catalogued, local
from diskstream.object_address import Address


@click.command("ls")
@stream_argument(required=False)
@click.option(
    "--at", "place", metavar="URL", callback=checked(Address.parse), help="What the catalogue of this place says."
)
@directory_option
@json_option
@click.pass_context
def command(ctx: click.Context, *, stream: bytes | None, place: str | None, directory: Path, as_json: bool) -> None:
    """List the segments of STREAM, or of all streams, and where each is.

    \b
    here     a sealed file of the store
    rows     a log file that is not sealed yet
    cold     in object storage, with a stub in the store
    missing  neither: `diskstream cold adopt` looks for it in a catalogue

    Without --at no storage is asked. With it, what the catalogue there knows is listed: cold where a stub of the store
    names the object, here where the segment came back, missing where a stub is, and unneeded where no stream lists it.
    """
    table = Table("stream", "segment", "where", box=None, pad_edge=False)
    for heading in ("entries", "bytes"):
        table.add_column(heading, justify="right")
    for heading in ("first", "last", "place"):
        table.add_column(heading)
    with existing_store(directory, read_only=True) as store:
        each = EachStream(store, stream, on_failed=write_json if as_json else None)
        for line in _here(each) if place is None else _at(store, each, place, stream):
            if as_json:
                write_json(line)
            else:
                table.add_row(*_row(line))
    if not as_json and table.row_count:
        print_table(table)
    ctx.exit(1 if each.failed else 0)


def _here(each: EachStream) -> Iterator[Line]:
    for found in each.streams:
        with each.doing(found):
            yield from local([found])
            whole(found)  # of what is damaged there is more


def _at(store: diskstream.Store, each: EachStream, place: str, stream: bytes | None) -> Iterator[Line]:
    streams = each.whole()
    # What no stream lists may be of one that cannot be read: nobody is to take it for unneeded.
    yield from catalogued(store, streams, place, whole=stream is None and not each.failed)
    if each.failed and stream is None:
        click.echo("what no stream lists is left out: it may be of what could not be read", err=True)


def _row(line: Line) -> list[Text]:
    number = f"{line.number}.g{line.generation}" if line.generation else str(line.number)
    sizes = f"{line.entries:,}", decimal(line.size_bytes)
    cells = (text(line.stream), number, line.where, *sizes, str(line.first), str(line.last), line.url)
    return [Text(each) for each in cells]
