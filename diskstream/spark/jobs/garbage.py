"""What lies in an archive and belongs to no version of it that anybody may still read; and which jobs run."""

import re
import secrets
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise

from diskstream.errors import ArchiveError, ArgumentError, StorageError
from diskstream.ids import MIN_ID, EntryID, parse_id
from diskstream.spark.jobs.folders import folder_of
from diskstream.spark.jobs.manifest import FOLDER, Manifest, load, versions
from diskstream.spark.jobs.place import Found, Place

__all__ = ["Garbage", "Marker", "check_grace", "collect", "collect_behind", "nobodys", "running"]

_JOBS = "_jobs"
_BEAT_S = 20.0
# Nothing is removed but by a name that only a job of an archive gives, where it gives it: a folder may be others' too.
_MARK = re.compile(rf"{_JOBS}/[0-9a-f]{{16}}(?:\.[0-9a-f]{{16}}\.tmp)?")
_PART = re.compile(
    r"stream=[^/]+/date=[^/]+(?:/hour=[^/]+)?/"
    r"(?:part-(?P<first>\d+-\d+)-(?P<last>\d+-\d+)-(?P<done>[0-9a-f]{16})[0-9a-f]{16}\.parquet|\.(?P<begun>[0-9a-f]{16})[0-9a-f]{16}\.tmp)",
    re.DOTALL,
)
_NEW_VERSION = re.compile(rf"{FOLDER}/\d{{12}}\.json\.[0-9a-f]{{16}}\.tmp")
# A job that was not heard of for so many beats is dead.
_LEAST_GRACE_S = 3 * _BEAT_S


@dataclass(frozen=True)
class Garbage:
    """What a collection found.

    Attributes:
        removed: files that were removed (or would be), below the archive.
        removed_bytes: their sizes together.
        waiting: files of no version, younger than the grace time, or of older versions within it.
        waiting_bytes: their sizes together.
        versions: manifests that were removed (or would be).
        failed: why the collection was given up; empty where it was not.
    """

    removed: tuple[str, ...] = ()
    removed_bytes: int = 0
    waiting: tuple[str, ...] = ()
    waiting_bytes: int = 0
    versions: tuple[int, ...] = ()
    failed: str = ""


class Marker:
    """Says that a job runs, so that nobody takes its files for those of a dead one."""

    def __init__(self, place: Place, job: str) -> None:
        self._place, self.job = place, job
        self.path = f"{_JOBS}/{job}"

    def check(self) -> None:
        """Before a commit: the job was not taken for dead.

        Raises:
            ArchiveError: it was, and its files may be gone.
        """
        if not any(each.path == self.path for each in self._place.list(_JOBS)):
            raise ArchiveError(
                f"the archive {self._place.root} took this job for dead and may have removed its files: run it again, "
                "with a longer grace time if this machine sleeps"
            )


@contextmanager
def running(place: Place) -> Iterator[Marker]:
    """Marks a new job as running, until it ends. Of a first job that failed no empty folders are left.

    Where a task was killed, and the job failed for it, a file may be there that nobody told of: then the mark stays, by
    which it is known for one of no version.
    """
    marker, done = Marker(place, secrets.token_hex(8)), threading.Event()
    ours = not place.there()

    def beat() -> None:
        while not done.wait(_BEAT_S):
            # The next time it may be done; of a mark that is gone the job hears before its commit.
            with suppress(StorageError):
                place.touch(marker.path)

    thread = threading.Thread(target=beat, name="diskstream-job", daemon=True)
    failed = True
    try:
        place.create(marker.path, b"", marker.job)
        thread.start()
        yield marker
        failed = False
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()
        with suppress(StorageError):  # what the job did stands; a mark that stays is of a dead job, and goes as such
            if not failed or not _has_files(place, marker.job):
                place.remove(marker.path)
        place.prune("" if ours else _JOBS)


def _has_files(place: Place, job: str) -> bool:
    parts = (_PART.fullmatch(each.path) for each in place.list())
    return any(part is not None and job in (part["done"], part["begun"]) for part in parts)


def check_grace(grace_s: float) -> None:
    """Looks at a grace time in seconds, before a job does anything.

    Raises:
        ArgumentError: it is shorter than it takes to find that a job is dead.
    """
    if not grace_s >= _LEAST_GRACE_S:  # nor is it NaN
        raise ArgumentError(f"the grace time is {_LEAST_GRACE_S:.0f} seconds at least, not {grace_s:g}")


def nobodys(place: Place, base: Manifest) -> list[tuple[str, EntryID]]:
    """Files of rows beyond what a version has archived, that no job has left which was killed before it could commit:
    such a one has its mark still. Each by its path and the first ID of it that is not archived.
    """
    found = place.list()
    marked = {_name(each.path) for each in found if _MARK.fullmatch(each.path)}
    ends, beyond = _ends(base), list[tuple[str, EntryID]]()
    for each in found:
        part = _PART.fullmatch(each.path)
        if part and _is_beyond(part, ends, marked):
            end = ends.get(_stream_of(each.path))
            first = parse_id(part["first"])
            beyond.append((each.path, first if end is None else max(first, end.next() or end)))
    return beyond


def _stream_of(path: str) -> str:
    """The folder of a stream; a disk that takes capital and small letters for the same has one for several of them."""
    return path.partition("/")[0].casefold()


