"""CLIENT, SHUTDOWN and CONFIG SET where there is a server, and where there is none."""

import time
from collections.abc import Callable

import pytest

from diskstream.commands.caller import Buffers, Caller
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Raw
from diskstream.commands.waiting import Waiting
from tests.commands.world import Ours, Refused


class Server:
    """A host that notes what it is asked for."""

    def __init__(self) -> None:
        self.connected: list[Caller] = []
        self.done: list[object] = []

    def clients(self) -> list[Caller]:
        return self.connected

    def client(self, number: int) -> Caller | None:
        return next((each for each in self.connected if each.id == number), None)

    def buffers(self, caller: Caller) -> Buffers:
        return Buffers(fd=10 + caller.id, came_bytes=300, unsent_bytes=5000 if caller.id == 2 else 0)

    def kill(self, caller: Caller) -> None:
        self.done.append(("kill", caller.id))

    def unblock(self, caller: Caller, *, with_error: bool) -> bool:
        self.done.append(("unblock", caller.id, with_error))
        return True

    def pause(self, until: float, *, writes_only: bool) -> None:
        self.done.append(("pause", round(max(0.0, until - time.monotonic())), writes_only))

    def shut_down(self) -> None:
        self.done.append("shut down")

    def facts(self) -> dict[str, dict[str, int | float | str]]:
        return {"server": {"tcp_port": 1234}, "wire": {"turns": 5}}

    def reset_counts(self) -> None:
        self.done.append("reset")

    def set_setting(self, name: str, value: str) -> str | None:
        self.done.append((name, value))
        return "too many" if value == "99" else None


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def connect(server: Server, keyspace: Keyspace) -> Callable[[], Ours]:
    def one() -> Ours:
        number = len(server.connected) + 1
        ours = Ours(keyspace, id=number, address=f"127.0.0.1:{5000 + number}", host=server, created=time.monotonic())
        server.connected.append(ours.caller)
        return ours

    return one


def test_clients_are_listed(connect: Callable[[], Ours]) -> None:
    one, other = connect(), connect()
    other.run("CLIENT SETNAME other")
    other.run("CLIENT SETINFO LIB-NAME some-library")
    other.run("CLIENT SETINFO lib-ver 1.2")
    other.run("MULTI")
    lines = one.run("CLIENT LIST").decode().splitlines()
    assert lines[0].startswith("id=1 addr=127.0.0.1:5001 ")
    fields = dict(part.split("=", 1) for part in lines[1].split(" "))
    assert (fields["name"], fields["lib-name"], fields["lib-ver"]) == ("other", "some-library", "1.2")
    assert (fields["flags"], fields["multi"], fields["cmd"]) == ("x", "0", "multi")
    assert one.run("CLIENT LIST ID 2 7").decode().splitlines() == lines[1:]
    assert one.run("CLIENT INFO").startswith(b"id=1 ")
    assert one.run("CLIENT ID") == 1
    assert one.run("CLIENT SETINFO lib-name 'a b'") == Refused(
        b"ERR lib-name cannot contain spaces, newlines or special characters."
    )


def test_who_looks_for_a_client_that_takes_memory_finds_it(connect: Callable[[], Ours]) -> None:
    """All of these were 0 in every line."""
    one, other = connect(), connect()
    other.run("MULTI")
    other.run("XADD orders * item lamp")
    lines = [
        dict(part.split("=", 1) for part in line.split(" "))
        for line in str(one.run("CLIENT LIST"), "ascii").splitlines()
    ]
    names = ("fd", "qbuf", "multi-mem", "oll", "omem", "events")
    queued_bytes = other.caller.transaction.size_bytes if other.caller.transaction else 0
    assert queued_bytes > len("XADD orders * item lamp") - 4
    assert [lines[0][name] for name in names] == ["11", "300", "0", "0", "0", "r"]
    assert [lines[1][name] for name in names] == ["12", "300", str(queued_bytes), "1", "5000", "rw"]
    assert [int(line["tot-mem"]) for line in lines] == [300, 300 + queued_bytes + 5000]


