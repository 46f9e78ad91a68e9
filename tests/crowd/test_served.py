"""Who of a crowd speaks to a server says and hears what a store would: else the checker would judge something else."""

import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import diskstream
from diskstream import Store
from diskstream.server.serving import Server
from diskstream.server.settings import ServerSettings
from tests.crowd.checker import check
from tests.crowd.journal import NEVER, SERVED, Journal, Op, read_journal, read_journals
from tests.crowd.part import JOURNALS
from tests.crowd.play import played
from tests.crowd.scene import Scene, draw, row_of
from tests.crowd.served import Given, Line, ServedStream, ServerAwayError
from tests.engine.sample import fast_directory

SCENE = replace(draw(682, "os", 2.0, small=True), stop_s=0.1)
# On a busy machine little is done in two seconds, and then more time is given.
SECONDS = (2.0, 4.0, 8.0, 16.0, 32.0)
ASKED = {"add", "new", "ack"}


@contextlib.contextmanager
def serving(store: Path, sockets: Path, name: str = "s0") -> Iterator[Server]:
    with Server(ServerSettings(dir=str(store), port=0, unixsocket=str(sockets / name))) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()


@pytest.fixture
def root() -> Iterator[Path]:
    with fast_directory() as directory:  # its path is short enough for a socket
        (directory / "sockets").mkdir()
        yield directory


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    with diskstream.open(root / "store") as store, serving(root / "store", root / "sockets"):
        yield store


def line_to(root: Path) -> Line:
    return Line(root / "sockets", random.Random(1))


def test_what_is_added_by_a_server_is_what_a_store_adds(root: Path, store: Store) -> None:
    served, stream = ServedStream(line_to(root), "x"), store.stream("x")
    rows = [row_of(f"p0.0.{number}") for number in range(6)]
    ids = [served.add(rows[0]), served.add(rows[1], durable=True), *served.add_many(rows[2:5])]
    sent = [served.add(rows[5], producer="p0", message_id="m") for _ in range(2)]
    assert sent[0] == sent[1] == stream.add(rows[5], producer="p0", message_id="m")
    assert [(entry.id, entry.pairs) for entry in stream.range()] == list(zip([*ids, sent[0]], rows, strict=True))


def test_what_is_read_from_a_server_is_what_a_store_has(root: Path, store: Store) -> None:
    served, stream = ServedStream(line_to(root), "x"), store.stream("x")
    ids = stream.add_many([row_of(f"p0.0.{number}") for number in range(6)])

    def told(entries: list[Given]) -> list[tuple[object, ...]]:
        return [(entry.id, entry.pairs, entry["k"]) for entry in entries]

    whole = [(entry.id, entry.pairs, entry["k"]) for entry in stream.range()]
    assert told(served.range(ids[1], "+", count=3)) == whole[1:4]
    assert told(served.revrange("+", ids[2], count=2)) == whole[:3:-1]
    assert told(served.read(ids[3], count=9, block=None)) == whole[4:]
    assert served.read(ids[5], count=9, block=0.001) == []
    found = served.get(ids[2])
    assert found is not None
    assert told([found]) == [whole[2]]
    stream.delete(ids[2])
    assert served.get(ids[2]) is None


def test_what_a_group_gives_by_a_server_is_what_a_store_gives(root: Path, store: Store) -> None:
    stream = store.stream("x")
    ids = stream.add_many([row_of(f"p0.0.{number}") for number in range(5)])
    stream.create_group("g", "0")
    group = ServedStream(line_to(root), "x").group("g", create=False)
    one, other = group.consumer("c0"), group.consumer("c1")
    new = one.read(count=3)
    assert [(each.id, each.deliveries, each.gone) for each in new] == [(each, 0, False) for each in ids[:3]]
    assert [(each.id, each.deliveries) for each in one.read("0", count=9)] == [(each, None) for each in ids[:3]]
    ripe = other.read(count=4, claim_ms=0)
    assert {each.id: each.deliveries for each in ripe} == {ids[0]: 2, ids[1]: 2, ids[2]: 2, ids[3]: 0}
    assert [row.id for row in group.pending_range(count=2, idle_ms=0)] == ids[:2]
    assert [each.id for each in one.claim(ids[0], min_idle_ms=0)] == [ids[0]]
    stream.delete(ids[1])
    gone = {each.id: each.gone for each in other.read("0", count=9)}
    assert gone == {ids[1]: True, ids[2]: False, ids[3]: False}
    taken = one.autoclaim(0, count=10)
    assert ([each.id for each in taken.entries], taken.deleted) == ([ids[0], ids[2], ids[3]], [ids[1]])
    assert group.nack(ids[0]) == 1
    assert group.ack() == 0
    assert group.ack(ids[0], ids[4]) == 1
    assert group.ack_delete(ids[2], ids[3], ids[4], ref="KEEPREF") == [1, 1, -1]
    assert stream.group("g", create=False).pending().total == 0
    assert [entry.id for entry in stream.range()] == [ids[0], ids[4]]


def test_who_loses_a_server_is_told_and_goes_on_with_another_one(root: Path) -> None:
    line = line_to(root)
    with serving(root / "store", root / "sockets"):
        assert line.ask("PING") == b"PONG"
    with serving(root / "store", root / "sockets", "s1"):
        with pytest.raises(ServerAwayError):
            line.ask("PING")
        assert line.ask("PING") == b"PONG"


def test_a_reply_that_nobody_took_is_not_the_next_ones(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interruption comes between a command and its reply."""
    line = line_to(root)
    connection = line._connected()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(connection, "read_response", interrupted)
        with pytest.raises(KeyboardInterrupt):
            line.ask("ECHO", "first")
    assert line.ask("ECHO", "second") == b"second"


@pytest.mark.parametrize("is_served", [True, False])
def test_what_was_cut_off_at_a_server_may_be_done_at_any_time(tmp_path: Path, is_served: bool) -> None:
    """Its command lies in a buffer of the server's, when the client does something else, or is dead."""
    journal = Journal(tmp_path, "c0", 0)
    if is_served:
        journal.note(SERVED)
    with contextlib.suppress(ServerAwayError), journal.op("new", group="g"):
        raise ServerAwayError
    with contextlib.suppress(ServerAwayError), journal.op("new", group="g"):
        raise ServerAwayError
    Journal(tmp_path, "supervisor", 0).note("dead", role="c0", life=0, code=-9)
    cut = [op for op in read_journals(tmp_path) if op.word == "new"]
    assert [op.cut for op in cut] == [True, True]
    assert [op.latest == NEVER for op in cut] == [is_served] * 2
    assert [op.cut for op in read_journal(tmp_path / "supervisor.0")] == [False]


def asked(scene: Scene, ops: list[Op], way: str) -> set[str]:
    """What came of some operations of lives that went a way."""
    return {op.word for op in ops if scene.way_of(op.role, op.life) == way and not op.cut}


@pytest.mark.parametrize("way", ["server", "compat", "asyncio"])
def test_a_crowd_of_which_half_are_redis_clients_breaks_no_promise(way: str) -> None:
    found: set[str] = set()
    for seconds in SECONDS:
        scene = replace(SCENE, seconds=seconds, servers=2 if way == "server" else 0, ways=("store", way))
        with played(scene) as root:
            ops = read_journals(root / JOURNALS)
        verdict = check(ops)
        assert verdict.faults == []
        found |= asked(scene, ops, way)
        if found >= ASKED:
            break
    assert found >= ASKED
