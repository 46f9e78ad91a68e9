"""Reading a store the way a user does, as far as the model knows it."""

from diskstream import Store
from diskstream.ids import EntryID
from tests.crash.model import ID, State

__all__ = ["Violation", "as_id", "look", "look_at_all"]


class Violation(Exception):  # noqa: N818  # the word for what the simulator looks for
    """A promise was broken."""


def as_id(entry_id: EntryID) -> ID:
    """An ID as a pair."""
    return entry_id.ms, entry_id.seq


def look(store: Store, name: bytes) -> State:
    """All of a stream."""
    stream = store.stream(name)
    entries = tuple((as_id(entry.id), tuple(entry.pairs)) for entry in stream.range())
    info = stream.info()
    if info.length != len(entries):
        raise Violation(f"{name!r}: the length is {info.length}, and {len(entries)} entries are there")
    last, deleted = as_id(info.last_generated_id), as_id(info.max_deleted_entry_id)
    return State(entries, last, info.entries_added, deleted)


def look_at_all(store: Store) -> dict[bytes, State]:
    """All streams."""
    return {name: look(store, name) for name in store.streams()}
