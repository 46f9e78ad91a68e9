"""Replies in redis-py's shapes: first as its parser gives them for a protocol, then as its methods return them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from diskstream import Delivery, Entry, EntryID
from diskstream.commands.replies import ErrorReply, Map, NilArray, Raw, Reply, Status
from diskstream.compat.errors import error_of
from diskstream.compat.facts import facts_of_info
from diskstream.compat.raw import parse_all

__all__ = ["RESP3", "Decode", "Shape", "Shapes", "parsed", "shapes_for"]

RESP3 = 3

Decode: TypeAlias = Callable[[bytes], bytes | str]
# What a method returns, of what the parser gave and of the options that the method called with.
Shape: TypeAlias = Callable[[Any, Mapping[str, Any]], Any]
Shapes: TypeAlias = Mapping[str, Shape]


def parsed(reply: Reply, protocol: int, decode: Decode, *, for_shape: bool = False) -> Any:
    """A reply as redis-py's parser gives it, had it come over a socket: errors are exceptions, not raised.

    Args:
        reply: see docs/architecture-server.md.
        protocol: 2 or 3.
        decode: what becomes of each string; `bytes` is nothing.
        for_shape: an entry's fields are a dictionary at once, of which a shape would only make one.
    """
    if reply is None or isinstance(reply, NilArray):
        return None
    if isinstance(reply, bytes):
        return decode(reply)
    if isinstance(reply, bool):
        return reply if protocol == RESP3 else int(reply)
    if isinstance(reply, int):
        return reply
    if isinstance(reply, Entry):
        return [decode(bytes(reply.id)), _entry_fields(reply, decode, for_shape=for_shape)]
    if isinstance(reply, list | tuple):
        return [parsed(one, protocol, decode, for_shape=for_shape) for one in reply]
    if isinstance(reply, Map):
        parts = [parsed(part, protocol, decode, for_shape=for_shape) for pair in reply.pairs for part in pair]
        return dict(zip(parts[::2], parts[1::2], strict=True)) if protocol == RESP3 else parts
    return _rarely(reply, protocol, decode)


def _entry_fields(entry: Entry, decode: Decode, *, for_shape: bool) -> Any:
    if isinstance(entry, Delivery) and entry.gone:
        return None
    if not for_shape:
        return [decode(word) for pair in entry.pairs for word in pair]
    return entry.fields if decode is bytes else {decode(name): decode(value) for name, value in entry.pairs}


def _rarely(reply: Reply, protocol: int, decode: Decode) -> Any:
    if isinstance(reply, EntryID):
        return decode(bytes(reply))
    if isinstance(reply, Status):
        return decode(reply.text)
    if isinstance(reply, str):
        return decode(reply.encode())
    if isinstance(reply, float):
        return reply if protocol == RESP3 else decode(b"%.17g" % reply)
    if isinstance(reply, ErrorReply):
        return error_of(reply)
    if isinstance(reply, Raw):
        return parsed(parse_all(reply.data), protocol, decode)
    raise TypeError(f"a command answered with {type(reply).__name__}, which is no reply")


# --- what methods return ----------------------------------------------------------------------------------------------


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _bool(reply: Any, _options: Mapping[str, Any]) -> bool:
    return bool(reply)


def _ok(reply: Any, _options: Mapping[str, Any]) -> bool:
    return bool(_text(reply) == "OK")


def _fields(flat: list[Any] | dict[Any, Any] | None) -> dict[Any, Any]:
    if isinstance(flat, dict):
        return flat
    words = iter(flat or ())
    return dict(zip(words, words, strict=False))


def _named(reply: list[Any] | dict[Any, Any]) -> dict[str, Any]:
    """What was a flat array or a map, its names as text."""
    found = reply if isinstance(reply, dict) else _fields(reply)
    return {_text(name): value for name, value in found.items()}


def _entries(reply: list[Any] | None, options: Mapping[str, Any]) -> list[Any] | None:
    if reply is None:
        return None
    more = "claim_min_idle_time" in options
    return [(None, None) if one is None else (one[0], _fields(one[1]), *(one[2:] if more else ())) for one in reply]


def _claimed(reply: Any, options: Mapping[str, Any]) -> Any:
    return reply if options.get("parse_justid") else _entries(reply, {})


def _auto_claimed(reply: Any, options: Mapping[str, Any]) -> Any:
    return reply[1] if options.get("parse_justid") else [reply[0], _entries(reply[1], {}), *reply[2:]]


def _pending(reply: Any, options: Mapping[str, Any]) -> Any:
    if options.get("parse_detail"):
        names = ("message_id", "consumer", "time_since_delivered", "times_delivered")
        return [dict(zip(names, row, strict=False)) for row in reply]
    consumers = [{"name": name, "pending": int(count)} for name, count in reply[3] or ()]
    return {"pending": reply[0], "min": reply[1], "max": reply[2], "consumers": consumers}


def _info_stream(reply: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    found = _named(reply)
    if not options.get("full"):
        for name in ("first-entry", "last-entry"):
            entry = found.get(name)
            if entry is not None and entry[0] is not None:
                found[name] = (entry[0], _fields(entry[1]))
        return found
    found["entries"] = {id: _fields(flat) for id, flat in found["entries"]}
    flat = bool(found["groups"]) and isinstance(found["groups"][0], list)
    found["groups"] = [_named(group) for group in found["groups"]]
    if flat:  # of maps, redis-py leaves those of the consumers as they came
        for group in found["groups"]:
            group["consumers"] = [_named(consumer) for consumer in group["consumers"]]
    return found


def _info_list(reply: Any, _options: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_named(one) for one in reply]


def _streams(reply: Any) -> Any:
    return reply.items() if isinstance(reply, dict) else reply or ()


def _read_as_list(reply: Any, options: Mapping[str, Any]) -> list[Any]:
    return [[name, _entries(found, options)] for name, found in _streams(reply)]


def _read_as_map(reply: Any, options: Mapping[str, Any]) -> dict[Any, Any]:
    return {name: [_entries(found, options)] for name, found in _streams(reply)}


def _read_unified(reply: Any, options: Mapping[str, Any]) -> dict[Any, Any]:
    return {name: _entries(found, options) for name, found in _streams(reply)}


def _settings(reply: Any, _options: Mapping[str, Any]) -> dict[Any, Any]:
    found = reply if isinstance(reply, dict) else _fields(reply)
    return {_text(name): _text(value) for name, value in found.items()}


_BOOLS = ("COPY", "EXPIRE", "EXPIREAT", "MOVE", "PERSIST", "PEXPIRE", "PEXPIREAT", "RENAMENX", "XGROUP DESTROY")
_OKS = (
    *("CLIENT SETINFO", "CLIENT SETNAME", "CONFIG RESETSTAT", "CONFIG SET", "FLUSHALL", "FLUSHDB", "RENAME", "SELECT"),
    *("SWAPDB", "UNWATCH", "WATCH", "XGROUP CREATE", "XGROUP SETID"),
)
_SHAPES: Shapes = MappingProxyType(
    {
        **dict.fromkeys(_BOOLS, _bool),
        **dict.fromkeys(_OKS, _ok),
        "CONFIG GET": _settings,
        "INFO": lambda reply, _options: facts_of_info(_text(reply)),
        "PING": lambda reply, _options: _text(reply) == "PONG",
        "SCAN": lambda reply, _options: (int(reply[0]), reply[1]),
        "SET": lambda reply, options: reply if options.get("get") else reply and _text(reply) == "OK",
        "TIME": lambda reply, _options: (int(reply[0]), int(reply[1])),
        "XAUTOCLAIM": _auto_claimed,
        "XCLAIM": _claimed,
        "XINFO CONSUMERS": _info_list,
        "XINFO GROUPS": _info_list,
        "XINFO STREAM": _info_stream,
        "XPENDING": _pending,
        "XRANGE": _entries,
        "XREVRANGE": _entries,
    }
)


def shapes_for(protocol: int | None, *, legacy: bool) -> Shapes:
    """What becomes of each command's reply, by its name in upper case; other replies stay as the parser gives them.

    Args:
        protocol: as the client was told; None is protocol 3 with the shapes of protocol 2, as with redis-py.
        legacy: redis-py's ``legacy_responses``.
    """
    read = _read_as_list if protocol != RESP3 else _read_as_map
    if not legacy:
        read = _read_unified
    return MappingProxyType({**_SHAPES, "XREAD": read, "XREADGROUP": read})
