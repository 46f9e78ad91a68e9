"""What a process holds while it uses stores: each function runs in a child, since in a process of tests others' threads
end and others' files are closed meanwhile. Each says `before`, and after its work what differs, as JSON."""

import gc
import json
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import diskstream
from diskstream.engine import keeper
from tests.engine.children import hear, say
from tests.engine.sample import SMALL, log_of

__all__ = ["USES", "add_and_trim", "drop_read_only", "most_kib", "open_damaged", "open_often", "roll_often"]

Held = dict[str, int]


def held(below: Path) -> Held:
    """Descriptors and threads of this process, and mappings of files below a directory."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "mappings": sum(str(below) in line for line in maps),
        "threads": threading.active_count(),
    }


def open_and_use(path: Path) -> None:
    with diskstream.open(path, **{**SMALL, "fsync": "interval=1000"}) as store:
        store.stream("x").add({"n": "1"})
        list(store.stream("x").range())


def open_read_only(path: Path) -> None:
    with diskstream.open(path, read_only=True) as store:
        list(store.stream("x").range())
        store.verify()


def open_what_is_none(path: Path) -> None:
    try:
        diskstream.open(path / "none", create=False)
    except diskstream.NotAStoreError:
        return
    raise AssertionError("there is a store")


def leave_open(path: Path) -> None:
    """A store that is dropped without a word."""
    diskstream.open(path, **SMALL).stream("x").add({"n": "1"})


def make_and_delete(path: Path) -> None:
    with diskstream.open(path, **SMALL) as store:
        store.stream("y").add({"n": "1"})
        store.rename("y", "z")
        store.delete("z")


def keep_entries(path: Path) -> None:
    with diskstream.open(path, **SMALL) as store:
        next(store.stream("x").range())


def keep_one_open(path: Path) -> None:
    """What must be seen: it is what the others are held to."""
    KEPT.append(diskstream.open(path, **SMALL))


KEPT: Final[list[diskstream.Store]] = []
USES: Final[dict[str, Callable[[Path], None]]] = {
    use.__name__: use
    for use in (
        open_and_use,
        open_read_only,
        open_what_is_none,
        leave_open,
        make_and_delete,
        keep_entries,
        keep_one_open,
    )
}


def _say(*states: Held) -> None:
    say(json.dumps(states))


def open_often(path: str, use: str) -> None:
    """Says what is held once a store was used in a way, and after it was so twenty times more."""
    warnings.simplefilter("ignore", ResourceWarning)
    store = Path(path)
    open_and_use(store)
    USES[use](store)
    keeper.wait_for_last()
    before = held(store)
    for _ in range(20):
        USES[use](store)
    keeper.wait_for_last()
    _say(before, held(store))


def roll_often(path: str, seal: str, rolls: int) -> None:
    """Says what is held after twenty rolls, after all of them, and with the store closed; then the numbers it read."""
    with diskstream.open(path, **{**SMALL, "seal": seal}) as store:
        stream = store.stream("x")
        before = held(Path(path))
        for number in range(rolls):
            stream.add({"n": number})
            log_of(store).roll()
            if seal == "background" and number % 20 == 19:
                stream.seal()
            if number == 20:
                before = held(Path(path))
        numbers = [int(entry["n"]) for entry in stream.range()]
        after = held(Path(path))
    del stream
    _say(before, after, held(Path(path)))
    say(*numbers)


def drop_read_only(path: str) -> None:
    """Says what is held before and after a store was opened for reading and dropped, and how many warnings came."""
    with diskstream.open(path, **SMALL) as store:
        store.stream("x").add({"n": "1"})
    before = held(Path(path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(5):
            assert len(diskstream.open(path, read_only=True).stream("x")) == 1
        after = held(Path(path))
    _say(before, after)
    say(sum(each.category is ResourceWarning and "unclosed" in str(each.message) for each in caught))


def open_damaged(path: str) -> None:
    """Says what is held before and after a store with a damaged stream was read, and how often that was refused."""
    before, refused = held(Path(path)), 0
    for _ in range(4):
        with diskstream.open(path, read_only=True) as store:
            try:
                len(store.stream("x"))
            except diskstream.CorruptionError:
                refused += 1
    _say(before, held(Path(path)))
    say(refused)


def most_kib(anew: bool = False) -> int:
    """The most memory that this process had, or has from now on. In `ru_maxrss` that of its parent counts too."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def add_and_trim(path: str, turns: int) -> None:
    """Adds 2 MB and trims as much, turn by turn. Says the entries left by each, and the most memory it had so far.

    In a process of tests, what another had taken at its most would hide all that is taken here.
    """
    options = {
        **SMALL,
        "segment_bytes": 256 << 10,
        "node_max_entries": 512,
        "seal": "background",
        "cache_bytes": 1 << 20,
    }
    left, peaks = [], []
    with diskstream.open(path, **options) as store:
        stream = store.stream("x")
        for _ in range(turns):
            for _ in range(20):
                stream.add_many([{"n": "x" * 1000}] * 100)
            stream.trim(maxlen=500)
            left.append(sum(1 for _ in stream.range()))
            stream.seal()
            peaks.append(most_kib())
        say(json.dumps(left))
        say(json.dumps(peaks))
        hear()
