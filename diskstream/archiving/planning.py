"""What archiving would do, without doing it: neither the store nor the source is changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import diskstream.store
from diskstream.archiving.archiver import NO_MATCH, OWN_NAME, check_server
from diskstream.archiving.counting import left_to_copy
from diskstream.archiving.leasing import OURS
from diskstream.archiving.marks import load
from diskstream.archiving.options import ArchiveOptions
from diskstream.archiving.recognising import check_copy, check_reached, check_server_is_same, check_source
from diskstream.archiving.server import Server, has_wildcard
from diskstream.checkpoints import Checkpoints
from diskstream.errors import ArgumentError, ChangedError, CorruptionError, FormatError, LimitError, RemoteError
from diskstream.ids import MAX_ID, MIN_ID, EntryID
from diskstream.store import Store
from diskstream.store_files import check_target

__all__ = ["Plan", "plan"]

_ANY_NAME = b"any"

# What an archiver tells of one stream, and goes on with the others.
_OF_ONE_STREAM = (ChangedError, CorruptionError, FormatError, ArgumentError)


@dataclass(frozen=True)
class Plan:
    """What would become of a stream.

    Attributes:
        stream: its name; or a pattern that no stream has, with an error.
        entries: how many would be copied; None where the server does not tell.
        copied_to: entries up to here are copied already.
        last_id: the source's last ID.
        groups: that would be carried.
        trim_to: entries up to here could be trimmed at the source, as far as groups allow; None without `trim`.
        error: why it would not be copied; None where it would.
        gone: whether the source's key is not there any more; the copy stays as it is.
    """

    stream: bytes
    entries: int | None = None
    copied_to: EntryID = MIN_ID
    last_id: EntryID = MIN_ID
    groups: int = 0
    trim_to: EntryID | None = None
    error: str | None = None
    gone: bool = False


def plan(url: str, directory: Path, patterns: Sequence[bytes], options: ArchiveOptions) -> list[Plan]:
    """What archiving these keys would do, in byte order.

    Args:
        url: the Redis.
        directory: of the store, which need not exist.
        patterns, options: as `Archiver` takes them.

    Raises:
        ArgumentError, RemoteError: as `Archiver`.
        FormatError, StorageError: no store can be there, or it takes nothing, as a backup does.
    """
    options.check()
    server = Server(url)
    with ExitStack() as stack:
        stack.callback(server.close)
        check_server(server, trim=options.trim)
        check_target(directory, _ANY_NAME)
        store: Store | None = None
        if (directory / "store.json").exists():
            store = stack.enter_context(diskstream.store.open(directory, read_only=True, create=False))
        found: dict[bytes, Plan] = {}
        unmatched: dict[bytes, Plan] = {}  # patterns, beside which there may be keys of the very same names
        for pattern in patterns:
            matched = False
            for key, kind in server.named(pattern):
                if key.startswith(OURS):
                    if not has_wildcard(pattern):
                        found[key] = Plan(key, error=OWN_NAME)
                    continue
                if kind == "stream":
                    matched = True
                    found[key] = _plan(server, directory, store, key, options)
                elif not has_wildcard(pattern):
                    if kind == "none" and store is not None and Checkpoints(store).has(key):
                        found[key] = _plan_of_gone(server, store, key, options)
                        continue
                    what = "there is no such key" if kind == "none" else f"the key is a {kind}, not a stream"
                    found[key] = Plan(key, error=what)
            if has_wildcard(pattern) and not matched:
                unmatched[pattern] = Plan(pattern, error=NO_MATCH)
        return sorted([*found.values(), *unmatched.values()], key=lambda plan: plan.stream)


def _plan_of_gone(server: Server, store: Store, key: bytes, options: ArchiveOptions) -> Plan:
    copy, checkpoints = store.stream(key), Checkpoints(store)
    try:
        mark = load(checkpoints, key)
        if mark is not None:
            check_server_is_same(server, mark, options)
            check_reached(copy, mark, checkpoints)
        return Plan(key, 0, copy.last_id(), gone=True)
    except _OF_ONE_STREAM as why:
        return Plan(key, error=str(why), gone=True)


def _plan(server: Server, directory: Path, store: Store | None, key: bytes, options: ArchiveOptions) -> Plan:
    facts = server.stream(key)
    if facts is None:
        return Plan(key, error="there is no such key any more")
    copied, copy, mark, error = MIN_ID, None, None, None
    if store is None:
        try:
            check_target(directory, key)
        except LimitError as why:
            error = str(why)
    else:
        try:
            checkpoints = Checkpoints(store)
            copy, mark = store.stream(key), load(checkpoints, key)
            if mark is not None:
                mark = check_source(server, mark, facts, options, checkpoints)
            check_copy(server, copy, mark, facts, checkpoints)
            copied = copy.last_id()
        except _OF_ONE_STREAM as why:
            error = str(why)
        except RemoteError as why:
            server.is_there()  # then it is this stream alone, or where its copy is
            error = str(why)
    entries = None if error else left_to_copy(mark, facts, copy)
    trim_to = None
    if options.trim:
        trim_to = facts.last_id.prev() if facts.last_id == MAX_ID else facts.last_id  # see `trim_source`
    return Plan(key, entries, copied, facts.last_id, facts.groups, trim_to, error)
