"""A worker says the same words again and again, and what was understood is kept: never longer than it is true."""

import itertools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from diskstream.commands.all_commands import table
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.failures import WRONG_TYPE
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure, Reply
from diskstream.commands.stream_group_reading import GroupRead
from diskstream.commands.waiting import Waiting
from diskstream.commands.wire import encode
from diskstream.standing import Standing
from tests.commands.conftest import Clock

READ = "XREADGROUP GROUP g a COUNT 1 STREAMS s >"
WAIT = "XREADGROUP GROUP g a COUNT 1 BLOCK 0 STREAMS s >"
# What `s`, `g` and `a` stand for changes between two calls, and how the reply is spelt.
CHANGES = [
    "ADD s",
    "ADD s",
    "ADD t",
    "RENAME s t",
    "RENAME t s",
    "DEL s",
    "SET s text",
    "PEXPIRE s 0",
    "XGROUP CREATE s g 0 MKSTREAM",
    "XGROUP CREATE t g 0 MKSTREAM",
    "XGROUP DESTROY s g",
    "XGROUP DELCONSUMER s g a",
    "XGROUP SETID s g 0",
    "SWAPDB 0 1",
    "SELECT 0",
    "SELECT 1",
    "FLUSHALL",
    "MULTI",
    "EXEC",
    "PROTOCOL 2",
    "PROTOCOL 3",
    "REOPEN",
]
ALL = [READ, WAIT, READ, WAIT, "XPENDING s g", *CHANGES]


class Worker:
    """One caller for all commands; or, where it is `forgetful`, of the next one's what is no state of a client."""

    def __init__(self, path: Path, *, forgetful: bool) -> None:
        self.forgetful = forgetful
        self.keyspace = Keyspace(path, clock=Clock())
        self.caller = Caller(self.keyspace)
        self.ids = itertools.count(1)

    def say(self, line: str) -> bytes:
        what, *rest = line.split()
        if what == "ADD":
            line = f"XADD {rest[0]} {next(self.ids)}-1 n 1"
        elif what == "PROTOCOL":
            self.caller.protocol = int(rest[0])
            return b""
        elif what == "REOPEN":
            self.keyspace.reopen()
            return b""
        if self.forgetful:
            self.caller.last_read = None
        reply = dispatch(table(), self.caller, [word.encode() for word in line.split()])
        return self._shown(reply)

    def _shown(self, reply: Reply | Waiting) -> bytes:
        if not isinstance(reply, Waiting):
            return encode([reply], resp3=self.caller.protocol > 2)
        # The next of them comes while this one waits, and then it ends.
        stream = self.keyspace.stream(self.caller.database, b"s")
        if not stream.exists():
            return b"waits"
        stream.add({"n": "2"}, f"{next(self.ids)}-1")
        return b"waited " + encode([reply.again()], resp3=self.caller.protocol > 2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.sampled_from(ALL), min_size=4, max_size=30))
@example(said=["XGROUP CREATE s g 0 MKSTREAM", *(line for change in CHANGES for line in (READ, WAIT, change)), READ])
@example(said=["XGROUP CREATE s g 0 MKSTREAM", "ADD s", READ, "RENAME s t", "XGROUP CREATE s g 0 MKSTREAM", WAIT, READ])
@example(said=["XGROUP CREATE s g 0 MKSTREAM", "ADD s", READ, "PROTOCOL 3", "ADD s", READ, WAIT])
@example(said=["XGROUP CREATE s g 0 MKSTREAM", READ, "SELECT 1", READ, "SWAPDB 0 1", "ADD s", READ, WAIT])
def test_a_worker_hears_what_one_hears_who_never_said_it_before(
    tmp_path_factory: pytest.TempPathFactory, said: list[str]
) -> None:
    heard = []
    for forgetful in (False, True):
        worker = Worker(tmp_path_factory.mktemp("store") / "s", forgetful=forgetful)
        with worker.keyspace:
            heard.append([worker.say(line) for line in said])
    assert heard[0] == heard[1]


def test_what_was_understood_is_kept_where_it_can_be(
    caller: Caller, run: Callable[[str], Reply | Waiting], keyspace: Keyspace
) -> None:
    keyspace.stream(0, b"s").group("g", start="0")
    kept: list[GroupRead | None] = []
    for line in (READ, READ, WAIT, WAIT, READ.replace("COUNT 1 ", ""), READ.replace("COUNT 1 ", "")):
        run(line)
        kept.append(caller.last_read)
    same = [one is other for one, other in itertools.pairwise(kept)]
    assert same == [True, False, True, False, False]


@pytest.mark.parametrize("takes", ["one", "some", "goes"])
def test_what_is_kept_stands_in_no_queue(
    caller: Caller,
    run: Callable[[str], Reply | Waiting],
    keyspace: Keyspace,
    monkeypatch: pytest.MonkeyPatch,
    takes: str,
) -> None:
    """Whoever is behind it in the queue is woken when its wait ends, not when the client says something else."""
    places: list[weakref.ref[Standing]] = []

    class Seen(Standing):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            places.append(weakref.ref(self))

    monkeypatch.setattr("diskstream.commands.stream_group_reading.Standing", Seen)
    stream = keyspace.stream(0, b"s")
    stream.group("g", start="0")
    log = stream._log(create=False)
    assert log is not None
    number = log.native.group_number(b"g")
    assert number is not None
    elder = log.ctl.join_queue(number)
    waiting = run(WAIT.replace("COUNT 1 ", "") if takes == "some" else WAIT)
    assert isinstance(waiting, Waiting)
    stream.add({"n": "1"})  # kept for who has waited longer
    assert waiting.again() is None
    assert [place() is not None for place in places] == [True]
    if takes == "goes":
        run("SET s text")
        with pytest.raises(Failure) as told:
            waiting.again()
        assert told.value.text == WRONG_TYPE
        return  # what was raised holds all of it
    del waiting
    assert caller.last_read is not None
    assert [place() for place in places] == [None]
    assert elder is not None
