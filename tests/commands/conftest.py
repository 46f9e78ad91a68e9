"""A client of the table of commands: no server, no socket."""

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

Say = Callable[[str], str]


@pytest.fixture
def keyspace(tmp_path: Path) -> Iterator[Keyspace]:
    with Keyspace(tmp_path / "store", fsync="os") as opened:
        yield opened


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
