"""Files that are in a backup already, so that the next one shares them: a second name, and no second copy."""

import contextlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple

from diskstream import leases
from diskstream.backups.manifest import Kept, is_of_backup, read_manifest
from diskstream.backups.parts import stores_in
from diskstream.backups.repository import Repository
from diskstream.errors import DiskstreamError, StorageError
from diskstream.store_files import Copied, Moment, digest_file, is_same, is_sealed
from diskstream.system_calls import means_are_short, open_regular, reading

__all__ = ["Donors", "Journal", "Looks", "release_pins"]

_JOURNAL: Final = "journal.jsonl"
_MAX_LINE_BYTES: Final = 1 << 20
_LEASE: Final = re.compile(r"backup-[0-9a-f]{16}")
# A file is looked for in so many backups, the newest first. One that none of them has is copied.
_LOOKED_INTO: Final = 8
# A file that backups share is read once in thirty days: of a terabyte 400 kB a second.
_READ_EVERY_MS: Final = 30 * 86_400_000


class Journal:
    """What an unfinished backup has copied in full, and which leases it holds; for whoever finds it after a kill."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _JOURNAL
        descriptor = open_regular(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._file: IO[str] = os.fdopen(descriptor, "a", encoding="utf-8")

    def copied(self, path: str, uuid: str, copied: Copied) -> None:
        """Takes note of a file that is durable."""
        self._write({"path": path, "uuid": uuid, "size_bytes": copied.size_bytes, "sha256": copied.sha256})

    def pinned(self, part: str, lease: str) -> None:
        """Takes note of a lease that is going to be made."""
        self._write({"part": part, "lease": lease})

    def _write(self, facts: dict[str, object]) -> None:
        self._file.write(json.dumps(facts) + "\n")
        self._file.flush()

    def remove(self) -> None:
        """Ends it: the backup is whole."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _journal_of(folder: Path) -> list[dict[str, object]]:
    """What a journal says, but for a last line that a kill has cut."""
    found: list[dict[str, object]] = []
    try:
        with reading(folder / _JOURNAL) as file:
            while line := file.readline(_MAX_LINE_BYTES):
                facts = json.loads(line)
                if isinstance(facts, dict):
                    found.append(facts)
    except (OSError, ValueError, RecursionError):
        return found
    return found


def release_pins(unfinished: Path, store: Path) -> None:
    """Removes the leases that a killed backup still held: its own, of this store or one within it, and nothing else."""
    stores = stores_in(store)
    for facts in _journal_of(unfinished):
        part, name = facts.get("part"), facts.get("lease")
        if part in stores and isinstance(name, str) and _LEASE.fullmatch(name):
            leases.release(store / str(part) / "leases" / name)


@dataclass(frozen=True)
class Looks:
    """How files of earlier backups are looked at.

    Attributes:
        made_ms: when the backup is made that is to share them.
        on_bytes: called with bytes just read of them.
        link: whether it is made of links.
    """

    made_ms: int
    on_bytes: Callable[[int], None]
    link: bool


def _is_due(kept: Kept, since_ms: int, now_ms: int) -> bool:
    """Whether a shared file is to be read by a backup, the one before having been made at `since_ms`.

    Rot goes on to whatever shares the file. So each is read once in `_READ_EVERY_MS`, at a moment of that time which
    its checksum tells: whichever backup is the first behind that moment reads it, and nothing needs to be remembered.
    """
    phase = int(kept.sha256[:12], 16)
    return (phase - since_ms) % _READ_EVERY_MS <= now_ms - since_ms


class Donor(NamedTuple):
    """A file of an earlier backup that another may share.

    Attributes:
        path: where it is.
        kept: what is said of it there.
        is_checked: whether it was, as what it is; one of a killed backup was not.
        is_read: whether it was read just now.
    """

    path: Path
    kept: Kept
    is_checked: bool
    is_read: bool


class Donors:
    """Files of earlier backups, by the UUID of their stream and their own name.

    Those that are the store's own, since a backup was made of links, are only for one that is made of links, too.

    Attributes:
        rotted: those that are not what they were.
    """

    def __init__(self, repository: Repository, unfinished: list[Path], how: Looks) -> None:
        self._how = how
        self.rotted: list[Path] = []
        # Those of a killed backup were copied and not checked yet: whoever takes one must.
        self._known: list[tuple[Path, int | None, dict[tuple[str, str], Kept]]] = []
        for folder in unfinished:
            files = {}
            for facts in _journal_of(folder):
                with contextlib.suppress(KeyError, ValueError):
                    kept = Kept(str(facts["path"]), int(str(facts["size_bytes"])), str(facts["sha256"]))
                    if is_of_backup(kept.path):
                        files[str(facts["uuid"]), kept.path.rpartition("/")[2]] = kept
            self._known.append((folder, None, files))
        complete = [backup for backup in repository.backups() if backup.header is not None]
        self._left = [backup.path for backup in reversed(complete)][:_LOOKED_INTO]

    def _load_next(self) -> bool:
        if not self._left:
            return False
        folder = self._left.pop(0)
        files: dict[tuple[str, str], Kept] = {}
        try:
            manifest = read_manifest(folder)
        except DiskstreamError:
            return True  # `backup verify` tells; nothing is taken from it
        uuids = {stream.path: stream.uuid for stream in manifest.streams if not stream.faults}
        for kept in manifest.files.values():
            place, _, name = kept.path.rpartition("/")
            if place in uuids:
                files[uuids[place], name] = kept
        self._known.append((folder, manifest.header.made_ms, files))
        return True

    def find(self, source: Path, uuid: str, moment: Moment | None) -> Donor | None:
        """The same file in an earlier backup."""
        at = 0
        while at < len(self._known) or self._load_next():
            if at == len(self._known):
                continue  # one that could not be read
            folder, made_ms, files = self._known[at]
            at += 1
            kept = files.get((uuid, source.name))
            donor = folder / ("" if kept is None else kept.path)
            if kept is None or not self._is(source, donor, kept, moment):
                continue
            is_read = made_ms is None or _is_due(kept, made_ms, self._how.made_ms)
            if not is_read or self._is_sound(donor, kept):
                return Donor(donor, kept, made_ms is not None, is_read)
            if made_ms is not None:
                self.rotted.append(donor)
        return None

    def _is_sound(self, donor: Path, kept: Kept) -> bool:
        try:
            return digest_file(donor, self._how.on_bytes).sha256 == kept.sha256
        except (StorageError, FileNotFoundError) as error:
            if means_are_short(error):
                raise
            return False

    def _is(self, source: Path, donor: Path, kept: Kept, moment: Moment | None) -> bool:
        try:
            size = source.stat().st_size if moment is None else moment.size_bytes
            if size != kept.size_bytes or donor.stat().st_size != kept.size_bytes:
                return False
        except FileNotFoundError:
            return False
        if source.samefile(donor):
            return self._how.link and moment is None
        if is_sealed(source.name):
            return is_same(source, donor)
        # A log may have grown differently in two copies of one store: only its bytes tell.
        return digest_file(source, lambda _: None, moment).sha256 == kept.sha256