def test_clients_are_killed(connect: Callable[[], Ours], server: Server) -> None:
    one, _, third = connect(), connect(), connect()
    assert one.run("CLIENT KILL 127.0.0.1:5002") == b"OK"
    assert one.run("CLIENT KILL ID 3") == 1
    assert one.run("CLIENT KILL TYPE normal") == 2
    assert one.run("CLIENT KILL TYPE normal SKIPME no") == 3
    assert one.run("CLIENT KILL USER default ADDR 127.0.0.1:5001") == 0
    assert one.run("CLIENT KILL MAXAGE 100") == 0
    assert server.done == [("kill", number) for number in (2, 3, 2, 3, 1, 2, 3)]
    third.run("QUIT")
    assert server.done[-1] == ("kill", 3)


def test_waits_are_ended_and_counted(connect: Callable[[], Ours], server: Server) -> None:
    one, other = connect(), connect()
    assert one.run("CLIENT UNBLOCK 2") == 0
    other.caller.waiting = Waiting(0, (b"a", b"b"), None, lambda: None)
    assert b"blocked_clients:1\r\ntotal_blocking_keys:2\r\n" in one.run("INFO clients")
    assert b" flags=b " in one.run("CLIENT LIST")
    assert one.run("CLIENT UNBLOCK 2") == 1
    assert one.run("CLIENT UNBLOCK 2 ERROR") == 1
    assert server.done == [("unblock", 2, False), ("unblock", 2, True)]


def test_who_is_unblocked_is_not_looked_for_among_all(
    connect: Callable[[], Ours], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that ends the waits of all its clients took the square of them."""
    one, other = connect(), connect()
    other.caller.waiting = Waiting(0, (b"a",), None, lambda: None)
    monkeypatch.setattr(server, "clients", lambda: pytest.fail("all clients were asked for"))
    assert one.run("CLIENT UNBLOCK 2") == 1
    assert one.run("CLIENT UNBLOCK 7") == 0


def test_what_only_a_server_can_do(connect: Callable[[], Ours], server: Server, ours: Ours) -> None:
    one = connect()
    assert one.run("CLIENT PAUSE 5000 WRITE") == b"OK"
    assert one.run("CLIENT UNPAUSE") == b"OK"
    assert one.run("CONFIG SET maxclients 50") == b"OK"
    assert one.run("CONFIG SET timeout 5 maxclients 99").endswith(
        b"(possibly related to argument 'maxclients') - too many"
    )
    assert one.run("CONFIG GET maxclients timeout") == [b"maxclients", b"50", b"timeout", b"0"]
    assert one.raw(b"SHUTDOWN", b"NOSAVE") == Raw(b"")
    changes = [("maxclients", "50"), ("timeout", "5"), ("maxclients", "99"), ("timeout", "0")]
    assert server.done == [("pause", 5, True), ("pause", 0, False), *changes, "shut down"]
    found = one.run("INFO everything")
    assert b"tcp_port:1234\r\n" in found
    assert b"# Wire\r\nturns:5\r\n" in found
    for line in ("CLIENT PAUSE 1", "SHUTDOWN", "CLIENT UNPAUSE"):
        assert isinstance(ours.run(line), Refused)


def test_a_compaction_goes_on_beside_the_commands(connect: Callable[[], Ours], keyspace: Keyspace) -> None:
    one = connect()
    keyspace.stream(0, b"s").add_many([{"f": "1"}] * 9)
    with keyspace.compacting:
        assert one.run("BGREWRITEAOF") == Refused(b"ERR Background append only file rewriting already in progress")
        assert b"aof_rewrite_in_progress:1\r\n" in one.run("INFO persistence")
    assert one.run("BGREWRITEAOF") == b"Background append only file rewriting started"
    assert keyspace.compacting.acquire(timeout=30)
    assert keyspace.stream(0, b"s").info().sealed_segments == 1
    assert b"aof_last_bgrewrite_status:ok\r\n" in one.run("INFO persistence")


def test_client_side_caching_is_refused(ours: Ours) -> None:
    assert ours.run("CLIENT TRACKING on").startswith(b"ERR client-side caching is not supported")
    assert ours.run("CLIENT TRACKING off") == b"OK"
