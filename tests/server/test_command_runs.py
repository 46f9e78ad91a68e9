"""Commands that are run together answer what they would have answered one by one, and leave the same behind."""

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from diskstream import DiskFullError, Stream
from diskstream.commands.waiters import Waiters
from diskstream.group import Group
from diskstream.server.connection import Connection
from diskstream.server.group_reading import ReadBatch, Served
from diskstream.server.looking import Looks
from diskstream.server.running import Runner
from tests.conftest import RedisServer
from tests.server.client import Client, packed, serving
from tests.server.turns import END, Turns, pieces_of

Command = tuple[str, ...]
CLIENTS = 3

KEYS = st.sampled_from(["s", "s", "s", "t", "text", "none"])
GROUPS = st.sampled_from(["g", "g", "g", "h", "nog"])
CONSUMERS = st.sampled_from(["a", "a", "b"])
IDS = st.sampled_from(["1-1", "2-1", "3", "4-1", "5-1", "9-9", "no ID", "-"])
COUNTS = st.sampled_from(["1", "1", "2", "3", "100", "0", "-1", "x", "01"])
ENDS = st.sampled_from(["-", "+", "2", "2-1", "(2-1", "4", "9-9", "x"])


def reads(*options: st.SearchStrategy[str] | str) -> st.SearchStrategy[Command]:
    given = [st.just(option) if isinstance(option, str) else option for option in options]
    words = [st.just("XREADGROUP"), st.just("GROUP"), GROUPS, CONSUMERS, *given, st.just("STREAMS"), KEYS, st.just(">")]
    return st.tuples(*words)


