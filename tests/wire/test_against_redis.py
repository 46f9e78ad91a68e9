"""What the parser makes of odd requests, beside a real server: its errors word for word, and inline words."""

import contextlib
import random
import re
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
        parts = []
        with contextlib.suppress(ConnectionResetError):  # what came behind an error was never read
            while part := connection.recv(65536):
                parts.append(part)
        return b"".join(parts)


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


def spoilt_echoes(dice: random.Random) -> bytes:
    """Some ECHOs of both kinds, a byte or two of them changed. No zeros: to some versions they end a line."""
    data = bytearray()
    for _ in range(dice.randrange(1, 5)):
        word = bytes(dice.choices(b"ab \"'\\x4\r\n$*1", k=dice.randrange(8)))
        inline = b"ECHO %s\r\n" % word.translate(None, b"\r\n")
        data += inline if dice.random() < 0.4 else b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (len(word), word)
    for _ in range(dice.randrange(3)):
        data[dice.randrange(len(data))] = dice.choice(b"\r\n$*-019x\"' \xff\t\x0b")
    return bytes(data)


def expected(data: bytes) -> bytes:
    """A pattern of what answers these bytes: the text of an error that is no protocol error is not told here."""
    parser, parts = RequestParser(), []
    for words in parser.feed(data):
        assert isinstance(words, list)
        is_echo = words[0].lower() == b"echo" and len(words) == 2
        parts.append(re.escape(encode(words[1:], resp3=False)) if is_echo else rb"-ERR [^\r\n]*\r\n")
    return b"".join(parts) + (b"" if parser.error is None else re.escape(b"-%s\r\n" % parser.error))


def test_spoilt_requests_are_read_as_redis_reads_them(redis_server: RedisServer) -> None:
    dice = random.Random(5)
    for _ in range(300):
        data = spoilt_echoes(dice)
        answered = answer(redis_server, data)
        assert re.fullmatch(expected(data), answered, re.DOTALL), (data, answered)
