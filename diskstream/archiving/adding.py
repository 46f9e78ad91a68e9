"""Entries into a Redis stream: XADD with their IDs, many at a time, the next ones sent before the last are answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diskstream import Entry
from diskstream.archiving.entries import refusal
from diskstream.archiving.server import Server
from diskstream.errors import ChangedError, quoted
from diskstream.redis_link import telling

__all__ = ["EntriesWriter"]

_RECEIVE_BYTES = 1 << 16


class EntriesWriter:
    """Adds to one key."""

    def __init__(self, server: Server, key: bytes) -> None:
        self._server, self._key = server, key
        self._connection: Any = None
        self._reader: Any = None
        self._waiting = 0

    def close(self) -> None:
        """Lets go of the connection; what was sent and not answered is added or not."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def add(self, entries: Sequence[Entry]) -> None:
        """Sends entries; those sent before are answered when this returns.

        Raises:
            ChangedError: an ID is not above the last one: somebody else adds to the key.
            RemoteError: the server failed or refused.
        """
        import hiredis

        pack, key = hiredis.pack_command, self._key
        payload = b"".join(
            [pack(("XADD", key, bytes(each.id), *[word for pair in each.pairs for word in pair])) for each in entries]
        )
        with telling(self._server.url, f"add to {quoted(self._key)}"):
            before = self._waiting
            self._send(payload)
            self._waiting += len(entries)
            self._take(before)

    def finish(self) -> None:
        """Returns when all is answered; raises as `add`."""
        with telling(self._server.url, f"add to {quoted(self._key)}"):
            self._take(self._waiting)

    def _connected(self) -> Any:
        import hiredis

        if self._connection is None:
            pool = self._server.client.connection_pool
            self._connection = pool.connection_class(**{**pool.connection_kwargs, "protocol": 2})
            self._connection.connect()
            self._reader = hiredis.Reader()
        return self._connection

    def _send(self, payload: bytes) -> None:
        import redis

        connection = self._connected()
        try:
            connection._sock.sendall(payload)  # redis-py would close it, with what was answered unread
        except TimeoutError as error:
            raise redis.TimeoutError(str(error)) from error
        except OSError as error:
            self._hear_why()
            raise redis.ConnectionError(str(error)) from error

    def _hear_why(self) -> None:
        """A server that hangs up amid a command has said why before, behind its other answers."""
        while True:
            try:
                data = self._connection._sock.recv(_RECEIVE_BYTES)
            except OSError:
                return
            if not data:
                return
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._check(reply)

    def _take(self, count: int) -> None:
        """Reads so many answers."""
        import redis

        while count:
            reply = self._reader.gets()
            if reply is False:
                try:
                    data = self._connection._sock.recv(_RECEIVE_BYTES)  # what redis-py would parse is not wanted
                except TimeoutError as error:
                    raise redis.TimeoutError(str(error)) from error
                except OSError as error:
                    raise redis.ConnectionError(str(error)) from error
                if not data:
                    raise redis.ConnectionError("it closed the connection")
                self._reader.feed(data)
                continue
            self._check(reply)
            count -= 1
            self._waiting -= 1

    def _check(self, reply: Any) -> None:
        """Raises what an answer refuses."""
        import hiredis

        if not isinstance(reply, hiredis.ReplyError):
            return
        self.close()
        text = str(reply)
        if "equal or smaller" in text:
            raise ChangedError(
                self._server.shown,
                f"somebody else adds to {quoted(self._key)}",
                "let one restore run at a time",
            )
        raise refusal(text)
