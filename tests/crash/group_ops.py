"""The operations on consumer groups that a workload is made of, each chosen at random."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from diskstream import Group as OpenGroup
from diskstream.store_files import directory_of
from tests.crash import foretold
from tests.crash.effects import Added, Effect, Foretold, Grouped, Outcome, Trimmed
from tests.crash.foretold import Claim
from tests.crash.groups import ID, Group, Windows
from tests.crash.model import EMPTY, State
from tests.crash.observe import MESSAGES, PRODUCERS, as_id, look_at_groups
from tests.crash.workload import Workload

__all__ = ["CONSUMERS", "GROUPS", "GROUP_WEIGHTS"]

GROUPS = (b"g", b"h\x00\xff")
CONSUMERS = (b"alice", b"bob", b"")
_MANY = 1 << 62


def _text(entry_id: ID) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


class _Call:
    """One call on one group of one stream, chosen at random."""

    def __init__(self, w: Workload, name: bytes, key: bytes) -> None:
        self.w, self.name, self.key = w, name, key
        self.rng, self.now = w.rng, w.world.now_ms
        self.consumer = w.rng.choice(CONSUMERS)
        self.open: OpenGroup = w.store.stream(name).group(key, create=False)
        self.member = self.open.consumer(self.consumer)

    @property
    def state(self) -> State:
        return self.w.promises.now[self.name].now

    @property
    def group(self) -> Group:
        return self.state.groups[self.key]

    def ids(self, most: int = 6) -> list[ID]:
        """Some that are pending, and one or the other that is not."""
        pending, others = sorted(self.group.pending), [entry_id for entry_id, _ in self.state.entries]
        start = self.rng.randrange(len(pending)) if pending else 0
        chosen = pending[start : start + self.rng.randint(1, most)]
        if self.rng.random() < 0.3:
            chosen = self.rng.sample(pending, min(len(pending), most))
        if others and self.rng.random() < 0.3:
            chosen.append(self.rng.choice(others))
        return list(dict.fromkeys([*chosen, (1, 1)] if self.rng.random() < 0.2 else chosen))

    def joined(self) -> Effect:
        return Foretold(
            lambda state: state.with_group(self.key, state.groups[self.key].joined(self.consumer, self.now))
        )

    def noted(self) -> Effect:
        return Foretold(lambda state: state.with_group(self.key, state.groups[self.key].noted(self.consumer, self.now)))

    def change(self, what: str, effects: Sequence[Effect], act: Callable[[], None]) -> None:
        """Does it, and looks at the groups afterwards."""

        def action() -> list[Outcome]:
            act()
            return [look_at_groups(self.w.store, self.name)] * len(effects)

        self.w.note(f"{what} {self.name[:9]!r} {self.key!r} {self.consumer!r}")
        self.w.change(self.name, effects, action)


def _call(w: Workload) -> _Call | None:
    there = sorted((name, key) for name, timeline in w.promises.now.items() for key in timeline.now.groups)
    return _Call(w, *w.rng.choice(there)) if there else None


# --- groups -----------------------------------------------------------------------------------------------------------


def create(w: Workload) -> None:
    """A group, where there is none of that name; the stream too."""
    name = w.rng.choice(sorted({*w.promises.now, b"a"}))
    timeline = w.promises.now.get(name)
    state = EMPTY if timeline is None else timeline.now
    key = w.rng.choice(GROUPS)
    if key in state.groups:
        return
    starts: list[tuple[str, ID]] = [("0", (0, 0)), ("$", state.last)]
    starts += [(_text(entry_id), entry_id) for entry_id, _ in w.rng.sample(state.entries, min(1, len(state.entries)))]
    start, last = w.rng.choice(starts)
    read = w.rng.choice((None, 3))
    stream = w.store.stream(name)

    def action() -> list[Outcome]:
        stream.create_group(key, start, mkstream=True, entries_read=read)
        return [look_at_groups(w.store, name)]

    w.note(f"create group {name[:9]!r} {key!r} at {start}")
    w.change(name, [Grouped(lambda state: state.with_group(key, Group(last)))], action)


def set_id(w: Workload) -> None:
    """A group goes back, or passes over entries."""
    call = _call(w)
    if call is None:
        return
    ids = [entry_id for entry_id, _ in call.state.entries] or [(0, 0)]
    start = w.rng.choice([(0, 0), call.state.last, w.rng.choice(ids)])

    def change(state: State) -> State:
        return state.with_group(call.key, replace(state.groups[call.key], last=start))

    call.change(f"set group to {start}", [Grouped(change)], lambda: call.open.set_id(_text(start)))


def destroy(w: Workload) -> None:
    """A group goes."""
    call = _call(w)
    if call is None:
        return

    def change(state: State) -> State:
        return replace(state, groups={key: group for key, group in state.groups.items() if key != call.key})

    def act() -> None:
        assert call.open.destroy()

    call.change("destroy", [Grouped(change)], act)


def create_consumer(w: Workload) -> None:
    """A consumer, if there is none of that name."""
    call = _call(w)
    if call is None:
        return
    known = call.consumer in call.group.members

    def act() -> None:
        assert call.open.create_consumer(call.consumer) is not known

    call.change("create consumer", [call.joined()], act)


def delete_consumer(w: Workload) -> None:
    """A consumer goes, with what it had."""
    call = _call(w)
    if call is None:
        return
    count = len(call.group.of(call.consumer))

    def change(state: State) -> State:
        return state.with_group(call.key, state.groups[call.key].dismissed(call.consumer))

    def act() -> None:
        assert call.open.delete_consumer(call.consumer) == count

    call.change("delete consumer", [Grouped(change)], act)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_new(w: Workload) -> None:
    """New entries, acknowledged at once or not."""
    call = _call(w)
    if call is None:
        return
    count = w.rng.choice((1, 3, 10, 1000))
    noack = w.rng.random() < 0.1
    ids = foretold.new_ids(call.state, call.key, count)
    rows = dict(call.state.entries)

    def change(state: State) -> State:
        return foretold.read_new(state, call.key, call.consumer, count, call.now, noack=noack)

    def act() -> None:
        given = call.member.read(count=count, noack=noack)
        assert [as_id(entry.id) for entry in given] == ids, f"given {given}, foretold {ids}"
        assert [tuple(entry.pairs) for entry in given] == [rows[key] for key in ids]

    what = f"read {count} {'NOACK ' if noack else ''}gives {len(ids)}"
    call.change(what, [call.joined(), Grouped(change)], act)


def read_history(w: Workload) -> None:
    """A consumer's own entries once more."""
    call = _call(w)
    if call is None:
        return
    after = w.rng.choice([(0, 0), (0, 0), *call.ids()])
    count = w.rng.choice((1, 3, 1000))

    def change(state: State) -> State:
        return foretold.history(state, call.key, call.consumer, after, count, call.now)

    def act() -> None:
        given = call.member.read(_text(after), count=count)
        live = {entry_id for entry_id, _ in call.state.entries}
        assert [entry.gone for entry in given] == [as_id(entry.id) not in live for entry in given]

    call.change(f"history after {after} {count}", [call.joined(), Grouped(change)], act)


