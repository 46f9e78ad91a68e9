"""Commands and replies as bytes of RESP: the native core, bound to the classes of `diskstream.commands.replies`."""

from collections.abc import Collection
from typing import Final

from diskstream._native import AddRun, CommandRun, Receiver, ReplyEncoder, RequestParser, send_each
from diskstream.commands.replies import ErrorReply, Map, NilArray, Raw, Reply, Status

__all__ = ["AddRun", "CommandRun", "Receiver", "RequestParser", "encode", "report_of", "send_each", "set_of"]

_RESP3: Final = 3

_ENCODER: Final = ReplyEncoder(Status, ErrorReply, Map, Raw, NilArray)


def encode(replies: list[Reply], *, resp3: bool) -> bytes:
    """The replies one behind the other, as a client of RESP2 or RESP3 reads them: docs/architecture-server.md.

    Raises:
        ArgumentError: a value that is no reply, a number of more than 64 bits, or lists nested deeper than 32.
    """
    return _ENCODER.encode(replies, resp3)


def set_of(values: Collection[Reply], protocol: int) -> Reply:
    """Values in no order: a set of RESP3, an array of RESP2."""
    if protocol < _RESP3:
        return list(values)
    return Raw(b"~%d\r\n" % len(values) + encode(list(values), resp3=True))


def report_of(text: str, protocol: int) -> Reply:
    """Text that is made for people, of which INFO is: a verbatim string of RESP3, a bulk string of RESP2."""
    if protocol < _RESP3:
        return text
    shown = b"txt:" + text.encode("utf-8", "surrogateescape")
    return Raw(b"=%d\r\n%s\r\n" % (len(shown), shown))
