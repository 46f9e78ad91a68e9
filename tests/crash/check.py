"""What must hold of a store after a power cut."""

import random
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import diskstream
from diskstream import DiskstreamError, EntryID, Group, Store
from tests.crash import foretold
from tests.crash.audit import check_audit
from tests.crash.events import Tree
from tests.crash.foretold import Claim
from tests.crash.groups import agreed
from tests.crash.image import materialise
from tests.crash.model import ID, Names, Promises, State
from tests.crash.observe import Violation, as_id, look_at_all, look_at_groups
from tests.crash.view import Image, leave_view, put_view, view_of
from tests.crash.world import World

__all__ = ["Cut", "check"]


@dataclass(frozen=True)
class Cut:
    """A rebuilt state, and what was promised by then.

    Attributes:
        tree, pages: files, and control pages by directory.
        promises, position: what may be left.
        clean: whether nothing was going on and everything was closed: then nothing may be found amiss.
        view: what is there as the view; it may be of any moment, or none.
    """

    tree: Tree
    pages: dict[str, bytes]
    promises: Promises
    position: int
    clean: bool = False
    view: Image | None = None

    def explain(self, found: dict[bytes, State]) -> Names:
        """The names and streams that were found, among those that may be left.

        Raises:
            Violation: they are not among them.
        """
        versions = self.promises.allowed(self.position)
        reasons: list[str] = []
        for names in reversed(versions):
            if set(names) != set(found):
                reasons.append(f"  names {sorted(names)}")
                continue
            wrong = [name for name in names if found[name] not in names[name].allowed(self.position)]
            if not wrong:
                return names
            for name in wrong:
                allowed = "\n       ".join(map(str, names[name].allowed(self.position)))
                reasons.append(f"  {name!r} is\n       {found[name]}\n     and may be\n       {allowed}")
        raise Violation(f"left are {sorted(found)}; that may not be, for\n" + "\n".join(reasons))


def check(cut: Cut, where: Path, world: World, rng: random.Random, options: dict[str, Any]) -> dict[bytes, State]:
    """Opens a rebuilt store below `where` as the first process after the cut, and uses it.

    Returns what recovery left.

    Raises:
        Violation: a promise is broken.
    """
    materialise(cut.tree, where, cut.pages)
    put_view(where / "store", cut.view)
    world.reboot()
    world.now_ms = max(world.now_ms + rng.choice((-(10**12), -(10**9), -60_000, -1, 0, 5_000, 10**12)), 1)
    path = where / "store"
    try:
        before = _look_only(path, options) if rng.random() < 0.1 else None
        with diskstream.open(path, clock=world.clock, **options) as store:
            view = view_of(store)
            found = look_at_all(store)
            names = cut.explain(found)
            if before is not None and before != found:
                raise Violation(f"read only, it was\n  {before}\nand opened for writing, it is\n  {found}")
            _sound(store, cut)
            if not cut.promises.was_full:
                check_audit(store, found)
            after = _use(store, names, found, cut.position, world.now_ms, rng)
        leave_view(view, cleanly=rng.random() < 0.5)
        if rng.random() < 0.2:
            put_view(path, None)
        _again(path, options, after, verify=rng.random() < 0.3)
    except (DiskstreamError, AssertionError) as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise Violation(f"{type(error).__name__}: {error} in {at.name}: {at.line}") from error
    return found


def _look_only(path: Path, options: dict[str, Any]) -> dict[bytes, State] | None:
    if not (path / "store.json").exists():
        return None
    with diskstream.open(path, read_only=True, **options) as store:
        view, found = view_of(store), look_at_all(store)
    leave_view(view)
    return found


def _sound(store: Store, cut: Cut) -> None:
    """Recovery found no more than a torn tail and things left undone; it kept what it cut, and nothing is damaged."""
    for report in store.recoveries:
        for finding in report.findings:
            if cut.clean or finding.kind in ("rotten", "missing"):
                raise Violation(f"recovery found: {finding}")
            if finding.kind == "torn":
                kept = Path(finding.action.partition("kept in ")[2]).read_bytes()
                original = cut.tree[finding.path.relative_to(store.path.parent).as_posix()] or b""
                cut_off = original[finding.offset :]
                if kept.rstrip(b"\0") != cut_off.rstrip(b"\0"):
                    raise Violation(f"what was cut off is not what was kept: {finding}")
    _verified(store)
    elsewhere = (store.path, store.path / "cold-cache")  # what is left of a fetch goes after an hour
    left = [path for path in store.path.rglob("*") if path.suffix == ".tmp" and path.parent not in elsewhere]
    left += [path for path in (store.path / "streams").iterdir() if path.name.startswith(".")]
    if left:
        raise Violation(f"left lying about: {left}")


