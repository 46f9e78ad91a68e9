"""The end of a job: what its tasks made becomes the archive's next version, or goes."""

from collections.abc import Callable, Sequence

from diskstream.errors import ArchiveChangedError
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
        ArchiveError: this job was taken for dead.
        StorageError, DiskstreamError: what a task met, or the disk said no to the commit.
    """
    results, failed = split(outcomes)
    files = [file for made in results for file in made]
    try:
        if failed is not None:
            failed.raise_error()
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
