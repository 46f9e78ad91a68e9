"""Trims with ACKED, one after another: each removes what a look at all entries would, and looks at few of them."""

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Store, Stream
from diskstream.engine import reader
from diskstream.errors import ArgumentError, DiskstreamError
from diskstream.ids import IDLike

MAX = EntryID(2**64 - 1, 2**64 - 1)


def needed(stream: Stream) -> set[EntryID]:
    """What some group was not given yet, or has pending, as the public calls tell it."""
    live = [entry.id for entry in stream.range()]
    found: set[EntryID] = set()
    for info in stream.groups():
        group = stream.group(info.name, create=False)
        found |= {entry_id for entry_id in live if entry_id > info.last_delivered_id}
        found |= {row.id for row in group.pending_range(count=1 << 20)}
    return found


def left_by_a_trim(stream: Stream, maxlen: int | None, minid: EntryID | None) -> list[EntryID]:
    live = [entry.id for entry in stream.range()]
    kept = needed(stream)
    wanted = len(live) if maxlen is None else max(0, len(live) - maxlen)
    free = [entry_id for entry_id in live if entry_id not in kept and (minid is None or entry_id < minid)]
    gone = set(free[:wanted])
    return [entry_id for entry_id in live if entry_id not in gone]


class Steps:
    """What may come between two trims, from either of two openings."""

    def __init__(self, rng: random.Random, stores: list[Store]) -> None:
        self.rng, self.stores = rng, stores

    def stream(self) -> Stream:
        return self.rng.choice(self.stores).stream("x")

    def name(self) -> str:
        return self.rng.choice(["g", "h"])

    def add(self) -> None:
        self.stream().add_many([{"n": "." * self.rng.choice([1, 400])}] * self.rng.randrange(1, 9))

    def read(self) -> None:
        consumer = self.stream().group(self.name(), start="0").consumer(self.rng.choice("ab"))
        consumer.read(count=self.rng.randrange(1, 12), noack=self.rng.random() < 0.2)

    def _some(self, stream: Stream, name: str) -> list[EntryID]:
        group = stream.group(name, start="0")
        rows = [row.id for row in group.pending_range(count=100)]
        return self.rng.sample(rows, min(len(rows), self.rng.randrange(1, 8)))

    def acknowledge(self) -> None:
        stream, name = self.stream(), self.name()
        if some := self._some(stream, name):
            stream.group(name).ack(*some)

    def claim(self) -> None:
        stream, name = self.stream(), self.name()
        some = self._some(stream, name)
        if live := [entry.id for entry in stream.range()]:
            some.append(self.rng.choice(live))
        if some:
            stream.group(name).consumer("c").claim(*some, force=True)

    def give_back(self) -> None:
        stream, name = self.stream(), self.name()
        if some := self._some(stream, name):
            stream.group(name).nack(*some)

    def move(self) -> None:
        stream = self.stream()
        live = [entry.id for entry in stream.range()]
        places: list[IDLike] = ["0", "$", *live]
        stream.group(self.name(), start="0").set_id(self.rng.choice(places))

    def delete(self) -> None:
        stream = self.stream()
        if live := [entry.id for entry in stream.range()]:
            stream.delete_entries(self.rng.choice(live), ref=self.rng.choice(["KEEPREF", "DELREF"]))

    def dismiss(self) -> None:
        self.stream().group(self.name(), start="0").delete_consumer(self.rng.choice("abc"))

    def destroy(self) -> None:
        self.stream().group(self.name(), start="0").destroy()

    def begin_ids_anew(self) -> None:
        stream = self.stream()
        live = [entry.id for entry in stream.range()]
        if live and stream.last_id() > live[-1]:
            with contextlib.suppress(ArgumentError):  # one behind it was deleted, which may not come back
                stream.set_id(live[-1])

    def roll(self) -> None:
        self.stream().seal()

    def take(self) -> None:
        usual: list[Callable[[], None]] = [self.add, self.read, self.acknowledge] * 4
        seldom: list[Callable[[], None]] = [self.claim, self.give_back, self.delete, self.move, self.dismiss]
        rare: list[Callable[[], None]] = [self.destroy, self.begin_ids_anew, self.roll]
        self.rng.choice([*usual, *seldom, *rare])()


