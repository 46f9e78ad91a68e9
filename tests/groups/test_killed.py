"""kill -9 among producers and consumers of one group: each entry is delivered, and twice only where it was claimed.

`DISKSTREAM_KILL_ROUNDS` says how many rounds there are of each policy (200): in each one worker is killed, or all are.
"""

import os
from collections import Counter
from typing import Any

import pytest

import diskstream
from diskstream import AuditRecord, EntryID, Group
from tests.engine.children import child
from tests.engine.sample import fast_directory
from tests.groups.slaughter import Note, notes, slaughter

ROUNDS = int(os.environ.get("DISKSTREAM_KILL_ROUNDS", "200"))
OPTIONS: dict[str, Any] = {"segment_bytes": 16 << 10, "node_max_entries": 16, "pending_rows": 2, "seal": "background"}


def drained(group: Group) -> list[Note]:
    """What is left is claimed and read, by one that is not killed."""
    last = group.consumer("last")
    left = []
    while claimed := last.autoclaim(0, count=1000).entries:
        left += [Note("last", 0, 0, "claimed", entry.id) for entry in claimed]
        assert group.ack(*(entry.id for entry in claimed)) == len(claimed)
    while new := last.read(count=1000):
        left += [Note("last", 0, 0, "new", entry.id) for entry in new]
        assert group.ack(*(entry.id for entry in new)) == len(new)
    return left


def ids(said: list[Note], *words: str) -> list[EntryID]:
    return [note.entry_id for note in said if note.word in words]


def check(said: list[Note], there: list[EntryID]) -> None:
    assert set(ids(said, "added")) <= set(there), "what was added is there"
    unknown = set(ids(said, "new", "claimed", "ripe", "again")) - set(there)
    assert not unknown, f"given out, and not there: {unknown}"
    never = set(there) - set(ids(said, "new", "claimed", "ripe", "again"))
    assert not never, f"never given out: {sorted(never)}"
    # To a second consumer an entry comes only by a claim; nobody else was ever given it as new.
    twice = [entry_id for entry_id, count in Counter(ids(said, "new")).items() if count > 1]
    assert not twice, f"new twice: {[note for note in said if note.entry_id in twice]}"
    again = [entry_id for entry_id, count in Counter(ids(said, "acked")).items() if count > 1]
    assert not again, f"acknowledged twice: {[note for note in said if note.entry_id in again]}"
    # And what was acknowledged is over: no call that began later was given it.
    ended = {note.entry_id: note.ended_ns for note in said if note.word == "acked"}
    for note in said:
        if note.word in ("new", "claimed", "ripe", "again"):
            done = ended.get(note.entry_id)
            assert done is None or note.began_ns < done, f"given out again: {note}, acknowledged at {done}"
        assert not (note.worker == "last" and note.entry_id in ended), f"it was over: {note}"


def check_with_the_log(said: list[Note], audit: list[AuditRecord]) -> None:
    """The log tells who took each entry, and from whom: nobody had one in hand that was not his by then."""
    takers: set[tuple[EntryID | None, bytes | None]] = set()
    owners: dict[EntryID, bytes | None] = {}  # b"" where it was given back
    fresh: set[EntryID] = set()
    for it in audit:
        if it.id is None or it.action not in ("deliver", "claim", "redeliver", "refuse", "ack"):
            continue
        if it.action == "deliver":
            assert it.id not in fresh, f"new twice: {it}"
            fresh.add(it.id)
            owners[it.id] = it.consumer
        elif it.action == "ack":
            assert it.id in owners, f"acknowledged, and nobody had it: {it}"
            del owners[it.id]
        else:
            assert it.owner_before == owners[it.id], f"somebody else had it: {it}, {owners[it.id]!r}"
            if it.action == "redeliver":
                assert it.consumer == it.owner_before, f"given again to who did not have it: {it}"
            owners[it.id] = b"" if it.action == "refuse" else it.consumer
        takers.add((it.id, it.consumer))
    for note in said:
        if note.word in ("new", "claimed", "ripe", "again"):
            assert (note.entry_id, note.worker.encode()) in takers, f"nobody gave it out: {note}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fsync", ["always", "everysec", "os"])
def test_each_entry_is_delivered_and_twice_only_if_claimed(fsync: str) -> None:
    with fast_directory() as directory:
        journals = directory / "journals"
        journals.mkdir()
        options = {**OPTIONS, "fsync": fsync}
        with diskstream.open(directory / "s", **options) as store:
            store.stream("x").create_group("g", "0", mkstream=True)
        with child(slaughter, directory / "s", journals, ROUNDS, fsync, options) as killer:
            said_last = killer.hear(10 + ROUNDS * 5)
            assert said_last == "done", said_last
            assert killer.wait() == 0
        with diskstream.open(directory / "s", **options) as store:
            group = store.stream("x").group("g", create=False)
            pending = group.pending()
            owners = Counter(row.consumer for row in group.pending_range(count=1 << 40))
            assert owners.total() == pending.total
            assert {name: count for name, count in owners.items() if name} == pending.consumers
            said = [*notes(journals), *drained(group)]
            check(said, [entry.id for entry in store.stream("x").range()])
            check_with_the_log(said, list(store.stream("x").audit()))
            assert (group.info().pending, group.info().lag) == (0, 0)
            assert store.verify().ok
            words = Counter(note.word for note in said)
        assert all(words[word] for word in ("added", "new", "claimed", "ripe", "again", "acked")), words
