"""Where a command has its keys, and what it does with them: the key specifications of COMMAND INFO.

The words are Redis's (7.0.15; of commands that are newer, those of the version that has them). ``RO``, ``RW``, ``OW``
(overwrites) and ``RM`` (removes) say how the value is used, ``access``, ``insert``, ``update`` and ``delete`` what
becomes of what the user put there.
"""

from diskstream.commands.replies import Map, Reply, Status
from diskstream.commands.table import Command
from diskstream.commands.wire import set_of

__all__ = ["key_flags", "key_specs"]

_COMMANDS = {
    "RW update": "xadd xsetid xcfgset xidmprecord xgroup|setid xack xnack xclaim "
    "expire pexpire expireat pexpireat persist",
    "RW delete": "xtrim xdel xdelex xackdel xgroup|delconsumer xgroup|destroy xautoclaim srem",
    "RW insert": "xgroup|create xgroup|createconsumer lpush rpush sadd",
    "RW access update": "move incr",
    "RW access update variable_flags": "set",
    "RW access delete": "lpop rpop blpop brpop",
    "RO": "xlen object|encoding object|freq object|idletime object|refcount memory|usage exists touch type llen scard "
    "watch",
    "RO access": "xreadgroup xinfo|consumers xinfo|groups xinfo|stream xpending xrange xrevrange xread dump ttl pttl "
    "expiretime pexpiretime get lrange smembers",
    "OW update": "restore",
    "RM delete": "del unlink",
}
_FLAGS: dict[str, tuple[tuple[str, ...], ...]] = {
    name: (tuple(flags.split()),) for flags, names in _COMMANDS.items() for name in names.split()
}
# Of two keys each has its own.
_FLAGS["copy"] = ("RO", "access"), ("OW", "update")
_FLAGS["rename"] = ("RW", "access", "delete"), ("OW", "update")
_FLAGS["renamenx"] = ("RW", "access", "delete"), ("OW", "insert")
_NOTES = {
    "xadd": "UPDATE instead of INSERT because of the optional trimming feature",
    "set": "RW and ACCESS due to the optional `GET` argument",
}
# Behind which word the keys stand, looked for from which word on: the first half of what follows.
_KEYWORDS = {"xread": ("STREAMS", 1), "xreadgroup": ("STREAMS", 4)}


def key_specs(command: Command, protocol: int) -> list[Reply]:
    """The specifications of a command's keys; none where it has none."""
    found = _FLAGS.get(command.name, ())
    return [_spec(command, number, flags, len(found), protocol) for number, flags in enumerate(found)]


def _spec(command: Command, number: int, flags: tuple[str, ...], count: int, protocol: int) -> Reply:
    first, last, step = command.keys
    if command.name in _KEYWORDS:
        keyword, start = _KEYWORDS[command.name]
        begin: Reply = Map([("type", "keyword"), ("spec", Map([("keyword", keyword), ("startfrom", start)]))])
        behind, limit = -1, 2
    else:
        begin = Map([("type", "index"), ("spec", Map([("index", first + number)]))])
        behind, limit = (0 if count > 1 else last - first if last > 0 else last), 0
    wanted = Map([("lastkey", behind), ("keystep", step or 1), ("limit", limit)])
    pairs: list[tuple[Reply, Reply]] = [("notes", _NOTES[command.name])] if command.name in _NOTES else []
    pairs.append(("flags", set_of([Status(flag.encode()) for flag in flags], protocol)))
    pairs.append(("begin_search", begin))
    pairs.append(("find_keys", Map([("type", "range"), ("spec", wanted)])))
    return Map(pairs)


def key_flags(command: Command, number: int, words: list[bytes]) -> tuple[str, ...]:
    """What the command, called with these words, does with the key of that number."""
    if command.name == "set":  # the one whose flags vary
        return ("RW", "access", "update") if any(word.upper() == b"GET" for word in words[3:]) else ("OW", "update")
    found = _FLAGS[command.name]
    return found[min(number, len(found) - 1)]
