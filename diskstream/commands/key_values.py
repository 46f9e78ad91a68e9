"""Keys of other types than stream: strings, lists and sets, as far as the rules about types and transactions need."""

import math
import re
import time

from diskstream.commands.arguments import INT_MAX, Words, as_int
from diskstream.commands.caller import Caller
from diskstream.commands.failures import SYNTAX, WRONG_TYPE
from diskstream.commands.replies import NIL_ARRAY, OK, Failure, Reply
from diskstream.commands.table import Command
from diskstream.commands.waiting import Waiting
from diskstream.commands.wire import set_of
from diskstream.errors import StreamExistsError

__all__ = ["COMMANDS"]

_DECIMAL = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?inf(?:inity)?", re.IGNORECASE)


def _values(caller: Caller, key: bytes, kind: str) -> tuple[bytes, ...]:
    return caller.keyspace.values(caller.database, key, kind) or ()


def _put(caller: Caller, key: bytes, kind: str, values: tuple[bytes, ...], *, fresh: bool = False) -> None:
    """Makes a key hold these elements; nothing of it stays where there are none. It is `fresh` where there was no key.

    Raises:
        Failure: it is a stream by now, which somebody has made who has the store open.
    """
    keyspace = caller.keyspace
    if not values:
        keyspace.delete(caller.database, key)
        return
    expires = keyspace.expires_at(caller.database, key)
    try:
        keyspace.put_values(caller.database, key, kind, values, expires=expires, replace=not fresh)
    except StreamExistsError as error:
        raise Failure(WRONG_TYPE) from error


# --- strings ----------------------------------------------------------------------------------------------------------


def _set_options(caller: Caller, words: list[bytes]) -> tuple[set[bytes], int | None]:
    """The plain options of SET, and when the key expires: a number is looked at once all words are understood."""
    found: set[bytes] = set()
    expiry: tuple[bytes, bytes] | None = None
    left = Words(words, 3)
    while left:
        option = left.take_option()
        if option in (b"NX", b"XX", b"GET", b"KEEPTTL"):
            found.add(option)
        elif option in (b"EX", b"PX", b"EXAT", b"PXAT") and (expiry is None or expiry[0] == option):
            expiry = option, left.take()
        else:
            raise Failure(SYNTAX)
    if {b"NX", b"XX"} <= found or (b"KEEPTTL" in found and expiry is not None):
        raise Failure(SYNTAX)
    return found, None if expiry is None else _expires(caller, *expiry)


def _expires(caller: Caller, option: bytes, word: bytes) -> int:
    expires = as_int(word) * (1000 if option.startswith(b"EX") else 1)
    if 0 < expires <= INT_MAX and not option.endswith(b"AT"):
        expires += caller.keyspace.now_ms()
    if not 0 < expires <= INT_MAX:
        raise Failure("ERR invalid expire time in 'set' command")
    return expires


def _set(caller: Caller, words: list[bytes]) -> Reply:
    keyspace, key = caller.keyspace, words[1]
    options, expires = _set_options(caller, words)
    with keyspace.changing():
        kind = keyspace.kind(caller.database, key)
        before: Reply = None
        if b"GET" in options:
            before = next(iter(_values(caller, key, "string")), None)
        if (b"NX" in options and kind is not None) or (b"XX" in options and kind is None):
            return before
        if b"KEEPTTL" in options:
            expires = keyspace.expires_at(caller.database, key)
        replace = kind is not None or b"NX" not in options
        try:
            keyspace.put_values(caller.database, key, "string", (words[2],), expires=expires, replace=replace)
        except StreamExistsError:  # somebody who has the store open was faster
            return _set(caller, words)
    return before if b"GET" in options else OK


def _get(caller: Caller, words: list[bytes]) -> Reply:
    return next(iter(_values(caller, words[1], "string")), None)


def _increase(caller: Caller, words: list[bytes]) -> Reply:
    with caller.keyspace.changing():
        found = _values(caller, words[1], "string")
        number = as_int(found[0] if found else b"0") + 1
        if number > 2**63 - 1:
            raise Failure("ERR increment or decrement would overflow")
        _put(caller, words[1], "string", (b"%d" % number,), fresh=not found)
    return number


# --- lists ------------------------------------------------------------------------------------------------------------


def _push(caller: Caller, words: list[bytes]) -> Reply:
    with caller.keyspace.changing():
        found = _values(caller, words[1], "list")
        left = words[0][:1].upper() == b"L"
        after = (*reversed(words[2:]), *found) if left else (*found, *words[2:])
        _put(caller, words[1], "list", after, fresh=not found)
    return len(after)


def _range(caller: Caller, words: list[bytes]) -> Reply:
    start, end = as_int(words[2]), as_int(words[3])
    found = _values(caller, words[1], "list")
    start = max(0, start + len(found) if start < 0 else start)
    end = end + len(found) if end < 0 else end
    return list(found[start : end + 1]) if end >= 0 else []


def _length(caller: Caller, words: list[bytes]) -> Reply:
    return len(_values(caller, words[1], "list"))


def _take(caller: Caller, key: bytes, most: int, *, left: bool) -> list[bytes]:
    """Takes so many elements from an end of a list, or all: one change, which is done or not."""
    with caller.keyspace.changing():
        found = _values(caller, key, "list")
        count = min(most, len(found))
        if count:
            _put(caller, key, "list", found[count:] if left else found[: len(found) - count])
    return list(found[:count] if left else reversed(found[len(found) - count :]))


