"""One client: its socket, what came and is not run yet, and what is to be sent."""

import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from diskstream.commands.caller import Buffers, Caller
from diskstream.commands.replies import Raw, Reply
from diskstream.commands.wire import AddRun, CommandRun, RequestParser
from diskstream.server.parts import Parser
from diskstream.server.poller import READ

if TYPE_CHECKING:
    from diskstream.commands.waiters import Waiter

__all__ = ["SOFT_OUT_BYTES", "UNKNOWN_OUT_BYTES", "Connection", "Socket"]

# A client that does not read: with so much to send to it, no more of its commands are run. Its memory is bounded by
# this and one reply.
SOFT_OUT_BYTES = 1 << 20
# With so much to send to one who has not said the password, it is closed: Redis gives it its first buffer and no more.
UNKNOWN_OUT_BYTES = 16 << 10
# More is sent in pieces, so that one client does not copy hundreds of megabytes to hand the kernel one.
_PIECE_BYTES = 1 << 20


class Socket(Protocol):
    """What is used of a socket; one with TLS behaves the same."""

    def recv(self, size: int, /) -> bytes:
        """Some bytes; none at the end. Raises BlockingIOError where there are none yet."""

    def send(self, data: bytes | memoryview, /) -> int:
        """Sends some. Raises BlockingIOError where nothing can go now."""

    def fileno(self) -> int:
        """The descriptor."""

    def close(self) -> None:
        """Closes it."""


class Connection:
    """A client of the server.

    Attributes:
        caller: what commands know of it.
        parser: of its bytes.
        plain: the same, where the native core reads from the socket and writes to it; None with TLS.
        only: the one reply so far, where it is bytes for the wire already and all that is to be sent; else None.
        replies: not encoded yet.
        reply_bytes: what the larger of those have, of names and values.
        protocol: the one they are for.
        out: encoded, not sent yet.
        pending: commands that came and must not run yet: it waits, is paused, or does not read its replies.
        backlog: bytes that came while it did not read its replies: they are looked at once it does.
        ended: whether it sends no more behind these.
        waiter: the wait it is in.
        paused: whether CLIENT PAUSE holds it back.
        clogged: whether it must first read what was sent.
        closing: whether it is closed once all is sent.
        closed: whether it is.
        mask: what the poller waits for.
        dirty: whether it is on the list of those to send to.
    """

    __slots__ = (
        "_encode",
        "backlog",
        "caller",
        "clogged",
        "closed",
        "closing",
        "dirty",
        "ended",
        "fd",
        "last_used",
        "mask",
        "only",
        "out",
        "parser",
        "paused",
        "pending",
        "plain",
        "protocol",
        "receive",
        "replies",
        "reply_bytes",
        "send",
        "sock",
        "waiter",
    )

    def __init__(
        self, sock: "Socket | socket.socket", caller: Caller, parser: Parser, encode: Callable[..., bytes]
    ) -> None:
        self.sock, self.caller, self._encode = sock, caller, encode
        self.fd = sock.fileno()
        self.take_parser(parser)
        self.receive, self.send = sock.recv, sock.send
        self.only: bytes | None = None
        self.replies: list[Reply] = []
        self.reply_bytes = 0
        self.protocol = caller.protocol
        self.out = bytearray()
        self.pending: deque[list[bytes] | AddRun | CommandRun] = deque()
        self.backlog = bytearray()
        self.waiter: Waiter[Connection] | None = None
        self.paused = self.clogged = self.closing = self.closed = self.dirty = self.ended = False
        self.mask = READ
        self.last_used = caller.last_used

    def __repr__(self) -> str:
        return f"<Connection {self.caller.id} from {self.caller.address}>"

    def take_parser(self, parser: Parser) -> None:
        """Has what comes from now on parsed by this one."""
        self.parser = parser
        self.plain = parser if isinstance(self.sock, socket.socket) and isinstance(parser, RequestParser) else None

    def buffers(self) -> Buffers:
        """What is kept for it."""
        commands = sum(len(word) for each in self.pending if isinstance(each, list) for word in each)
        unsent_bytes = len(self.out) + self.reply_bytes + len(self.only or b"")
        return Buffers(self.fd, self.parser.buffered_bytes + len(self.backlog) + commands, unsent_bytes)

    def held(self) -> bool:
        """Whether its commands must not run now."""
        return self.waiter is not None or self.paused or self.clogged or self.closing or self.closed

    def give(self, reply: Reply) -> None:
        """Puts a reply behind those before it."""
        if self.only is not None:
            self.replies.append(Raw(self.only))
            self.reply_bytes, self.only = len(self.only), None
        self.replies.append(reply)

    def encode(self) -> None:
        """Turns the replies so far into bytes: they may be large, or the protocol changes."""
        if self.only is not None:
            self.out += self.only
            self.only = None
        if self.replies:
            self.out += self._encode(self.replies, resp3=self.protocol == 3)  # noqa: PLR2004  # RESP3
            self.replies, self.reply_bytes = [], 0

    def flush(self) -> int:
        """Sends what can be sent now. Returns how many bytes went.

        Raises:
            OSError: the client is gone.
        """
        if not self.out:
            if self.only is not None:
                data, self.only = self.only, None
            elif self.replies:
                data = self._encode(self.replies, resp3=self.protocol == 3)  # noqa: PLR2004  # RESP3
                self.replies, self.reply_bytes = [], 0
            else:
                return 0
            if len(data) <= _PIECE_BYTES:
                try:
                    sent = self.send(data)
                except (BlockingIOError, InterruptedError):
                    sent = 0
                if sent < len(data):
                    self.out += data[sent:]
                return sent
            self.out += data
        else:
            self.encode()
        total = 0
        while self.out:
            with memoryview(self.out) as view, view[:_PIECE_BYTES] as piece:
                try:
                    sent = self.send(piece)
                except (BlockingIOError, InterruptedError):
                    break
            del self.out[:sent]
            total += sent
        return total
