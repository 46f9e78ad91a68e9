"""A backup as it is asked for, and as it was made."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from diskstream.backups.manifest import Header, KeptStream
from diskstream.verifying import Problem

__all__ = ["Made", "Settings"]


@dataclass(frozen=True)
class Settings:
    """How a backup is made.

    Attributes:
        patterns: glob patterns; only streams that match one are kept, and nothing else. None: everything is.
        link: sealed files become second names of the store's own, where both are on one file system.
        full: share nothing with earlier backups.
        bytes_per_s: copy no faster than this.
        low_priority: give this whole process the lowest priority, once no lock is held that writers wait for.
        on_bytes: called with the bytes just handled.
        on_total: called once, with how many there will be.
    """

    patterns: tuple[bytes, ...] = ()
    link: bool = False
    full: bool = False
    bytes_per_s: int | None = None
    low_priority: bool = False
    on_bytes: Callable[[int], None] | None = None
    on_total: Callable[[int], None] | None = None


@dataclass(frozen=True)
class Made:
    """A backup that was made.

    Attributes:
        path: its directory.
        header: what its manifest says of it as a whole.
        shared_bytes: bytes of files that it shares with earlier backups.
        linked_bytes: bytes of files that it shares with the store.
        streams: what it says of each stream.
        seconds: what it took.
        cold_entries, cold_bytes: of segments in object storage, of which the backup has the stubs alone.
        job_faults: what is damaged of how far jobs have come; no stream depends on it, and the backup counts as sound.
        rotted: files of earlier backups that are not what they were; this one has them anew from the store.
    """

    path: Path
    header: Header
    shared_bytes: int
    linked_bytes: int
    streams: list[KeptStream]
    seconds: float
    cold_entries: int = 0
    cold_bytes: int = 0
    job_faults: tuple[Problem, ...] = ()
    rotted: tuple[Path, ...] = ()

    @property
    def damaged(self) -> list[KeptStream]:
        """The streams that are damaged in it."""
        return [stream for stream in self.streams if stream.faults]
