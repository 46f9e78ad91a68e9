"""Small stores to be read twice, by the slow reader and by diskstream, and the comparison of what both say."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import diskstream
from diskstream import Stream
from tests.slow_reader import SlowStore, SlowStream
from tests.slow_reader.groups import Groups

__all__ = ["Options", "fill", "groups_kept", "groups_said", "opened", "same"]

Options = dict[str, Any]
SMALL: Options = {"segment_bytes": 8192, "node_max_entries": 16, "node_max_bytes": 1024, "seal": "manual"}


def opened(path: Path, **options: Any) -> diskstream.Store:
    return diskstream.open(path, **(SMALL | options))


def fill(stream: Stream, entries: int, first: int = 1) -> None:
    """Entries of about 100 bytes in frames of one to seven, in three shapes, with IDs that have gaps."""
    number = first
    while number < first + entries:
        ids = [(at, at % 3) for at in range(number, min(number + 1 + number % 7, first + entries))]
        rows = [[(b"n%d" % (at % 3), b"%d" % at), (b"pad", b"." * 80)] for at, _ in ids]
        stream.add_many(rows, ids=ids)
        number += len(ids)


def _rows(rows: list[diskstream.PendingEntry]) -> list[Any]:
    """Pending entries without what passes with the time. A consumer's name may be empty; nobody is None."""
    return [
        ((row.id.ms, row.id.seq), None if row.idle_ms < 0 else row.consumer, row.delivered_ms, row.deliveries)
        for row in rows
    ]


def groups_said(stream: Stream) -> dict[bytes, Any]:
    """What diskstream says of the groups of a stream, of their consumers and of all that is pending."""
    said: dict[bytes, Any] = {}
    for info in stream.groups():
        group = stream.group(info.name, create=False)
        assert info == group.info()
        rows = _rows(group.pending_range(count=10**6))
        consumers = {it.name: (it.seen_ms, it.active_ms, it.pending) for it in group.consumers()}
        for name in consumers:
            its = _rows(group.pending_range(count=10**6, consumer=name))
            assert its == [row for row in rows if row[1] == name]
        last = info.last_delivered_id
        numbers = ((last.ms, last.seq), info.entries_read, info.pending, info.refused)
        said[info.name] = (numbers, consumers, rows)
    return said


def groups_kept(groups: Groups) -> dict[bytes, Any]:
    """The same as the slow reader has it from the log."""
    kept: dict[bytes, Any] = {}
    for group in groups.by_number.values():
        names = {0: None} | {number: consumer.name for number, consumer in group.consumers.items()}
        kept[group.name] = (
            (group.last, group.read, len(group.pending), group.count(0)),
            {it.name: (it.seen, it.active, group.count(number)) for number, it in group.consumers.items()},
            [
                (entry_id, names[row.consumer], row.time if row.consumer else 0, row.deliveries)
                for entry_id, row in sorted(group.pending.items())
            ],
        )
    return kept


def _rule_said(stream: Stream) -> dict[str, Any] | None:
    """What diskstream says of a stream's retention."""
    rule = stream.retention
    given = {} if rule is None else dataclasses.asdict(rule)
    return {name: value for name, value in given.items() if value not in (None, False)} or None


def same(path: Path) -> dict[bytes, SlowStream]:
    """Reads a store twice, and holds streams, live entries, counters and groups against each other."""
    slow = SlowStore(path)
    read = {name: slow.stream(name) for name in slow.streams()}
    with diskstream.open(path, read_only=True) as store:
        assert sorted(read) == store.streams()
        for name, stream in read.items():
            assert stream.torn is None
            native = store.stream(name)
            info = native.info()
            assert list(stream.entries()) == [((entry.id.ms, entry.id.seq), entry.pairs) for entry in native.range()]
            assert (len(stream), stream.state.entries_added) == (info.length, info.entries_added)
            assert stream.state.last_id == (info.last_generated_id.ms, info.last_generated_id.seq)
            assert stream.state.greatest_deleted == (info.max_deleted_entry_id.ms, info.max_deleted_entry_id.seq)
            assert len(stream.state.listed) + 1 == info.segments
            assert groups_kept(stream.state.groups) == groups_said(native)
            windows = stream.state.groups.windows
            said = (info.idmp_duration_s, info.idmp_max_size, info.messages_added)
            assert (windows.duration, windows.messages, windows.added) == said
            for writer, kept in stream.state.groups.commits.writers.items():
                assert native.committed(writer) == kept[:2]
            rule = stream.state.groups.settings.values.get(b"retention")
            assert (None if rule is None else json.loads(rule)) == _rule_said(native)
        assert store.verify().ok
    return read
