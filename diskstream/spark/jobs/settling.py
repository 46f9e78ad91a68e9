"""The end of a job: what its tasks made becomes the archive's next version, or goes."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from diskstream.errors import ArchiveChangedError, ArchiveError
from diskstream.plurals import number_of
from diskstream.spark.jobs.garbage import Marker
from diskstream.spark.jobs.manifest import ArchivedFile, Manifest, commit
from diskstream.spark.jobs.outcome import Outcome, split
from diskstream.spark.jobs.parts import discard
from diskstream.spark.jobs.place import Place

__all__ = ["settle"]


def settle(
    place: Place,
    marker: Marker,
    outcomes: Sequence[Outcome[list[ArchivedFile]]],
    following: Callable[[list[ArchivedFile]], Manifest],
) -> tuple[Manifest, list[ArchivedFile]]:
    """Commits all of it as one version. Where a task failed, or another job was quicker, its files are removed.

    Args:
        place: the archive.
        marker: of this job.
        outcomes: of its tasks.
        following: the next version, with these new files.

    Raises:
        ArchiveChangedError: another job has committed meanwhile.
        ArchiveError: this job was taken for dead, two of its files overlap, or one is not to be seen from here.
        StorageError, DiskstreamError: what a task met, or the disk said no to the commit.
    """
    results, failed = split(outcomes)
    files = [file for made in results for file in made]
    try:
        if failed is not None:
            failed.raise_error()
        _check_apart(files)
        _check_there(place, files)
        made = following(files)
        marker.check()
    except BaseException:
        discard(place, files)
        raise
    try:
        commit(place, made, marker.job)
    except ArchiveChangedError:  # after any other error the version may be there: its files stay
        discard(place, files)
        raise
    return made, files


def _check_apart(files: Sequence[ArchivedFile]) -> None:
    """An entry is in one file: whatever went wrong before, an archive that has it twice is never committed."""
    ordered = sorted(files, key=lambda each: (each.stream, each.first))
    for one, following in pairwise(ordered):
        if one.stream == following.stream and following.first <= one.last:
            raise ArchiveError(
                f"two new files of a stream overlap, {one.path} and {following.path}: nothing was committed; please "
                "report this"
            )


def _check_there(place: Place, files: Sequence[ArchivedFile]) -> None:
    """What is committed may be trimmed at its source: a file on a disk that is a worker's own does not count."""
    for each in files:
        if not place.holds(each.path, each.size_bytes):
            raise ArchiveError(
                f"a worker has written {place.full(each.path)}, of {number_of(each.size_bytes, 'byte')}, which is not "
                "there on the driver: driver and workers must see the archive under the same path; nothing was "
                "committed"
            )
