"""Consumer groups on disk are what docs/format/ says: the log alone tells all of them, and the view holds the same."""

import random
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

import diskstream
from diskstream import Commit, EntryID, Group
from tests.engine.sample import log_of
from tests.read_twice import groups_kept, groups_said, opened, same
from tests.slow_reader import SlowStream, layouts
from tests.slow_reader.groups import Groups, Windows
from tests.slow_reader.state import State
from tests.slow_reader.view import SlowView

CONSUMERS: list[str | bytes] = [b"", b"one", "zwei", b"\xff" * 300]


class Workload:
    """Everything that changes groups, at random, on stream `a` of a store."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1_000_000

    def clock(self) -> int:
        return self.now

    def run(self, store: diskstream.Store, steps: int) -> None:
        self.stream = store.stream("a")
        acts = [value for name, value in vars(Workload).items() if name.startswith("do_")]
        weights = {Workload.do_add: 12, Workload.do_read: 16, Workload.do_ack: 6, Workload.do_message: 4}
        for act in self.random.choices(acts, [weights.get(act, 1) for act in acts], k=steps):
            self.now += self.random.choice([0, 1, 50, 400])
            act(self)

    @property
    def group(self) -> Group:
        return self.stream.group(f"g{self.random.randrange(3)}", start="0")

    @property
    def name(self) -> str | bytes:
        return self.random.choice(CONSUMERS)

    def some(self, group: Group) -> list[EntryID]:
        """IDs of a few pending entries, and of some that are not."""
        pending = [row.id for row in group.pending_range(count=10**6)]
        entries = [entry.id for entry in self.stream.revrange(count=5)]
        both = pending + entries
        return self.random.sample(both, min(len(both), self.random.choice([1, 2, 9, 60])))

    def do_add(self) -> None:
        self.stream.add_many([{"k": b"." * self.random.randrange(200)}] * self.random.choice([1, 1, 3, 40]))

    def do_message(self) -> None:
        self.stream.add({"k": "v"}, producer=self.random.choice("pq"), message_id=str(self.random.randrange(9)))

    def do_commit(self) -> None:
        writer, version = self.random.choice([b"w", b"\xff" * 300]), self.now // 1000
        self.stream.add_many([{"k": "v"}] * 3, commit=Commit(writer, version, self.random.randrange(9)))

    def do_note_commit(self) -> None:
        self.stream.note_commit(Commit.complete(b"w", self.now // 1000))

    def do_retention(self) -> None:
        if self.stream.exists():
            limit = self.random.randrange(10**6, 10**7)
            self.stream.set_retention(max_entries=limit, ref=self.random.choice(["KEEPREF", "DELREF", "ACKED"]))

    def do_clear_retention(self) -> None:
        if self.stream.exists():
            self.stream.clear_retention()

    def do_windows(self) -> None:
        self.stream.add({"k": "v"})
        duration_s, max_size = self.random.choice([1, 100]), self.random.choice([3, 100])
        self.stream.configure_idempotence(duration_s=duration_s, max_size=max_size)

    def do_read(self) -> None:
        count = self.random.choice([1, 7, 150, None])
        self.group.consumer(self.name).read(count=count, claim_ms=self.random.choice([None, None, 300]))

    def do_read_noack(self) -> None:
        self.group.consumer(self.name).read(count=2, noack=True)

    def do_look_back(self) -> None:
        self.group.consumer(self.name).read("0", count=3)

    def do_ack(self) -> None:
        group = self.group
        group.ack(*self.some(group))

    def do_ack_all(self) -> None:
        group = self.group
        group.ack(*[row.id for row in group.pending_range(count=10**6)])

    def do_nack(self) -> None:
        group = self.group
        mode = self.random.choice(["FAIL", "SILENT", "FATAL"])
        group.nack(*self.some(group), mode=mode, force=self.random.random() < 0.3)

    def do_claim(self) -> None:
        group = self.group
        group.consumer(self.name).claim(*self.some(group), force=self.random.random() < 0.3, idle_ms=500)

    def do_autoclaim(self) -> None:
        self.group.consumer(self.name).autoclaim(100, count=self.random.choice([1, 30]))

    def do_delete_consumer(self) -> None:
        self.group.delete_consumer(self.name)

    def do_destroy(self) -> None:
        if self.random.random() < 0.3:
            self.group.destroy()

    def do_set_id(self) -> None:
        self.group.set_id(self.random.choice(["0", "$"]))

    def do_ack_delete(self) -> None:
        group = self.group
        group.ack_delete(*self.some(group), ref=self.random.choice(["KEEPREF", "DELREF", "ACKED"]))

    def do_delete(self) -> None:
        self.stream.delete_entries(*self.some(self.group), ref=self.random.choice(["KEEPREF", "DELREF", "ACKED"]))

    def do_trim(self) -> None:
        keep = self.random.choice([0, 20, 300])
        self.stream.trim(maxlen=keep, ref=self.random.choice(["KEEPREF", "DELREF", "ACKED"]))


def behind(slow: SlowStream, segment: int, lsn: int) -> State:
    """The state behind a frame of a log that is still there."""
    log = slow.logs[segment]
    state = State(log.path, segment, log.snapshot)
    frames = slow.frames if segment == slow.log.segment else slow.rolled(segment)[0]
    for frame in frames[1:]:
        if frame.lsn <= lsn:
            state.apply(frame)
    return state


def view_of(path: Path, slow: SlowStream) -> SlowView | None:
    """What the view has of a stream. It is read from a copy: LMDB opens an environment once in a process."""
    if not (path / "view" / "data.mdb").exists():
        return None
    copy = path / "copy-of-view"
    shutil.copytree(path / "view", copy)
    try:
        return SlowView.read(copy, slow.log.uuid)
    finally:
        shutil.rmtree(copy)


def check_view(slow: SlowStream, view: SlowView) -> int:
    """Holds a view against the log, as far as that is there; returns how many rows it has."""
    if view.segment not in slow.logs:
        return 0
    log = slow.logs[view.segment]
    if view.end == 0:
        assert (view.lsn, view.link) == (log.snapshot.lsn - 1, log.snapshot.chain)
    else:
        frames = slow.frames if log is slow.log else slow.rolled(log.segment)[0]
        assert (view.end, view.link) in [(frame.end, frame.crc) for frame in frames if frame.lsn == view.lsn]
    expected = {}
    for number, group in behind(slow, view.segment, view.lsn).groups.by_number.items():
        for order in layouts.ORDERS.values() if group.pending else ():
            expected[order, number] = sorted(group.pending.items(), key=lambda item: item[1].key(order, item[0]))
    assert view.rows == expected
    assert all(size <= layouts.CHUNK_ROWS for sizes in view.chunks.values() for size in sizes)
    return sum(map(len, view.rows.values()))


def in_order(groups: Groups) -> list[object]:
    """What is remembered of producers, in the order in which it is forgotten."""
    return [(name, list(known.items())) for name, known in sorted(groups.windows.producers.items())]


@pytest.mark.parametrize("seed", range(4))
def test_the_log_tells_all_of_the_groups_and_the_view_holds_the_same(tmp_path: Path, seed: int) -> None:
    work = Workload(seed)
    kinds: set[tuple[int, int]] = set()
    viewed = carried = 0
    for pending_rows in (1, 4096, 20, 5):
        with opened(tmp_path, pending_rows=pending_rows, clock=work.clock) as store:
            work.run(store, 150)
            said = groups_said(store.stream("a"))
        slow = same(tmp_path)[b"a"]
        assert groups_kept(slow.state.groups) == said
        view = view_of(tmp_path, slow)
        viewed += 0 if view is None else check_view(slow, view)
        for number, following in pairwise(sorted(slow.logs)):
            if following != number + 1:
                continue  # what is between them is sealed
            frames, before = slow.rolled(number)
            after = State(slow.logs[following].path, following, slow.logs[following].snapshot)
            assert before.groups == after.groups
            assert in_order(before.groups) == in_order(after.groups)
            kinds |= {(frame.kind, frame.flags) for frame in frames}
            carried += sum(len(group.pending) for group in after.groups.by_number.values())
        with opened(tmp_path, clock=work.clock) as store:
            work.stream = store.stream("a")
            work.stream.seal()
            assert groups_said(work.stream) == said
    assert viewed > 0
    assert carried > 0
    assert kinds >= {(layouts.GROUPS, 0), (layouts.VIEW, 0), (layouts.ENTRIES, layouts.RECORDS)}


def test_of_too_many_producers_the_one_goes_that_was_heard_of_longest_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page, and the reader made after it, had it by the oldest message of each: the log has it by the newest."""
    now = 1_000_000
    with diskstream.open(tmp_path, fsync="os", clock=lambda: now) as store:
        stream = store.stream("a")
        for number in range(layouts.MAX_PRODUCERS):
            stream.add({"k": "v"}, producer=f"p{number}", message_id="1")
        stream.add({"k": "v"}, producer="p0", message_id="2")
        stream.add({"k": "v"}, producer="new", message_id="1")
        native = log_of(store, b"a").native
        remembered = {name for name in ("p0", "p1", "p2", "new") if native.find_message(name.encode(), b"1", now)}
    monkeypatch.setattr(layouts, "MAX_PRODUCERS", 3)
    windows = Windows(100, 100, 0)
    for number, (producer, message) in enumerate([("p0", "1"), ("p1", "1"), ("p2", "1"), ("p0", "2"), ("new", "1")]):
        windows.note(producer.encode(), message.encode(), (now + number, 0), now)
    assert {name.decode() for name in windows.producers} == remembered == {"p0", "p2", "new"}
