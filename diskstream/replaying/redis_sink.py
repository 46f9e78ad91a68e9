"""Adding entries to a stream of a Redis, exactly once: the position is written in the transaction that adds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from diskstream import Entry
from diskstream.errors import ChangedError, RemoteError
from diskstream.ids import MIN_ID, EntryID
from diskstream.redis_link import shown, telling

if TYPE_CHECKING:
    from redis import Redis, WatchError

__all__ = ["STATE_PREFIX", "RedisSink"]

# A hash beside the stream: `plan`, what is replayed, `position`, how many entries were `sent`, and `gone` where the
# stream went meanwhile. Once the replay is complete it goes after a while.
STATE_PREFIX: Final = b"diskstream:replay:"
_COMPLETE_TTL_S: Final = 30 * 24 * 3600
# How often in a row others may change the key, by a trim say, between the look at it and the transaction.
_MOST_TRIES: Final = 100


@dataclass(frozen=True)
class _Reached:
    """What of a stream never falls, whoever trims it: a stream in which it has fallen is another one.

    Attributes:
        last_id: the greatest ID ever added; 0-0 where there is no stream.
        added: entries ever added; None where the Redis is older than 7, which keeps no such count.
    """

    last_id: EntryID
    added: int | None

    def is_behind(self, least: "_Reached") -> bool:
        fewer = self.added is not None and least.added is not None and self.added < least.added
        return fewer or self.last_id < least.last_id


class RedisSink:
    """Adds entries to a stream of a Redis, by batches, each a transaction."""

    def __init__(self, client: "Redis", url: str, key: bytes, name: str, *, keep_ids: bool) -> None:
        """`name` tells this replay from others; `url` is for messages."""
        self._client: Any = client
        self._url, self._key, self._keep_ids = url, key, keep_ids
        self._state = STATE_PREFIX + name.encode()
        self._position: EntryID | None = None
        self._least = _NOTHING  # what the stream had reached with what was sent

    # --- the plan -----------------------------------------------------------------------------------------------------

    def plan(self) -> str | None:
        """What an earlier run wrote down; None where there was none."""
        with telling(self._url, "look up the replay"):
            found = self._client.hget(self._state, "plan")
        return None if found is None else found.decode("utf-8", "backslashreplace")  # which no checksum fits

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
            except WatchError as error:
                _raise_if_lost(error)
                raise ChangedError(shown(self._url), "another run of this replay has just begun", _ALONE) from None

    def complete(self, plan: str) -> None:
        """Writes down that it is done; that is kept for 30 days.

        Raises:
            ChangedError: it is not: what was noted of it is gone, or somebody else goes on with it.
        """
        from redis import WatchError

        with telling(self._url, "end the replay"), self._client.pipeline(transaction=True) as pipe:
            try:
                pipe.watch(self._state)
                self._check_position(pipe, self.position() if self._position is None else self._position)
                pipe.multi()
                pipe.hset(self._state, "plan", plan)
                pipe.expire(self._state, _COMPLETE_TTL_S)
                pipe.execute()
            except WatchError as error:
                _raise_if_lost(error)
                raise ChangedError(shown(self._url), _AT_WORK, _ALONE) from None

    # --- entries ------------------------------------------------------------------------------------------------------

    def position(self) -> EntryID:
        """The ID of the entry that was added last.

        Raises:
            ChangedError: the stream is not what the replay left: it is gone, or was begun anew; or what was noted of
                the replay is not what was written.
            RemoteError: the key is no stream, or the Redis cannot be asked.
        """
        with telling(self._url, "look up the position"):
            plan, found, sent, gone = self._client.hmget(self._state, "plan", "position", "sent", "gone")
            kind = self._client.type(self._key)
        if kind not in (b"none", b"stream"):
            raise RemoteError(shown(self._url), f"the key {self._shown_key()} is a {kind.decode()}", "name another key")
        if plan is not None and found is None:  # they are written together
            raise ChangedError(shown(self._url), _FORGOTTEN, _ANEW)
        try:
            self._position, count = MIN_ID if found is None else EntryID(found.decode()), int(sent or 0)
        except ValueError:
            raise ChangedError(shown(self._url), "what was noted of the replay cannot be read", _ANEW) from None
        if gone is not None:
            raise self._other("is gone")
        if self._position > MIN_ID:
            self._least = _Reached(self._position if self._keep_ids else MIN_ID, count)
            self.check_same()
        return self._position

    def check_same(self) -> None:
        """Makes sure that the stream is the one to which entries were added; its owner may have trimmed it.

        Raises:
            ChangedError: it is gone, or was begun anew.
        """
        with telling(self._url, "look up the stream"):
            self._reached(self._client)

    def _reached(self, client: Any) -> _Reached:
        """How far the stream is; checked where anything was added to it."""
        from redis import ResponseError

        try:
            info = client.xinfo_stream(self._key)
        except ResponseError as error:
            if "no such key" not in str(error):
                raise
            info = None
        reached = _NOTHING if info is None else _Reached(_as_id(info["last-generated-id"]), info.get("entries-added"))
        if (self._position or MIN_ID) > MIN_ID and (info is None or reached.is_behind(self._least)):
            raise self._other("is gone" if info is None else "was begun anew")
        return reached

    def _check_position(self, client: Any, before: EntryID) -> None:
        found = client.hget(self._state, "position")
        if found is None and before > MIN_ID:
            raise ChangedError(shown(self._url), _FORGOTTEN, _ANEW)
        if found not in (None, str(before).encode()):
            raise ChangedError(shown(self._url), _AT_WORK, _ALONE)

    def last_id(self) -> EntryID:
        """The last ID of the stream; 0-0 where there is none."""
        with telling(self._url, "look up the stream"):
            return self._reached(self._client).last_id

    def send(self, entries: Sequence[Entry]) -> None:
        """Adds them in one transaction, together with the new position.

        Raises:
            ChangedError: somebody else replays the same, or has added IDs beyond those that are to be kept.
            RemoteError: the Redis refused, or went away: then the next run finds out what it did.
        """
        from redis import WatchError

        before = self.position() if self._position is None else self._position
        with telling(self._url, "add entries"), self._client.pipeline(transaction=True) as pipe:
            for _ in range(_MOST_TRIES):
                try:
                    self._add(pipe, entries, before)
                except WatchError as error:  # nothing was done, and what has changed is looked at
                    _raise_if_lost(error)
                    continue
                self._position = entries[-1].id
                return
        raise ChangedError(shown(self._url), "others change these keys all the time", _ALONE)

    def _add(self, pipe: Any, entries: Sequence[Entry], before: EntryID) -> None:
        """One try.

        With new IDs others may add at any time, so the key is not watched. The transaction tells whether it went since
        the look; the stream is then noted as gone, lest a later run goes on behind what was just added.
        """
        pipe.watch(*([self._state, self._key] if self._keep_ids else [self._state]))
        reached = self._reached(pipe)
        self._check_position(pipe, before)
        if self._keep_ids and reached.last_id >= entries[0].id:
            raise ChangedError(shown(self._url), self._passed(entries[0].id), _NEW_IDS)
        pipe.multi()
        pipe.exists(self._key)
        for entry in entries:
            words = [word for pair in entry.pairs for word in pair]
            pipe.execute_command("XADD", self._key, str(entry.id) if self._keep_ids else "*", *words)
        pipe.hset(self._state, "position", str(entries[-1].id))
        pipe.hincrby(self._state, "sent", len(entries))
        there, *answers = pipe.execute(raise_on_error=False)
        self._check(entries, answers, before)
        if before > MIN_ID and not there:
            self._client.hset(self._state, "gone", 1)
            raise self._other("is gone")
        last = answers[len(entries) - 1]
        added = None if reached.added is None else reached.added + len(entries)
        self._least = _Reached(_as_id(last), added)

    def _check(self, entries: Sequence[Entry], answers: list[Any], before: EntryID) -> None:
        """Takes the position back to the last entry that was added: the key has become something else, say.

        Behind the first that is refused none is added: what refuses it, a key of another type or a stream that has no
        IDs left, refuses them all.
        """
        refused = [number for number, answer in enumerate(answers) if isinstance(answer, Exception)]
        if not refused:
            return
        added = min(refused[0], len(entries))
        with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._state, "position", str(entries[added - 1].id if added else before))
            pipe.hincrby(self._state, "sent", added - len(entries))
            pipe.execute()
        raise answers[refused[0]]

    def finish(self) -> None:
        """Does nothing: how durable it is, is for the Redis to say."""

    def _shown_key(self) -> str:
        return repr(self._key.decode("utf-8", "backslashreplace"))

    def _other(self, how: str) -> ChangedError:
        what = f"the stream {self._shown_key()}, to which entries were replayed before, {how}"
        return ChangedError(shown(self._url), what, _ANEW)

    def _passed(self, entry_id: EntryID) -> str:
        return f"the stream {self._shown_key()} has passed the ID {entry_id}, which was to be kept"


def _raise_if_lost(error: "WatchError") -> None:
    """A connection that is lost while keys are watched is a `WatchError` to redis-py, and no change by anybody.

    Raises:
        RedisError: what became of the connection. What was sent last may have been done.
    """
    from redis import ConnectionError as LostError
    from redis import TimeoutError as LateError

    if isinstance(error.__context__, LostError | LateError):
        raise error.__context__ from None


def _as_id(found: Any) -> EntryID:
    return EntryID(found.decode() if isinstance(found, bytes) else str(found))


_NOTHING = _Reached(MIN_ID, 0)
_ANEW = "replay it again from its beginning with another --name"
_FORGOTTEN = "what was noted of the replay is gone"
_AT_WORK = "another run of this replay is at work"
_ALONE = "let one of them end, then run this again: it goes on where it stopped"
_NEW_IDS = "--ids new gives new IDs; or name another key"
