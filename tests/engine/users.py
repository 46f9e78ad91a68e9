"""What the processes of these tests do with a store. Each function runs in a child, which is told and answers by
lines."""

import contextlib
import itertools
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import diskstream
from diskstream import EntryID
from tests.engine.children import LIMIT_S, hear, say
from tests.engine.sample import SMALL, fast_directory
from tests.engine.stand_ins import Watched


def leave(path: str, entries: int) -> None:
    """Adds entries and waits to be killed: its log is never closed."""
    store = diskstream.open(path, **SMALL)
    for number in range(entries):
        store.stream("x").add({"n": str(number)}, EntryID(number + 1, 0))
    say("left")
    hear()


def use(path: str, options: dict[str, Any]) -> None:
    """Does what it is told, word for word: `add 7`, `seal`, `numbers` and the like, and answers each."""
    with diskstream.open(path, **{**SMALL, **options}) as store:
        stream = store.stream("x")
        say("open")
        while True:
            word, *rest = hear().split()
            if word == "add":
                say(stream.add({"n": rest[0]}))
            elif word == "try":
                try:
                    say(stream.add({"n": rest[0]}))
                except diskstream.DiskstreamError as error:
                    say(type(error).__name__)
            elif word == "numbers":
                say(*(entry["n"].decode() for entry in stream.range()))
            elif word == "end":
                break
            else:
                say(getattr(store, word)(*rest))


def add_until_refused(path: str) -> None:
    """Adds entries until there is an error, and says its name."""
    with diskstream.open(path, **SMALL) as store:
        try:
            while True:
                store.stream("x").add({"n": "99", "pad": "." * 200})
        except diskstream.DiskstreamError as error:
            say(type(error).__name__)


def make(directory: str, name: str, by: int) -> None:
    """Opens one store after another, each when it is told to, and adds an entry to the same stream of each."""
    say("ready")
    turn = 0
    while True:
        hear()
        with diskstream.open(f"{directory}/{turn}", fsync="os") as store:
            say(store.stream(name).add({"by": str(by)}))
        turn += 1


def make_until(path: str, step: int) -> None:
    """Makes a store with an entry, and stops before a step: to be killed there."""
    taken = 0

    def count(kind: str, at: object) -> None:
        nonlocal taken
        taken += 1
        if taken == step:
            say("stopped at", kind)
            hear()

    with diskstream.open(path, **SMALL, files=Watched(count)) as store:
        store.stream("x").add({"n": "before"})
        say("made")
        hear()


def wait_for(path: str, what: str) -> None:
    """Waits until it is interrupted, says by what, and adds an entry."""
    with diskstream.open(path, **SMALL, read_only=what == "read-only") as store:
        stream = store.stream("x")
        waits: dict[str, Callable[[], object]] = {
            "read": lambda: stream.read("$", block=0),
            "read a missing stream": lambda: store.stream("none").read("$", block=0),
            "read two": lambda: store.read({"x": "$", "none": "$"}, block=0),
            "tail": lambda: list(stream.tail()),
            "read-only": lambda: stream.read("$", block=0),
            "add": lambda: stream.add({"n": "1"}),
            "add durably": lambda: stream.add({"n": "1"}, durable=True),
            "trim": lambda: stream.trim(maxlen=1),
            "seal": stream.seal,
            "new stream": lambda: store.stream("new").add({"n": "1"}),
        }
        len(stream)
        say("open")
        hear()
        try:
            say("waiting")
            waits[what]()
        except KeyboardInterrupt:
            say("KeyboardInterrupt")
    hear()
    with diskstream.open(path, **SMALL) as store:
        store.stream("x").add({"n": "1"})
        say("added")


def produce(path: str, fsync: str, by: int, count: int) -> None:
    """Adds entries when it is told to begin, alone and several at once, and says how many IDs it was given."""
    with diskstream.open(path, **{**SMALL, "fsync": fsync, "seal": "background"}) as store:
        stream = store.stream("x")
        say("ready")
        hear()
        given: list[object] = []
        while len(given) < count:
            size = 1 + (len(given) + by) % 4
            rows = [{"by": by, "n": len(given) + place, "pad": "." * 60} for place in range(size)]
            given += stream.add_many(rows) if size > 2 else [stream.add(row) for row in rows]
        say(len(given))
        say(*given)


def consume(path: str, mode: str, total: int) -> None:
    """Reads a stream from its beginning until it has so many entries, and says their IDs."""
    with diskstream.open(path, **SMALL, read_only=mode == "read-only") as store:
        stream = store.stream("x")
        say("ready")
        hear()
        seen: list[EntryID] = []
        after = EntryID(0, 0)
        while len(seen) < total:
            if mode == "tail":
                seen += (entry.id for entry, _ in zip(stream.tail("0-0"), range(total), strict=False))
                break
            entries = stream.read(after, count=None if mode == "read-only" else 50, block=LIMIT_S)
            if not entries:
                break
            seen += (entry.id for entry in entries)
            after = seen[-1]
        say(*seen)


def wake(path: str, rounds: int) -> None:
    """Waits for an entry, answers each with another, so that two such processes wake each other."""
    with diskstream.open(path, **SMALL) as store:
        ours, theirs = store.stream("pong"), store.stream("ping")
        after = EntryID(0, 0)
        say("ready")
        for _ in range(rounds):
            (entry,) = theirs.read(after, count=1, block=LIMIT_S)
            after = entry.id
            ours.add({"n": entry["n"]})


