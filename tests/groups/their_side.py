"""A Redis server of version 7.0 beside the model, which speaks of 8.x: what is sent to it, and what may differ.

Each difference is named here, with its reason; everything else must agree to the letter.
"""

import time
from collections.abc import Callable
from typing import Any

from tests.conftest import RedisServer
from tests.groups.model_commands import Model
from tests.groups.ops import Op, Words, op, words
from tests.streams.commands import Refused, Server

__all__ = ["TheirSide", "coarse", "now_ms"]

# Everything that a test sets stands clearly on one side: real time goes on by seconds, idle times are hours or years.
_GRAIN_MS = 1_000_000
_LONG_AGO_MS = 1_000_000_000

# In Redis 7.0 the entries-read counter is one off in some cases of deleted, trimmed or skipped entries, and lag with it
# (redis/redis issues 13337, 13338, 13473 and 13957; fixed up to 8.2). Both are compared as long as there were none.
_BENDING = ("xdel", "xtrim", "xsetid", "xgroup_setid")


class TheirSide:
    """The server. It is told what a model of 8.x needs to have in common with it."""

    def __init__(self, server: RedisServer, *database: int) -> None:
        self._server = Server(server.host, server.port, *database)
        self._bent: set[str] = set()

    def close(self) -> None:
        self._server.run("FLUSHDB")
        self._server.close()

    def begin(self) -> None:
        """Forgets everything."""
        self._bent.clear()
        self._server.run("FLUSHDB")

    def do(self, given: Op, model: Model, expected: Any) -> Any:
        """The reply to an operation that the model has done before."""
        if isinstance(expected, Refused) and _is_ours_alone(given, expected):
            return expected
        commands = words(_older(given, model))
        if not commands:
            return expected
        replies = self._server.run_all([*commands, *_missing_consumers(given, model)])
        if not isinstance(expected, Refused):
            self._note(given)
        return replies[: len(commands)] if given.name == "add_many" else replies[0]

    def look(self, looks: list[Op]) -> list[Any]:
        return self._server.run_all([command for look in looks for command in words(look)])

    def counts_alike(self, key: str) -> bool:
        """Whether entries-read and lag are what they are in 8.x."""
        return key not in self._bent

    def _note(self, given: Op) -> None:
        if given.name == "rename":
            bent = given.args["key"] in self._bent
            self._bent -= {given.args["key"], given.args["new"]}
            self._bent |= {given.args["new"]} if bent else set()
        elif given.name == "delete":
            self._bent.discard(given.args["key"])
        elif given.name in _BENDING or {"trim", "entries_read", "last_id"} & set(given.args):
            self._bent |= set(given.keys)


def _is_ours_alone(given: Op, refusal: Refused) -> bool:
    """Whether 7.0 would do something all the same."""
    # XSETID below the greatest deleted ID is refused since 7.2. A frame of ours goes in whole or not at all. What is no
    # ID is an option of XCLAIM to a server.
    return given.name == "add_many" or (given.name, str(refusal)) in (
        ("xsetid", "The ID specified in XSETID is smaller than current max_deleted_entry_id"),
        ("xclaim", "Invalid stream ID specified as stream command argument"),
    )


def _older(given: Op, model: Model) -> Op:
    """The same, for a server of 7.0."""
    # ENTRIESREAD is capped at the number of entries added since 8.2.
    read, key = given.args.get("entries_read"), given.args.get("key", "")
    if read is not None and read > 0 and key in model.streams:
        return op(given.name, **{**given.args, "entries_read": min(read, model.streams[key].added)})
    return given


def _missing_consumers(given: Op, model: Model) -> list[Words]:
    """Any attempt to read or claim makes the consumer since 7.2; before that, only one that brings something."""
    if given.name not in ("xreadgroup", "xclaim", "xautoclaim"):
        return []
    group, consumer = given.args["group"], given.args["consumer"]
    found = [(key, model.group(key, group)) for key in given.keys]
    return [
        ("XGROUP", "CREATECONSUMER", key, group, consumer)
        for key, known in found
        if known is not None and consumer.encode() in known.consumers
    ]


# --- replies that can be compared -------------------------------------------------------------------------------------


def now_ms() -> int:
    return int(time.time() * 1000)


def coarse_time(moment: int, now: int) -> tuple[str, int]:
    """When something was, as far as two clocks agree: moments that were given stand far back."""
    if moment < _LONG_AGO_MS:
        return "at", round(moment / _GRAIN_MS)
    return "ago", round((now - moment) / _GRAIN_MS)


def coarse(look: Op, reply: Any, now: int, *, counts_alike: bool) -> Any:
    """A reply of the model or of the server in a form that must be the same for both."""
    if isinstance(reply, Refused) or look.name not in _COARSE:
        return reply
    return _COARSE[look.name](reply, now, counts_alike)


def _as_dict(reply: Any) -> dict[bytes, Any]:
    return dict(reply) if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def _without(found: dict[bytes, Any], *names: bytes) -> dict[bytes, Any]:
    return {name: value for name, value in found.items() if not name.startswith(names)}


def _stream(reply: Any, _now: int, _alike: bool) -> Any:
    return _without(_as_dict(reply), b"radix-tree", b"idmp", b"pids", b"iids")


def _group(reply: Any, alike: bool) -> dict[bytes, Any]:
    # 8.8 counts what was refused by XNACK, which 7.0 has not.
    return _without(_as_dict(reply), b"nacked-count", *(() if alike else (b"entries-read", b"lag")))


def _consumer(reply: Any) -> dict[bytes, Any]:
    # 7.2 tells attempts from deliveries.
    return _without(_as_dict(reply), b"inactive", b"active-time")


def _groups(reply: Any, _now: int, alike: bool) -> Any:
    return [_group(group, alike) for group in reply]


def _consumers(reply: Any, now: int, _alike: bool) -> Any:
    found = [_consumer(consumer) for consumer in reply]
    return [{**consumer, b"idle": coarse_time(now - consumer[b"idle"], now)} for consumer in found]


def _pending(reply: Any, now: int, _alike: bool) -> Any:
    return [[id, owner, coarse_time(now - idle, now), count] for id, owner, idle, count in reply]


def _full(reply: Any, now: int, alike: bool) -> Any:
    found = _without(_as_dict(reply), b"radix-tree", b"idmp", b"pids", b"iids")
    return {**found, b"groups": [_full_group(group, now, alike) for group in found[b"groups"]]}


def _full_group(reply: Any, now: int, alike: bool) -> Any:
    group = _group(reply, alike)
    pending = [[id, owner, coarse_time(moment, now), count] for id, owner, moment, count in group[b"pending"]]
    consumers = [_full_consumer(consumer, now) for consumer in group[b"consumers"]]
    return {**group, b"pending": pending, b"consumers": consumers}


def _full_consumer(reply: Any, now: int) -> Any:
    found = _consumer(reply)
    pending = [[id, coarse_time(moment, now), count] for id, moment, count in found[b"pending"]]
    return {**found, b"seen-time": coarse_time(found[b"seen-time"], now), b"pending": pending}


_COARSE: dict[str, Callable[[Any, int, bool], Any]] = {
    "xinfo_stream": _stream,
    "xinfo_groups": _groups,
    "xinfo_consumers": _consumers,
    "xinfo_full": _full,
    "xpending_range": _pending,
}
