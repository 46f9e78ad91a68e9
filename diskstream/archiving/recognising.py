"""Whether source and copy are those of before: what keeps two streams from being mixed into one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from diskstream.archiving.marks import Mark
from diskstream.archiving.options import ArchiveOptions
from diskstream.archiving.server import Server, SourceEntry, StreamFacts
from diskstream.checkpoints import Checkpoints
from diskstream.errors import ChangedError, quoted
from diskstream.ids import MIN_ID
from diskstream.plurals import number_of
from diskstream.stream import Stream

__all__ = ["check_copy", "check_entries", "check_kept", "check_reached", "check_server_is_same", "check_source"]


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
    where = f"the stream {quoted(copy.name)} of the store"
    if mark is None:
        if copy.exists():
            raise ChangedError(where, "it exists, and was not made by an archiver", "choose another directory (--to)")
        return
    check_kept(copy)
    check_reached(copy, mark, checkpoints)
    last = copy.last_id()
    if last > facts.last_id:
        raise ChangedError(
            where,
            f"it ends at {last}, behind the source, {server.shown}, whose last ID is {facts.last_id}: the source was "
            "restored from an older state or made anew, or entries were added to the copy",
            _start_anew(checkpoints, copy.name),
        )
    check_entries(server, copy, mark, facts)


def check_reached(copy: Stream, mark: Mark, checkpoints: Checkpoints, identity: bytes | None = None) -> None:
    """Whether the copy has come as far as its checkpoint says, and is the stream that was added to.

    Args:
        copy: the copy.
        mark: what was read back of it.
        checkpoints: where that is noted.
        identity: of the copy when it was looked at before; None where there was none yet.

    Raises:
        ChangedError: it was deleted or replaced.
        CorruptionError: it ends too early, as what follows is damaged.
    """
    last = copy.last_id()
    if last < mark.verified_to:
        copy.read(last, count=1)  # one that ends with a damage says so where it is read behind that
        what = f"it ends at {last}, but was copied and read back up to {mark.verified_to}"
    elif identity not in (None, copy.identity()):
        what = f"it is not the stream that was copied to before, and read back up to {mark.verified_to}"
    else:
        return
    raise ChangedError(
        f"the stream {quoted(copy.name)} of the store",
        f"{what}: it was deleted or replaced",
        f"restore it from a backup; to begin anew remove its checkpoint, {checkpoints.path(copy.name)}",
    )


def check_entries(server: Server, copy: Stream, mark: Mark, facts: StreamFacts) -> None:
    """Whether the first and the last entry that both should have are the same. One that the copy lost is no matter.

    Raises:
        ChangedError: they are others: the source is another stream, under the same key.
        RemoteError: the source failed or refused.
    """
    last, newest = copy.last_id(), facts.last
    if newest is not None and newest.id > last:
        newest = server.entry_upto(copy.name, last) if last > MIN_ID else None
    _check_samples(server, copy, mark, (facts.first, newest))


def _check_samples(server: Server, copy: Stream, mark: Mark, samples: Iterable[SourceEntry | None]) -> None:
    last = copy.last_id()
    for sample in samples:
        if sample is None or sample.id > last:
            continue
        ours = copy.get(sample.id)
        if ours is None and not _was_deleted_from(copy, mark):
            what = f"the copy lacks its entry {sample.id}"
        elif ours is not None and ours.pairs != sample.pairs:
            what = f"its entry {sample.id} is another one"
        else:
            continue
        raise ChangedError(
            server.shown,
            f"the stream {quoted(copy.name)} is not the one that was copied up to {last}: {what}",
            "the source was made anew, or somebody changed the copy; archive to another directory, and compare the two",
        )


def _was_deleted_from(copy: Stream, mark: Mark) -> bool:
    """Whether entries that were read back are not in the copy any more."""
    behind = mark.verified_to.next()
    return len(copy) - (0 if behind is None else copy.count_from(behind)) < mark.verified.entries


def check_kept(copy: Stream) -> None:
    """Whether a copy keeps what it is given. One that goes by a rule cannot be held against its source.

    Raises:
        ChangedError: a rule of retention removes entries from it.
    """
    rule = copy.retention if copy.exists() else None
    if rule is not None and rule.to is None:
        raise ChangedError(
            f"the copy of {quoted(copy.name)}",
            f"it has a rule of retention ({rule}), which removes what was copied; nothing more is trimmed",
            "diskstream retention clear takes the rule away, and one with --to moves to cold storage instead; to have "
            "again what it has removed, archive to another directory",
        )


def check_server_is_same(server: Server, mark: Mark, options: ArchiveOptions) -> None:
    """Whether the server is the one that was copied from.

    Raises:
        ChangedError: it is another one, or another database of it.
    """
    # The name of a server may change, its replication ID may; another database of it is another source. An address
    # need not tell: of a socket, or behind a ?, the number of the database is in the part that is not shown.
    same = mark.source == server.shown or bool(set(mark.replication_ids) & set(server.facts.replication_ids))
    if same and mark.database == server.database:
        return
    if not options.accept_changed:
        other = f"{mark.source}, which is another server"
        moved = "is at a new address"
        if same:
            other = f"database {mark.database} of this server, and this is database {server.database}"
            moved = "was moved there"
        raise ChangedError(
            server.shown,
            f"the copy of {quoted(mark.stream)} was made from {other}",
            f"archive to another directory (--to); if it is the same data that {moved}, give --accept-changed once",
        )


def check_source(
    server: Server, mark: Mark, facts: StreamFacts, options: ArchiveOptions, checkpoints: Checkpoints
) -> Mark:
    """Whether the source is the one that was copied before. Returns the mark to go on with.

    Raises:
        ChangedError: it is another server, or its stream was made anew or restored.
    """
    check_server_is_same(server, mark, options)
    behind = facts.last_id < mark.drained_to
    fewer = (
        facts.entries_added is not None and mark.drained_added is not None and facts.entries_added < mark.drained_added
    )
    if behind or (fewer and not options.accept_changed):
        what = (
            f"its last ID is {facts.last_id} and was {mark.drained_to} before"
            if behind
            else f"{number_of(facts.entries_added or 0, 'entry was', 'entries were')} ever added and "
            f"{mark.drained_added:,} before"
        )
        hint = _start_anew(checkpoints, mark.stream)
        if not behind:
            hint += "; to append what it has now all the same give --accept-changed"
        raise ChangedError(
            server.shown,
            f"the stream {quoted(mark.stream)} is not the one that was copied: {what}; "
            "it was deleted, flushed or restored",
            hint,
        )
    if fewer and facts.entries_added is not None:
        return replace(mark, drained_added=None)  # what is missing now cannot be counted
    return mark
