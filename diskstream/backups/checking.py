"""Reading backups against their manifests, and as the stores that they are."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from diskstream import store as stores
from diskstream.backups.manifest import NAME, Manifest, read_manifest
from diskstream.backups.parts import is_of_jobs, stores_in
from diskstream.backups.repository import Backup
from diskstream.errors import DiskstreamError
from diskstream.plurals import number_of
from diskstream.store_files import digest_file, directory_of
from diskstream.system_calls import all_below, means_are_short

__all__ = ["Finding", "Seen", "check_backup", "files_of", "has_its_files"]


@dataclass(frozen=True)
class Finding:
    """A fault of a backup.

    Attributes:
        backup: its name.
        path: the file, below the backup.
        what: what is wrong.
        known: whether the manifest says so: it was like this when the backup was made.
        place: as of `Problem`: the address of the object storage that did not answer, or refused.
    """

    backup: str
    path: str
    what: str
    known: bool = False
    place: str = ""


class Seen:
    """Files that were read already: backups share them, and each is read once.

    Attributes:
        size_bytes: of these files.
        cold_segments, cold_bytes: what a backup that was read in depth has in object storage, read or not.
    """

    def __init__(self) -> None:
        self.size_bytes = self.cold_segments = self.cold_bytes = 0
        self._digests: dict[tuple[int, int], str] = {}

    def digest(self, path: Path, on_bytes: Callable[[int], None]) -> str:
        """The SHA-256 of a file."""
        found = path.stat()
        key = found.st_dev, found.st_ino
        if key not in self._digests:
            copied = digest_file(path, on_bytes)
            self._digests[key] = copied.sha256
            self.size_bytes += copied.size_bytes
        return self._digests[key]


def files_of(folder: Path) -> Iterator[str]:
    """The files below a backup, as paths below it; but for its manifest."""
    for path in sorted(all_below(folder)):
        relative = path.relative_to(folder).as_posix()
        if not path.is_dir() and relative != NAME:
            yield relative


def check_backup(
    backup: Backup,
    seen: Seen,
    *,
    deep: bool = True,
    cold: bool = False,
    on_bytes: Callable[[int], None] | None = None,
) -> list[Finding]:
    """Reads each file of a backup, and, where `deep`, all entries of its streams as well.

    With `cold` these are also those in object storage, of which the backup has the stubs alone.

    Raises:
        BackupError: it is being removed.
        StorageError, OSError: there are too few descriptors to read it with.
    """
    with backup.used():
        try:
            manifest = read_manifest(backup.path)
        except DiskstreamError as error:
            return [Finding(backup.name, NAME, str(error))]
        known = [
            Finding(backup.name, stream.path, fault, known=True)
            for stream in manifest.streams
            for fault in stream.faults
        ]
        found = list(_wrong_files(backup, manifest, seen, on_bytes or (lambda _: None)))
        if deep:
            broken = {stream.path for stream in manifest.streams if stream.faults}
            broken |= {each.path.rpartition("/")[0] for each in found}
            wrong = _wrong_streams(backup, seen, on_bytes or (lambda _: None), cold=cold)
            # The files of jobs were just compared with the manifest: they are as they were in the store.
            found += [replace(each, known=is_of_jobs(each.path)) for each in wrong if each.path not in broken]
        return known + found


def has_its_files(backup: Backup) -> bool:
    """Whether all files of a backup are there with their sizes: what can be told without reading them."""
    try:
        kept = read_manifest(backup.path).files.values()
        return all((backup.path / each.path).lstat().st_size == each.size_bytes for each in kept)
    except (DiskstreamError, OSError):
        return False


def _wrong_files(backup: Backup, manifest: Manifest, seen: Seen, on_bytes: Callable[[int], None]) -> Iterable[Finding]:
    there = set(files_of(backup.path))
    for extra in sorted(there - manifest.files.keys()):
        yield Finding(backup.name, extra, "it is not in the manifest")
    for kept in manifest.files.values():
        if kept.path not in there:
            yield Finding(backup.name, kept.path, "it is missing")
            continue
        path = backup.path / kept.path
        try:
            size = path.stat().st_size
            if size != kept.size_bytes:
                yield Finding(backup.name, kept.path, f"it has {number_of(size, 'byte')}, and had {kept.size_bytes:,}")
            elif (digest := seen.digest(path, on_bytes)) != kept.sha256:
                yield Finding(backup.name, kept.path, f"its SHA-256 is {digest}, and was {kept.sha256}")
        except (DiskstreamError, OSError) as error:
            if means_are_short(error):
                raise
            yield Finding(backup.name, kept.path, str(error))


def _wrong_streams(backup: Backup, seen: Seen, on_bytes: Callable[[int], None], *, cold: bool) -> Iterator[Finding]:
    for part in stores_in(backup.path):
        try:
            with stores.open(backup.path / part, read_only=True, create=False) as store:
                report = store.verify(progress=lambda _, size_bytes: on_bytes(size_bytes), cold=cold)
                seen.cold_segments += report.cold_segments
                seen.cold_bytes += report.cold_bytes
                for problem in report.problems:
                    place = problem.path if problem.path.is_dir() else problem.path.parent
                    shown: Path | str = problem.path.name
                    if not place.is_relative_to(backup.path):  # an object
                        place, shown = store.path / "streams" / directory_of(problem.stream), problem.path
                    what = f"{shown} at {problem.offset}: {problem.what}"
                    yield Finding(backup.name, place.relative_to(backup.path).as_posix(), what, place=problem.place)
        except DiskstreamError as error:
            if means_are_short(error):
                raise  # says nothing of the backup
            yield Finding(backup.name, part, str(error))
