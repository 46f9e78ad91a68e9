"""What the children of these tests do: one command a run, told and answered line by line."""

import sys
from collections.abc import Callable
from pathlib import Path

import diskstream


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201  # this is how it answers


def hold(path: Path, fsync: str) -> None:
    """Has a stream open, adds one entry whenever it is told to, says its ID."""
    with diskstream.open(path, fsync=fsync) as store:
        stream = store.stream("x")
        say("ready", len(stream))
        for number, _ in enumerate(sys.stdin):
            say(stream.add({"by": "child", "n": number}))


def produce(path: Path, fsync: str) -> None:
    """Adds entries until it is killed, and says each ID when the add has returned."""
    with diskstream.open(path, fsync=fsync) as store:
        stream = store.stream("x")
        number = 0
        while True:
            say(stream.add({"n": number}))
            number += 1


def wait(path: Path, fsync: str) -> None:
    """Waits for one entry and says what it is."""
    with diskstream.open(path, fsync=fsync) as store:
        stream = store.stream("x")
        after = stream.last_id()
        say("ready")
        for entry in stream.read(after, block=60):
            say(entry["n"].decode())


def die_locked(path: Path, fsync: str) -> None:
    """Takes the append lock and says so; it is killed while it holds it."""
    with diskstream.open(path, fsync=fsync) as store:
        store.stream("x").add({"n": "before"})
        log = store._log(b"x", create=False)
        assert log is not None
        with log.locked():
            say("locked")
            sys.stdin.readline()


COMMANDS: dict[str, Callable[[Path, str], None]] = {
    "hold": hold,
    "produce": produce,
    "wait": wait,
    "die_locked": die_locked,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