def keep_changing(path: str, rounds: int) -> None:
    """Adds, deletes, trims, rolls, seals and compacts, all the time; says the number of its last entry."""
    with diskstream.open(path, **{**SMALL, "seal": "background"}) as store:
        stream = store.stream("x")
        say("ready")
        hear()
        number = 0
        for turn in range(rounds):
            ids = []
            for _ in range(25):
                number += 1
                ids.append(EntryID(number, 0))
                stream.add({"n": number, "pad": "." * 200}, ids[-1])
            stream.delete(*(entry_id for entry_id in ids if entry_id.ms % 5 == 0))
            if turn % 2:
                stream.trim(maxlen=90)
            if turn % 3 == 2:
                stream.seal()
            if turn % 4 == 3:
                stream.compact()
        say("done", number)


def follow_names(path: str, by: int) -> None:
    """Adds to whatever stream has the name, until it is told to stop; says the IDs that it was given."""
    stop = threading.Event()
    with diskstream.open(path, **SMALL) as store:
        stream = store.stream("x")
        say("ready")
        hear()

        def stop_when_told() -> None:
            hear()
            stop.set()

        threading.Thread(target=stop_when_told, daemon=True).start()
        given: list[object] = []
        while not stop.is_set():
            given.append(stream.add({"by": by, "n": len(given)}))
        say(*given)


def run_short(path: str, streams: int) -> None:
    """Uses more streams than it has descriptors; says how many it could add to, and what verify() makes of them."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
    made = 0
    store = diskstream.open(path, **SMALL)
    with contextlib.suppress(diskstream.StorageError):
        for number in range(streams):
            store.stream(f"stream {number}").add({"n": "1"})
            made += 1
    with contextlib.suppress(diskstream.StorageError):
        store.close()
    say(made)
    try:
        with diskstream.open(path, **SMALL) as store:
            say("sound" if store.verify().ok else "damaged")
    except diskstream.StorageError as error:
        say(type(error).__name__)


def read_short(path: str) -> None:
    """Reads more streams than it has descriptors from a store that is open for reading only; says how many entries."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
    with diskstream.open(path, read_only=True) as store:
        say(sum(len(list(store.stream(name))) for name in store.streams()))


def read_segments_short(path: str, read_only: bool, threads: int) -> None:
    """Reads all segments of more streams than it has descriptors, by several threads, from the first entry of a stream
    that is read to its end only then; says how many entries, and what verify() makes of them.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
    with diskstream.open(path, **SMALL, read_only=read_only) as store:
        names = store.streams()
        first = iter(store.stream(names[0]).range())
        next(first)
        read: list[int] = []

        def read_all() -> None:
            read.append(sum(1 for name in names for _ in store.stream(name).range()))

        readers = [threading.Thread(target=read_all) for _ in range(threads)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        say(*read, 1 + sum(1 for _ in first))
        say("sound" if store.verify().ok else "damaged")


def add_from_a_handler() -> None:
    """A signal arrives while an entry is being added and trimmed for, and its handler adds one too."""
    with fast_directory() as directory:
        raised: list[str] = []

        def handle(*_: object) -> None:
            try:
                stream.add({"n": "from the handler"}, "1000-0")
            except diskstream.DiskstreamError as error:
                raised.append(type(error).__name__)

        calls = itertools.count()

        def clock() -> int:
            if next(calls) == 2:
                signal.raise_signal(signal.SIGUSR1)
            return 7

        signal.signal(signal.SIGUSR1, handle)
        with diskstream.open(directory / "s", **SMALL, clock=clock) as store:
            stream = store.stream("x")
            for number in range(4):
                stream.add({"n": number}, maxlen=9)
            say(*raised)
            say(*(entry["n"].decode() for entry in stream.range()))


def end_without_closing(path: str) -> None:
    """Ends while threads of its own read, wait and flush."""
    store = diskstream.open(path, fsync="interval=1")
    stream = store.stream("x")
    first = stream.add({"n": "1"})
    begun = threading.Barrier(6)

    def forever(work: Callable[[], object]) -> None:
        begun.wait()
        while True:
            work()

    works: list[Callable[[], object]] = [
        lambda: stream.read("$", block=0),
        lambda: store.read({"x": "$", "none": "$"}, block=0.001),
        lambda: list(stream.range(count=50)),
        lambda: stream.get(first),
        store.sync,
    ]
    for work in works:
        threading.Thread(target=forever, args=(work,), daemon=True).start()
    begun.wait()
    say("ending")


def in_child_of_multiprocessing(method: str, work: Callable[..., object], *arguments: object) -> None:
    """Does a work in another process, which ends as those of multiprocessing do."""
    process = multiprocessing.get_context(method).Process(target=work, args=arguments)  # type: ignore[attr-defined]  # each kind of context has one
    process.start()
    process.join()


def end_before_a_flush(path: str, how: str) -> None:
    """Adds, and ends long before its entries are to be flushed."""
    method, _, how = how.rpartition(": ")
    if method:
        in_child_of_multiprocessing(method, end_before_a_flush, path, how)
        return
    store = diskstream.open(path, **{**SMALL, "fsync": "interval=600000"})
    if how == "a fork with its parent's store":
        in_child_of_multiprocessing("fork", store.stream("x").add, {"by": "child", "n": "0"})
        os._exit(0)  # as if it were killed: what is flushed, its child has flushed
    store.stream("x").add({"by": "child", "n": "0"})
    if how == "an exit":
        sys.exit(3)
    if how == "an error":
        raise LookupError
    if how == "a thread":
        threading.Thread(target=add_behind_the_main_thread, args=(store,)).start()


def add_behind_the_main_thread(store: diskstream.Store) -> None:
    threading.main_thread().join()
    store.stream("x").add({"by": "child", "n": "1"})


def looks_and_closes(path: str, entries: int = 1) -> None:
    """Opens a store, reads a stream, and says when it has closed it."""
    with diskstream.open(path, fsync="os") as store:
        assert len(store.stream("x")) == entries
    say("closed")