@pytest.mark.parametrize("seed", range(40))
def test_each_trim_leaves_what_a_look_at_everything_would(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    options: dict[str, Any] = {"segment_bytes": rng.choice([8192, 1 << 20]), "pending_rows": rng.choice([1, 20, 4096])}
    with (
        diskstream.open(tmp_path / "s", fsync="os", **options) as one,
        diskstream.open(tmp_path / "s", fsync="os", **options) as other,
    ):
        steps = Steps(rng, [one, other])
        steps.add()
        for _ in range(60):
            for _ in range(rng.randrange(1, 5)):
                steps.take()
            stream = steps.stream()
            live = [entry.id for entry in stream.range()]
            maxlen = rng.choice([None, 0, len(live) // 2, max(0, len(live) - 1)])
            minid = rng.choice([*live, MAX]) if maxlen is None else None
            expected = left_by_a_trim(stream, maxlen, minid)
            stream.trim(maxlen=maxlen, minid=minid, ref="ACKED")
            assert [entry.id for entry in stream.range()] == expected


def test_a_backlog_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trims behind the first look at what was acknowledged since, and at what was delivered since."""
    seen: list[int] = []
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")
        group = stream.group("g", start="0")
        consumer = group.consumer("c")
        stream.add_many([{"n": "1"}] * 5000)
        given = [entry.id for entry in consumer.read(count=4000)]
        blocks, locate = reader.blocks, reader.locate

        def counted(*arguments: object, **named: object) -> object:
            for block in blocks(*arguments, **named):  # type: ignore[arg-type]  # handed on as it came
                seen.append(len(block.entries()))
                yield block

        def located(log: object, ids: list[EntryID]) -> object:
            seen.append(len(ids))
            return locate(log, ids)  # type: ignore[arg-type]  # handed on as it came

        monkeypatch.setattr(reader, "blocks", counted)
        monkeypatch.setattr(reader, "locate", located)
        stream.add({"n": "2"}, maxlen=10, ref="ACKED")
        assert sum(seen) >= 4000
        for number in (7, 3000, 3999):
            seen.clear()
            consumer.read(count=1)
            group.ack(given[number])
            stream.add({"n": "2"}, maxlen=10, ref="ACKED")
            assert sum(seen) < 20, "what was acknowledged, looked for and removed, and the one that was given"
            assert not list(stream.range(given[number], given[number]))


def test_who_trims_as_he_adds_looks_at_little_more_than_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand entries were unpacked for each one that went, and looked up in every group."""
    seen: list[int] = []
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")
        group = stream.group("g", start="0")
        stream.add_many([{"n": "1"}] * 3000)
        group.ack(*[entry.id for entry in group.consumer("c").read(count=3000)])
        blocks = reader.blocks

        def counted(*arguments: object, **named: object) -> object:
            for block in blocks(*arguments, **named):  # type: ignore[arg-type]  # handed on as it came
                seen.append(block.row_count)
                yield block

        monkeypatch.setattr(reader, "blocks", counted)
        for _ in range(3):
            seen.clear()
            stream.add({"n": "2"}, maxlen=3000, ref="ACKED")
            assert len(stream) == 3000
            assert 0 < sum(seen) <= 40


def test_what_is_freed_and_cannot_be_removed_for_now_is_removed_later(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")
        group = stream.group("g", start="0")
        stream.add_many([{"n": "1"}] * 100)
        given = [entry.id for entry in group.consumer("c").read(count=100)]
        assert stream.trim(maxlen=0, ref="ACKED") == 0
        group.ack(*given[50:60])
        assert stream.trim(maxlen=97, ref="ACKED") == 3, "more need not go"
        assert stream.trim(minid=given[55], ref="ACKED") == 2, "more may not"
        assert stream.trim(maxlen=0, ref="ACKED") == 5
        with pytest.raises(DiskstreamError):
            stream.trim(maxlen=-1, ref="ACKED")
        assert len(stream) == 90


def test_a_trim_that_was_ended_in_its_midst_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")
        group = stream.group("g", start="0")
        stream.add_many([{"n": "1"}] * 100)
        given = [entry.id for entry in group.consumer("c").read(count=100)]
        assert stream.trim(maxlen=0, ref="ACKED") == 0
        group.ack(*given[:10])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(reader, "locate", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            stream.trim(maxlen=0, ref="ACKED")
        assert stream.trim(maxlen=0, ref="ACKED") == 10
