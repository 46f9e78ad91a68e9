"""A store with something of everything, and what there is to see of a store."""

import random
from pathlib import Path
from typing import Any

import diskstream
from diskstream import Store
from diskstream.copying import StreamState, state_of
from diskstream.errors import NoSuchStreamError
from tests.streams.layers import SMALL, Row, layered, rows

LONG = b"long/" + b"\xff" * 300
Seen = dict[bytes, tuple[list[Row], StreamState]]


def filled(path: Path, **options: Any) -> Store:
    """A store, open, with a stream `x` in every kind of segment and a group, one with a long name, and an empty one."""
    store = diskstream.open(path, **{**SMALL, **options})
    layered(store)
    group = store.stream("x").group("g", start="0")
    group.consumer("ann").read(count=5)
    group.consumer("bob").read(count=3)
    group.ack(group.pending_range(count=1)[0].id)
    store.stream(LONG).add({"n": 1}, "5-0")
    store.stream("empty").create_group("waiting", "$", mkstream=True)
    return store


def bulky(path: Path) -> Store:
    """A store, open, whose stream `x` has sealed files of some size, and one entry more."""
    store = diskstream.open(path, segment_bytes=1 << 16, seal="manual", fsync="os")
    noise = random.Random(7)
    for number in range(120):
        store.stream("x").add({"n": number, "noise": noise.randbytes(2000)}, f"{number + 1}-0")
    store.seal()
    store.stream("x").add({"n": "last"}, "1000-0")
    return store


def seen(store: Store) -> Seen:
    """All that a reader can see of a store, and what is not finished."""
    found: Seen = {}
    for stream in map(store.stream, store.streams(unfinished=True)):
        try:
            found[stream.name] = rows(stream), state_of(stream)
        except NoSuchStreamError:
            continue
    return found


def seen_at(path: Path) -> Seen:
    """The same of a store that is opened for reading only."""
    with diskstream.open(path, read_only=True, create=False) as store:
        assert store.verify().ok
        return seen(store)


def flip_in_place(path: Path, at: int) -> None:
    """Damages a byte of a file, as a disk does: for all that share it."""
    path.chmod(0o640)
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))
