"""Which operations are tried: few streams, groups, consumers and small IDs, so that things meet again and again.

The choices are made by dice or by Hypothesis, in sight of the model, so that most operations find something to do.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from tests.groups.model import ID, LAST, ZERO
from tests.groups.model_commands import Model
from tests.groups.ops import Op, op

__all__ = ["APART", "COMMON", "EXACT", "KEYS", "NEWER", "Chance", "Dice", "Drawn", "Grammar", "Times", "options"]

KEYS = ["a", "b"]
GROUPS = ["g", "h"]
CONSUMERS = ["c", "d", "e"]
PRODUCERS = ["p", "q"]
MESSAGES = ["1", "2", "3", "4"]
REFS = [None, "KEEPREF", "DELREF", "ACKED"]
POLICIES = ["os", "os", "always", "everysec", "interval=5"]
# How many pending entries are kept in memory before they are merged into the view: hardly any, or all.
PENDING_ROWS = [4096, 1, 3]

_T = TypeVar("_T")


class Chance(Protocol):
    """What decides."""

    def pick(self, options: Sequence[_T]) -> _T: ...

    def number(self, low: int, high: int) -> int: ...


class Dice:
    """Chance by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[_T]) -> _T:
        return self._random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class Drawn:
    """Chance by Hypothesis, which knows how to make less of it: the first option, the lowest number."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def pick(self, options: Sequence[_T]) -> _T:
        return self._data.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))


@dataclass(frozen=True)
class Times:
    """Times that are given, in milliseconds."""

    min_idles: list[int]
    idles: list[int]
    moments: list[int]
    steps: list[int]


# For two clocks: no comparison depends on what time it is. Idle times are those of a claim with IDLE (hours), with TIME
# (half a century), or of this minute; the filters lie far between.
APART = Times([0, 0, 5_000_000, 10**10, 10**15], [0, 10_000_000, 10**15], [0, 1, 2_000_000, 7_000_000, 2**61], [1])
# For one clock that goes on when told.
EXACT = Times(
    [0, 0, 1, 5, 10, 50, 10**15], [0, 1, 5, 60, 10**15], [0, 1, 995, 1005, 1050, 2**61], [1, 1, 4, 5, 45, 1001, -3]
)

# How often each is tried.
COMMON = {
    "xadd": 12,
    "add_many": 6,
    "xdel": 5,
    "xtrim": 2,
    "xsetid": 2,
    "xlen": 1,
    "xrange": 1,
    "xread": 1,
    "delete": 1,
    "rename": 1,
    "xgroup_create": 4,
    "xgroup_setid": 3,
    "xgroup_destroy": 1,
    "xgroup_createconsumer": 1,
    "xgroup_delconsumer": 1,
    "read_new": 14,
    "read_history": 4,
    "read_several": 3,
    "xack": 6,
    "xclaim": 8,
    "xautoclaim": 5,
    "xpending": 1,
    "xpending_range": 4,
    "xinfo_full": 1,
    "seal": 1,
    "compact": 1,
    "reopen": 1,
    "rebuild": 2,
}
NEWER = {
    **COMMON,
    "advance": 8,
    "xdelex": 4,
    "xackdel": 4,
    "xnack": 6,
    "read_claiming": 8,
    "send": 4,
    "xcfgset": 1,
    "xidmprecord": 2,
}


def options(chance: Chance) -> dict[str, Any]:
    """How a store is opened. With one open stream at a time, the other is always opened anew."""
    return {
        "fsync": chance.pick(POLICIES),
        "pending_rows": chance.pick(PENDING_ROWS),
        "max_open_streams": chance.pick([256, 256, 256, 1]),
        "seal": chance.pick(["manual", "manual", "manual", "background"]),
    }


class Grammar:
    """Makes operations for a world that the model shows."""

    def __init__(self, model: Model, weights: dict[str, int], times: Times) -> None:
        self._model, self._times = model, times
        self._newer = "advance" in weights
        self._urn = [name for name, weight in weights.items() for _ in range(weight)]
        self.chance: Chance = Dice(0)

    def begin(self) -> Iterator[Op]:
        """Something to start from."""
        return (self.make(name) for name in ("add_many", "xgroup_create", "add_many", "xgroup_create", "read_new"))

    def next(self) -> Op:
        return self.make(self.chance.pick(self._urn))

    def make(self, name: str) -> Op:
        """One operation of that name, done by one of two openings, and looked at by one of three."""
        make: Callable[[], Op] = getattr(self, name)
        made = make()
        return Op(made.name, made.args, by=int(self._rarely(3)), seen=self.chance.pick([0, 0, 1, 1, 2]))

    # --- words --------------------------------------------------------------------------------------------------------

    def _rarely(self, often: int) -> bool:
        return self.chance.number(1, often) == often

    def _maybe(self, often: int, options: Sequence[_T]) -> _T | None:
        return self.chance.pick(options) if self._rarely(often) else None

    def _key(self) -> str:
        key = self.chance.pick(KEYS)
        if key not in self._model.streams and not self._rarely(6):
            return self.chance.pick(sorted(self._model.streams) or KEYS)
        return key

    def _group(self, key: str) -> str:
        known = [name.decode() for name in self._groups(key)]
        return self.chance.pick(known if known and not self._rarely(12) else GROUPS)

    def _groups(self, key: str) -> list[bytes]:
        stream = self._model.streams.get(key)
        return [] if stream is None else sorted(stream.groups)

    def _key_with_groups(self) -> str:
        """A stream that has groups, mostly."""
        with_groups = [key for key in KEYS if self._groups(key)]
        return self.chance.pick(with_groups if with_groups and not self._rarely(20) else KEYS)

    def _within(self) -> dict[str, Any]:
        key = self._key_with_groups()
        return {"key": key, "group": self._group(key)}

    def _known(self, key: str, group: str | None) -> list[ID]:
        """IDs that stand for something: live entries; of a group mostly those that it has pending."""
        stream = self._model.streams.get(key)
        found = self._model.group(key, group) if group is not None else None
        if found is not None and found.pending and not self._rarely(4):
            return sorted(found.pending)
        return [] if stream is None else sorted(stream.entries)

    def _id(self, key: str, group: str | None = None) -> str:
        known = self._known(key, group)
        if known and not self._rarely(8):
            return "{}-{}".format(*self.chance.pick(known))
        is_there = key in self._model.streams and (group is None or self._model.group(key, group) is not None)
        if is_there and self._rarely(25):  # where nothing is there, it does not matter which is looked at first
            return self.chance.pick(["x", "5-", "-1"])
        ms, seq = self._last(key)
        ms = min(max(0, ms + self.chance.number(-6, 2)), LAST[0])
        return self.chance.pick([f"{ms}-{self.chance.number(0, 3)}", f"{ms}", f"{ms}-{seq}"])

    def _ids(self, key: str, group: str | None = None, most: int = 4) -> list[str]:
        return [self._id(key, group) for _ in range(self.chance.number(1, most))]

    def _last(self, key: str) -> ID:
        return self._model.streams[key].last if key in self._model.streams else ZERO

    def _ref(self) -> str | None:
        return self.chance.pick(REFS) if self._newer else None

    def _fields(self) -> list[tuple[bytes, bytes]]:
        value = self.chance.pick([b"1", b"", b"2", b"." * 300, b"." * 1500])
        return [(name, value) for name in self.chance.pick([[b"f"], [b"g"], [b"f", b"g"], [b"f", b"f"]])]

    def _trim(self, key: str) -> tuple[str, str, Any]:
        sign = self.chance.pick(["", "="])
        if self._rarely(3):
            return "MINID", sign, self._id(key)
        return "MAXLEN", sign, self.chance.number(0, 12)

    # --- entries ------------------------------------------------------------------------------------------------------

    def _new_id(self, key: str) -> str:
        ms, seq = self._last(key)
        if self._newer and self._rarely(5):
            return "*"
        fresh = [f"{ms + 1}-0", f"{ms + 1}-1", f"{ms}-{seq + 1}", f"{ms + 1}-*", f"{ms}-*", f"{ms + 2}"]
        return self.chance.pick(fresh if not self._rarely(12) else [f"{ms}-{seq}", f"{max(ms, 1) - 1}-1", "0-0", "0"])

    def xadd(self) -> Op:
        key = self.chance.pick(KEYS)
        trim = self._trim(key) if self._rarely(5) else None
        nomkstream = key not in self._model.streams and self._rarely(2)
        return op(
            "xadd",
            key=key,
            id=self._new_id(key),
            fields=self._fields(),
            nomkstream=nomkstream,
            trim=trim,
            ref=self._ref() if trim is not None else None,
        )

    def add_many(self) -> Op:
        key = self.chance.pick(KEYS)
        ms, _ = self._last(key)
        count = self.chance.number(1, 6)
        return op("add_many", key=key, entries=[(f"{ms + 1}-{number + 1}", self._fields()) for number in range(count)])

    def xdel(self) -> Op:
        key = self._key()
        return op("xdel", key=key, ids=self._ids(key))

    def xtrim(self) -> Op:
        key = self._key()
        strategy, sign, threshold = self._trim(key)
        ref = self._ref()
        # Beside these two `~` is as good as `=`; how it is without, other tests look into.
        sign = "~" if ref in ("DELREF", "ACKED") and self._rarely(3) else sign
        return op("xtrim", key=key, trim=(strategy, sign, threshold), ref=ref)

    def xsetid(self) -> Op:
        key = self._key()
        deleted = self.chance.pick(["0-0", "0-1", self._id(key)]) if self._rarely(2) else None
        added = self.chance.number(-1, 20) if self._rarely(3) else None
        return op("xsetid", key=key, id=self._id(key), added=added, deleted=deleted)

    def xlen(self) -> Op:
        return op("xlen", key=self._key())

    def _range(self, key: str, group: str | None = None) -> dict[str, Any]:
        ends = [self.chance.pick(["", "("]) + self._id(key, group) for _ in range(2)]
        start, end = self.chance.pick(["-", "-", ends[0]]), self.chance.pick(["+", "+", ends[1]])
        return {"start": start, "end": end}

    def xrange(self) -> Op:
        key = self._key()
        return op("xrange", key=key, **self._range(key), count=self._maybe(2, [1, 2, 5]))

    def xread(self) -> Op:
        streams = [(key, self.chance.pick(["0", "$", self._id(key)])) for key in self.chance.pick([KEYS, KEYS[:1]])]
        return op("xread", streams=streams, count=self.chance.pick([None, 1, 2]))

    def delete(self) -> Op:
        return op("delete", key=self._key()) if self._rarely(4) else self.xadd()

    def rename(self) -> Op:
        return op("rename", key=self._key(), new=self.chance.pick(KEYS)) if self._rarely(4) else self.xadd()

    def send(self) -> Op:
        """IDMP: mostly something that was sent before."""
        key, message = self.chance.pick(KEYS), self.chance.pick([*MESSAGES, None])
        trim = self._trim(key) if self._rarely(5) else None
        fields, producer = [(b"f", self.chance.pick([b"1", b"2"])), (b"g", b"")], self.chance.pick(PRODUCERS)
        fields = fields[:: self.chance.pick([1, -1])]
        return op("xadd", key=key, id="*", fields=fields, trim=trim, producer=producer, message=message)

    def xcfgset(self) -> Op:
        duration, maxsize = self.chance.pick([None, 1, 100]), self.chance.pick([2, 3, 100])
        return op("xcfgset", key=self._key(), duration=duration, maxsize=maxsize)

    def xidmprecord(self) -> Op:
        key = self._key()
        producer, message = self.chance.pick(PRODUCERS), self.chance.pick(MESSAGES)
        return op("xidmprecord", key=key, producer=producer, message=message, id=self._id(key))

    # --- groups -------------------------------------------------------------------------------------------------------

    def xgroup_create(self) -> Op:
        key, group = self.chance.pick(KEYS), self.chance.pick(GROUPS)
        id = self.chance.pick(["0", "0", "$", self._id(key)])
        mkstream = key not in self._model.streams and not self._rarely(4)
        is_new = key in self._model.streams and self._model.group(key, group) is None and id[-1:].isdigit()
        read = self._entries_read(is_new)
        return op("xgroup_create", key=key, group=group, id=id, mkstream=mkstream, entries_read=read)

    def _entries_read(self, may_be_wrong: bool) -> int | None:
        """Where something else is wrong already, it does not matter which is refused first."""
        return self.chance.number(-2 if may_be_wrong else 0, 12) if self._rarely(5) else None

    def xgroup_setid(self) -> Op:
        within = self._within()
        given = self._id(within["key"], within["group"])
        id = self.chance.pick(["0", "-", given, given]) if not self._rarely(5) else self.chance.pick(["$", "+"])
        read = self._entries_read(self._model.group(**within) is not None)
        return op("xgroup_setid", **within, id=id, entries_read=read)

    def xgroup_destroy(self) -> Op:
        return op("xgroup_destroy", **self._within())

    def xgroup_createconsumer(self) -> Op:
        return op("xgroup_createconsumer", **self._within(), consumer=self.chance.pick(CONSUMERS))

    def xgroup_delconsumer(self) -> Op:
        return op("xgroup_delconsumer", **self._within(), consumer=self.chance.pick(CONSUMERS))

    def _read(self, key: str, group: str, after: str, **more: Any) -> Op:
        consumer = self.chance.pick(CONSUMERS)
        count = self.chance.pick([None, 1, 2, 3, 5, 0])
        way = self.chance.pick(["", "store"])
        return op(
            "xreadgroup",
            group=group,
            consumer=consumer,
            streams=[(key, after)],
            count=count,
            **self._caps(count),
            noack=self._rarely(6),
            way=way,
            **more,
        )

    def _caps(self, count: int | None) -> dict[str, Any]:
        if not self._newer or not self._rarely(4):
            return {}
        most = self._maybe(2, [count or 1, (count or 1) + 1])
        return {"max_count": most, "max_bytes": self._maybe(2, [1, 4, 301, 2000])}

    def read_new(self) -> Op:
        return self._read(**self._within(), after=">")

    def read_history(self) -> Op:
        within = self._within()
        return self._read(**within, after=self.chance.pick(["0", self._id(**within)]))

    def read_claiming(self) -> Op:
        return self._read(**self._within(), after=">", claim=self.chance.pick(self._times.min_idles))

    def read_several(self) -> Op:
        keys = self.chance.pick([KEYS, KEYS[::-1]])
        shared = [name.decode() for name in self._groups(keys[0]) if name in self._groups(keys[1])]
        count = self.chance.pick([None, 1, 2])
        return op(
            "xreadgroup",
            group=self.chance.pick(shared or GROUPS),
            consumer=self.chance.pick(CONSUMERS),
            streams=[(key, self.chance.pick([">", ">", "0"])) for key in keys],
            count=count,
            **self._caps(count),
            claim=self._maybe(2, self._times.min_idles) if self._newer else None,
            noack=self._rarely(6),
        )

    def xack(self) -> Op:
        within = self._within()
        return op("xack", **within, ids=self._ids(**within))

    def xackdel(self) -> Op:
        within = self._within()
        return op("xackdel", **within, ids=self._ids(**within), ref=self._ref())

    def xdelex(self) -> Op:
        within = self._within()
        return op("xdelex", key=within["key"], ids=self._ids(**within), ref=self._ref())

    def xnack(self) -> Op:
        within = self._within()
        mode, retry = self.chance.pick(["SILENT", "FAIL", "FATAL"]), self._maybe(4, [0, 1, 7])
        # What it means to name an ID twice is not known.
        ids = list(dict.fromkeys(id if "-" in id else f"{id}-0" for id in self._ids(**within)))
        return op("xnack", **within, mode=mode, ids=ids, retry=retry, force=self._rarely(3))

    def xclaim(self) -> Op:
        within, times = self._within(), self._times
        return op(
            "xclaim",
            **within,
            consumer=self.chance.pick(CONSUMERS),
            min_idle=self.chance.pick(times.min_idles),
            ids=self._ids(**within),
            **self.chance.pick(
                [
                    {},
                    {"idle": self.chance.pick(times.idles)},
                    {"time": self.chance.pick(times.moments)},
                ]
            ),
            retry=self._maybe(4, [0, 1, 5]),
            force=self._rarely(3),
            justid=self._rarely(3),
            last_id=self._id(**within) if self._rarely(8) else None,
        )

    def xautoclaim(self) -> Op:
        within = self._within()
        start = self.chance.pick(["-", "0", "0", self._id(**within), "(" + self._id(**within)])
        return op(
            "xautoclaim",
            **within,
            consumer=self.chance.pick(CONSUMERS),
            min_idle=self.chance.pick(self._times.min_idles),
            start=start,
            count=self.chance.pick([None, 1, 2, 5]),
            justid=self._rarely(3),
        )

    # --- looking ------------------------------------------------------------------------------------------------------

    def xpending(self) -> Op:
        return op("xpending", **self._within())

    def xpending_range(self) -> Op:
        within = self._within()
        consumer, idle = self._maybe(2, CONSUMERS), self._maybe(2, self._times.min_idles)
        count = self.chance.pick([10, 1, 2, 3, 0])
        return op("xpending_range", **within, **self._range(**within), count=count, consumer=consumer, idle=idle)

    def xinfo_full(self) -> Op:
        return op("xinfo_full", key=self._key(), count=self.chance.pick([0, 1, 2, -1]))

    # --- ours alone ---------------------------------------------------------------------------------------------------

    def advance(self) -> Op:
        return op("advance", ms=self.chance.pick(self._times.steps))

    def seal(self) -> Op:
        return op("seal", key=self._key())

    def compact(self) -> Op:
        return op("compact", key=self._key())

    def reopen(self) -> Op:
        return op("reopen", options=options(self.chance))

    def rebuild(self) -> Op:
        return op("rebuild", options=options(self.chance))
