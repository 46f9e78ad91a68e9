"""What comes from clients and goes to them, as the native core reads and writes it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.commands.wire import Receiver, RequestParser, send_each
from diskstream.errors import ArgumentError
from tests.server.client import packed
from tests.server.turns import Turns

Ends = tuple[socket.socket, socket.socket]
MUCH = b"x" * (1 << 20)


@pytest.fixture
def ends() -> Iterator[Ends]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_commands_come_as_a_parser_gives_them(ends: Ends) -> None:
    near, far = ends
    receiver, parser = Receiver(64), RequestParser()
    assert receiver.receive(far.fileno(), parser, True) == (-1, [], False)
    near.sendall(packed("PING") + packed("ECHO", "x" * 100))
    sizes, found = [], []
    while (got := receiver.receive(far.fileno(), parser, True))[0] > 0:
        sizes.append(got[0])
        found += got[1]
    assert max(sizes) == 64
    assert sum(sizes) == len(packed("PING") + packed("ECHO", "x" * 100))
    assert found == [[b"PING"], [b"ECHO", b"x" * 100]]
    near.close()
    assert receiver.receive(far.fileno(), parser, True) == (0, [], False)


def test_what_is_no_socket_is_as_a_client_that_is_gone(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        assert Receiver(64).receive(file.fileno(), RequestParser(), True) == (0, [], False)
        assert send_each([file.fileno()], [b"x"]) == [-1]


@pytest.mark.parametrize("room_bytes", [0, 1 << 30])
def test_room_has_bounds(room_bytes: int) -> None:
    with pytest.raises(ArgumentError, match="16 MiB"):
        Receiver(room_bytes)


def test_each_is_sent_its_own_and_one_that_is_gone_is_in_nobodys_way(ends: Ends) -> None:
    near, far = ends
    gone, left = socket.socketpair()
    left.close()
    full, reader = socket.socketpair()
    with gone, full, reader:
        went = send_each([near.fileno(), gone.fileno(), full.fileno()], [b"one", b"two", MUCH])
        assert went[:2] == [3, -1]
        assert 0 < went[2] < len(MUCH)
        assert send_each([full.fileno(), near.fileno()], [b"more", b"four"]) == [0, 4]
        assert far.recv(100) == b"onefour"


def test_each_socket_has_something_to_be_sent() -> None:
    with pytest.raises(ArgumentError, match="for each socket"):
        send_each([1, 2], [b"x"])


# --- in a server ------------------------------------------------------------------------------------------------------


def test_who_does_not_read_gets_all_of_it_later(tmp_path: Path) -> None:
    value = "x" * (700 << 10)
    with Turns(tmp_path / "s", 2) as turns:
        for connection in turns.connections:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # type: ignore[union-attr]  # it has one while it is open
        turns.turn([packed("XADD", "s", "1-1", "f", value)])
        while turns.heard[0] != b"$3\r\n1-1\r\n":  # it comes in pieces
            turns.turn()
        read = packed("XRANGE", "s", "-", "+", "COUNT", "1")
        turns.turn([read, read])
        while not all(heard.endswith(b"x\r\n") for heard in turns.heard):
            turns.turn()
        for heard in turns.heard:
            assert heard.count(b"x" * (700 << 10)) == 1


def test_a_client_that_goes_before_its_answer_is_closed_and_the_others_are_answered(tmp_path: Path) -> None:
    with Turns(tmp_path / "s", 3) as turns:
        pipeline = packed("XLEN", "s") * 2
        turns.ends[1].send(pipeline)
        turns.ends[1].close()
        turns.ends[1] = socket.socket()
        turns.ends[0].send(pipeline)
        turns.ends[2].send(pipeline)
        turns.server.loop.poke()
        for _ in range(3):
            turns.server.loop.poke()
            turns.server.loop.turn()
        turns.ends.pop(1).close()
        turns.heard.pop(1)
        turns.listen()
        assert turns.heard == [b":0\r\n:0\r\n"] * 2
        assert len(turns.server.loop.connections) == 2
