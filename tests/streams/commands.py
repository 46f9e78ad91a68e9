"""Redis's stream commands, to a server and to a store: the same words in, the same replies out (those of RESP2)."""

from collections.abc import Callable, Iterable
from typing import Any

import redis

from diskstream import DiskstreamError, Entry, Store

# One database of the server is ours.
_DATABASE = 9


class Refused(str):
    """The text of an error reply, without ``ERR``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Refused({str(self)!r})"


# Where a millisecond has no sequence left for `XADD key ms-*`, Redis 7.0 says the first, since 7.2 the second.
_FULL_MILLISECOND = (
    "Elements are too large to be stored",
    "The ID specified in XADD is equal or smaller than the target stream top item",
)


def agree(ours: object, theirs: object) -> bool:
    """Whether two replies are the same. An error of ours may go on, behind a colon, with what it is about."""
    if isinstance(ours, Refused) and isinstance(theirs, Refused):
        return ours == theirs or ours.startswith(f"{theirs}: ") or (theirs, ours) == _FULL_MILLISECOND
    return ours == theirs


class Server:
    """A connection to a Redis server."""

    def __init__(self, host: str, port: int, database: int = _DATABASE) -> None:
        connection: Any = redis.Connection  # it has no types, and a client would reshape replies
        self._connection = connection(host=host, port=port, db=database, protocol=2)
        self.run("FLUSHDB")

    def run(self, *words: Any) -> Any:
        return self.run_all([words])[0]

    def run_all(self, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Sends all commands at once."""
        packed = list(commands)
        self._connection.send_packed_command(self._connection.pack_commands(packed))
        return [self._reply() for _ in packed]

    def _reply(self) -> Any:
        try:
            return self._connection.read_response()
        except redis.ResponseError as error:
            return Refused(error)

    def close(self) -> None:
        self._connection.disconnect()


def _entry(entry: Entry) -> list[Any]:
    return [bytes(entry.id), [word for pair in entry.pairs for word in pair]]


def _entries(found: Iterable[Entry]) -> list[Any]:
    return [_entry(entry) for entry in found]


def _trim(words: list[Any]) -> dict[str, Any]:
    """Takes ``MAXLEN|MINID [=|~] threshold [LIMIT n]`` from the front of `words`."""
    options: dict[str, Any] = {}
    while words and words[0] in ("NOMKSTREAM", "MAXLEN", "MINID", "LIMIT"):
        word = words.pop(0)
        if word == "NOMKSTREAM":
            options["nomkstream"] = True
            continue
        if words[0] in ("=", "~"):
            options["approximate"] = words.pop(0) == "~"
        options[word.lower()] = words.pop(0)
    return options


def _option(words: list[Any], name: str) -> Any:
    return words[words.index(name) + 1] if name in words else None


class Embedded:
    """The commands over an open store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def run(self, command: str, *words: Any) -> Any:
        method: Callable[[list[Any]], Any] = getattr(self, f"_{command.lower()}")
        try:
            return method(list(words))
        except DiskstreamError as error:
            return Refused(error)

    def _xadd(self, words: list[Any]) -> Any:
        stream = self.store.stream(words.pop(0))
        options = _trim(words)
        added = stream.add(list(zip(words[1::2], words[2::2], strict=True)), words[0], **options)
        return None if added is None else bytes(added)

    def _xdel(self, words: list[Any]) -> Any:
        return self.store.stream(words[0]).delete(*words[1:])

    def _xtrim(self, words: list[Any]) -> Any:
        return self.store.stream(words.pop(0)).trim(**_trim(words))

    def _xlen(self, words: list[Any]) -> Any:
        return len(self.store.stream(words[0]))

    def _xrange(self, words: list[Any]) -> Any:
        return _entries(self.store.stream(words[0]).range(words[1], words[2], _option(words, "COUNT")))

    def _xrevrange(self, words: list[Any]) -> Any:
        return _entries(self.store.stream(words[0]).revrange(words[1], words[2], _option(words, "COUNT")))

    def _xread(self, words: list[Any]) -> Any:
        names = words[words.index("STREAMS") + 1 :]
        middle = len(names) // 2
        asked = dict(zip(names[:middle], names[middle:], strict=True))
        found = self.store.read(asked, count=_option(words, "COUNT"))
        return [[name, _entries(entries)] for name, entries in found.items()] or None

    def _xsetid(self, words: list[Any]) -> Any:
        self.store.stream(words[0]).set_id(
            words[1], entries_added=_option(words, "ENTRIESADDED"), max_deleted_id=_option(words, "MAXDELETEDID")
        )
        return b"OK"

    def _xinfo(self, words: list[Any]) -> Any:
        info = self.store.stream(words[1]).info()
        return {
            b"length": info.length,
            b"last-generated-id": bytes(info.last_generated_id),
            b"max-deleted-entry-id": bytes(info.max_deleted_entry_id),
            b"entries-added": info.entries_added,
            b"recorded-first-entry-id": bytes(info.recorded_first_entry_id),
            b"groups": info.groups,
            b"first-entry": None if info.first_entry is None else _entry(info.first_entry),
            b"last-entry": None if info.last_entry is None else _entry(info.last_entry),
        }

    def _del(self, words: list[Any]) -> Any:
        return int(self.store.delete(words[0]))

    def _exists(self, words: list[Any]) -> Any:
        return int(self.store.exists(words[0]))

    def _rename(self, words: list[Any]) -> Any:
        self.store.rename(words[0], words[1])
        return b"OK"


def info_of(reply: Any) -> Any:
    """XINFO STREAM of a server as a dictionary, without what a store has no counterpart for."""
    if isinstance(reply, Refused):
        return reply
    found = dict(zip(reply[::2], reply[1::2], strict=True))
    return {name: value for name, value in found.items() if not name.startswith(b"radix-tree")}