# Those that may be run together, several at a time, and what may stand between them.
TOGETHER: st.SearchStrategy[Command] = st.one_of(
    st.tuples(st.sampled_from(["XLEN", "xlen"]), KEYS),
    st.tuples(st.just("XRANGE"), KEYS, ENDS, ENDS, st.just("COUNT"), COUNTS),
    st.tuples(st.just("XACK"), KEYS, GROUPS, IDS),
    st.tuples(st.just("XACK"), KEYS, GROUPS, IDS, IDS),
    reads("COUNT", COUNTS),
)
OTHERS: st.SearchStrategy[Command] = st.sampled_from(
    [
        ("XDEL", "s", "2-1"),
        ("XTRIM", "s", "MAXLEN", "3"),
        ("DEL", "s"),
        ("DEL", "text"),
        ("SET", "text", "no stream"),
        ("PEXPIRE", "s", "0"),
        ("RENAME", "s", "t"),
        ("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"),
        ("XGROUP", "CREATE", "t", "g", "0", "MKSTREAM"),
        ("XGROUP", "SETID", "s", "g", "1-1"),
        ("XGROUP", "DESTROY", "s", "g"),
        ("XGROUP", "DELCONSUMER", "s", "g", "a"),
        ("MULTI",),
        ("EXEC",),
        ("DISCARD",),
        ("WATCH", "s"),
        ("SELECT", "0"),
        ("SELECT", "1"),
        ("CLIENT", "REPLY", "SKIP"),
        ("CLIENT", "REPLY", "OFF"),
        ("CLIENT", "REPLY", "ON"),
        ("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">"),
        ("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", "0"),
        ("XREADGROUP", "GROUP", "g", "a", "COUNT", "1", "NOACK", "STREAMS", "s", ">"),
        ("XPENDING", "s", "g"),
        ("PING",),
        ("XLEN",),
    ]
)
WAITING: st.SearchStrategy[Command] = reads("COUNT", "1", "BLOCK", "0")


def said(*kinds: st.SearchStrategy[Command]) -> st.SearchStrategy[list[Command]]:
    """A pipeline, most of whose commands come several times. `XADD` stands for entries with the next IDs."""
    adds = st.just(("XADD",))
    several = st.tuples(st.one_of(TOGETHER, TOGETHER, adds, *kinds), st.integers(1, 4))
    return st.lists(several, max_size=8).map(lambda all_: [words for words, count in all_ for _ in range(count)])


def numbered(pipelines: list[list[Command]]) -> list[list[Command]]:
    """The same with entries for XADD: their IDs rise whoever adds them."""
    ids = itertools.count(1)
    return [
        [("XADD", "s", f"{next(ids)}-1", "n", "1") if words == ("XADD",) else words for words in pipeline]
        for pipeline in pipelines
    ]


BEGIN: list[Command] = [
    ("SET", "text", "no stream"),
    *[("XADD", "s", f"0-{n}", "v", "x" * n) for n in range(1, 7)],
    ("XGROUP", "CREATE", "s", "g", "0"),
    ("XGROUP", "CREATE", "s", "h", "0-3"),
]
STATE: list[Command] = [
    ("SELECT", "0"),
    *[("XPENDING", key, group) for key in ("s", "t") for group in ("g", "h")],
    *[("XINFO", "GROUPS", key) for key in ("s", "t")],
    *[("XRANGE", key, "-", "+") for key in ("s", "t")],
]


READ: Command = ("XREADGROUP", "GROUP", "g", "a", "COUNT", "2", "STREAMS", "s", ">")
BLOCKED: Command = ("XREADGROUP", "GROUP", "g", "b", "COUNT", "1", "BLOCK", "0", "STREAMS", "s", ">")
LOOKS: list[Command] = [("XLEN", "s"), ("XLEN", "s"), *[("XRANGE", "s", "-", "+", "COUNT", n) for n in "112"]]
ACKS: list[Command] = [("XACK", "s", "g", "0-1", "0-2"), ("XACK", "s", "g", "0-2"), ("XACK", "s", "g", "0-3")]
# Each of the reasons for which commands are not run together, and those for which they are, at least once.
THOROUGH: list[list[Command]] = [
    [READ, READ, *ACKS, *LOOKS, ("MULTI",), READ, *ACKS, *LOOKS, ("EXEC",), ("CLIENT", "REPLY", "SKIP"), *LOOKS],
    [*LOOKS, READ, READ, BLOCKED, READ, ("XLEN", "s"), ("CLIENT", "REPLY", "OFF"), *LOOKS, READ],
    [
        ("XLEN", "s"),
        ("XADD",),
        ("XLEN", "s"),
        ("XADD",),
        ("XADD",),
        READ,
        ("XLEN", "text"),
        ("XACK", "text", "g", "0-1"),
        READ,
        *LOOKS,
    ],
]


# All in one turn, of three clients in this order.
ADD: Command = ("XADD", "s", "*", "n", "1")
AFTER_EACH_OTHER: list[list[Command]] = [[("XLEN", "s")], [ADD, ADD], [("XLEN", "s"), ("XLEN", "s")]]


def outcome(path: Path, pipelines: list[list[Command]], cuts: list[list[int]], protocol: int, *, runs: bool) -> Any:
    """What each client hears, the state that is left, and what was counted."""
    with Turns(path, CLIENTS, runs=runs) as turns:
        for connection in turns.connections:
            connection.caller.protocol = connection.protocol = protocol
        turns.turn([wire(BEGIN)])
        parts = [list(pieces_of(wire(pipeline), at)) for pipeline, at in zip(pipelines, cuts, strict=True)]
        for pieces in itertools.zip_longest(*parts, fillvalue=b""):
            turns.turn(pieces)
        turns.finish()
        for client in range(CLIENTS):  # those that unblocked others at the end have told them
            turns.heard[client] += b"|"
        turns.turn([wire(STATE)])
        heard = turns.finish()
        statistics = turns.server.keyspace.statistics
        calls = {name: (each.calls, each.failed, each.rejected) for name, each in statistics.commands.items()}
        last = [connection.caller.last_command for connection in turns.connections]
        return heard, calls, dict(statistics.errors), turns.server.counts.commands, turns.server.counts.waits, last


def wire(commands: list[Command]) -> bytes:
    return b"".join(packed(*words) for words in commands)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    st.lists(said(OTHERS, WAITING), min_size=CLIENTS, max_size=CLIENTS),
    st.lists(st.lists(st.integers(0, 2000), max_size=3), min_size=CLIENTS, max_size=CLIENTS),
    st.sampled_from([2, 3]),
)
@example(said=THOROUGH, cuts=[[]] * CLIENTS, protocol=3)
def test_several_clients_hear_the_same(
    tmp_path_factory: pytest.TempPathFactory, said: list[list[Command]], cuts: list[list[int]], protocol: int
) -> None:
    """Whatever comes in which turn, in whatever pieces: the bytes, the state, the counters, the order of waiting."""
    pipelines = numbered(said)
    found = [
        outcome(tmp_path_factory.mktemp("store") / "s", pipelines, cuts, protocol, runs=runs) for runs in (True, False)
    ]
    assert found[0] == found[1]


