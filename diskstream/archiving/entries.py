"""Entries of a Redis stream as packed rows: XRANGE over a connection of its own, the next batch asked for in time."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from diskstream.archiving.server import Server, members
from diskstream.digests import Digest
from diskstream.errors import ArgumentError, RemoteError, quoted
from diskstream.ids import MAX_ID, MIN_ID, EntryID
from diskstream.redis_link import telling
from diskstream.wire_adding import EntriesReply, PackedRows

__all__ = ["Batch", "EntriesReader", "refusal"]

_RECEIVE_BYTES = 1 << 18
_FRAME_BYTES = 4 << 20  # so much of a reply is in memory, packed, beside the entry that is being read
_REPLY_BYTES = 1 << 20  # what one reply should have, from what the entries before took
_GROWTH = 16  # of a reply, over the one before
_BESIDE_ENTRY_BYTES = 64


@dataclass(frozen=True)
class Batch:
    """What one reply held, once it is whole.

    Attributes:
        digest: of its entries.
        first_id, last_id: None where it held none.
    """

    digest: Digest
    first_id: EntryID | None
    last_id: EntryID | None


class EntriesReader:
    """Reads entries, for one thread."""

    def __init__(self, server: Server, max_count: int = 4000) -> None:
        self.server, self._max_count = server, max_count
        self._connection: Any = None
        self._count = 1

    def close(self) -> None:
        """Lets go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def read(
        self, key: bytes, after: EntryID, upto: EntryID, *, ahead: bool = True, there: EntryID | None = None
    ) -> Generator[tuple[list[PackedRows], Batch | None]]:
        """Frames of entries behind `after`, up to `upto`, as they come; and the batch, with the last of its frames.

        Args:
            key: the stream.
            after, upto: IDs; `upto` is included.
            ahead: ask for the next batch before the last one is handed over.
            there: an entry that the source was seen to have. Where it does not come it was removed meanwhile, or who
                answers is not who was seen.

        Raises:
            RemoteError: the server failed or refused, or sent what no stream of ours can hold; or it is one that has
                not come as far.
        """
        following = after.next()
        if following is None or following > upto:
            return
        finished, came = False, after
        self._count = 1  # the next stream may have large entries
        reply = EntriesReply(_FRAME_BYTES)
        try:
            self._ask(key, following, upto)
            while not finished:
                with telling(self.server.url, f"read the stream {quoted(key)}"):
                    frames, batch = self._take(reply, key)
                if batch is None:
                    yield frames, None
                    continue
                following = self._behind(batch, upto)
                finished, came = following is None, batch.last_id or came
                self._learn(batch.digest)
                if following is not None and ahead:
                    self._ask(key, following, upto)
                yield frames, batch
                if following is not None and not ahead:
                    self._ask(key, following, upto)
            if there is not None and came < there:
                finished = False  # lest this connection is kept, if it is the wrong one
                self._check_reached(key, there)
                finished = True
        finally:
            if not finished:
                self.close()  # a reply may be under way

    def _check_reached(self, key: bytes, there: EntryID) -> None:
        """Makes sure that who answers has had an entry: of some replicas at one address another may lag.

        What it has not yet would be taken for removed, and never be copied.
        """
        import redis

        with telling(self.server.url, f"read the stream {quoted(key)}"):
            self._connection.send_command("XINFO", "STREAM", key)
            try:
                has = EntryID(members(self._connection.read_response())[b"last-generated-id"])
            except redis.ResponseError as error:
                if "no such key" not in str(error):
                    raise
                if self.server.stream(key) is None:
                    return  # it is gone for all
                has = MIN_ID
            if has < there:
                raise redis.ConnectionError(
                    f"it leads to a server that has come to {has}, and another one, at the same address, to {there}"
                )

    def _behind(self, batch: Batch, upto: EntryID) -> EntryID | None:
        """Where to go on; None at the end."""
        if batch.last_id is None or batch.last_id >= upto or batch.last_id == MAX_ID:
            return None
        return batch.last_id.next() if batch.digest.entries >= self._asked else None

    def _learn(self, digest: Digest) -> None:
        """Asks for as many entries as will be about one reply."""
        if digest.entries:
            each = digest.size_bytes // digest.entries + _BESIDE_ENTRY_BYTES
            self._count = max(1, min(self._max_count, _REPLY_BYTES // each, _GROWTH * self._count))

    def _ask(self, key: bytes, start: EntryID, upto: EntryID) -> None:
        with telling(self.server.url, f"read the stream {quoted(key)}"):
            if self._connection is None:
                pool = self.server.client.connection_pool
                connection = pool.connection_class(**{**pool.connection_kwargs, "protocol": 2})
                connection.connect()
                self._connection = connection
            self._asked = self._count
            words = ("XRANGE", key, bytes(start), bytes(upto), "COUNT", self._asked)
            packed = self._connection.pack_command(*words)
            self._connection.send_packed_command(packed, check_health=False)

    def _take(self, reply: EntriesReply, key: bytes) -> tuple[list[PackedRows], Batch | None]:
        import redis

        try:
            data = self._connection._sock.recv(_RECEIVE_BYTES)  # what redis-py parses is not what is wanted
        except TimeoutError as error:
            raise redis.TimeoutError(str(error)) from error
        except OSError as error:
            raise redis.ConnectionError(str(error)) from error
        if not data:
            raise redis.ConnectionError("it closed the connection")
        try:
            frames, whole = reply.feed(data)
        except ArgumentError as error:
            raise RemoteError(
                self.server.shown,
                f"cannot copy the stream {quoted(key)}: {error}",
                "what was copied before it is safe; export or remove this entry at the source to go on",
            ) from error
        if whole is None:
            return frames, None
        parts, first, last, refused = whole
        if refused is not None:
            raise refusal(refused.decode("utf-8", "replace"))
        return frames, Batch(Digest.of(parts), first, last)


def refusal(text: str) -> Exception:
    """The error of redis-py for the text of a refusal."""
    import redis

    kinds: dict[str, type[Exception]] = {
        "LOADING": redis.exceptions.BusyLoadingError,
        "MASTERDOWN": redis.exceptions.MasterDownError,
        "NOAUTH": redis.AuthenticationError,
        "NOPERM": redis.exceptions.NoPermissionError,
        "OOM": redis.exceptions.OutOfMemoryError,
        "READONLY": redis.exceptions.ReadOnlyError,
    }
    return kinds.get(text.split(" ", 1)[0], redis.ResponseError)(text)
