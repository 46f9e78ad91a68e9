"""What the shell offers where a stream or a group is to be named: those of the store, as far as it can be told."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from click.shell_completion import CompletionItem

import diskstream

_MOST_OFFERED = 1000


def complete_streams(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of streams that begin so."""
    with _store(ctx) as store:
        return _offered([] if store is None else store.streams(), incomplete)


def complete_groups(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of groups of the stream that was named before."""
    stream = ctx.params.get("stream")
    with _store(ctx) as store:
        if store is None or stream is None or not store.exists(stream):
            return []
        return _offered((info.name for info in store.stream(stream).groups()), incomplete)


def complete_consumers(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of consumers of the group that was named before."""
    stream, group = ctx.params.get("stream"), ctx.params.get("group")
    with _store(ctx) as store:
        if store is None or stream is None or group is None:
            return []
        found = store.stream(stream).group(group, create=False)
        return _offered((info.name for info in found.consumers()) if found.exists() else [], incomplete)


@contextmanager
def _store(ctx: click.Context) -> Iterator[diskstream.Store | None]:
    """The store, for looking. Whatever is wrong, the shell offers nothing and the prompt stays clean."""
    directory = ctx.params.get("directory") or os.environ.get("DISKSTREAM_DIR")
    opened: diskstream.Store | None = None
    if directory:
        try:
            opened = diskstream.open(Path(directory), read_only=True, create=False)
        except (diskstream.DiskstreamError, OSError):
            opened = None
    try:
        yield opened
    finally:
        if opened is not None:
            opened.close()


def _offered(names: Iterable[bytes], incomplete: str) -> list[CompletionItem]:
    """Names that can be typed: printable text, without what the shell's protocol takes for a separator."""
    found = []
    for name in names:
        try:
            shown = name.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if shown.startswith(incomplete) and shown.isprintable() and "," not in shown:
            found.append(CompletionItem(shown))
            if len(found) == _MOST_OFFERED:
                break
    return found
