"""The operations that a workload is made of, each chosen at random."""

from collections.abc import Callable, Sequence

from diskstream.ids import EntryID
from tests.crash.cold_ops import COLD_WEIGHTS
from tests.crash.commit_ops import COMMIT_WEIGHTS
from tests.crash.effects import Added, Effect, Outcome, Removed, SetTo, Trimmed
from tests.crash.group_ops import GROUP_WEIGHTS
from tests.crash.model import EMPTY, ID, Pairs, State
from tests.crash.observe import as_id
from tests.crash.retention_ops import RETENTION_WEIGHTS
from tests.crash.workload import Workload
from tests.crash.world import START_MS

__all__ = ["AMONG", "IN_FLUSH", "NAMES", "WEIGHTS", "do", "step"]

# The last one is too long for the name of a directory: a file holds it.
NAMES = (b"a", b"B:\x00/..", b"a long name " * 20)
_FIELDS = (b"sensor", b"temp", b"", b"\x00\xff")


def _name(w: Workload) -> bytes:
    return w.rng.choice((NAMES[0], NAMES[0], NAMES[0], NAMES[1], NAMES[2]))


def _existing(w: Workload) -> bytes | None:
    names = sorted(w.promises.now)
    return w.rng.choice(names) if names else None


def _state(w: Workload, name: bytes) -> State:
    timeline = w.promises.now.get(name)
    return EMPTY if timeline is None else timeline.now