def _may_be_cold(folder: Path) -> bool:
    try:
        return any(folder.glob("*.cold"))
    except OSError:  # as any call may fail that an error is planted in
        return True


def read_ripe(w: Workload) -> None:
    """What others have had for too long, then new ones."""
    call = _call(w)
    if call is None:
        return
    count, idle = w.rng.choice((1, 3, 1000)), w.rng.choice((0, 100, 20_000))
    foretold_first, first = foretold.ripe(call.state, call.key, call.consumer, count, idle, call.now)
    more = foretold.new_ids(call.state, call.key, count - first)

    def again(state: State) -> State:
        return foretold.ripe(state, call.key, call.consumer, count, idle, call.now)[0]

    some_are_cold = _may_be_cold(w.path / "streams" / directory_of(call.name))
    only_claimed: list[bool] = []

    def new(state: State) -> State:
        if only_claimed:
            return state
        return foretold.read_new(state, call.key, call.consumer, count - first, call.now)

    def act() -> None:
        given = [as_id(entry.id) for entry in call.member.read(count=count, claim_ms=idle)]
        if first and some_are_cold and len(given) == first:
            only_claimed.append(True)  # new ones are in object storage: they are fetched with the next read
        else:
            assert len(given) == first + len(more)
        assert set(given) <= set(foretold_first.groups[call.key].of(call.consumer)) | set(more)

    effects = [call.joined(), Foretold(again), Grouped(new)]
    call.change(f"read {count} idle {idle} gives {first}+{len(more)}", effects, act)


