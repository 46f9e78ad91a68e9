"""Commands and replies as bytes of RESP: the native core, bound to the classes of `diskstream.commands.replies`."""

from typing import Final

from diskstream._native import AddRun, CommandRun, Receiver, ReplyEncoder, RequestParser, send_each
from diskstream.commands.replies import ErrorReply, Map, NilArray, Raw, Reply, Status

__all__ = ["AddRun", "CommandRun", "Receiver", "RequestParser", "encode", "send_each"]

_ENCODER: Final = ReplyEncoder(Status, ErrorReply, Map, Raw, NilArray)


def encode(replies: list[Reply], *, resp3: bool) -> bytes:
    """The replies one behind the other, as a client of RESP2 or RESP3 reads them: docs/architecture-server.md.

    Raises:
        ArgumentError: a value that is no reply, a number of more than 64 bits, or lists nested deeper than 32.
    """
    return _ENCODER.encode(replies, resp3)
