"""What became of each stream of an archive, and of one that is put back."""

from __future__ import annotations

from dataclasses import dataclass, field

from diskstream.ids import EntryID

__all__ = ["ArchiveReport", "RestorePlan", "RestoreReport"]

_MOST_FINDINGS = 20


@dataclass
class ArchiveReport:
    """What one run did with one stream, and what it found.

    Attributes:
        stream: its name.
        entries, size_bytes: copied by this run; bytes of names and values.
        seconds: that this run spent on it.
        first_id, last_id: of the entries copied by this run.
        verified_to: entries up to here were read back, by this run or one before.
        verified_entries, digest: of all that was read back so far.
        trimmed: entries that this run trimmed away at the source.
        trimmed_to: entries up to here are trimmed, by this run or one before; None where nothing was.
        held_back: whether groups of the source still need what was copied, so that it was not trimmed.
        source_entries: entries at the source when this run saw it last.
        groups, pending: of the copy.
        expires_ms: milliseconds until the source's key expires; None where it does not.
        gone: whether the source's key is not there any more.
        findings: what is not as it should be; any makes the command end with status 1.
        notes: what is worth knowing.
        error: why the stream was given up; None where it was not.
        hint: what to do about it, or None.
    """

    stream: bytes
    entries: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    first_id: EntryID | None = None
    last_id: EntryID | None = None
    verified_to: EntryID | None = None
    verified_entries: int = 0
    digest: str = ""
    trimmed: int = 0
    trimmed_to: EntryID | None = None
    held_back: bool = False
    source_entries: int = 0
    groups: int = 0
    pending: int = 0
    expires_ms: int | None = None
    gone: bool = False
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    hint: str | None = None

    @property
    def is_good(self) -> bool:
        """Whether there is nothing to be looked into."""
        return not self.findings and self.error is None

    def find(self, what: str) -> None:
        """Adds a finding, unless it is there; of very many the first ones are kept."""
        if what not in self.findings and len(self.findings) < _MOST_FINDINGS:
            self.findings.append(what)

    def note(self, what: str) -> None:
        """Adds a note, likewise."""
        if what not in self.notes and len(self.notes) < _MOST_FINDINGS:
            self.notes.append(what)


@dataclass
class RestoreReport:
    """What was put back.

    Attributes:
        stream: its name.
        key: its name in the Redis.
        entries, size_bytes: added by this run; bytes of names and values.
        resumed: entries that an earlier run had added.
        seconds: that it took.
        first_id, last_id: of what is there now.
        digest: of what was read back.
        groups, pending: put back.
        notes: what is worth knowing.
        already_there: whether the key held the same entries before.
    """

    stream: bytes
    key: bytes
    entries: int = 0
    size_bytes: int = 0
    resumed: int = 0
    seconds: float = 0.0
    first_id: EntryID | None = None
    last_id: EntryID | None = None
    digest: str = ""
    groups: int = 0
    pending: int = 0
    notes: list[str] = field(default_factory=list)
    already_there: bool = False


@dataclass(frozen=True)
class RestorePlan:
    """What restoring would do.

    Attributes:
        stream: its name.
        key: its name in the Redis.
        entries: of the stream, or of the range.
        key_is: what Redis says of the key: "none", "stream", "list", ...
        would: "restore", "replace" what is there, "leave" what holds the same entries already, or be "refused".
        key_entries: of a stream that is there.
        key_last_id: its greatest ID, added or set.
    """

    stream: bytes
    key: bytes
    entries: int
    key_is: str
    would: str
    key_entries: int | None = None
    key_last_id: EntryID | None = None