def _ends(base: Manifest) -> dict[str, EntryID]:
    """Up to where the streams of each folder are archived."""
    ends: dict[str, EntryID] = {}
    for name, reach in base.streams.items():
        folder = _stream_of(folder_of(name, 0, hourly=False))
        ends[folder] = max(ends.get(folder, MIN_ID), reach.last)
    return ends


def _is_beyond(part: re.Match[str], ends: dict[str, EntryID], marked: Collection[str]) -> bool:
    """Whether a file may be of a version later than the one that says these ends: it has rows behind them, and the job
    that wrote it is done. Its rows may be nowhere else.
    """
    if not part["done"] or part["done"] in marked:
        return False
    end = ends.get(_stream_of(part[0]))
    return end is None or parse_id(part["last"]) > end


def collect(place: Place, grace_s: float, *, dry_run: bool = False) -> Garbage:
    """Removes what no reader and no job can need: of versions replaced longer ago than the grace time, of dead jobs.

    Where a later version seems to be lost nothing is removed, and `failed` says why.

    Args:
        place: the archive.
        grace_s: how long readers go on with a version that was replaced, in seconds; at least a minute.
        dry_run: only look.

    Raises:
        ArgumentError: the grace time is shorter than it takes to find that a job is dead.
        StorageError: a file cannot be listed or removed.
    """
    check_grace(grace_s)
    # Files first, then jobs, then manifests: what a job commits meanwhile was of a running job or is in the manifest.
    found = place.list()
    until = time.time() - grace_s
    marks = [each for each in found if _MARK.fullmatch(each.path)]
    dead = [each for each in marks if each.changed_s < until]
    alive = {_name(each.path) for each in marks} - {_name(each.path) for each in dead}
    old = _replaced(place, found, until)
    kept = _kept(place, old)
    # By its name, which no other file has: of two streams whose names differ in case alone a disk that takes these for
    # the same shows all files below the folder of one of them.
    needed = {_name(each.path) for made in kept for each in made.files}
    current = {_name(each.path) for each in kept[-1].files} if kept else set()
    marked = {_name(each.path) for each in marks}
    gone, waiting, beyond = list[Found](), list[Found](), list[Found]()
    ends = _ends(kept[-1]) if kept else {}
    for each in found:
        part = _PART.fullmatch(each.path)
        if _name(each.path) in current or not (part or _NEW_VERSION.fullmatch(each.path)):
            continue
        if part and (part["done"] or part["begun"]) in alive:
            continue
        waits = _name(each.path) in needed or each.changed_s > until
        (waiting if waits else gone).append(each)
        if part and not waits and kept and _is_beyond(part, ends, marked):
            beyond.append(each)
    if kept and (failed := _signs_of_loss(place, kept[-1], found, beyond)):
        return Garbage((), 0, _paths([*waiting, *gone]), _bytes([*waiting, *gone]), (), failed)
    if not dry_run:
        _remove(place, dead, gone, old)
    return Garbage(_paths(gone), _bytes(gone), _paths(waiting), _bytes(waiting), tuple(sorted(old)))


def _signs_of_loss(place: Place, base: Manifest, found: list[Found], beyond: list[Found]) -> str:
    """What says that a later version than the latest one there is was lost, as where an older manifest was restored in
    its place: then what no version names may be all that is left of some entries. Empty where nothing says so.
    """
    listed = {_name(each.path) for each in found}
    for each in base.files:
        # One that was committed since the files were listed is there.
        if _name(each.path) not in listed and not place.holds(each.path, each.size_bytes):
            return (
                f"{place.full(each.path)} is missing, though version {base.version} of the manifest names it: if that "
                f"was restored and a later one is lost, restore the newest of {FOLDER}, else the file"
            )
    if beyond:
        return (
            f"{place.full(beyond[0].path)} has rows beyond what version {base.version} of the manifest has archived: "
            f"restore the newest of {FOLDER} if it is lost; else the next run that archives these rows removes the file"
        )
    return ""


def collect_behind(place: Place, grace_s: float) -> Garbage:
    """`collect` behind a commit, which stands whatever becomes of the garbage: that waits for the next run."""
    try:
        return collect(place, grace_s)
    except (StorageError, ArchiveError) as error:
        return Garbage(failed=str(error))


def _kept(place: Place, old: set[int]) -> list[Manifest]:
    kept = []
    for version in versions(place):
        if version not in old:
            with suppress(FileNotFoundError):  # another collection, with a shorter grace time; never the latest
                kept.append(load(place, version))
    return kept


def _replaced(place: Place, found: list[Found], until: float) -> set[int]:
    """Versions whose successor is older than the grace time."""
    changed = {each.path: each.changed_s for each in found}
    numbers = versions(place)
    return {
        version
        for version, following in pairwise(numbers)
        if changed.get(f"{FOLDER}/{following:012d}.json", until) < until
    }


def _remove(place: Place, dead: list[Found], gone: list[Found], old: set[int]) -> None:
    # A job that only slept finds its mark missing and does not commit; a manifest never names what is gone.
    for each in dead:
        place.remove(each.path)
    for version in sorted(old):
        place.remove(f"{FOLDER}/{version:012d}.json")
    for each in gone:
        place.remove(each.path)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _paths(files: list[Found]) -> tuple[str, ...]:
    return tuple(each.path for each in files)


def _bytes(files: list[Found]) -> int:
    return sum(each.size_bytes for each in files)
