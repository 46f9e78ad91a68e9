"""What the shell offers where a stream or a group is to be named: those of the store, as far as it can be told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

import diskstream

_MOST_OFFERED = 1000


def complete_streams(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of streams that begin so."""
    return _offered(ctx, lambda store: store.streams(), incomplete)


def complete_groups(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of groups of the stream that was named before."""
    stream = ctx.params.get("stream")

    def names(store: diskstream.Store) -> Iterable[bytes]:
        return [] if stream is None else (info.name for info in store.stream(stream).groups())

    return _offered(ctx, names, incomplete)


def complete_consumers(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of consumers of the group that was named before."""
    stream, group = ctx.params.get("stream"), ctx.params.get("group")

    def names(store: diskstream.Store) -> Iterable[bytes]:
        if stream is None or group is None:
            return []
        found = store.stream(stream).group(group, create=False)
        return (info.name for info in found.consumers()) if found.exists() else []

    return _offered(ctx, names, incomplete)


def _offered(
    ctx: click.Context, names: Callable[[diskstream.Store], Iterable[bytes]], incomplete: str
) -> list[CompletionItem]:
    """What there is of them in the store. Whatever is wrong, the shell offers nothing and the prompt stays clean."""
    directory = ctx.params.get("directory") or os.environ.get("DISKSTREAM_DIR")
    if not directory:
        return []
    try:
        with diskstream.open(Path(directory), read_only=True, create=False) as store:
            return _typeable(names(store), incomplete)
    except (diskstream.DiskstreamError, OSError):
        return []


def _typeable(names: Iterable[bytes], incomplete: str) -> list[CompletionItem]:
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
