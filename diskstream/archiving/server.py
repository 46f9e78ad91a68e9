"""A Redis as an archiver sees it: who it is, which streams it has, what it says of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from diskstream.errors import RemoteError, quoted
from diskstream.ids import EntryID
from diskstream.redis_link import connect, is_passing, shown, takes_no_writes, telling

__all__ = ["Server", "ServerFacts", "SourceEntry", "StreamFacts", "has_wildcard", "members"]

_SCAN_AT_ONCE = 1000
_SCAN_TYPE_SINCE = (6,)
# Commands whose replies are wanted as they come, not as redis-py shapes them.
_AS_THEY_ARE = ("EVAL", "INFO", "SCAN", "TIME", "TYPE", "XCLAIM", "XINFO", "XPENDING", "XRANGE", "XREAD", "XREVRANGE")


@dataclass(frozen=True)
class ServerFacts:
    """Who a server is.

    Attributes:
        version: of the server, as numbers.
        replication_ids: what it and its replicas have in common, across restarts; the one before a failover too.
        is_replica: whether it takes no writes.
        is_cut_off: whether it is one that does not hear of what its primary has now.
        is_cluster: whether it holds a part of the keys only.
        is_ours: whether it is a `diskstream serve`, which runs no scripts.
    """

    version: tuple[int, ...]
    replication_ids: tuple[str, ...]
    is_replica: bool
    is_cut_off: bool
    is_cluster: bool
    is_ours: bool


@dataclass(frozen=True)
class StreamFacts:
    """A stream of the server at one moment.

    Attributes:
        length: entries.
        last_id: the greatest ID ever added, or set.
        entries_added: entries ever added; None where the server is older than 7.
        max_deleted_id: the greatest ID that was deleted; None likewise.
        first, last: the entries of the least and of the greatest ID; None where there are none.
        groups: consumer groups.
        ttl_ms: milliseconds until the key expires; None where it does not.
        windows: for how many seconds messages of producers are remembered, and how many of each; None where the server
            is older than 8.6.
    """

    length: int
    last_id: EntryID
    entries_added: int | None
    max_deleted_id: EntryID | None
    first: SourceEntry | None
    last: SourceEntry | None
    groups: int
    ttl_ms: int | None
    windows: tuple[int, int] | None


@dataclass(frozen=True)
class SourceEntry:
    """An entry as a server tells it.

    Attributes:
        id: its ID.
        pairs: its names and values.
    """

    id: EntryID
    pairs: list[tuple[bytes, bytes]]


def _entry(reply: Any) -> SourceEntry | None:
    if not reply:
        return None
    entry_id, words = reply
    return SourceEntry(EntryID(entry_id), list(zip(words[::2], words[1::2], strict=True)))


def members(reply: Any) -> dict[bytes, Any]:
    """Names and values of a reply: a map, or a list of both in turn."""
    if isinstance(reply, dict):
        return {_bytes(name): value for name, value in reply.items()}
    return {_bytes(name): value for name, value in zip(reply[::2], reply[1::2], strict=True)}


def _bytes(name: Any) -> bytes:
    return name if isinstance(name, bytes) else str(name).encode()


def has_wildcard(pattern: bytes) -> bool:
    """Whether a pattern of KEYS may match more than itself."""
    return any(mark in pattern for mark in b"*?[\\")


class Server:
    """A server, connected to. Safe under threads."""

    def __init__(self, url: str, *, timeout_s: float = 30.0) -> None:
        self.url, self.shown, self._timeout_s = url, shown(url), timeout_s
        self.client = self._connected()
        self.database = int(self.client.connection_pool.connection_kwargs.get("db") or 0)
        self.facts = self._facts()

    def _connected(self) -> Any:
        client: Any = connect(self.url, timeout_s=self._timeout_s)
        for name in _AS_THEY_ARE:
            client.set_response_callback(name, lambda reply, **_options: reply)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of all connections."""
        self.client.close()
        self.client.connection_pool.disconnect()

    def call(self, doing: str, *words: Any) -> Any:
        """One command; `doing` is what a refusal says could not be done.

        Raises:
            RemoteError: nobody answered, or with a refusal.
        """
        with telling(self.url, doing):
            return self.client.execute_command(*words)

    def look_again(self) -> None:
        """Connects anew, and asks who it is: it was away, and another one may answer.

        A connection that is open still leads to the one that was at this address when it was made.

        Raises:
            RemoteError: it is loading, or away still.
        """
        try:
            before, self.client = self.client, self._connected()  # INFO is answered while it loads, too
        except RemoteError as error:
            if is_passing(error):
                error.hint = None  # it was reached once: nothing is the matter with the address
            raise
        before.connection_pool.disconnect(inuse_connections=False)  # the lease may be under way on one
        self.facts = self._facts()

    def is_there(self) -> None:
        """Asks whether it is there. One that takes no writes for now is: what it holds can be read.

        Raises:
            RemoteError: it is loading, or away.
        """
        try:
            self.call("ask whether it is there", "PING")
        except RemoteError as error:
            if not takes_no_writes(error):
                raise

    def _facts(self) -> ServerFacts:
        reply = self.call("ask who it is", "INFO")
        text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
        found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        try:
            version = tuple(int(part) for part in found["redis_version"].split(".")[:3])
        except (KeyError, ValueError):
            raise RemoteError(self.shown, "it does not say which version it is", "is it a Redis?") from None
        if version < (5,):
            raise RemoteError(self.shown, f"version {found['redis_version']} has no streams", "5.0 was the first")
        ids = tuple(found[name] for name in ("master_replid", "master_replid2") if found.get(name, "").strip("0"))
        is_replica, is_cluster = found.get("role") == "slave", found.get("cluster_enabled") == "1"
        is_cut_off = is_replica and found.get("master_link_status") == "down"
        return ServerFacts(version, ids, is_replica, is_cut_off, is_cluster, is_ours="diskstream_version" in found)

    # --- keys ---------------------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        """Whether the database has no key at all."""
        reply = self.call("ask what it holds", "INFO", "keyspace")
        text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
        return f"db{self.database}:" not in text

    def kind(self, key: bytes) -> str:
        """The type of a key; ``none`` where there is none."""
        reply = self.call(f"look at {quoted(key)}", "TYPE", key)
        return reply.decode() if isinstance(reply, bytes) else str(reply)

    def named(self, pattern: bytes, *, others: bool = True) -> list[tuple[bytes, str]]:
        """The keys that a pattern means, in byte order, with their types; one without wildcards means itself.

        So does one with brackets or a backslash alone, where there is a key of that very name.

        Args:
            pattern: as KEYS has them; not empty.
            others: name keys that are no streams, too.
        """
        if not has_wildcard(pattern):
            return [(pattern, self.kind(pattern))]
        if not any(mark in pattern for mark in b"*?") and (kind := self.kind(pattern)) != "none":
            return [(pattern, kind)]
        streams = not others and self.facts.version >= _SCAN_TYPE_SINCE
        words: list[Any] = ["MATCH", pattern, "COUNT", _SCAN_AT_ONCE, *(["TYPE", "stream"] if streams else [])]
        kinds: dict[bytes, str] = {}
        cursor: Any = b"0"
        while True:
            cursor, found = self.call("list its keys", "SCAN", cursor, *words)
            kinds |= dict.fromkeys(found, "stream") if streams else dict(zip(found, self._kinds(found), strict=True))
            if int(cursor) == 0:
                return sorted(kinds.items())

    def _kinds(self, keys: list[bytes]) -> list[str]:
        with telling(self.url, "look at its keys"):
            pipeline = self.client.pipeline(transaction=False)
            for key in keys:
                pipeline.execute_command("TYPE", key)
            return [reply.decode() if isinstance(reply, bytes) else str(reply) for reply in pipeline.execute()]

    # --- one stream ---------------------------------------------------------------------------------------------------

    def stream(self, key: bytes) -> StreamFacts | None:
        """What is to be known of a stream; None where there is no such key.

        Raises:
            RemoteError: the key is of another type, or the server refused.
        """
        import redis

        with telling(self.url, f"look at the stream {quoted(key)}"):
            pipeline = self.client.pipeline(transaction=False)
            pipeline.execute_command("XINFO", "STREAM", key)
            pipeline.execute_command("PTTL", key)
            reply, ttl = pipeline.execute(raise_on_error=False)
            if isinstance(reply, redis.ResponseError) and "no such key" in str(reply):
                return None
            if isinstance(reply, Exception):
                raise reply
        found = members(reply)
        return StreamFacts(
            length=int(found[b"length"]),
            last_id=EntryID(found[b"last-generated-id"]),
            entries_added=_maybe(found.get(b"entries-added")),
            max_deleted_id=EntryID(found[b"max-deleted-entry-id"]) if b"max-deleted-entry-id" in found else None,
            first=_entry(found.get(b"first-entry")),
            last=_entry(found.get(b"last-entry")),
            groups=int(found[b"groups"]),
            ttl_ms=ttl if isinstance(ttl, int) and ttl >= 0 else None,
            windows=(int(found[b"idmp-duration"]), int(found[b"idmp-maxsize"])) if b"idmp-duration" in found else None,
        )

    def entry_upto(self, key: bytes, upto: EntryID) -> SourceEntry | None:
        """The last entry of a stream that is not behind an ID; None where there is none."""
        found = self.call(f"read the stream {quoted(key)}", "XREVRANGE", key, bytes(upto), "-", "COUNT", 1)
        return _entry(found[0] if found else None)


def _maybe(value: Any) -> int | None:
    return None if value is None else int(value)
