"""`diskstream tail`: the newest entries of streams, and those that come."""

from __future__ import annotations

from pathlib import Path

import click

import diskstream
from diskstream.cli.amounts import SPAN
from diskstream.cli.completing import complete_streams
from diskstream.cli.failure import Failure
from diskstream.cli.moments import since, start_bound
from diskstream.cli.options import as_bytes, directory_option, existing_store, existing_stream, json_option, whole
from diskstream.cli.output import text
from diskstream.cli.stopping import Stopped, stopping
from diskstream.cli.tail.follower import Follower, follow
from diskstream.cli.tail.lines import Lines
from diskstream.cli.tail.newest import from_start, newest
from diskstream.ids import MIN_ID, parse_start

_NEWEST = 10
_KEPT_OPEN = 256


@click.command("tail")
@click.argument("streams", metavar="STREAM...", nargs=-1, required=True, type=as_bytes, shell_complete=complete_streams)
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on with what comes, until told to stop.")
@click.option("--retry", is_flag=True, help="With -f: wait for streams that are not there, or go away.")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(0, 2**62),
    help=f"The newest N of each stream. [default: {_NEWEST}]",
    metavar="N",
)
@click.option("--from", "start", metavar="ID|TIME", type=start_bound, help="All from this ID or time on.")
@click.option("--since", "span", metavar="SPAN", type=SPAN, help="All of the last 90s, 1h30m, 7d.")
@directory_option
@json_option
def command(
    *,
    streams: tuple[bytes, ...],
    follows: bool,
    retry: bool,
    count: int | None,
    start: str | None,
    span: int | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Print the newest entries of each STREAM, and with -f those that come, until SIGINT or SIGTERM.

    The store is only looked at. A stream that is removed while it is followed is told of, and waited for with --retry;
    one that is made anew is read from its beginning. Entries that were trimmed away before they could be shown are
    counted. Of several streams each line names its own.
    """
    if sum(given is not None for given in (count, start, span)) > 1:
        raise click.UsageError("give one of --count, --from and --since")
    if retry and not follows:
        raise click.UsageError("--retry is for -f")
    # What comes is shown whatever its ID is, unless it was told where to begin: IDs need not be of this clock.
    least = MIN_ID if start in (None, "+") else parse_start(start)
    start = since(span) if span is not None else start
    names = list(dict.fromkeys(streams))
    lines = Lines(as_json=as_json, named=len(names) > 1)
    kept = max(_KEPT_OPEN, len(names))  # each is looked at a hundred times a second
    with stopping(), existing_store(directory, read_only=True, max_open_streams=kept) as store:
        try:
            followers = []
            for name in names:
                if not retry:
                    existing_stream(store, name)
                follower = Follower(store.stream(name))
                follower.begin(least)
                shown = (
                    newest(follower, _NEWEST if count is None else count)
                    if start is None
                    else from_start(follower, start)
                )
                lines.write(name, shown)
                followers.append(follower)
            for name in names:
                _tell_damage(store.stream(name), goes_on=follows)
            if follows and not follow(store, followers, lines, retry=retry):
                raise _all_gone(store, names)
        except Stopped:
            pass


def _tell_damage(stream: diskstream.Stream, *, goes_on: bool) -> None:
    """What was shown as the newest of a damaged stream is what stands before the damage."""
    try:
        whole(stream)
    except diskstream.CorruptionError as error:
        if not goes_on:
            raise
        Failure(f"{text(stream.name)}: {error}", hint=error.hint).show()


def _all_gone(store: diskstream.Store, names: list[bytes]) -> Failure:
    what = f"stream {text(names[0])} is" if len(names) == 1 else "all of the streams are"
    return Failure(f"{what} gone from {store.path}", hint="--retry waits for a stream of that name")
