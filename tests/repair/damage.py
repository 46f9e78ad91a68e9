"""Small stores with a past, ways to damage their files, and what must hold after a repair."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import diskstream
from diskstream import Entry, EntryID, Loss
from diskstream.options import Options

__all__ = ["NAME", "Past", "build", "check", "damage", "directory", "is_covered", "options"]

NAME = b"s"
Pairs = list[tuple[bytes, bytes]]


@dataclass
class Past:
    """What was done to a stream.

    Attributes:
        ever: every entry that was ever added.
        live: those that were there at the end.
        acked: by group, what was acknowledged.
    """

    ever: dict[EntryID, Pairs] = field(default_factory=dict)
    live: set[EntryID] = field(default_factory=set)
    acked: dict[str, set[EntryID]] = field(default_factory=dict)


def options(seed: int = 0) -> Options:
    """Small segments and nodes, so that little data has many of both; now and then one long log."""
    large = random.Random(seed).random() < 0.3
    return Options(fsync="os", seal="manual", segment_bytes=1 << 20 if large else 16 << 10, node_max_entries=40)


def opened(path: Path, seed: int = 0, *, create: bool = True) -> diskstream.Store:
    chosen = options(seed)
    return diskstream.open(
        path,
        create=create,
        fsync="os",
        seal="manual",
        segment_bytes=chosen.segment_bytes,
        node_max_entries=chosen.node_max_entries,
    )


def directory(path: Path) -> Path:
    """The stream's directory."""
    return path / "streams" / "s"


def build(path: Path, seed: int, steps: int = 80) -> Past:
    """Makes a store with entries, deletes, trims, groups, and sealed, compacted and rolled segments."""
    rng = random.Random(seed)
    past = Past()
    with opened(path, seed) as store:
        stream = store.stream(NAME)
        ids: list[EntryID] = []
        for step in range(rng.randrange(steps // 4, steps)):
            chance = rng.random() if step else 0.0
            if chance < 0.6:
                rows = [{"n": str(len(ids) + at), "v": "x" * rng.randrange(60)} for at in range(rng.randrange(1, 30))]
                added = stream.add_many(rows)
                past.ever |= {
                    entry_id: [(name.encode(), value.encode()) for name, value in row.items()]
                    for entry_id, row in zip(added, rows, strict=True)
                }
                ids += added
            elif chance < 0.66:
                stream.delete(*rng.sample(ids, min(len(ids), rng.randrange(1, 8))))
            elif chance < 0.7:
                stream.trim(maxlen=int(len(stream) * 0.8))
            elif chance < 0.9:
                _use_group(stream, rng, past)
            elif chance < 0.95:
                store.seal(NAME)
            else:
                store.compact(NAME)
        past.live = {entry.id for entry in stream.range()}
    return past


def _use_group(stream: diskstream.Stream, rng: random.Random, past: Past) -> None:
    name = f"g{rng.randrange(3)}"
    group = stream.group(name, start="0")
    given = group.consumer(f"c{rng.randrange(3)}").read(count=rng.randrange(1, 40))
    done = [each.id for each in given[: rng.randrange(len(given) + 1)]]
    if done:
        group.ack(*done)
    past.acked.setdefault(name, set()).update(done)
    if rng.random() < 0.2:
        group.consumer(f"c{rng.randrange(3)}").autoclaim(0, count=5)


def damage(folder: Path, rng: random.Random) -> str:
    """Does something to one of the files of a stream. Returns what."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != "ctl"]
    if not files:
        return "nothing is left to damage"
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(bytes(data).rstrip(b"\0")) or 1)
    kind = rng.choice(["flip", "flip", "flip", "zero", "noise", "cut", "remove", "copy"])
    size = rng.choice([1, 8, 64, 512, 4096, len(data)])
    if kind == "remove":
        path.unlink()
        return f"{path.name} removed"
    if kind == "copy":
        source = rng.choice(files)
        path.write_bytes(source.read_bytes())
        return f"{source.name} copied over {path.name}"
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[at:]
    else:
        part = data[at : at + size]
        data[at : at + size] = bytes(len(part)) if kind == "zero" else rng.randbytes(len(part))
    path.write_bytes(bytes(data))
    return f"{path.name}: {kind} at {at}"


def is_covered(entry_id: EntryID, losses: Iterable[Loss]) -> bool:
    """Whether an ID lies in a range that was reported."""
    return any(
        loss.first and EntryID(loss.first) <= entry_id and (not loss.last or entry_id <= EntryID(loss.last))
        for loss in losses
    )


def check(path: Path, past: Past, losses: list[Loss], words: str, seed: int = 0) -> None:
    """The store opens, sound; what is read is what was written; what is not there was reported.

    And delivery is at least once: what a group had not acknowledged is pending, or still to be delivered. `words` is
    all that the repair said.
    """
    with opened(path, seed, create=False) as store:
        report = store.verify()
        assert report.ok, report.problems
        stream = store.stream(NAME)
        found: list[Entry] = list(stream.range())
        assert [entry.id for entry in found] == sorted({entry.id for entry in found})
        assert all(entry.pairs == past.ever.get(entry.id) for entry in found)
        there = {entry.id for entry in found}
        assert len(stream) == len(there)
        missing = [entry_id for entry_id in past.live - there if not is_covered(entry_id, losses)]
        assert not missing, f"{sorted(missing)[:3]} are gone in silence"
        groups = {group.name.decode() for group in stream.groups()}
        for name, acked in past.acked.items():
            if name not in groups:
                assert "group" in words, f"group {name} is gone in silence"
                continue
            group = stream.group(name, create=False)
            last = EntryID(group.info().last_delivered_id)
            pending = {row.id for row in group.pending_range(count=1 << 20)}
            lost = [each for each in there & past.live - acked - pending if each <= last]
            assert not lost, f"{sorted(lost)[:3]} are lost to group {name}"
            assert group.info().pending == len(pending)
        assert stream.add({"after": "the repair"}) not in past.ever
        store.seal()
        assert store.verify().ok