def _row(w: Workload) -> Pairs:
    sizes = (0, 8, 30, 30, 100, 100, 480, 1500)
    size = 9_000 if w.rng.random() < 0.01 else w.rng.choice(sizes)
    value = w.rng.randbytes(size) if w.rng.random() < 0.5 else b"steady value " * (size // 13)
    fields = w.rng.choices(_FIELDS, k=w.rng.randint(0, 2))
    return ((b"n", str(len(w.log)).encode()), *((field, value) for field in fields))


def _trim(w: Workload, state: State) -> Trimmed | None:
    if w.rng.random() < 0.8 or not w.may_flush:  # files are removed behind a flush
        return None
    approximate = w.rng.random() < 0.3
    if state.entries and w.rng.random() < 0.4:
        return Trimmed(None, w.rng.choice(state.entries)[0], approximate)
    return Trimmed(w.rng.choice((0, 1, 5, 20, 60)), None, approximate)


def _text(entry_id: ID) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


def _trimming(trim: Trimmed | None) -> dict[str, object]:
    if trim is None:
        return {}
    minid = None if trim.minid is None else _text(trim.minid)
    return {"maxlen": trim.maxlen, "minid": minid, "approximate": trim.approximate}


def _append(w: Workload, name: bytes, rows: Sequence[Pairs], ids: Sequence[ID] | None, *, single: bool) -> None:
    """Adds entries as one frame, and perhaps trims with it."""
    before = _state(w, name)
    trim = _trim(w, before)
    durable = w.rng.random() < 0.1 and w.may_flush
    stream = w.store.stream(name)
    # Of one automatic ID, the milliseconds may be given.
    within = f"{before.last[0] + w.rng.randint(0, 2)}-*" if single and ids is None and w.rng.random() < 0.1 else None
    chosen = ids is None and within is None
    effects: list[Effect] = [Added(rows, ids)]
    if trim is not None:
        effects.append(trim)

    def act() -> list[Outcome]:
        options = {"durable": durable, **_trimming(trim)}
        if single:
            given = within or ("*" if ids is None else _text(ids[0]))
            added = stream.add(rows[0], given, **options)  # type: ignore[call-overload]  # one of its options, of its kind
            assert added is not None
            got = [as_id(added)]
        else:
            texts = None if ids is None else [_text(entry_id) for entry_id in ids]
            many = stream.add_many(rows, ids=texts, **options)  # type: ignore[call-overload]  # one of its options, of its kind
            got = [as_id(entry_id) for entry_id in many]
        if trim is None:
            return [got]
        return [got, len(before.entries) + len(rows) - len(stream)]

    def last(outcomes: list[Outcome]) -> ID:
        assert isinstance(outcomes[0], Sequence)
        return outcomes[0][-1]

    w.note(f"add {name[:9]!r} rows={len(rows)} ids={ids or within} trim={trim} durable={durable}")
    w.change(name, effects, act, durable=durable, issued=last if chosen else None)


def add(w: Workload) -> None:
    """One entry."""
    _append(w, _name(w), [_row(w)], None, single=True)


def add_explicit(w: Workload) -> None:
    """One entry with an ID of its own."""
    name = _name(w)
    ms, seq = _state(w, name).last
    entry_id = (ms, seq + w.rng.randint(1, 3)) if w.rng.random() < 0.5 else (ms + w.rng.randint(1, 9_000), 7)
    _append(w, name, [_row(w)], [entry_id], single=True)


def add_many(w: Workload) -> None:
    """Several entries as one frame."""
    name = _name(w)
    rows = [_row(w) for _ in range(w.rng.randint(1, 20))]
    ms, seq = _state(w, name).last
    ids = None
    if w.rng.random() < 0.3:
        steps = [w.rng.randint(1, 3) for _ in rows]
        ids = [(ms + 1, seq + sum(steps[: index + 1])) for index in range(len(rows))]
    _append(w, name, rows, ids, single=False)


def delete(w: Workload) -> None:
    """Some entries, or a run of them, or nearly all."""
    name = _existing(w)
    if name is None:
        return
    present = [entry_id for entry_id, _ in _state(w, name).entries]
    if not present:
        return
    start = w.rng.randrange(len(present))
    runs = (present[start : start + w.rng.randint(1, 40)], w.rng.sample(present, min(len(present), 5)), present[1:])
    ids = [*w.rng.choice(runs), (1, 1)]
    stream = w.store.stream(name)
    w.note(f"delete {name[:9]!r} {len(ids)}")
    w.change(name, [Removed(ids)], lambda: [stream.delete(*map(_text, ids))])


def trim(w: Workload) -> None:
    """The oldest entries."""
    name = _existing(w)
    wanted = None if name is None else _trim(w, _state(w, name))
    if name is None or wanted is None:
        return
    stream = w.store.stream(name)
    w.note(f"trim {name[:9]!r} {wanted}")
    w.change(name, [wanted], lambda: [stream.trim(**_trimming(wanted))])  # type: ignore[arg-type]  # one of its options, of its kind


def set_id(w: Workload) -> None:
    """The last ID moves up, or down to the last entry there is; automatic IDs begin anew there, as they must."""
    name = _existing(w)
    if name is None:
        return
    state = _state(w, name)
    top = state.entries[-1][0] if state.entries else (0, 0)
    low = max(top, state.deleted)
    last = w.rng.choice((low, state.last, (state.last[0] + 3, 0)))
    added = w.rng.choice((None, len(state.entries) + 5))
    deleted = w.rng.choice(((0, 0), state.deleted, last))
    stream = w.store.stream(name)
    timeline = w.promises.now[name]

    def act() -> list[Outcome]:
        stream.set_id(_text(last), entries_added=added, max_deleted_id=None if deleted == (0, 0) else _text(deleted))
        return [None]

    if last < state.last:
        timeline.issued = [(0, (0, 0))]  # the user's word: what was issued above it may come again
    w.note(f"set_id {name[:9]!r} {last} {added} {deleted}")
    w.change(name, [SetTo(last, added, deleted)], act)


def sync(w: Workload) -> None:
    """Everything is durable on return."""
    w.note("sync")
    w.plain(w.store.sync, keeps=w.used)


def wait_durable(w: Workload) -> None:
    """Up to the last entry, everything is durable on return."""
    name = _existing(w)
    if name is None or not _state(w, name).entries:
        return
    stream, last = w.store.stream(name), EntryID(*_state(w, name).entries[-1][0])
    w.note(f"wait_durable {name[:9]!r}")
    w.plain(lambda: stream.wait_durable(last, 0.1), keeps=[name])


def flush_behind(w: Workload) -> None:
    """The flush that a policy promises once an interval."""
    keeper = w.keeper()
    if keeper is None or keeper.interval_ms is None:
        return
    w.note("flush behind")
    w.plain(keeper.flush, keeps=w.used)


def keep_house(w: Workload) -> None:
    """What the background does once a second."""
    keeper = w.keeper()
    if keeper is not None:
        w.note("keep house")
        w.plain(keeper.tick)


def seal(w: Workload) -> None:
    """Rolls and seals one stream, or all."""
    name = _existing(w) if w.rng.random() < 0.8 else None
    w.note(f"seal {name and name[:9]!r}")
    w.plain(lambda: w.store.seal(name))


def compact(w: Workload) -> None:
    """Merges small segments, drops what is deleted."""
    name = _existing(w) if w.rng.random() < 0.8 else None
    w.note(f"compact {name and name[:9]!r}")
    w.plain(lambda: w.store.compact(name))


def remove(w: Workload) -> None:
    """A stream goes."""
    name = _existing(w)
    if name is None:
        return
    names = dict(w.promises.now)
    del names[name]
    w.note(f"remove {name[:9]!r}")
    w.rename_streams(names, lambda: w.store.delete(name))


def rename(w: Workload) -> None:
    """A stream gets another name; one that has it goes in the same moment."""
    old, new = _existing(w), _name(w)
    if old is None or old == new:
        return
    names = dict(w.promises.now)
    names[new] = names.pop(old)
    w.note(f"rename {old[:9]!r} {new[:9]!r}")
    w.rename_streams(names, lambda: w.store.rename(old, new))


def reopen(w: Workload) -> None:
    """Closed and opened."""
    w.reopen()


_WEIGHTS: dict[Callable[[Workload], None], int] = {
    add: 30,
    add_explicit: 8,
    add_many: 16,
    delete: 9,
    trim: 14,
    set_id: 2,
    sync: 4,
    wait_durable: 2,
    flush_behind: 5,
    keep_house: 6,
    seal: 6,
    compact: 6,
    remove: 2,
    rename: 3,
    reopen: 3,
}


_YEARS_MS = 10 * 365 * 86_400_000


def _goes_on(w: Workload) -> int:
    """The clock a moment later. It steps back now and then, and seldom it jumps: by years, to its beginning, or far."""
    now, rng = w.world.now_ms, w.rng
    if rng.random() < 0.02:
        w.note("the clock jumps")
        w.counts["jumps of the clock"] += 1
        return max(rng.choice((now + _YEARS_MS, now - _YEARS_MS, 0, 1, 1 << 46, START_MS)), 0)
    return max(now + rng.choice((0, 0, 1, 7, 300, 6_000, 25_000, -3, -40_000)), 0)


# What another process does in the middle of a seal, a compaction or a move: it needs no lock that those hold.
AMONG: list[Callable[[Workload], None]] = [add, add, add_many, add_explicit, delete, trim]
# And beside a flush, where a flush of its own would have to wait.
IN_FLUSH: list[Callable[[Workload], None]] = [add, add_many, add_explicit, delete]

WEIGHTS = {**_WEIGHTS, **GROUP_WEIGHTS, **COMMIT_WEIGHTS, **RETENTION_WEIGHTS, **COLD_WEIGHTS}


def step(w: Workload) -> Callable[[Workload], None]:
    """Does one operation; time goes on. Returns which one it was."""
    return do(w, None)


def do(w: Workload, operation: Callable[[Workload], None] | None) -> Callable[[Workload], None]:
    """Does this operation; None is one by chance. Returns which one it was."""
    w.world.now_ms = _goes_on(w)
    w.counts["operations"] += 1
    if w.beside is not None and w.rng.random() < 0.4:
        w.note("the other process")
        w.beside.turn()
    done = operation or w.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    done(w)
    w.files.note_ctl()
    w.files.note_view()
    return done
