"""Setting the last ID of a stream, as XSETID does."""

from diskstream._native import EntryID
from diskstream.engine import reader, seal
from diskstream.engine.log import StreamLog
from diskstream.errors import ArgumentError
from diskstream.ids import MIN_ID

__all__ = ["Counters", "set_last_id"]

# Length, last ID, entries added, greatest deleted ID.
Counters = tuple[int, EntryID, int, EntryID]


def set_last_id(
    log: StreamLog, last: EntryID, entries_added: int | None, greatest: EntryID
) -> tuple[Counters, Counters]:
    """Sets the last ID and, where given, the entries added and the greatest deleted ID (0-0 leaves that as it is).

    Returns:
        What was right before and is right behind it, with nothing in between.

    Raises:
        ArgumentError: the numbers contradict what the stream holds, in the words of Redis.
    """
    while (done := _try(log, last, entries_added, greatest)) is None:
        # Entries that are gone have greater IDs than `last`, and IDs rise within files: their bytes go first.
        seal.compact(log)
    if log.options.is_always:
        log.flush()
    return done


def _try(
    log: StreamLog, last: EntryID, entries_added: int | None, greatest: EntryID
) -> tuple[Counters, Counters] | None:
    with log.locked():
        log.prepare()
        log.retry(log.native.flush, held=True)  # under `always` what others wait for is not visible yet
        length, _, _, deleted = log.native.counters()
        if last < deleted:
            raise ArgumentError("The ID specified in XSETID is smaller than current max_deleted_entry_id")
        top = reader.last_entry(log) if length else None
        if top is not None and last < top.id:
            raise ArgumentError("The ID specified in XSETID is smaller than the target stream top item")
        if entries_added is not None and entries_added < length:
            raise ArgumentError("The entries_added specified in XSETID is smaller than the target stream length")
        if last < log.greatest_stored_id():
            log.roll_held()
            if last < log.greatest_stored_id():
                return None
        return _set(log, last, entries_added, greatest)


def _set(log: StreamLog, last: EntryID, entries_added: int | None, greatest: EntryID) -> tuple[Counters, Counters]:
    before = log.native.counters()
    length, _, added, deleted = before
    total = added if entries_added is None else entries_added
    deleted = deleted if greatest == MIN_ID else greatest
    log.retry(lambda: log.native.set_id(last, total, deleted), held=True)
    return before, (length, last, total, deleted)