# --- what is pending --------------------------------------------------------------------------------------------------


def ack(w: Workload) -> None:
    """Some entries are done."""
    call = _call(w)
    if call is None:
        return
    ids = call.ids(12)
    count = len(set(ids) & set(call.group.pending))

    def act() -> None:
        assert call.open.ack(*map(_text, ids)) == count

    call.change(f"ack {ids}", [Grouped(lambda state: foretold.acked(state, call.key, ids))], act)


def _options(call: _Call) -> Claim:
    rng = call.rng
    return Claim(
        min_idle_ms=rng.choice((0, 0, 100, 20_000)),
        idle_ms=rng.choice((None, None, 0, 5_000)),
        retry_count=rng.choice((None, None, 7)),
        force=rng.random() < 0.3,
        just_id=rng.random() < 0.3,
        last_id=rng.choice((None, None, call.state.last)),
    )


def claim(w: Workload) -> None:
    """Entries change hands."""
    call = _call(w)
    if call is None:
        return
    ids, how = call.ids(), _options(call)
    given = foretold.claimed(call.state, call.key, call.consumer, ids, how, call.now)[1]

    def change(state: State) -> State:
        return foretold.claimed(state, call.key, call.consumer, ids, how, call.now)[0]

    def act() -> None:
        texts = list(map(_text, ids))
        options = {
            "min_idle_ms": how.min_idle_ms,
            "idle_ms": how.idle_ms,
            "retry_count": how.retry_count,
            "force": how.force,
            "last_id": None if how.last_id is None else _text(how.last_id),
        }
        if how.just_id:
            found = call.member.claim_ids(*texts, **options)  # type: ignore[arg-type]  # one of its options, of its kind
        else:
            found = [entry.id for entry in call.member.claim(*texts, **options)]  # type: ignore[arg-type]  # one of its options, of its kind
        assert [as_id(entry_id) for entry_id in found] == given, f"claimed {found}, foretold {given}"

    call.change(f"claim {ids} {how}", [call.joined(), call.noted(), Grouped(change)], act)


def autoclaim(w: Workload) -> None:
    """Entries that have lain long enough change hands."""
    call = _call(w)
    if call is None:
        return
    start, count = w.rng.choice([(0, 0), (0, 0), *call.ids()]), w.rng.choice((1, 3, 100))
    how = Claim(min_idle_ms=w.rng.choice((0, 100, 20_000)), just_id=w.rng.random() < 0.3)
    answer = foretold.autoclaimed(call.state, call.key, call.consumer, start, count, how, call.now)[1]

    def change(state: State) -> State:
        return foretold.autoclaimed(state, call.key, call.consumer, start, count, how, call.now)[0]

    def act() -> None:
        if how.just_id:
            ids = call.member.autoclaim_ids(how.min_idle_ms, _text(start), count=count)
            found = as_id(ids.cursor), [as_id(key) for key in ids.ids], [as_id(key) for key in ids.deleted]
        else:
            got = call.member.autoclaim(how.min_idle_ms, _text(start), count=count)
            found = as_id(got.cursor), [as_id(it.id) for it in got.entries], [as_id(key) for key in got.deleted]
        assert found == answer, f"autoclaimed {found}, foretold {answer}"

    call.change(f"autoclaim {start} {count} {how}", [call.joined(), call.noted(), Grouped(change)], act)


def nack(w: Workload) -> None:
    """Entries are given back."""
    call = _call(w)
    if call is None:
        return
    ids = call.ids(4)
    w.rng.shuffle(ids)
    mode, retry, force = w.rng.choice(("SILENT", "FAIL", "FATAL")), w.rng.choice((None, None, 2)), w.rng.random() < 0.2
    count = foretold.nacked(call.state, call.key, ids, mode, retry, force=force)[1]

    def change(state: State) -> State:
        return foretold.nacked(state, call.key, ids, mode, retry, force=force)[0]

    def act() -> None:
        assert call.open.nack(*map(_text, ids), mode=mode, retry_count=retry, force=force) == count

    call.change(f"nack {ids} {mode} {retry} {force}", [Grouped(change)], act)


# --- entries with an eye on groups ------------------------------------------------------------------------------------


