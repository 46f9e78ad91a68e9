"""Replies as bytes: the table of docs/architecture-server.md."""

import enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diskstream._native import Delivery, EntryID, delivery, restore_entry
from diskstream.commands.replies import NIL_ARRAY, OK, ErrorReply, Map, Raw, Status
from diskstream.commands.wire import encode
from diskstream.errors import ArgumentError, ArgumentTypeError

ENTRY = restore_entry(EntryID(5, 3), [(b"name", b"value"), (b"name", b"")])
ENTRY_BYTES = b"*2\r\n$3\r\n5-3\r\n*4\r\n$4\r\nname\r\n$5\r\nvalue\r\n$4\r\nname\r\n$0\r\n\r\n"


class Number(enum.IntEnum):
    SEVEN = 7


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "resp2", "resp3"),
    [
        (5, b":5\r\n", None),
        (-(2**63), b":-9223372036854775808\r\n", None),
        (2**64 - 1, b":18446744073709551615\r\n", None),
        (Number.SEVEN, b":7\r\n", None),
        (b"a\r\nb", b"$4\r\na\r\nb\r\n", None),
        ("gr\u00fcn", b"$5\r\ngr\xc3\xbcn\r\n", None),
        (Text("x"), b"$1\r\nx\r\n", None),
        (b"\xff".decode("utf-8", "surrogateescape"), b"$1\r\n\xff\r\n", None),
        (EntryID(12, 0), b"$4\r\n12-0\r\n", None),
        (None, b"$-1\r\n", b"_\r\n"),
        (NIL_ARRAY, b"*-1\r\n", b"_\r\n"),
        (True, b":1\r\n", b"#t\r\n"),
        (False, b":0\r\n", b"#f\r\n"),
        (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
        (float("inf"), b"$3\r\ninf\r\n", b",inf\r\n"),
        (1e-7, b"$4\r\n1e-7\r\n", b",1e-7\r\n"),
        (
            [1, (b"a", None), []],
            b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n*0\r\n",
            b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n_\r\n*0\r\n",
        ),
        (
            Map([(b"k", 1), (b"l", [])]),
            b"*4\r\n$1\r\nk\r\n:1\r\n$1\r\nl\r\n*0\r\n",
            b"%2\r\n$1\r\nk\r\n:1\r\n$1\r\nl\r\n*0\r\n",
        ),
        (OK, b"+OK\r\n", None),
        (Status(b"a\nb"), b"+a b\r\n", None),
        (ErrorReply(b"ERR no"), b"-ERR no\r\n", None),
        (Raw(b":1\r\n:2\r\n"), b":1\r\n:2\r\n", None),
        (ENTRY, ENTRY_BYTES, None),
    ],
)
def test_each_value_has_its_form(value: Any, resp2: bytes, resp3: bytes | None) -> None:
    assert encode([value], resp3=False) == resp2
    assert encode([value], resp3=True) == (resp2 if resp3 is None else resp3)


def given_out(*, gone: bool) -> Delivery:
    return delivery(None if gone else ENTRY, ENTRY.id, None, 1000, 2)


def test_a_delivery_is_its_entry() -> None:
    assert encode([[given_out(gone=False)]], resp3=False) == b"*1\r\n" + ENTRY_BYTES


def test_a_delivery_whose_entry_is_gone_has_no_fields() -> None:
    assert encode([given_out(gone=True)], resp3=False) == b"*2\r\n$3\r\n5-3\r\n*-1\r\n"
    assert encode([given_out(gone=True)], resp3=True) == b"*2\r\n$3\r\n5-3\r\n_\r\n"


def test_replies_follow_one_another() -> None:
    assert encode([], resp3=False) == b""
    assert encode([OK, 1, [b"a"]], resp3=False) == b"+OK\r\n:1\r\n*1\r\n$1\r\na\r\n"


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_lists_nest_so_deep_and_no_deeper() -> None:
    assert encode([nested(32)], resp3=False) == b"*1\r\n" * 31 + b"*0\r\n"
    with pytest.raises(ArgumentError, match="deeper than 32"):
        encode([nested(33)], resp3=False)
    endless: list[Any] = []
    endless.append(Map([(b"k", endless)]))
    with pytest.raises(ArgumentError):
        encode(endless, resp3=True)


@pytest.mark.parametrize("value", [object(), {1: 2}, {1}, bytearray(b"x"), 1j, Status])
def test_what_is_no_reply_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="a reply is made of"):
        encode([value], resp3=False)
    with pytest.raises(ArgumentError, match="64 bits"):
        encode([2**64], resp3=False)
    assert encode([1], resp3=False) == b":1\r\n"  # and nothing of it is left over


SIMPLE = st.none() | st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=30)


def slow(value: Any) -> bytes:
    match value:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(value), value)
    return b"*%d\r\n" % len(value) + b"".join(slow(item) for item in value)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.recursive(SIMPLE, lambda inner: st.lists(inner, max_size=4), max_leaves=20), max_size=4))
def test_the_encoder_agrees_with_a_plain_one(replies: list[Any]) -> None:
    assert encode(replies, resp3=False) == b"".join(slow(reply) for reply in replies)
