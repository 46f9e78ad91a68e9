"""A store with a file of every kind, and what stands beside one: backups, an export, checkpoints, a server's keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import diskstream
from diskstream import Commit, Store
from diskstream.archiving.marks import Mark, save
from diskstream.backups import make_backup
from diskstream.checkpoints import Checkpoints
from diskstream.cold import move_out
from diskstream.commands.keyspace import Keyspace
from diskstream.exporting import ExportRequest, export_directory
from diskstream.ids import EntryID
from tests.commands.world import Ours
from tests.engine.sample import SMALL, Sample, log_of

__all__ = [
    "LATER_MS",
    "LONG",
    "OPTIONS",
    "archive_into",
    "back_up",
    "counting_clock",
    "export_from",
    "fill_large",
    "fill_store",
    "serve_from",
]

LONG = b"long/" + b"\xff" * 300
OPTIONS: dict[str, Any] = {**SMALL, "retention_interval_ms": 0}
LATER_MS = 1_800_000_000_000  # a day in 2027: what is "now" for the clock below, and never reached by what expires


def counting_clock() -> Callable[[], int]:
    """A clock that goes on by a millisecond with each look: the same world each time."""
    now = LATER_MS

    def tell() -> int:
        nonlocal now
        now += 1
        return now

    return tell


class Busy(Sample):
    """A sample whose groups are at work meanwhile."""

    def work(self, count: int) -> None:
        """Two groups are given entries; some are acknowledged, taken over and given back."""
        ours = self.stream.group("riders", start="0")
        given = ours.consumer("ann").read(count=count)
        ours.ack(*(each.id for each in given[::2]))
        taken = self.stream.group("late", start="0")
        got = taken.consumer(b"b\xf6b").read(count=count // 2 + 1)
        if len(got) > 2:
            taken.consumer("cy").claim(0, got[1].id)
            taken.nack(got[2].id)

    def fill_at_work(self) -> None:
        """As `Sample.fill`, with groups whose work is in every log, and so in the audit files."""
        for _ in range(2):
            self.add(7)
            self.work(4)
            self.delete(-2)
            self.stream.seal()
        self.stream.compact()
        self.add(9)
        self.work(5)
        self.stream.seal()
        self.add(6)
        self.delete(-1, 3)
        self.roll()
        self.add(5)
        self.work(6)
        self.delete(-3)
        self.trim(2)


def fill_store(path: Path, place: str) -> Store:
    """A store, open: a stream in segments of every kind with groups, one in cold storage, one with a spare state, one
    with a long name, one with a rule, and one without entries. A lease of one of them stands beside.
    """
    store = diskstream.open(path, clock=counting_clock(), **OPTIONS)
    Busy(store, "x").fill_at_work()
    cold = store.stream("cold")
    for number in range(1, 61):
        cold.add({"n": str(number), "pad": f"{number:03d}" * 80}, f"{number}-0")
    cold.group("readers", start="0").consumer("dee").read(count=4)
    cold.seal()
    move_out(cold, place, keep_entries=25)
    spare = store.stream("spare")
    for part in range(2):
        spare.add_many(
            [{"n": str(part), "at": str(at)} for at in range(9)], ids=[f"{part + 1}-{at}" for at in range(1, 10)]
        )
        spare.seal()
    spare.compact()
    spare.add({"n": "last"}, "9-1")
    store.stream(LONG).add({"n": "1"}, "5-0")
    ruled = store.stream("ruled")
    ruled.add({"n": "first"}, "1-1")
    ruled.set_retention(max_entries=1000, ref="ACKED")
    ruled.configure_idempotence(duration_s=86400, max_size=10)
    for number in range(4):
        ruled.add({"n": str(number)}, producer="p", message_id=f"m{number}")
    ruled.note_commit(Commit(b"spark:w", 3, 1))
    store.stream("empty").create_group("waiting", "$", mkstream=True)
    return store


def serve_from(path: Path) -> None:
    """What a server keeps below a store: times of expiry, keys of other types, and a second database."""
    with Keyspace(path, **{**OPTIONS, "clock": None}) as keyspace:
        first, second = Ours(keyspace), Ours(keyspace)
        for line in ("SET word held", "SADD colours red green", "XADD timed 1-1 n 1", "XADD plain 1-1 n 1"):
            first.run(line)
        first.run(f"PEXPIREAT timed {2 * LATER_MS}")
        first.run(f"PEXPIREAT word {2 * LATER_MS}")
        second.run("SELECT 1")
        second.run("XADD other 7-7 n 7")
        second.run("DEL gone")


def archive_into(store: Store) -> None:
    """A checkpoint for the stream `spare`, as `diskstream archive` writes one."""
    stream = store.stream("spare")
    mark = Mark(b"spare", "redis://source:6379", 0, ("f" * 40, "0" * 40), drained_to=EntryID("9-1"), drained_added=19)
    save(Checkpoints(store), mark.with_verified(EntryID("9-1"), stream.digest()))


def back_up(store: Path, target: Path) -> None:
    """Two backups, the second of which shares files with the first."""
    make_backup(store, target)
    make_backup(store, target)


def export_from(store: Path, target: Path) -> None:
    """A whole export in parts."""
    with diskstream.open(store, read_only=True, create=False) as opened:
        export_directory(opened, ExportRequest([b"x", b"spare"], "jsonl"), target, rows_per_file=9)


def fill_large(path: Path) -> None:
    """Some thousands of entries in nodes of the usual size, with a group that has had half of them."""
    with diskstream.open(path, fsync="os", seal="manual", segment_bytes=256 << 10, clock=counting_clock()) as store:
        stream = store.stream("x")
        for start in range(1, 4001, 500):
            numbers = range(start, start + 500)
            rows = [{"n": str(number), "speed": f"{number * 7919 % 9973}", "pad": "." * 40} for number in numbers]
            stream.add_many(rows, ids=[f"{number}-1" for number in numbers])
            stream.group("g", start="0").consumer("ann").read(count=250)
        stream.seal()
        stream.add({"n": "last"}, "9000-1")
        assert log_of(store).native.group_count[0] == 1
