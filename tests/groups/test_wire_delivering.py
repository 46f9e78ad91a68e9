"""Runs of XREADGROUP and XACK over sealed segments, holes and a group that is set back: as one read after the other."""

import random
from pathlib import Path

import pytest

import diskstream
from diskstream import Store
from diskstream.commands.wire import CommandRun, RequestParser, encode
from tests.engine.sample import SMALL
from tests.server.client import packed

ENTRIES = 120


def run_of(*commands: tuple[str, ...]) -> CommandRun:
    [run] = RequestParser(runs=True).feed(b"".join(packed(*words) for words in commands))
    assert isinstance(run, CommandRun)
    return run


def reads(consumer: str, counts: list[int]) -> CommandRun:
    return run_of(*[("XREADGROUP", "GROUP", "g", consumer, "COUNT", str(n), "STREAMS", "s", ">") for n in counts])


def filled(path: Path, chance: random.Random) -> Store:
    """Sealed segments, one that is not, and holes in both."""
    store = diskstream.open(path, **{**SMALL, "pending_rows": 16})
    stream = store.stream("s")
    for first in range(1, ENTRIES, 30):
        for n in range(first, first + 30):
            stream.add({"n": "x" * chance.randrange(1, 40)}, f"{n}-1")
        if first < 60:
            stream.seal()
    stream.delete(*[f"{chance.randrange(1, ENTRIES + 1)}-1" for _ in range(20)])
    stream.group("g", start="0")
    return store


def together(store: Store, given: list[tuple[str, list[int]]]) -> list[bytes]:
    """The replies to each reader's reads, in as many calls as it takes."""
    group = store.stream("s").group("g", create=False)
    runs = [reads(consumer, counts) for consumer, counts in given]
    replies, more = [b""] * len(runs), True
    while more:
        answers = group.read_runs([(run, False) for run in runs])
        assert answers is not None
        done, more = answers
        replies = [before + reply for before, (_, reply) in zip(replies, done, strict=True)]
        runs = [run.rest(count) for run, (count, _) in zip(runs, done, strict=True)]
        assert not more or any(count for count, _ in done)
    return replies


def apart(store: Store, given: list[tuple[str, list[int]]]) -> list[bytes]:
    group = store.stream("s").group("g", create=False)
    replies = []
    for consumer, counts in given:
        found = [group.consumer(consumer).read(count=count) for count in counts]
        replies.append(encode([[[b"s", [*entries]]] for entries in found if entries], resp3=False))
    return replies


@pytest.mark.parametrize("seed", range(6))
def test_what_is_given_and_what_is_left_is_the_same(tmp_path: Path, seed: int) -> None:
    stores = [filled(tmp_path / name, random.Random(seed)) for name in ("together", "apart")]
    chance = random.Random(seed)
    for _ in range(8):
        given = [(consumer, [chance.randrange(1, 9) for _ in range(4)]) for consumer in chance.choices("abc", k=2)]
        assert together(stores[0], given) == apart(stores[1], given)
        ids = [[f"{chance.randrange(1, ENTRIES)}-1" for _ in range(3)] for _ in range(4)]
        groups = [store.stream("s").group("g", create=False) for store in stores]
        acknowledged = groups[0].ack_runs([run_of(*[("XACK", "s", "g", *some) for some in ids])])
        assert acknowledged == [encode([groups[1].ack(*some) for some in ids], resp3=False)]
        if chance.random() < 0.4:
            back = f"{chance.randrange(ENTRIES)}-0"
            for group in groups:
                group.set_id(back)
        pending = [
            [(row.id, row.consumer, row.deliveries) for row in group.pending_range(count=1000)] for group in groups
        ]
        assert pending[0] == pending[1]
        assert groups[0].info() == groups[1].info()
    for store in stores:
        assert store.verify().ok
        store.close()
