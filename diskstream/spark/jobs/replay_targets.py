"""Whether a replay that keeps its IDs can be carried out: looked at before any of it is added.

Each round would find out for itself, when those before it are in.
"""

from collections.abc import Iterable, Sequence

import diskstream
from diskstream.errors import ArgumentError
from diskstream.ids import EntryID
from diskstream.spark.commit import Manifest
from diskstream.spark.jobs.manifest import ArchivedFile
from diskstream.spark.jobs.replay_settings import Work
from diskstream.spark.names import as_bytes
from diskstream.store import Store

__all__ = ["check_targets"]


def check_targets(store: Store, writer: str, works: Iterable[tuple[Work, Sequence[ArchivedFile]]], path: str) -> None:
    """Looks whether the target's streams have come no further than what is to follow them.

    Args:
        store: the target; streams that this replay has added to are not looked at.
        writer: the replay's name among writers.
        works: its plan, and of an archive the files of each part.
        path: of the target, as the user named it.

    Raises:
        ArgumentError: one has.
        NotAStoreError, CorruptionError: the source cannot be read.
    """
    record = Manifest(writer, 0, given=True, files=()).record
    reached: dict[str, EntryID] = {}
    for work, files in works:
        for at, (target, source, low, high) in enumerate(work.parts):
            if target not in reached:
                stream = store.stream(as_bytes(target))
                added = stream.committed(record) is not None
                reached[target] = EntryID(0, 0) if added else stream.last_id()
            last = reached[target]
            if EntryID(low) > last:
                continue
            if work.archive:
                first = files[at].first if files[at].first >= EntryID(low) else None  # else the round finds out
            else:
                first = _first(work.path, source, EntryID(low), min(last, EntryID(high)))
            if first is not None and first <= last:
                raise ArgumentError(
                    f"stream {target} of {path} ends at {last}, and the replay begins at {first}: entries that keep "
                    "their IDs must be above the last. Nothing was added; begin behind it (the option start), replay "
                    "to another stream (to), or with new IDs (ids)"
                )


def _first(path: str, stream: str, low: EntryID, high: EntryID) -> EntryID | None:
    with diskstream.open(path, read_only=True) as source:
        found = next(iter(source.stream(as_bytes(stream)).range(low, high, count=1)), None)
    return None if found is None else found.id
