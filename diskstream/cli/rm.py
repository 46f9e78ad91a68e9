"""`diskstream rm`: remove whole streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

import diskstream
from diskstream.cli.completing import complete_streams
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.options import as_bytes, directory_option, existing_store, existing_stream, json_option
from diskstream.cli.output import text, write_json
from diskstream.plurals import number_of


@dataclass(frozen=True)
class _Extent:
    """What goes with a stream; unknown where the stream is damaged, which does not keep it from being removed."""

    entries: int | None
    groups: int | None
    size_bytes: int | None

    def __str__(self) -> str:
        if self.entries is None or self.groups is None or self.size_bytes is None:
            return "damaged, so nobody knows how much is in it"
        counts = (self.entries, "entry"), (self.groups, "group"), (self.size_bytes, "byte")
        return ", ".join(number_of(*each) for each in counts)


@click.command("rm")
@click.argument("streams", metavar="STREAM...", nargs=-1, required=True, type=as_bytes, shell_complete=complete_streams)
@consent_options
@directory_option
@json_option
def command(*, streams: tuple[bytes, ...], dry_run: bool, force: bool, directory: Path, as_json: bool) -> None:
    """Remove streams with everything in them: entries, groups, what is pending, and what a repair had kept.

    There is no way back. All of them have to be there, and each is asked about before any goes.
    """
    with existing_store(directory, read_only=dry_run) as store:
        found = list(_extents(store, streams))
        if not dry_run:
            for name, extent in found:
                ask(f"Remove stream {text(name)} ({extent})?", force=force)
        for name, extent in found:
            if not dry_run:
                store.delete(name)
            if as_json:
                facts = {"entries": extent.entries, "groups": extent.groups, "size_bytes": extent.size_bytes}
                write_json({"stream": name, **facts, "removed": not dry_run})
            else:
                click.echo(f"{'would remove' if dry_run else 'removed'} stream {text(name)}: {extent}")


def _extents(store: diskstream.Store, streams: tuple[bytes, ...]) -> Iterator[tuple[bytes, _Extent]]:
    for name in dict.fromkeys(streams):
        try:
            info = existing_stream(store, name).info()
            yield name, _Extent(info.length, info.groups, info.size_bytes)
        except diskstream.CorruptionError:
            yield name, _Extent(None, None, None)
