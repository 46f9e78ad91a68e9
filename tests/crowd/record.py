"""All that is known of one stream of a round: from journals to entries, who added them, and what removed them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tests.crowd.journal import NEVER, Op, as_number, ids_of, shown
from tests.crowd.scene import GROUPS

__all__ = ["ACKS", "DELIVERIES", "READS", "Added", "Record", "stopped_ns", "stream_of"]

READS = ("range", "revrange", "behind", "one", "follow")
DELIVERIES = ("new", "ripe", "autoclaim", "claim", "backlog")
ACKS = ("ack", "ackdel")


def stream_of(op: Op) -> str:
    """The stream that an operation is about; the trimmer and the mover have one only."""
    return str(op.about.get("stream", "quiet" if op.role[0] in "qwf" else "x"))


@dataclass
class Added:
    """When an entry was added: between `begin` and `latest`; from `end` on everybody sees it.

    Under `always` nobody sees what a killed process has written before somebody else flushes.

    Attributes:
        size: entries of its frame.
        place: which of them it is.
    """

    begin: int
    end: int
    latest: int
    size: int
    place: int


@dataclass
class _Removal:
    begin: int
    end: int
    below: int  # what has a smaller ID may go
    acked: bool
    surely_below: int = 0  # what has a smaller ID is gone when it has returned


def stopped_ns(stops: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    """How long, from `begin` to `end`, somebody was stopped: who is may hold a lock that all others wait for."""
    total, at = 0, begin
    for start, go_on in stops:
        low, high = max(start, at), min(go_on, end)
        if high > low:
            total, at = total + high - low, high
    return total


class Record:
    """One stream of a round.

    Attributes:
        keys: what each ID stood for, for whoever saw it.
        ids: all of these, in order.
        added: by key, what is known of the append; also of keys whose IDs nobody has seen.
        begins, ends: when each append began, and when it had returned, in order.
        live: the entries that were left in the end.
        faults: what cannot be: an ID with two keys, a key with two IDs, an entry that nobody added.
    """

    def __init__(self, stream: str, ops: Sequence[Op]) -> None:
        self.stream = stream
        self.ops = [op for op in ops if stream_of(op) == stream]
        self.faults: list[str] = []
        self.added = self._appends()
        self.keys: dict[int, str] = {}
        self._id_of: dict[str, int] = {}
        for op, ids, keys in self._sightings(ops):
            self._saw(op, ids, keys)
        self.ids = sorted(self.keys)
        survey = next(op for op in ops if op.word == "survey")
        self.survey: dict[str, Any] = survey.result["streams"][stream]
        self.surveyed = survey.begin
        self.drained: dict[str, Any] = next(op for op in ops if op.word == "drained").result["streams"][stream]
        self.live = set(ids_of(self.survey["ids"]))
        self.groups = GROUPS[stream]
        self.begins = sorted(how.begin for how in self.added.values())
        self.ends = sorted(how.end for how in self.added.values())
        self.acks_begun = self._acks_begun()
        self._read_removals()

    # --- entries ------------------------------------------------------------------------------------------------------

    def _appends(self) -> dict[str, Added]:
        added: dict[str, Added] = {}
        for op in self.ops:
            if op.word not in ("add", "send", "pipe"):
                continue
            keys = op.about["keys"].split()
            size = len(keys) if op.word == "add" else 1  # of a pipeline each is an append of its own
            for place, key in enumerate(keys):
                end = NEVER if op.end is None else op.end
                known = added.get(key)
                if known is None:
                    added[key] = Added(op.begin, end, op.latest, size, place)
                else:  # a message that was sent again
                    known.end = min(known.end, end)
                    known.latest = max(known.latest, op.latest) if known.end == NEVER else known.end
        return added

    def _sightings(self, ops: Iterable[Op]) -> Iterator[tuple[Op, str, str]]:
        for op in ops:
            if "streams" in op.result:
                found = op.result["streams"][self.stream]
                yield op, found["ids"], found["keys"]
            elif stream_of(op) == self.stream and "ids" in op.result:
                yield op, op.result["ids"], op.result.get("keys") or op.about.get("keys", "")

    def _saw(self, op: Op, text: str, keys: str) -> None:
        ids, names = ids_of(text), keys.split()
        if len(ids) != len(names):
            self.faults.append(f"{len(ids)} IDs for {len(names)} entries: {op}")
        if any(one >= other for one, other in pairwise(ids)) and op.word not in DELIVERIES:
            self.faults.append(f"the IDs are not in order: {op}")
        for number, key in zip(ids, names, strict=False):
            known = self.keys.get(number)
            if known == key:
                continue
            if known is not None:
                self.faults.append(f"{shown(number)} is {key} to {op}, and {known} to another")
            elif key in self._id_of:
                self.faults.append(f"{key} is there twice: {shown(self._id_of[key])} and {shown(number)}, {op}")
            elif key not in self.added:
                self.faults.append(f"{key}, {shown(number)}, was added by nobody: {op}")
            elif op.end is not None and op.end < self.added[key].begin:
                self.faults.append(f"{key}, {shown(number)}, was seen before it was added: {op}")
            self.keys[number] = key
            self._id_of[key] = number

    def id_of(self, key: str) -> int | None:
        """The ID of an entry, where anybody has seen it."""
        return self._id_of.get(key)

    def how(self, number: int) -> Added:
        """When it was added."""
        return self.added.get(self.keys.get(number, ""), Added(0, NEVER, NEVER, 1, 0))

    # --- removals -----------------------------------------------------------------------------------------------------

    def _acks_begun(self) -> dict[str, dict[int, int]]:
        """For each group, when an acknowledgement of an ID began first."""
        found: dict[str, dict[int, int]] = {group: {} for group in self.groups}
        for op in self.ops:
            if op.word in ACKS and (op.cut or op.result.get("count", 1) > 0):
                for number in ids_of(op.about["ids"]):
                    found[op.about["group"]].setdefault(number, op.begin)
                    if op.about.get("ref") == "DELREF":  # it ends what is pending in every group
                        for group in self.groups:
                            found[group].setdefault(number, op.begin)
        return found

    def _read_removals(self) -> None:
        self._gone: dict[int, int] = {}
        self._moments: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None
        self._deleted: dict[int, list[tuple[int, int, bool]]] = {}
        trims: list[_Removal] = []
        begun = sorted((self.how(number).begin, number) for number in self.ids)
        newest = _Newest(begun)
        for op in self.ops:
            end = NEVER if op.end is None else op.end
            if op.word == "trim":
                acked = op.about["ref"] == "ACKED"
                if "below" in op.about:
                    below = as_number(op.about["below"])
                    surely = below if op.about["exact"] and not acked else 0
                else:  # by length; what is not acknowledged is passed over, and something newer goes for it
                    below, surely = NEVER << 64 if acked else newest.nth(op.about["keep"], op.latest), 0
                trims.append(_Removal(op.begin, end, below, acked, surely))
            elif op.word == "rule":
                below = newest.nth(op.about["keep"], NEVER)
                trims.append(_Removal(op.begin, NEVER, below, op.about["ref"] == "ACKED"))
            elif op.word == "delete":
                acked = op.about["ref"] == "ACKED"
                answers = op.result.get("answers", [0] * len(op.about["ids"].split()))
                for number, answer in zip(ids_of(op.about["ids"]), answers, strict=True):
                    if answer in (0, 1):
                        self._deleted.setdefault(number, []).append((op.begin, end if answer else NEVER, acked))
            elif op.word == "ackdel":
                answers = op.result.get("answers", [0] * len(op.about["ids"].split()))
                for number, answer in zip(ids_of(op.about["ids"]), answers, strict=True):
                    if answer in (0, 1):
                        self._deleted.setdefault(number, []).append((op.begin, end if answer else NEVER, False))
        self._trims = _Trims([trim for trim in trims if not trim.acked])
        self._acked_trims = _Trims([trim for trim in trims if trim.acked])

    def gone_from(self, number: int) -> int:
        """When it may have been removed at the earliest; `NEVER` where nobody has."""
        found = self._gone.get(number)
        if found is None:
            found = self._gone[number] = self._gone_from(number)
        return found

    def _gone_from(self, number: int) -> int:
        acked = max((self.acks_begun[group].get(number, NEVER) for group in self.groups), default=NEVER)
        found = [self._trims.first(number), max(acked, self._acked_trims.first(number))]
        found += [max(begin, acked) if by_acks else begin for begin, _, by_acks in self._deleted.get(number, [])]
        return min(found)

    def gone_by(self, number: int) -> int:
        """When it was removed for certain; `NEVER` where nothing says so."""
        return min([self._trims.surely(number), *(end for _, end, _ in self._deleted.get(number, []))])

    # --- looking up ---------------------------------------------------------------------------------------------------

    def unseen(self, bounds: tuple[int, int], end: int, last: int, begin: int) -> list[int]:
        """IDs within bounds that nobody may have removed before `end`, and that ought to be in what was read.

        They lie below the last one that was, or their appends had returned before it was `begun`. All at once, since
        each read has all entries before it to be held against.
        """
        low, high = bisect_right(self.ids, bounds[0] - 1), bisect_right(self.ids, bounds[1])
        if self._moments is None:
            gone = np.fromiter((self.gone_from(number) for number in self.ids), np.int64, len(self.ids))
            self._moments = gone, np.fromiter((self.how(number).end for number in self.ids), np.int64, len(self.ids))
        gone, ends = (moments[low:high] for moments in self._moments)
        below = np.arange(low, high) < bisect_left(self.ids, last)
        return [self.ids[low + int(at)] for at in np.nonzero((gone > end) & (below | (ends < begin)))[0]]

    def shown(self, number: int) -> str:
        """An entry, for a line of text."""
        how = self.how(number)
        added = "by an append that was cut off" if how.end == NEVER else f"by {how.end}"
        return f"{shown(number)} ({self.keys.get(number)}, added from {how.begin} {added})"


class _Newest:
    """Of all entries whose appends had begun at a time, how far the n-th newest is up: what a trim by length keeps."""

    def __init__(self, begun: Sequence[tuple[int, int]]) -> None:
        self._begun = [begin for begin, _ in begun]
        self._ids = [number for _, number in begun]

    def nth(self, keep: int, until: int) -> int:
        # Those that began last are not quite those with the greatest IDs: somewhat more are looked at.
        at = bisect_right(self._begun, until)
        some = sorted(self._ids[max(0, at - 2 * keep - 200) : at])
        return some[-keep] if len(some) >= keep else 0


@dataclass
class _Trims:
    trims: list[_Removal]
    _reach: list[int] = field(init=False)
    _sure: list[_Removal] = field(init=False)
    _sure_reach: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.trims.sort(key=lambda trim: trim.begin)
        self._reach = list(accumulate((trim.below for trim in self.trims), max))
        self._sure = sorted((trim for trim in self.trims if trim.surely_below), key=lambda trim: trim.end)
        self._sure_reach = list(accumulate((trim.surely_below for trim in self._sure), max))

    def first(self, number: int) -> int:
        """When the first began that could take an ID."""
        at = bisect_right(self._reach, number)
        return self.trims[at].begin if at < len(self.trims) else NEVER

    def surely(self, number: int) -> int:
        """When the first had ended that took it."""
        at = bisect_right(self._sure_reach, number)
        return self._sure[at].end if at < len(self._sure) else NEVER
