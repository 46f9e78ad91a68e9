"""What the processes of these tests do with a store. Each function runs in a child, which is told and answers by
lines."""

from collections.abc import Callable
from typing import Any

import diskstream
from diskstream import EntryID
from tests.engine.children import hear, say
from tests.engine.sample import SMALL
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