def _verified(store: Store, *, cold: bool = False) -> None:
    report = store.verify(cold=cold)
    if report.problems:
        raise Violation(
            "verify says " + "; ".join(f"{problem.path.name}: {problem.what}" for problem in report.problems)
        )


def _use(
    store: Store, names: Names, found: dict[bytes, State], position: int, now: int, rng: random.Random
) -> dict[bytes, State]:
    """Adds to each stream: the store's choice of an ID is new, whatever was lost. Goes on with each group.

    Returns what is there then.
    """
    after = dict(found)
    for name, timeline in names.items():
        added = store.stream(name).add({"after": "the cut"}, durable=rng.random() < 0.5)
        assert added is not None
        _is_new(name, as_id(added), timeline.issued_by(position))
        after[name] = found[name].with_added([as_id(added)], [((b"after", b"the cut"),)])
        for key in after[name].groups:
            after[name] = _use_group(store.stream(name).group(key, create=False), after[name], now, rng)
        groups = agreed(after[name].groups, look_at_groups(store, name))
        after[name] = replace(after[name], groups=groups)
    if look_at_all(store) != after:
        raise Violation(f"after adding, there is {look_at_all(store)}")
    return after


def _use_group(group: Group, state: State, now: int, rng: random.Random) -> State:
    """A new consumer reads, claims and acknowledges. Returns what the model makes of it."""
    key, consumer = group.name, group.consumer("after")
    count = rng.choice((1, 3, 1000))
    ids = foretold.new_ids(state, key, count)
    state = foretold.read_new(state, key, b"after", count, now)
    assert [as_id(entry.id) for entry in consumer.read(count=count)] == ids
    if rng.random() < 0.5:
        state, answer = foretold.autoclaimed(state, key, b"after", (0, 0), count, Claim(), now)
        got = consumer.autoclaim(0, count=count)
        claimed = as_id(got.cursor), [as_id(entry.id) for entry in got.entries]
        assert claimed == answer[:2], f"autoclaimed {claimed}, foretold {answer}"
    done = sorted(state.groups[key].pending)[: rng.choice((1, 5))]
    assert group.ack(*(EntryID(*entry_id) for entry_id in done)) == len(done)
    return foretold.acked(state, key, done)


def _is_new(name: bytes, added: ID, issued: ID) -> None:
    if added <= issued:
        raise Violation(f"{name!r}: the ID {added} was chosen, though {issued} had been given out before the cut")


def _as_others_see_it(store: Store, found: dict[bytes, State]) -> None:
    """What is asked of groups one way is what is asked the other way."""
    for name, state in found.items():
        stream = store.stream(name)
        for key, group in state.groups.items():
            open_group = stream.group(key, create=False)
            summary, listed = open_group.pending(), open_group.pending_range(count=1 << 40)
            shown = {as_id(row.id): (row.consumer, row.deliveries) for row in listed}
            assert shown == {entry_id: (row.consumer or b"", row.deliveries) for entry_id, row in group.pending.items()}
            counts = {member: len(group.of(member)) for member in group.members}
            assert summary.total == len(listed), f"{summary} of {listed}"
            assert summary.consumers == {member: count for member, count in counts.items() if count}
            for member in group.members:
                of_member = open_group.pending_range(count=1 << 40, consumer=member)
                assert [as_id(row.id) for row in of_member] == group.of(member)


def _again(path: Path, options: dict[str, Any], expected: dict[bytes, State], *, verify: bool) -> None:
    """Closed and opened once more, it is the same, and nothing has to be recovered."""
    with diskstream.open(path, **options) as store:
        view, found = view_of(store), look_at_all(store)
        if found != expected:
            raise Violation(f"opened again, there is\n  {found}\nand should be\n  {expected}")
        if store.recoveries:
            raise Violation(f"opened again, recovery found {[report.findings for report in store.recoveries]}")
        if verify:
            _verified(store, cold=True)
            _as_others_see_it(store, found)
    leave_view(view)
