"""What the parser makes of odd requests, beside a real server: its errors word for word, and inline words."""

import socket

import pytest

from diskstream.commands.wire import RequestParser, encode
from tests.conftest import RedisServer

REFUSED = [
    b"*x\r\n",
    b"*\r\n",
    b"*01\r\n",
    b"*+1\r\n",
    b"*99999999999999999999\r\n",
    b"*1\r\n$x\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$536870913\r\n",
    b"*1\r\nPING\r\n",
    b"*1\r\n\r\n",
    b"*1\r\n\nxx\r\n",
    b'ECHO "a\r\n',
    b'ECHO "a"b\r\n',
    b"ECHO 'a\r\n",
    b"x" * 65537,
    b"*" + b"1" * 65536,
    b"*1\r\n$" + b"1" * 65536,
]
ECHOED = [
    b'ECHO "a b"\r\n',
    b"  ECHO\ta\n",
    b'ECHO x"y z"\r\n',
    b"ECHO 'it\\'s \\n'\r\n",
    b'ECHO "\\x41\\xzz\\n\\r\\t\\b\\a\\"\\q"\r\n',
    b"ECHO a\x0bb\r\n",
    b"\r\n\n*0\r\n*-5\r\nECHO ''\r\n",
    b"*2\rX$4\rYECHOab$2\rZhicd",  # what stands where line ends should is not looked at
]


def answer(server: RedisServer, data: bytes) -> bytes:
    with socket.create_connection((server.host, server.port), timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("data", REFUSED)
def test_refusals_are_the_same(redis_server: RedisServer, data: bytes) -> None:
    parser = RequestParser()
    assert parser.feed(data) == []
    assert parser.error is not None
    assert answer(redis_server, data) == b"-" + parser.error + b"\r\n"


@pytest.mark.parametrize("data", ECHOED)
def test_words_are_the_same(redis_server: RedisServer, data: bytes) -> None:
    [words] = RequestParser().feed(data)
    assert isinstance(words, list)
    assert answer(redis_server, data) == encode(words[1:], resp3=False)
