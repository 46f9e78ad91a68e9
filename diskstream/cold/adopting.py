"""Stubs that were lost made anew, from the catalogue: each object is read whole before it is believed."""

from __future__ import annotations

from dataclasses import dataclass, field

from diskstream.cold import catalogue
from diskstream.cold.transfer import Moved, Progress, described, fetching, ignore
from diskstream.cold_segments import MISSING, ColdStream, Kept, Stub, opened
from diskstream.errors import CorruptionError, RemoteError
from diskstream.objects import Place
from diskstream.pace import Pace
from diskstream.store_files import store_uuid
from diskstream.stream import Stream

__all__ = ["AdoptReport", "adopt"]

_UNKNOWN_MS = (0, 0)


@dataclass
class AdoptReport:
    """What an adoption found.

    Attributes:
        stream: the stream's name.
        place: the URL of the place.
        dry_run: whether nothing was done.
        adopted: segments that have a stub now, or would have.
        missing: segments that have neither a file nor a stub still.
        refused: objects that the catalogue names for these, and why they were not taken.
    """

    stream: bytes
    place: str
    dry_run: bool
    adopted: list[Moved] = field(default_factory=list)
    missing: list[Moved] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def adopt(
    stream: Stream,
    place: Place | str,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    on_total: Progress | None = None,
) -> AdoptReport:
    """Gives stubs to listed segments that have neither a file nor a stub, where the catalogue knows an object.

    Args:
        stream: the stream, of a store that may be written to; for a dry run of any.
        place: where the catalogue is, or its URL.
        dry_run: read and check the objects, but change nothing.
        progress: called with bytes just read.
        on_total: called once with the bytes that are to be read, as the catalogue has them.

    Raises:
        ArgumentError: a place that cannot be.
        NoSuchStreamError: there is no stream.
        ChangedError: somebody else is moving its segments.
        RemoteError: the catalogue cannot be listed, or a disk is not mounted.
    """
    there = Place(place) if isinstance(place, str) else place
    there.check_folder(store_uuid(stream._store.path))
    report = AdoptReport(stream.name, there.url, dry_run)
    with opened(stream, dry_run=dry_run) as cold:
        missing = [each for each in cold.segments() if each.where == MISSING]
        which = {(each.number, each.generation) for each in missing}
        known = catalogue.records(there, store_uuid(stream._store.path), cold.uuid, which) if missing else []
        if on_total is not None:
            on_total(sum(each.stub.size_bytes for each in known))
        for segment in missing:
            wanted = segment.number, segment.generation
            stubs = [each.stub for each in known if (each.stub.number, each.stub.generation) == wanted]
            sound = (each for each in stubs if _is_sound(cold, each, segment, report, place=there, progress=progress))
            found = next(sound, None)
            if found is not None and not dry_run:
                there.remove(catalogue.released_path(found.path))  # of when it was not needed: the time begins anew
            if found is None or not (dry_run or cold.adopt(found)):
                report.missing.append(described(segment))
            else:
                report.adopted.append(described(segment, found.path))
    return report


def _is_sound(
    cold: ColdStream, stub: Stub, segment: Kept, report: AdoptReport, *, place: Place, progress: Progress | None
) -> bool:
    try:
        times_ms = cold.check(stub, segment, fetching(place, Pace(None), progress or ignore))
    except (CorruptionError, RemoteError) as error:
        report.refused.append(f"{stub.path}: {error}")
        return False
    # Copies of a store share its place and go on by themselves: one of them may have put other entries with these IDs.
    if segment.times_ms in (_UNKNOWN_MS, times_ms):
        return True
    found, listed = ("from {} to {}".format(*each) for each in (times_ms, segment.times_ms))
    what = f"{found} ms since 1970, where the log has {listed}: it is of another copy of this store"
    report.refused.append(f"{stub.path}: its entries were added {what}")
    return False
