"""What is read out of a place with a store and what stands beside it, as plain values of JSON."""

import hashlib
from pathlib import Path
from typing import Any

import diskstream
from diskstream import Store
from diskstream.archiving.marks import load
from diskstream.backups import Seen, check_backup
from diskstream.backups.repository import Repository
from diskstream.checkpoints import Checkpoints
from diskstream.cold.listing import catalogued
from diskstream.commands.keyspace import Keyspace
from diskstream.copying import state_of
from diskstream.exporting import ExportRequest, export_directory
from tests.commands.world import Ours
from tests.rot.world import OPTIONS

__all__ = ["ASKED", "PLACE", "described", "plain", "streams_of"]

# Whoever reads stands in the directory: so the URL in a stub holds wherever that is.
PLACE = "file:///proc/self/cwd/place"
ASKED = (
    *("GET word", "PEXPIRETIME word", "SMEMBERS colours", "TYPE colours", "XRANGE timed - +", "PEXPIRETIME timed"),
    *("XRANGE plain - +", "PEXPIRETIME plain", "EXISTS gone", "SELECT 1", "XRANGE other - +", "DBSIZE"),
)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: bytes as Latin-1, IDs as text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def streams_of(store: Store) -> dict[str, Any]:
    """All of each stream: entries, groups and counters, audit, rule, commits, messages."""
    found = {}
    for stream in store:
        found[plain(stream.name)] = {
            "entries": [[str(entry.id), plain(entry.pairs)] for entry in stream.range()],
            "state": plain(state_of(stream)),
            "audit": [plain(record) for record in stream.audit()],
            "rule": plain(stream.retention),
            "commit": plain(stream.committed(b"spark:w")),
            "pending": {plain(group.name): plain(stream.group(group.name).pending()) for group in stream.groups()},
        }
    return found


def described(root: Path, *, read_only: bool = True) -> dict[str, Any]:
    """Everything below `root`, where whoever calls stands."""
    with diskstream.open(root / "store", read_only=read_only, create=False, **OPTIONS) as store:
        report = store.verify(cold=True)
        assert report.ok, report.problems
        streams = streams_of(store)
        mark = load(Checkpoints(store), b"spare")
        listed = [plain(line) for line in catalogued(store, store, PLACE, whole=True)]
        request = ExportRequest([b"x", b"spare"], "jsonl")
        exported = export_directory(store, request, root / "export", rows_per_file=9)
    with Keyspace(root / "store", read_only=read_only, **OPTIONS) as keyspace:
        replies = [plain(Ours(keyspace).run(line)) for line in ASKED[:9]]
        second = Ours(keyspace)
        replies += [plain(second.run(line)) for line in ASKED[9:]]
    backups = Repository.open(root / "backups").backups(whole=True)
    return {
        "streams": streams,
        "checkpoint": plain(mark),
        "catalogue": listed,
        "export": [exported.entries, exported.files, exported.complete_before],
        "parts": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (root / "export").glob("part-*")
        },
        "keys": replies,
        "backups": [plain(backup.header) for backup in backups],
        "findings": [plain(finding) for backup in backups for finding in check_backup(backup, Seen())],
    }
