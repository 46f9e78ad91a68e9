"""Cold segments back for good. Each is read whole before its stub goes; the objects stay, until they are swept."""

from __future__ import annotations

from collections.abc import Callable

from diskstream.cold.transfer import MoveReport, Progress, described, fetching, ignore
from diskstream.cold_segments import STUB, opened
from diskstream.errors import CorruptionError, LostObjectError, RemoteError
from diskstream.ids import EntryID, IDLike, parse_id
from diskstream.objects import Place
from diskstream.pace import Pace, check_pace
from diskstream.stream import Stream

__all__ = ["bring_back"]


def bring_back(
    stream: Stream,
    *,
    start: IDLike | None = None,
    end: IDLike | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    bytes_per_s: float | None = None,
    on_lost: Callable[[CorruptionError | RemoteError], object] | None = None,
) -> MoveReport:
    """Brings cold segments back for good; their objects stay, until they are swept.

    Args:
        stream: the stream, of a store that may be written to; for a dry run of any.
        start, end: only segments that hold IDs from `start` to `end`, both included.
        dry_run: say what would come, and do nothing.
        progress: called with bytes just fetched.
        bytes_per_s: the most to fetch in a second.
        on_lost: told of each segment whose object is gone, or is not what was put there; the others are brought back.
            None: that is raised, and nothing of what follows is looked at.

    Raises:
        ArgumentError: a bound that is not above 0.
        NoSuchStreamError: there is no stream.
        ChangedError: somebody else is moving its segments.
        CorruptionError: an object is not what was put there, or a stub is damaged.
        RemoteError: a storage does not answer, or refuses.
        StorageError: the disk said no, as where there is no room.
    """
    low = EntryID(0, 0) if start is None else parse_id(start)
    high = EntryID(2**64 - 1, 2**64 - 1) if end is None else parse_id(end)
    report = MoveReport(stream.name, "", dry_run)
    check_pace("bytes_per_s", bytes_per_s)
    pace = Pace(bytes_per_s)
    places: dict[str, Place] = {}
    with opened(stream, dry_run=dry_run) as cold:
        for segment in cold.segments():
            stub = segment.stub
            if segment.where != STUB or stub is None or segment.last < low or segment.first > high:
                continue
            if not dry_run:
                if stub.url not in places:
                    places[stub.url] = Place(stub.url)
                fetch = fetching(places[stub.url], pace, progress or ignore)
                try:
                    if not cold.bring_back(segment, fetch):
                        continue
                except (CorruptionError, LostObjectError) as error:
                    if on_lost is None:
                        raise
                    on_lost(error)
                    continue
            report.segments.append(described(segment, stub.path))
    return report
