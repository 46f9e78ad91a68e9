"""Operations of cold storage: sealed segments go to a folder outside, and come back. A caller sees no change."""

from collections.abc import Callable

from diskstream.cold import bring_back, move_out
from tests.crash.workload import Workload

__all__ = ["COLD_WEIGHTS"]


def _chosen(w: Workload) -> bytes | None:
    return w.rng.choice(sorted(w.promises.now)) if w.promises.now else None


def move(w: Workload) -> None:
    """Sealed segments go: the older ones, or all that may. The storage is another machine: it sees no power cut.

    All is sealed before, since the newest sealed segment stays: of small streams nothing would ever go.
    """
    name = _chosen(w)
    if name is None:
        return
    keep, stream = w.rng.choice((0, 0, 10, 40)), w.store.stream(name)
    w.note(f"move out {name[:9]!r}, keep {keep}")

    def act() -> None:
        w.store.seal(name)
        moved = move_out(stream, f"file://{w.files.root.parent}/place", keep_entries=keep)
        w.counts["segments moved out"] += len(moved.segments)

    w.plain(act)


def fetch(w: Workload) -> None:
    """Cold segments come back for good: all, or those from some entry on."""
    name = _chosen(w)
    if name is None:
        return
    entries, stream = w.promises.now[name].now.entries, w.store.stream(name)
    start = "{}-{}".format(*w.rng.choice(entries)[0]) if entries and w.rng.random() < 0.3 else None
    w.note(f"bring back {name[:9]!r} from {start}")

    def act() -> None:
        w.counts["segments brought back"] += len(bring_back(stream, start=start).segments)

    w.plain(act)


COLD_WEIGHTS: dict[Callable[[Workload], None], int] = {move: 12, fetch: 6}
