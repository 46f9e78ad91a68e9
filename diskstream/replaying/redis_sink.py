"""Adding entries to a stream of a Redis, exactly once: the position is written in the transaction that adds them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from diskstream import Entry
from diskstream.errors import ChangedError, RemoteError
from diskstream.ids import MIN_ID, EntryID
from diskstream.redis_link import shown, telling

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["STATE_PREFIX", "RedisSink"]

# A hash beside the stream: `plan`, what is replayed, and `position`. Once the replay is complete it goes after a while.
STATE_PREFIX: Final = b"diskstream:replay:"
_COMPLETE_TTL_S: Final = 30 * 24 * 3600


class RedisSink:
    """Adds entries to a stream of a Redis, by batches, each a transaction."""

    def __init__(self, client: "Redis", url: str, key: bytes, name: str, *, keep_ids: bool) -> None:
        """`name` tells this replay from others; `url` is for messages."""
        self._client: Any = client
        self._url, self._key, self._keep_ids = url, key, keep_ids
        self._state = STATE_PREFIX + name.encode()
        self._position: EntryID | None = None

    # --- the plan -----------------------------------------------------------------------------------------------------

    def plan(self) -> str | None:
        """What an earlier run wrote down; None where there was none."""
        with telling(self._url, "look up the replay"):
            found = self._client.hget(self._state, "plan")
        return None if found is None else found.decode()

    def begin(self, plan: str) -> None:
        """Writes down what is going to be replayed.

        Raises:
            ChangedError: another run was faster.
        """
        from redis import WatchError

        with telling(self._url, "begin the replay"), self._client.pipeline(transaction=True) as pipe:
            try:
                pipe.watch(self._state)
                if pipe.exists(self._state):
                    raise ChangedError(shown(self._url), "another run of this replay has just begun", _ALONE)
                pipe.multi()
                pipe.hset(self._state, mapping={"plan": plan, "position": str(MIN_ID)})
                pipe.execute()
            except WatchError:
                raise ChangedError(shown(self._url), "another run of this replay has just begun", _ALONE) from None

    def complete(self, plan: str) -> None:
        """Writes down that it is done; that is kept for 30 days."""
        with telling(self._url, "end the replay"), self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._state, "plan", plan)
            pipe.expire(self._state, _COMPLETE_TTL_S)
            pipe.execute()

    # --- entries ------------------------------------------------------------------------------------------------------

    def position(self) -> EntryID:
        """The ID of the entry that was added last.

        Raises:
            ChangedError: the stream is not what the replay left: it is gone, or was begun anew.
            RemoteError: the key is no stream, or the Redis cannot be asked.
        """
        with telling(self._url, "look up the position"):
            found, sent = self._client.hmget(self._state, "position", "sent")
            kind = self._client.type(self._key)
        if kind not in (b"none", b"stream"):
            raise RemoteError(shown(self._url), f"the key {self._shown_key()} is a {kind.decode()}", "name another key")
        self._position = MIN_ID if found is None else EntryID(found.decode())
        if self._position > MIN_ID and kind == b"none":
            what = f"the stream {self._shown_key()}, to which entries were replayed before, is gone"
            raise ChangedError(shown(self._url), what, _ANEW)
        if self._position > MIN_ID:
            self._check_same(int(sent or 0))
        return self._position

    def _check_same(self, sent: int) -> None:
        """Refuses a stream that cannot be the one to which so many entries were added."""
        assert self._position is not None
        with telling(self._url, "look up the stream"):
            info = self._client.xinfo_stream(self._key)
        last = info["last-generated-id"]
        behind = self._keep_ids and EntryID(last.decode() if isinstance(last, bytes) else str(last)) < self._position
        if behind or info.get("entries-added", sent) < sent:  # before Redis 7 there is no such count
            what = f"the stream {self._shown_key()}, to which entries were replayed before, was begun anew"
            raise ChangedError(shown(self._url), what, _ANEW)

    def last_id(self) -> EntryID:
        """The last ID of the stream; 0-0 where there is none."""
        with telling(self._url, "look up the stream"):
            return self._last_id(self._client)

    def _last_id(self, client: Any) -> EntryID:
        if not client.exists(self._key):
            return MIN_ID
        found = client.xinfo_stream(self._key)["last-generated-id"]
        return EntryID(found.decode() if isinstance(found, bytes) else str(found))

    def send(self, entries: Sequence[Entry]) -> None:
        """Adds them in one transaction, together with the new position.

        Raises:
            ChangedError: somebody else replays the same, or has added IDs beyond those that are to be kept.
            RemoteError: the Redis refused, or went away: then the next run finds out what it did.
        """
        from redis import WatchError

        before = self.position() if self._position is None else self._position
        watched = [self._state, self._key] if self._keep_ids else [self._state]
        with telling(self._url, "add entries"), self._client.pipeline(transaction=True) as pipe:
            try:
                pipe.watch(*watched)
                found = pipe.hget(self._state, "position")
                if (MIN_ID if found is None else EntryID(found.decode())) != before:
                    raise ChangedError(shown(self._url), "another run of this replay is at work", _ALONE)
                if self._keep_ids and self._last_id(pipe) >= entries[0].id:
                    raise ChangedError(shown(self._url), self._passed(entries[0].id), _NEW_IDS)
                pipe.multi()
                for entry in entries:
                    words = [word for pair in entry.pairs for word in pair]
                    pipe.execute_command("XADD", self._key, str(entry.id) if self._keep_ids else "*", *words)
                pipe.hset(self._state, "position", str(entries[-1].id))
                pipe.hincrby(self._state, "sent", len(entries))
                self._check(pipe.execute(raise_on_error=False), before)
            except WatchError:
                raise ChangedError(shown(self._url), "somebody else was faster with these keys", _ALONE) from None
        self._position = entries[-1].id

    def _check(self, answers: list[Any], before: EntryID) -> None:
        """Takes the position back where no entry was added: the key has become something else, say."""
        refused = [answer for answer in answers if isinstance(answer, Exception)]
        if not refused:
            return
        self._client.hincrby(self._state, "sent", -len(refused))
        if len(refused) == len(answers) - 2:  # all but the position and the count
            self._client.hset(self._state, "position", str(before))
        raise refused[0]

    def finish(self) -> None:
        """Does nothing: how durable it is, is for the Redis to say."""

    def _shown_key(self) -> str:
        return repr(self._key.decode("utf-8", "backslashreplace"))

    def _passed(self, entry_id: EntryID) -> str:
        return f"the stream {self._shown_key()} has passed the ID {entry_id}, which was to be kept"


_ANEW = "replay it again from its beginning with another --name"
_ALONE = "let one of them end, then run this again: it goes on where it stopped"
_NEW_IDS = "--ids new gives new IDs; or name another key"
