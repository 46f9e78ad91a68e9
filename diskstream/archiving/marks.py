"""The checkpoint of one archived stream: what the copy itself cannot tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from diskstream.checked_json import is_whole
from diskstream.checkpoints import Checkpoints
from diskstream.digests import NOTHING, Digest
from diskstream.errors import ArgumentError, ChangedError, NewerFormatError
from diskstream.ids import MIN_ID, EntryID
from diskstream.redis_link import as_shown

__all__ = ["Mark", "load", "save"]

_FORMAT = 1


@dataclass(frozen=True)
class Mark:
    """How far an archive of a stream has come. `docs/format/checkpoints.md` has the file, member by member.

    Attributes:
        stream: the name, at the source and here.
        source: the address of the source, without a password.
        database: its number there.
        replication_ids: those of the source when it was last seen.
        verified_to: entries up to this ID were read back, and are what the source sent.
        verified: their digest.
        trimmed_to: entries up to this ID were trimmed away at the source by us; 0-0 where nothing was.
        trimmed: how many.
        drained_to: the source's last ID when all it held had been copied.
        drained_added: the source's count of entries ever added then; None where it keeps none.
        drained_verified: entries verified then.
        missed: entries that were removed at the source before they were copied, in all.
    """

    stream: bytes
    source: str
    database: int
    replication_ids: tuple[str, ...]
    verified_to: EntryID = MIN_ID
    verified: Digest = NOTHING
    trimmed_to: EntryID = MIN_ID
    trimmed: int = 0
    drained_to: EntryID = MIN_ID
    drained_added: int | None = None
    drained_verified: int = 0
    missed: int = 0

    def with_verified(self, upto: EntryID, digest: Digest) -> Mark:
        """The same with more entries read back."""
        return replace(self, verified_to=max(upto, self.verified_to), verified=self.verified + digest)


def save(checkpoints: Checkpoints, mark: Mark) -> None:
    """Replaces the checkpoint; it is durable on return.

    Raises:
        StorageError: the disk said no; the one before is still there.
    """
    facts = {
        "format": _FORMAT,
        "stream": mark.stream.decode("latin-1"),
        "source": mark.source,
        "database": mark.database,
        "replication_ids": list(mark.replication_ids),
        "verified_to": str(mark.verified_to),
        "verified_entries": mark.verified.entries,
        "verified_bytes": mark.verified.size_bytes,
        "verified_digest": str(mark.verified),
        "trimmed_to": str(mark.trimmed_to),
        "trimmed_entries": mark.trimmed,
        "drained_to": str(mark.drained_to),
        "drained_added": mark.drained_added,
        "drained_verified": mark.drained_verified,
        "missed_entries": mark.missed,
    }
    checkpoints.write(mark.stream, facts)


def load(checkpoints: Checkpoints, stream: bytes) -> Mark | None:
    """A stream's checkpoint; None where there is none.

    Raises:
        ChangedError: it is damaged, or of another stream.
        NewerFormatError: a later version wrote it.
    """
    facts = checkpoints.read(stream)
    if facts is None:
        return None
    path = str(checkpoints.path(stream))
    try:
        if _number(facts, "format") > _FORMAT:
            raise NewerFormatError(path, "the checkpoint", _FORMAT, facts["format"])
        # An ID with one digit changed is an ID, and would have entries trimmed at the source that are nowhere else.
        if not is_whole(facts):
            raise ValueError("its checksum is another one")  # noqa: TRY301  # one way out
        if facts["stream"].encode("latin-1") != stream:
            raise ValueError("it is of another stream")  # noqa: TRY301  # one way out
        added = facts["drained_added"]
        return Mark(
            stream,
            as_shown(str(facts["source"])),
            _number(facts, "database"),
            tuple(str(each) for each in facts["replication_ids"]),
            EntryID(facts["verified_to"]),
            Digest.parse(
                facts["verified_digest"], _number(facts, "verified_entries"), _number(facts, "verified_bytes")
            ),
            EntryID(facts["trimmed_to"]),
            _number(facts, "trimmed_entries"),
            EntryID(facts["drained_to"]),
            None if added is None else _number(facts, "drained_added"),
            _number(facts, "drained_verified"),
            _number(facts, "missed_entries"),
        )
    except (KeyError, TypeError, AttributeError, ValueError, ArgumentError) as error:
        raise ChangedError(
            path,
            f"this checkpoint cannot be read ({type(error).__name__}: {error})",
            "restore it from a backup, or archive to a new directory",
        ) from None


def _number(facts: dict[str, Any], name: str) -> int:
    value = facts[name]
    # Entries added count from what was there when the archive began, which may lie below zero at first.
    if type(value) is not int or (value < 0 and name != "drained_added"):
        raise ValueError(f"{name} is {value!r}, not a number")
    return value
