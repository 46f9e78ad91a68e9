"""Commands that read entries, whoever was given them: XRANGE, XREVRANGE and XREAD."""

from collections.abc import Collection

from diskstream._native import Entry, EntryID
from diskstream.commands.arguments import Words, c_text
from diskstream.commands.begun_anew import begun_anew
from diskstream.commands.caller import Caller
from diskstream.commands.failures import SYNTAX
from diskstream.commands.id_words import as_end, as_id, as_start
from diskstream.commands.replies import NIL_ARRAY, Failure, Reply
from diskstream.commands.stream_read_options import (
    Found,
    ReadOptions,
    answer,
    as_reply,
    bounded,
    capped,
    in_runs,
    most_bytes,
    parse_read,
)
from diskstream.commands.table import Command
from diskstream.commands.waiting import Waiting

__all__ = ["COMMANDS", "read_keys"]

_ONLY_GROUPS = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."


def _range(caller: Caller, given: list[bytes], start: bytes, end: bytes, *, reverse: bool) -> Reply:
    low, high = as_start(start), as_end(end)
    words, count = Words(given, 4), -1
    while words:
        if words.option() != b"COUNT" or words.left < 2:  # the word and its value
            raise Failure(SYNTAX)
        words.take()
        count = max(0, words.take_int())
    stream = caller.keyspace.stream(caller.database, given[1])
    if not stream.exists():
        return []
    if count == 0:
        return NIL_ARRAY
    limit = None if count < 0 else count
    most = most_bytes(caller, limit)

    def read() -> list[Entry]:
        entries = stream.revrange(high, low, limit) if reverse else stream.range(low, high, limit)
        return list(entries) if most is None else bounded(iter(entries), most)

    return begun_anew(read)


def _xrange(caller: Caller, given: list[bytes]) -> Reply:
    return _range(caller, given, given[2], given[3], reverse=False)


def _xrevrange(caller: Caller, given: list[bytes]) -> Reply:
    return _range(caller, given, given[3], given[2], reverse=True)


def _xread(caller: Caller, given: list[bytes]) -> Reply | Waiting:
    asked = capped(caller, parse_read(given, grouped=False))
    database, keyspace = caller.database, caller.keyspace
    positions: list[tuple[bytes, EntryID | str]] = []
    # Behind an end that was just found there is nothing yet: whoever waits looks again once it is listened for.
    ends: set[int] = set()
    for key, word in zip(asked.keys, asked.ids, strict=True):
        stream = keyspace.stream(database, key)
        text = c_text(word)
        if text == b"$":
            ends.add(len(positions))
            positions.append((key, stream.last_id()))
        elif text == b"+":
            positions.append((key, "+"))  # the last entry as of each look
        elif text == b">":
            raise Failure(_ONLY_GROUPS)
        else:
            positions.append((key, as_id(word)))

    def read(run: dict[bytes, EntryID | str], caps: ReadOptions) -> Found:
        store = keyspace.store(database)  # another one by now where it waited through a SWAPDB, or DEBUG RELOAD
        return list(store.read(run, count=caps.count, max_count=caps.max_count, max_bytes=caps.max_bytes).items())

    def look(changed: Collection[bytes] | None = None) -> Reply | None:
        return look_at(positions if changed is None else [each for each in positions if each[0] in changed])

    def look_at(those: list[tuple[bytes, EntryID | str]]) -> Reply | None:
        # A key that became of another type while this waits is passed over, as one that is gone.
        there = [(key, after) for key, after in those if not keyspace.is_other(database, key)]
        found = in_runs(there, asked, read)
        return as_reply(caller.protocol, [*found]) if found else None

    first = [each for place, each in enumerate(positions) if place not in ends]
    return answer(caller, asked, look, first=lambda: look_at(first), only=look)


def read_keys(given: list[bytes], least: int = 1) -> list[bytes]:
    """The keys of XREAD and XREADGROUP: the first half of what is behind STREAMS, the `least`-th word or later."""
    places = range(least, len(given))
    at = next((place for place in places if c_text(given[place]).upper() == b"STREAMS"), len(given))
    rest = given[at + 1 :]
    return rest[: len(rest) // 2]


_READ = frozenset({"readonly"})
COMMANDS = (
    Command("xrange", -4, _xrange, _READ, (1, 1, 1), summary="Entries from an ID to another."),
    Command("xrevrange", -4, _xrevrange, _READ, (1, 1, 1), summary="The same backwards."),
    Command(
        "xread",
        -4,
        _xread,
        _READ | {"blocking"},
        find_keys=read_keys,
        summary="Entries behind an ID in each of several streams; may wait for some.",
    ),
)
