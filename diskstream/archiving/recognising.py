"""Whether source and copy are those of before: what keeps two streams from being mixed into one."""

from __future__ import annotations

from dataclasses import replace

from diskstream.archiving.marks import Mark
from diskstream.archiving.options import ArchiveOptions
from diskstream.archiving.server import Server, StreamFacts
from diskstream.checkpoints import Checkpoints
from diskstream.errors import ChangedError
from diskstream.stream import Stream

__all__ = ["check_copy", "check_kept", "check_source"]


def _start_anew(checkpoints: Checkpoints, stream: bytes) -> str:
    return (
        "archive it to another directory (--to), or rename the old copy (`diskstream rename`) and remove its "
        f"checkpoint, {checkpoints.path(stream)}"
    )


def check_copy(server: Server, copy: Stream, mark: Mark | None, facts: StreamFacts, checkpoints: Checkpoints) -> None:
    """Whether the copy is one that this archive made, and has what was verified.

    Raises:
        ChangedError: it is not.
    """
    where = f"the stream {copy.name!r} of the store"
    if mark is None:
        if copy.exists():
            raise ChangedError(where, "it exists, and was not made by an archiver", "choose another directory (--to)")
        return
    check_kept(copy)
    last = copy.last_id()
    if last < mark.verified_to:
        raise ChangedError(
            where,
            f"it ends at {last}, but was copied and read back up to {mark.verified_to}: it was deleted or replaced",
            f"restore it from a backup; to begin anew remove its checkpoint, {checkpoints.path(copy.name)}",
        )
    if last > facts.last_id:
        raise ChangedError(
            where,
            f"it ends at {last}, behind the source, {server.shown}, whose last ID is {facts.last_id}: the source was "
            "restored from an older state or made anew, or entries were added to the copy",
            _start_anew(checkpoints, copy.name),
        )


def check_kept(copy: Stream) -> None:
    """Whether a copy keeps what it is given. One that goes by a rule cannot be held against its source.

    Raises:
        ChangedError: a rule of retention removes entries from it.
    """
    rule = copy.retention if copy.exists() else None
    if rule is not None and rule.to is None:
        raise ChangedError(
            f"the copy of {copy.name!r}",
            f"it has a rule of retention ({rule}), which removes what was copied; nothing more is trimmed",
            "diskstream retention clear takes the rule away, and one with --to moves to cold storage instead; to have "
            "again what it has removed, archive to another directory",
        )


def check_source(
    server: Server, mark: Mark, facts: StreamFacts, options: ArchiveOptions, checkpoints: Checkpoints
) -> Mark:
    """Whether the source is the one that was copied before. Returns the mark to go on with.

    Raises:
        ChangedError: it is another server, or its stream was made anew or restored.
    """
    # The name of a server may change, its replication ID may; another database of it is another source.
    same = mark.source == server.shown or (
        mark.database == server.database and set(mark.replication_ids) & set(server.facts.replication_ids)
    )
    if not same and not options.accept_changed:
        raise ChangedError(
            server.shown,
            f"the copy of {mark.stream!r} was made from {mark.source}, which is another server",
            "archive to another directory (--to); if it is the same data at a new address, give --accept-changed once",
        )
    behind = facts.last_id < mark.drained_to
    fewer = (
        facts.entries_added is not None and mark.drained_added is not None and facts.entries_added < mark.drained_added
    )
    if behind or (fewer and not options.accept_changed):
        what = (
            f"its last ID is {facts.last_id} and was {mark.drained_to} before"
            if behind
            else f"{facts.entries_added:,} entries were ever added and {mark.drained_added:,} before"
        )
        hint = _start_anew(checkpoints, mark.stream)
        if not behind:
            hint += "; to append what it has now all the same give --accept-changed"
        raise ChangedError(
            server.shown,
            f"the stream {mark.stream!r} is not the one that was copied: {what}; it was deleted, flushed or restored",
            hint,
        )
    if fewer and facts.entries_added is not None:
        return replace(mark, drained_added=None)  # what is missing now cannot be counted
    return mark
