"""An earlier moment of a stream: by cutting its log where that is possible, else by copying what was there then."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from diskstream import Entry
from diskstream import store as stores
from diskstream.copying import GroupState, StreamState, fill, state_of
from diskstream.errors import CorruptionError, NoSuchStreamError
from diskstream.ids import MIN_ID, EntryID
from diskstream.store_files import Cut, Files, cut_log, find_cut
from diskstream.stream import Stream

__all__ = ["RECORDS", "Rewound", "capped", "copy_until", "rewind_files", "rewind_records"]

# Where a server's directory, and so a backup of it, has what is known of keys: docs/format/keys.md.
RECORDS: Final = "keys/streams/keys"

_AT_ONCE = 4096


@dataclass(frozen=True)
class Rewound:
    """What became of a stream that was to show an earlier moment.

    Attributes:
        way: ``whole`` where nothing is later; ``cut``: all is as it was just before the first later entry was added;
            ``copied``: the entries are exact, groups and counters as near as can be known; ``kept``: what is known of
            keys, alone, is as in the backup, since that moment is not there any more.
        rest: where a batch is of both times, the IDs between which its earlier entries lie.
        entries: these, as they were when the batch was added.
    """

    way: str
    rest: tuple[EntryID, EntryID] | None = None
    entries: tuple[Entry, ...] = field(default=(), repr=False)


def rewind_files(source: Path, target: Path, names: tuple[bytes, bytes], until: EntryID, files: Files) -> Rewound:
    """Makes the files of a stream show an earlier moment, where its active log goes back so far.

    Args:
        source, target: the directories of the stream in a backup, and in a store of copies of all its files.
        names: that of the stream in each.
        until: the last ID that was there.
        files: what to write with.

    Returns:
        With the way ``copied``, what is to be done: its files are of no use then, and gone.

    Raises:
        CorruptionError, StorageError: the log cannot be read; the disk said no.
        NoSuchStreamError: there is no stream of that name.
    """
    if _last_id(source.parent.parent, names[0]) <= until:
        return Rewound("whole")
    try:
        cut = find_cut(source, until)
        last = _cut(cut, target, names[1], files)
        if last <= until:
            return Rewound("cut")
        offset, entries, behind = cut.batch
        if entries > 1:  # its first entries are earlier, its last ones are not
            _cut(replace(cut, end=behind), target, names[1], files)  # before whatever was removed of it since
            with stores.open(target.parent.parent, read_only=True, create=False) as opened:
                earlier = list(opened.stream(names[1]).revrange(until, count=entries))
            last = _cut(replace(cut, end=offset), target, names[1], files)
            after = last.next()
            if last <= until and after is not None:
                return Rewound("cut", (after, until), tuple(each for each in earlier[::-1] if each.id >= after))
    except CorruptionError:
        pass  # segments of that moment are gone, compacted or trimmed; or the last ID was set back
    for path in target.iterdir():
        files.unlink(path)
    files.rmdir(target)
    return Rewound("copied")


def rewind_records(source: Path, target: Path, until: EntryID, files: Files) -> Rewound:
    """The same of what is known of keys, which is never copied: its entries are changes, and are written anew.

    Only a cut tells what was known then. Where none can be made, or nothing would be left, as of an ID that is no time,
    all is as in the backup. A frame is one change, so it was made or not, whatever the IDs within it.

    Raises:
        CorruptionError, StorageError: the log cannot be read; the disk said no.
    """
    store, name = source.parent.parent, source.name.encode()
    if _last_id(store, name) <= until:
        return Rewound("whole")
    try:
        cut = find_cut(source, until)
    except CorruptionError:
        return Rewound("kept")
    log = target / cut.path.name
    aside = log.with_name(f"{log.name}.tmp")
    files.rename(log, aside)
    try:
        last = _cut(cut, target, name, files)
        if last > until and cut.batch[1] > 1:
            last = _cut(replace(cut, end=cut.batch[0]), target, name, files)
    except CorruptionError:  # segments of that moment were dropped
        last = MIN_ID
    if MIN_ID < last <= until:
        files.unlink(aside)
        return Rewound("cut")
    files.unlink(log)
    files.rename(aside, log)
    return Rewound("kept")


def _cut(cut: Cut, target: Path, stream: bytes, files: Files) -> EntryID:
    """Puts the log, cut, in the place of the whole one. Returns the last ID of the stream then."""
    files.unlink(target / cut.path.name)
    cut_log(cut, target, files)
    return _last_id(target.parent.parent, stream)


def _last_id(store: Path, stream: bytes) -> EntryID:
    with stores.open(store, read_only=True, create=False) as opened:
        found = opened.stream(stream)
        if not found.exists():  # its last ID would be 0-0, and nothing later
            raise NoSuchStreamError(stream, f"{store} was to have it")
        return found.last_id()


def capped(state: StreamState, stream: Stream, until: EntryID) -> StreamState:
    """A stream's state as it was when `until` was its end, as far as that can be known later.

    Exact are the last ID, where it was not deleted, and where each group was, where it was not beyond. The entries
    added later are not counted, those that were deleted of them excepted. A group that was beyond has been given all.
    """
    if state.last_id <= until:
        return state
    newest = next(stream.revrange(until, count=1), None)
    last = MIN_ID if newest is None else newest.id
    if state.max_deleted_id <= until:
        deleted = state.max_deleted_id
        last = max(last, deleted)
    else:
        deleted = last  # which of them were deleted is not known: any may have been
    after = until.next()
    later = 0 if after is None else stream.count_from(after)
    added = max(state.entries_added - later, stream.count(end=until))  # not by its length, which damage beyond hides
    groups = [_capped_group(group, last, added) for group in state.groups]
    return replace(state, last_id=last, entries_added=added, max_deleted_id=deleted, groups=groups)


def _capped_group(group: GroupState, last: EntryID, added: int) -> GroupState:
    pending = [row for row in group.pending if row.id <= last]
    if group.last_delivered_id <= last:
        read = None if group.entries_read is None else min(group.entries_read, added)
        return replace(group, entries_read=read, pending=pending)
    return replace(group, last_delivered_id=last, entries_read=added, pending=pending)


def copy_until(source: Stream, target: Stream, until: EntryID | None, on_entries: Callable[[int], None]) -> None:
    """Copies a stream, up to an ID where one is given, under a name that is free; reads it back and compares.

    Raises:
        NoSuchStreamError: there is no source.
        CorruptionError: what was read back is something else.
        StorageError: the disk said no; the target may be there in part.
    """
    state = state_of(source)
    last = state.last_id
    if until is not None:
        state = capped(state, source, until)
        last = min(until, last)
    fill(target, state, source.range(MIN_ID, last))
    there = target.range()
    for number, entry in enumerate(source.range(MIN_ID, last)):
        copy = next(there, None)
        if copy is None or (copy.id, copy.pairs) != (entry.id, entry.pairs):
            found = "nothing" if copy is None else f"entry {copy.id}"
            raise CorruptionError(repr(target), "copy", number, f"entry {entry.id} with its fields", found)
        if number % _AT_ONCE == _AT_ONCE - 1:
            on_entries(_AT_ONCE)
    if (more := next(there, None)) is not None:
        raise CorruptionError(repr(target), "copy", 0, "nothing more", f"entry {more.id}")