def test_a_look_sees_what_another_client_changed_in_the_same_turn(tmp_path: Path) -> None:
    heard, *_ = outcome(tmp_path / "s", AFTER_EACH_OTHER, [[]] * CLIENTS, 2, runs=True)
    assert b"+OK\r\n:6\r\n" in heard[0]
    assert heard[2].startswith(b":8\r\n:8\r\n")


def test_mistakes_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each condition under which commands run together, left out, and what each batch says, spoilt."""
    cuts: list[list[int]] = [[]] * CLIENTS
    numbers = itertools.count()

    def heard(*, runs: bool) -> Any:
        return outcome(tmp_path / str(next(numbers)), numbered(THOROUGH), cuts, 2, runs=runs)

    right = heard(runs=False)
    assert heard(runs=True) == right

    def without(what: str) -> Any:
        def may_batch(_: Runner, connection: Connection) -> bool:
            caller = connection.caller
            return (what == "transaction" or caller.transaction is None) and (
                what == "reply mode" or caller.reply_mode == "on"
            )

        return may_batch

    def nobody_waits(_waiters: Waiters[Any], _key: object) -> bool:
        return False

    def forgotten(batch: ReadBatch) -> tuple[list[Served], bool]:
        all_served, more = served_by(batch)
        return [(connection, run, len(run), reply) for connection, run, _, reply in all_served], more

    def uncounted(*given: Any) -> Any:
        found = looked(*given)
        return None if found is None else (found[0].replace(b":6", b":7"), found[1])

    def remembering(_looks: Looks) -> None:
        return None

    served_by, looked = ReadBatch.run, Looks.look
    mistakes: list[tuple[Any, str, Any]] = [
        (Runner, "_may_batch", without("transaction")),
        (Runner, "_may_batch", without("reply mode")),
        (Waiters, "__contains__", nobody_waits),
        (ReadBatch, "run", forgotten),
        (Looks, "look", uncounted),
        (Looks, "forget", remembering),
        (Runner, "_keep", staticmethod(lambda _connection, _commands: None)),
    ]
    for place, name, mistake in mistakes:
        with monkeypatch.context() as patched:
            patched.setattr(place, name, mistake)
            try:
                spoilt = heard(runs=True)
            except AssertionError:
                continue  # a client was not answered
            assert spoilt != right, (place, name, mistake)


# --- beside Redis -----------------------------------------------------------------------------------------------------


def conversation(sock: socket.socket, pieces: Iterator[bytes]) -> bytes:
    """What comes back by the end."""
    for piece in pieces:
        sock.sendall(piece)
    sock.sendall(packed("DISCARD") + packed("CLIENT", "REPLY", "ON") + wire(STATE_OF_BOTH) + packed("ECHO", END))
    heard = b""
    while not heard.endswith(f"{END}\r\n".encode()):
        data = sock.recv(1 << 20)
        assert data, heard
        heard += data
    return heard


# XINFO has other fields in each version.
STATE_OF_BOTH = [words for words in STATE if words[0] != "XINFO"]


@pytest.fixture
def two(tmp_path: Path, redis_server: RedisServer) -> Iterator[tuple[Client, Client]]:
    """A client of ours, and one of theirs."""
    with (
        serving(tmp_path / "store") as server,
        Client.to(server) as ours,
        Client.connected(redis_server.host, redis_server.port) as theirs,
    ):
        yield ours, theirs


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(said(OTHERS), st.lists(st.integers(0, 2000), max_size=4))
@example(said=THOROUGH[0], cuts=[])
def test_redis_answers_the_same(two: tuple[Client, Client], said: list[Command], cuts: list[int]) -> None:
    [pipeline] = numbered([said])
    data = wire([("SELECT", "0"), ("FLUSHALL",), *BEGIN, *pipeline])
    ours, theirs = [conversation(client.sock, pieces_of(data, cuts)) for client in two]
    assert ours == theirs


# --- what a batch is --------------------------------------------------------------------------------------------------


def lsn(turns: Turns) -> int:
    log = turns.server.keyspace.store(0)._log(b"s", create=False)
    assert log is not None
    return log.native.tail[2]


def test_the_reads_and_the_acknowledgements_of_a_turn_are_one_frame_each(tmp_path: Path) -> None:
    with Turns(tmp_path / "s", 3) as turns:
        turns.turn([wire([*BEGIN, *[("XADD", "s", f"{n}-1", "n", str(n)) for n in range(1, 31)]])])
        turns.turn([wire([("XGROUP", "CREATECONSUMER", "s", "g", "a")])])
        before = lsn(turns)
        turns.turn([wire([READ] * 4)] * 3)
        assert lsn(turns) == before + 1
        turns.turn([wire(ACKS)] * 3)
        assert lsn(turns) == before + 2
        found = [heard.count(b"*1\r\n*2\r\n$1\r\ns\r\n*2\r\n") for heard in turns.heard]
        assert found == [4, 4, 4]


def test_clients_show_what_they_said_last(tmp_path: Path) -> None:
    with Turns(tmp_path / "s") as turns:
        said: list[list[Command]] = [BEGIN, [("XADD", "s", "*", "a", "1")], [READ], ACKS, LOOKS[:2], LOOKS]
        for words in said:
            turns.turn([wire(words)])
            assert turns.connections[0].caller.last_command.split("|")[0] == words[-1][0].lower()


@pytest.mark.parametrize(
    "command",
    [("XRANGE", "s", "-", "+", "COUNT", "1"), ("XREADGROUP", "GROUP", "g", "a", "COUNT", "1", "STREAMS", "s", ">")],
)
def test_a_client_that_does_not_read_is_not_run_ahead_of(tmp_path: Path, command: Command) -> None:
    """Large entries: what is not sent is bounded, the rest of the run waits, and is answered in its order."""
    large, count = "x" * (300 << 10), 40
    with Turns(tmp_path / "s") as turns:
        stream = turns.server.keyspace.stream(0, b"s")
        stream.add_many([{"n": large}] * count)
        stream.group("g", start="0")
        turns.ends[0].send(wire([command] * count + [("XLEN", "s")]))
        for _ in range(5):
            turns.server.loop.poke()
            turns.server.loop.turn()
        connection = turns.connections[0]
        assert connection.clogged
        assert len(connection.out) < 3 << 20
        calls = turns.server.keyspace.statistics.of(command[0].lower())
        assert 0 < calls.calls < count
        heard = turns.finish()[0]
        assert calls.calls == count
        assert heard.count(large.encode()) == count
        assert b":%d\r\n" % count in heard


@pytest.mark.parametrize(("place", "name"), [(Group, "read_runs"), (Group, "ack_runs"), (Stream, "range_run")])
def test_what_fails_together_is_run_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    def fails(*_: object) -> None:
        raise DiskFullError("s", "write", 28, "no room")

    monkeypatch.setattr(place, name, fails)
    cuts: list[list[int]] = [[]] * CLIENTS
    found = [outcome(tmp_path / str(runs), numbered(THOROUGH), cuts, 2, runs=runs) for runs in (True, False)]
    assert found[0] == found[1]


def test_who_begins_to_wait_between_two_who_add_is_served_before_the_third_adds(tmp_path: Path) -> None:
    """As in Redis: no entry of a batch under way is what he waits for, and the next one is in no batch."""
    with Turns(tmp_path / "s", 5) as turns:
        adds = [packed("XADD", "b", f"{number}-0", "f", "v") for number in range(1, 5)]
        turns.turn([*adds[:2], packed("XREAD", "BLOCK", 0, "STREAMS", "b", "$"), *adds[2:]])
        turns.turn()
        assert turns.heard[:2] + turns.heard[3:] == [b"$3\r\n%d-0\r\n" % number for number in range(1, 5)]
        assert [number for number in range(1, 5) if b"%d-0" % number in turns.heard[2]] == [3]