def _pop(caller: Caller, words: list[bytes]) -> Reply:
    left = words[0][:1].upper() == b"L"
    if len(words) == 2:
        return next(iter(_take(caller, words[1], 1, left=left)), None)
    if len(words) > 3:
        raise Failure(f"ERR wrong number of arguments for '{'l' if left else 'r'}pop' command")
    count = as_int(words[2], "ERR value is out of range, must be positive", least=0)
    with caller.keyspace.changing():
        return _take(caller, words[1], count, left=left) if _values(caller, words[1], "list") else NIL_ARRAY


def _timeout_s(word: bytes) -> float:
    # `float` also takes blanks around a number and underscores within.
    seconds = float(word) if _DECIMAL.fullmatch(word) else math.nan
    if math.isnan(seconds):
        raise Failure("ERR timeout is not a float or out of range")
    if seconds < 0:
        raise Failure("ERR timeout is negative")
    if seconds * 1000 > INT_MAX:
        raise Failure("ERR timeout is out of range")
    return seconds


def _pop_or_wait(caller: Caller, words: list[bytes]) -> "Reply | Waiting":
    seconds = _timeout_s(words[-1])
    database, keys, left = caller.database, tuple(words[1:-1]), words[0][1:2].upper() == b"L"

    def look(*, first: bool = False) -> Reply | None:
        for key in keys:
            kind = caller.keyspace.kind(database, key)
            if kind == "list" and (taken := _take(caller, key, 1, left=left)):
                return [key, *taken]
            if kind not in (None, "list") and first:
                raise Failure(WRONG_TYPE)
        return None

    found = look(first=True)
    if found is not None:
        return found
    if not caller.may_wait:
        return NIL_ARRAY
    until = time.monotonic() + seconds if seconds else None
    return Waiting(database, keys, until, look, kin=("list", database, keys), rings=False)


# --- sets -------------------------------------------------------------------------------------------------------------


def _add(caller: Caller, words: list[bytes]) -> Reply:
    with caller.keyspace.changing():
        found = _values(caller, words[1], "set")
        after = tuple(dict.fromkeys((*found, *words[2:])))
        if len(after) > len(found):
            _put(caller, words[1], "set", after, fresh=not found)
    return len(after) - len(found)


def _remove(caller: Caller, words: list[bytes]) -> Reply:
    with caller.keyspace.changing():
        found, gone = _values(caller, words[1], "set"), frozenset(words[2:])
        after = tuple(value for value in found if value not in gone)
        if len(after) < len(found):
            _put(caller, words[1], "set", after)
    return len(found) - len(after)


def _members(caller: Caller, words: list[bytes]) -> Reply:
    return set_of(_values(caller, words[1], "set"), caller.protocol)


def _cardinality(caller: Caller, words: list[bytes]) -> Reply:
    return len(_values(caller, words[1], "set"))


_READ, _WRITE = frozenset({"readonly", "fast"}), frozenset({"write", "fast", "denyoom"})
_BLOCKING = frozenset({"write", "blocking", "noscript"})
_ONE, _KEYS = (1, 1, 1), (1, -2, 1)


COMMANDS = (
    Command(
        "set",
        -3,
        _set,
        _WRITE - {"fast"},
        _ONE,
        "string",
        "1.0.0",
        "Sets the string value of a key, whatever its type.",
    ),
    Command("get", 2, _get, _READ, _ONE, "string", "1.0.0", "Returns the string value of a key."),
    Command("incr", 2, _increase, _WRITE, _ONE, "string", "1.0.0", "Increments the integer value of a key by one."),
    Command("lpush", -3, _push, _WRITE, _ONE, "list", "1.0.0", "Prepends elements to a list."),
    Command("rpush", -3, _push, _WRITE, _ONE, "list", "1.0.0", "Appends elements to a list."),
    Command("lrange", 4, _range, _READ - {"fast"}, _ONE, "list", "1.0.0", "Returns a range of elements of a list."),
    Command("llen", 2, _length, _READ, _ONE, "list", "1.0.0", "Returns the length of a list."),
    Command(
        "lpop",
        -2,
        _pop,
        _WRITE - {"denyoom"},
        _ONE,
        "list",
        "1.0.0",
        "Removes and returns the first elements of a list.",
    ),
    Command(
        "rpop",
        -2,
        _pop,
        _WRITE - {"denyoom"},
        _ONE,
        "list",
        "1.0.0",
        "Removes and returns the last elements of a list.",
    ),
    Command(
        "blpop", -3, _pop_or_wait, _BLOCKING, _KEYS, "list", "2.0.0", "Removes the first element of a list, or waits."
    ),
    Command(
        "brpop", -3, _pop_or_wait, _BLOCKING, _KEYS, "list", "2.0.0", "Removes the last element of a list, or waits."
    ),
    Command("sadd", -3, _add, _WRITE, _ONE, "set", "1.0.0", "Adds members to a set."),
    Command("srem", -3, _remove, _WRITE - {"denyoom"}, _ONE, "set", "1.0.0", "Removes members of a set."),
    Command("smembers", 2, _members, _READ - {"fast"}, _ONE, "set", "1.0.0", "Returns all members of a set."),
    Command("scard", 2, _cardinality, _READ, _ONE, "set", "1.0.0", "Returns the number of members of a set."),
)