def ack_delete(w: Workload) -> None:
    """Entries are done, and go."""
    call = _call(w)
    if call is None:
        return
    ref, ids = w.rng.choice(("KEEPREF", "DELREF", "ACKED")), call.ids()
    answers = foretold.deleted(call.state, ids, ref, call.key)[1]

    def act() -> None:
        assert call.open.ack_delete(*map(_text, ids), ref=ref) == answers

    change = Grouped(lambda state: foretold.deleted(state, ids, ref, call.key)[0])
    call.change(f"ack_delete {ids} {ref}", [change], act)


def delete_entries(w: Workload) -> None:
    """Entries go, and what is pending of them; or only those that everybody is done with."""
    call = _call(w)
    if call is None or not call.state.entries:
        return
    ref = w.rng.choice(("KEEPREF", "DELREF", "DELREF", "ACKED"))
    ids = [entry_id for entry_id, _ in w.rng.sample(call.state.entries, min(len(call.state.entries), 8))]
    answers = foretold.deleted(call.state, ids, ref)[1]

    def act() -> None:
        assert w.store.stream(call.name).delete_entries(*map(_text, ids), ref=ref) == answers

    call.change(f"delete_entries {ids} {ref}", [Grouped(lambda state: foretold.deleted(state, ids, ref)[0])], act)


def trim_references(w: Workload) -> None:
    """The oldest entries go, then what is pending of them in each group."""
    call = _call(w)
    if call is None:
        return
    trim = Trimmed(w.rng.choice((0, 2, 10)), None, approximate=False)
    gone = trim.most(call.state)
    keys = sorted(call.state.groups)

    def forget(key: bytes) -> Effect:
        def change(state: State) -> State:
            first = state.entries[0][0] if state.entries else (_MANY, 0)
            old = [entry_id for entry_id in state.groups[key].pending if entry_id < first]
            return state.with_group(key, state.groups[key].without(old)) if gone else state

        return Foretold(change)

    def action() -> list[Outcome]:
        assert w.store.stream(call.name).trim(maxlen=trim.maxlen, ref="DELREF") == gone
        return [gone, *[None] * len(keys)]

    w.note(f"trim {call.name[:9]!r} to {trim.maxlen} with references")
    w.change(call.name, [trim, *map(forget, keys)], action)


def add_once(w: Workload) -> None:
    """A message of a producer, which may have sent it before."""
    name = w.rng.choice(sorted({*w.promises.now, b"a"}))
    timeline = w.promises.now.get(name)
    state = EMPTY if timeline is None else timeline.now
    producer, message, now = w.rng.choice(PRODUCERS), w.rng.choice(MESSAGES), w.world.now_ms
    known = state.windows.find(producer, message, now)
    stream = w.store.stream(name)
    pairs = ((b"message", message),)
    effects = [] if known is not None else [Added([pairs], None, (producer, message, now))]

    def action() -> list[Outcome]:
        added = stream.add(pairs, producer=producer, message_id=message)
        assert added is not None
        assert known in (None, as_id(added)), f"message {message!r} was {known}, and now is {added}"
        return [] if known is not None else [[as_id(added)]]

    def issued(outcomes: list[Outcome]) -> ID:
        assert isinstance(outcomes[0], Sequence)
        return outcomes[0][0]

    w.note(f"add once {name[:9]!r} {producer!r} {message!r} {known}")
    w.change(name, effects, action, issued=None if known is not None else issued)


def configure(w: Workload) -> None:
    """Other limits of what is remembered."""
    if not w.promises.now:
        return
    name = w.rng.choice(sorted(w.promises.now))
    duration_s, limit = w.rng.choice((20, 100, 86_400)), w.rng.choice((2, 5, 100))

    def change(state: State) -> State:
        windows: Windows = state.windows.configured(duration_s, limit)
        return replace(state, windows=windows)

    def action() -> list[Outcome]:
        w.store.stream(name).configure_idempotence(duration_s=duration_s, max_size=limit)
        return [None]

    w.note(f"remember {name[:9]!r} {duration_s} {limit}")
    w.change(name, [Foretold(change)], action)


GROUP_WEIGHTS: dict[Callable[[Workload], None], int] = {
    create: 12,
    set_id: 3,
    destroy: 2,
    create_consumer: 1,
    delete_consumer: 2,
    read_new: 30,
    read_history: 5,
    read_ripe: 5,
    ack: 16,
    claim: 8,
    autoclaim: 6,
    nack: 6,
    ack_delete: 5,
    delete_entries: 4,
    trim_references: 2,
    add_once: 6,
    configure: 1,
}
