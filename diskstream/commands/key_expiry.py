"""Times of expiry: EXPIRE and its kin, TTL, PERSIST."""

from diskstream.commands.arguments import INT_MAX, INT_MIN, as_int, c_text
from diskstream.commands.caller import Caller
from diskstream.commands.replies import Failure, Reply
from diskstream.commands.table import Command, Run

__all__ = ["COMMANDS"]

_NO_KEY, _NO_TIME = -2, -1


def _conditions(words: list[bytes]) -> frozenset[bytes]:
    found = set()
    for word in words:
        if word.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise Failure(b"ERR Unsupported option %s" % c_text(word[:128]))
        found.add(word.upper())
    if b"NX" in found and len(found) > 1:
        raise Failure("ERR NX and XX, GT or LT options at the same time are not compatible")
    if {b"GT", b"LT"} <= found:
        raise Failure("ERR GT and LT options at the same time are not compatible")
    return frozenset(found)


def _holds(conditions: frozenset[bytes], before: int | None, after: int) -> bool:
    """Whether the conditions of an EXPIRE hold; no time of expiry is later than all others."""
    if b"NX" in conditions:
        return before is None
    if b"XX" in conditions and before is None:
        return False
    if b"GT" in conditions:
        return before is not None and after > before
    return b"LT" not in conditions or before is None or after < before


def _setter(name: str, unit_ms: int, *, absolute: bool) -> Run:
    invalid = f"ERR invalid expire time in '{name}' command"

    def run(caller: Caller, words: list[bytes]) -> Reply:
        conditions = _conditions(words[3:])
        keyspace = caller.keyspace
        expires = as_int(words[2]) * unit_ms
        if not INT_MIN <= expires <= INT_MAX:
            raise Failure(invalid)
        expires += 0 if absolute else keyspace.now_ms()
        if expires > INT_MAX:
            raise Failure(invalid)
        with keyspace.changing():
            if keyspace.kind(caller.database, words[1]) is None:
                return 0
            if not _holds(conditions, keyspace.expires_at(caller.database, words[1]), expires):
                return 0
            return int(keyspace.set_expiry(caller.database, words[1], expires))

    return run


def _getter(unit_ms: int, *, absolute: bool) -> Run:
    def run(caller: Caller, words: list[bytes]) -> Reply:
        keyspace = caller.keyspace
        if keyspace.kind(caller.database, words[1]) is None:
            return _NO_KEY
        expires = keyspace.expires_at(caller.database, words[1])
        if expires is None:
            return _NO_TIME
        left = expires if absolute else max(0, expires - keyspace.now_ms())
        return (left + unit_ms // 2) // unit_ms

    return run


def _persist(caller: Caller, words: list[bytes]) -> Reply:
    keyspace = caller.keyspace
    with keyspace.changing():
        if keyspace.expires_at(caller.database, words[1]) is None:
            return 0
        return int(keyspace.set_expiry(caller.database, words[1], None))


_ONE = (1, 1, 1)
_READ, _WRITE = frozenset({"readonly", "fast"}), frozenset({"write", "fast"})


COMMANDS = (
    Command(
        "expire",
        -3,
        _setter("expire", 1000, absolute=False),
        _WRITE,
        _ONE,
        "generic",
        "1.0.0",
        "Sets a key's life in seconds.",
    ),
    Command(
        "pexpire",
        -3,
        _setter("pexpire", 1, absolute=False),
        _WRITE,
        _ONE,
        "generic",
        "2.6.0",
        "Sets a key's life in milliseconds.",
    ),
    Command(
        "expireat",
        -3,
        _setter("expireat", 1000, absolute=True),
        _WRITE,
        _ONE,
        "generic",
        "1.2.0",
        "Sets when a key expires, in seconds.",
    ),
    Command(
        "pexpireat",
        -3,
        _setter("pexpireat", 1, absolute=True),
        _WRITE,
        _ONE,
        "generic",
        "2.6.0",
        "Sets when a key expires, in milliseconds.",
    ),
    Command(
        "ttl",
        2,
        _getter(1000, absolute=False),
        _READ,
        _ONE,
        "generic",
        "1.0.0",
        "Returns the seconds that a key has to live.",
    ),
    Command(
        "pttl",
        2,
        _getter(1, absolute=False),
        _READ,
        _ONE,
        "generic",
        "2.6.0",
        "Returns the milliseconds that a key has to live.",
    ),
    Command(
        "expiretime",
        2,
        _getter(1000, absolute=True),
        _READ,
        _ONE,
        "generic",
        "7.0.0",
        "Returns when a key expires, in seconds.",
    ),
    Command(
        "pexpiretime",
        2,
        _getter(1, absolute=True),
        _READ,
        _ONE,
        "generic",
        "7.0.0",
        "Returns when a key expires, in ms.",
    ),
    Command("persist", 2, _persist, _WRITE, _ONE, "generic", "2.2.0", "Removes the expiration time of a key."),
)
