"""What must hold of a store after a power cut."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diskstream
from diskstream import DiskstreamError, Store
from tests.crash.events import Tree
from tests.crash.image import materialise
from tests.crash.model import ID, Names, Promises, State
from tests.crash.observe import Violation, as_id, look_at_all
from tests.crash.world import World

__all__ = ["Cut", "check"]


@dataclass(frozen=True)
class Cut:
    """A rebuilt state, and what was promised by then.

    Attributes:
        tree, pages: files, and control pages by directory.
        promises, position: what may be left.
        clean: whether nothing was going on and everything was closed: then nothing may be found amiss.
    """

    tree: Tree
    pages: dict[str, bytes]
    promises: Promises
    position: int
    clean: bool = False

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
    world.reboot()
    world.now_ms += rng.choice((-(10**9), -60_000, -1, 0, 5_000))
    path = where / "store"
    try:
        before = _look_only(path, options) if rng.random() < 0.1 else None
        with diskstream.open(path, clock=world.clock, **options) as store:
            found = look_at_all(store)
            names = cut.explain(found)
            if before is not None and before != found:
                raise Violation(f"read only, it was\n  {before}\nand opened for writing, it is\n  {found}")
            _sound(store, cut)
            after = _use(store, names, found, cut.position, rng)
        _again(path, options, after, verify=rng.random() < 0.3)
    except (DiskstreamError, AssertionError) as error:
        raise Violation(f"{type(error).__name__}: {error}") from error
    return found


def _look_only(path: Path, options: dict[str, Any]) -> dict[bytes, State] | None:
    if not (path / "store.json").exists():
        return None
    with diskstream.open(path, read_only=True, **options) as store:
        return look_at_all(store)


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
    left = [path for path in store.path.rglob("*") if path.suffix == ".tmp" and path.parent != store.path]
    left += [path for path in (store.path / "streams").iterdir() if path.name.startswith(".")]
    if left:
        raise Violation(f"left lying about: {left}")


def _verified(store: Store) -> None:
    report = store.verify()
    if report.problems:
        raise Violation(
            "verify says " + "; ".join(f"{problem.path.name}: {problem.what}" for problem in report.problems)
        )


def _use(
    store: Store, names: Names, found: dict[bytes, State], position: int, rng: random.Random
) -> dict[bytes, State]:
    """Adds to each stream: the store's choice of an ID is new, whatever was lost. Returns what is there then."""
    after = dict(found)
    for name, timeline in names.items():
        added = store.stream(name).add({"after": "the cut"}, durable=rng.random() < 0.5)
        assert added is not None
        _is_new(name, as_id(added), timeline.issued_by(position))
        after[name] = found[name].with_added([as_id(added)], [((b"after", b"the cut"),)])
    if look_at_all(store) != after:
        raise Violation(f"after adding, there is {look_at_all(store)}")
    return after


def _is_new(name: bytes, added: ID, issued: ID) -> None:
    if added <= issued:
        raise Violation(f"{name!r}: the ID {added} was chosen, though {issued} had been given out before the cut")


def _again(path: Path, options: dict[str, Any], expected: dict[bytes, State], *, verify: bool) -> None:
    """Closed and opened once more, it is the same, and nothing has to be recovered."""
    with diskstream.open(path, **options) as store:
        found = look_at_all(store)
        if found != expected:
            raise Violation(f"opened again, there is\n  {found}\nand should be\n  {expected}")
        if store.recoveries:
            raise Violation(f"opened again, recovery found {[report.findings for report in store.recoveries]}")
        if verify:
            _verified(store)
