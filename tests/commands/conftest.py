"""A keyspace, a caller of it, and clients of the table of commands: no server, no socket."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diskstream.commands.all_commands import table
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Reply
from diskstream.commands.waiting import Waiting
from diskstream.commands.wire import encode
from tests.commands.world import Ours

Say = Callable[[str], str]


class Clock:
    """A clock that goes when it is told."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The clock of `keyspace`."""
    return Clock()


@pytest.fixture
def keyspace(tmp_path: Path, clock: Clock) -> Iterator[Keyspace]:
    """A new keyspace, with a clock that goes when it is told."""
    with Keyspace(tmp_path / "data", clock=clock) as opened:
        yield opened


@pytest.fixture
def ours(keyspace: Keyspace) -> Ours:
    """A caller of it."""
    return Ours(keyspace)


@pytest.fixture
def caller(keyspace: Keyspace) -> Caller:
    return Caller(keyspace)


@pytest.fixture
def run(caller: Caller) -> Callable[[str], "Reply | Waiting"]:
    """Runs a command line, quoted as a shell's. Gives what the command returns."""
    commands = table()
    return lambda line: dispatch(commands, caller, [word.encode() for word in shlex.split(line)])


@pytest.fixture
def say(caller: Caller, run: Callable[[str], "Reply | Waiting"]) -> Say:
    """Runs a command line. Gives its reply as it goes over the wire, with a blank for each line's end."""

    def said(line: str) -> str:
        reply = run(line)
        assert not isinstance(reply, Waiting), f"{line} waits"
        return encode([reply], resp3=caller.protocol > 2).replace(b"\r\n", b" ").decode("latin-1").strip()

    return said
