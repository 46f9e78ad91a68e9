"""What a client sends, as commands: `RequestParser`."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diskstream.commands.wire import RequestParser
from diskstream.errors import ArgumentTypeError

WORDS = st.lists(st.binary(max_size=20), min_size=1, max_size=6)
LIMITED = settings(max_examples=200, deadline=None)


def wire(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def refusal(data: bytes, *, authenticated: bool = True) -> bytes | None:
    parser = RequestParser()
    assert parser.feed(data, authenticated) == []
    return parser.error


def test_a_pipeline_is_the_list_of_its_commands() -> None:
    parser = RequestParser()
    assert parser.feed(wire(b"XLEN", b"s") + wire(b"PING")) == [[b"XLEN", b"s"], [b"PING"]]
    assert (parser.error, parser.buffered_bytes, parser.limit_passed, parser.held_back) == (None, 0, False, False)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(data[::-1])[::-1]])
def test_data_is_whatever_lends_bytes(kind: Callable[[bytes], Any]) -> None:
    assert RequestParser().feed(kind(b"PING\n")) == [[b"PING"]]


@pytest.mark.parametrize("data", ["PING\r\n", 5, None, memoryview(b"12345678").cast("I")])
def test_anything_else_is_refused(data: Any) -> None:
    with pytest.raises(ArgumentTypeError):
        RequestParser().feed(data)


def test_a_command_may_come_in_pieces() -> None:
    parser, data = RequestParser(), wire(b"ECHO", b"a\r\nb")
    for end in range(1, len(data)):
        assert parser.feed(data[end - 1 : end]) == []
        assert parser.buffered_bytes == end
    assert parser.feed(data[-1:]) == [[b"ECHO", b"a\r\nb"]]


def test_inline_requests_are_split_as_redis_does() -> None:
    parser = RequestParser()
    assert parser.feed(b"SET  'a b' \"\\x00\\n\"\r\n\r\n  \nPING\n*0\r\n*-1\r\n") == [
        [b"SET", b"a b", b"\0\n"],
        [b"PING"],
    ]
    assert refusal(b'GET "a\r\n') == b"ERR Protocol error: unbalanced quotes in request"
    assert refusal(b"XADD s * a b\0c d e\r\n") == b"ERR Protocol error: a zero byte in an inline request"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"*a\r\n", b"invalid multibulk length"),
        (b"*1048577\r\n", b"invalid multibulk length"),
        (b"*1\r\n$536870913\r\n", b"invalid bulk length"),
        (b"*1\r\n$-1\r\n", b"invalid bulk length"),
        (b"*1\r\nPING\r\n", b"expected '$', got 'P'"),
        (b"x" * 65537, b"too big inline request"),
        (b"*" + b"1" * 65536, b"too big mbulk count string"),
        (b"*1\r\n$" + b"1" * 65536, b"too big bulk count string"),
    ],
)
def test_protocol_errors_have_the_words_of_redis(data: bytes, text: bytes) -> None:
    assert refusal(data) == b"ERR Protocol error: " + text


def test_commands_before_an_error_are_given_and_none_behind_it() -> None:
    parser = RequestParser()
    assert parser.feed(b"PING\r\n*x\r\nPING\r\n") == [[b"PING"]]
    assert parser.error == b"ERR Protocol error: invalid multibulk length"
    assert parser.feed(b"PING\r\n") == []


def test_a_word_has_its_limit() -> None:
    parser = RequestParser(max_bulk_bytes=4)
    assert parser.feed(wire(b"1234")) == [[b"1234"]]
    assert parser.feed(wire(b"12345")) == []
    assert parser.error == b"ERR Protocol error: invalid bulk length"


def test_what_is_kept_of_a_request_has_its_limit() -> None:
    parser = RequestParser(max_query_bytes=1000)
    assert parser.feed(wire(b"PING") * 1000) == [[b"PING"]] * 1000  # whole ones are not kept
    parser.feed(b"*2\r\n$990\r\n")
    parser.feed(b"x" * 989)
    assert not parser.limit_passed
    assert parser.feed(b"x" * 5) == []
    assert (parser.limit_passed, parser.error, parser.buffered_bytes) == (True, None, 0)
    assert parser.feed(wire(b"PING")) == []


def test_who_has_not_authenticated_may_send_little() -> None:
    many, large = wire(*[b"x"] * 11), wire(b"x" * 16385)
    assert refusal(many, authenticated=False) == b"ERR Protocol error: unauthenticated multibulk length"
    assert refusal(large, authenticated=False) == b"ERR Protocol error: unauthenticated bulk length"
    assert RequestParser().feed(many + large) == [[b"x"] * 11, [b"x" * 16385]]


def test_a_large_command_behind_auth_waits_until_auth_was_run() -> None:
    parser, large = RequestParser(), wire(*[b"x"] * 11)
    assert parser.feed(b"AUTH secret\r\n" + large, False) == [[b"AUTH", b"secret"]]
    assert (parser.held_back, parser.error) == (True, None)
    assert parser.feed(b"", True) == [[b"x"] * 11]
    assert not parser.held_back
    parser = RequestParser()
    parser.feed(b"AUTH wrong\r\n" + large, False)
    assert parser.feed(b"", False) == []
    assert parser.error == b"ERR Protocol error: unauthenticated multibulk length"


@LIMITED
@given(st.lists(WORDS, max_size=6), st.data())
def test_the_pieces_do_not_matter(commands: list[list[bytes]], data: st.DataObject) -> None:
    whole = b"".join(wire(*words) for words in commands)
    parser, found, rest = RequestParser(), [], whole
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        found += parser.feed(rest[:size])
        rest = rest[size:]
    assert found == commands
    assert (parser.buffered_bytes, parser.error) == (0, None)


@LIMITED
@given(st.lists(WORDS, min_size=1, max_size=4), st.data())
def test_spoilt_bytes_give_the_same_however_they_are_cut(commands: list[list[bytes]], data: st.DataObject) -> None:
    spoilt = bytearray(b"".join(wire(*words) for words in commands))
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.sampled_from(b"\r\n$*-019x\"' \0\xff"))
    whole, single = RequestParser(), RequestParser()
    at_once = whole.feed(spoilt)
    assert [words for byte in spoilt for words in single.feed(bytes([byte]))] == at_once
    assert single.error == whole.error


@LIMITED
@given(st.binary(max_size=300))
def test_any_bytes_are_commands_or_an_error(data: bytes) -> None:
    parser = RequestParser(max_query_bytes=100)
    for words in parser.feed(data):
        assert words
    assert parser.buffered_bytes <= 100
