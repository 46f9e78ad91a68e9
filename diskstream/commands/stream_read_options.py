"""What XREAD and XREADGROUP ask for, and the way in which both look, answer, or wait."""

import time
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from diskstream._native import Entry, EntryID
from diskstream.commands.arguments import Words, as_int
from diskstream.commands.caller import Caller
from diskstream.commands.failures import SYNTAX
from diskstream.commands.replies import NIL_ARRAY, Failure, Map, Reply
from diskstream.commands.waiting import Waiting
from diskstream.commands.wire import encode
from diskstream.errors import DiskstreamError
from diskstream.plurals import number_of

__all__ = [
    "FEW",
    "Found",
    "ReadOptions",
    "answer",
    "as_reply",
    "bounded",
    "capped",
    "in_runs",
    "most_bytes",
    "parse_read",
    "refuse_beyond",
    "reply_bytes",
    "room",
]

# A count up to this says enough of how large a reply becomes.
FEW = 1000
# Entries between two looks at how large a reply has become.
_AT_ONCE = 256
# Names and values, which a read counts as it goes, are so much of a reply at most: the rest of what it may have is for
# IDs and what stands between words. An entry of small words has more of that than of them, so entries are counted too.
_OF_WORDS = 0.7
_ENTRY_BYTES = 2048

Found = list[tuple[bytes, list[Entry]]]
Positions = list[tuple[bytes, EntryID | str]]


@dataclass
class ReadOptions:
    """The options of XREAD or, where `grouped`, of XREADGROUP, with the words for keys and IDs."""

    grouped: bool
    count: int | None = None
    max_count: int | None = None
    max_bytes: int | None = None
    block_ms: int | None = None
    claim_ms: int | None = None
    noack: bool = False
    group: bytes | None = None
    consumer: bytes = b""
    keys: list[bytes] = field(default_factory=list)
    ids: list[bytes] = field(default_factory=list)

    # --- one option each ----------------------------------------------------------------------------------------------

    def _count(self, words: Words) -> None:
        count = words.take_int()
        self.count = count if count > 0 else None

    def _max_count(self, words: Words) -> None:
        self.max_count = words.take_int("ERR MAXCOUNT must be a positive integer", least=1)

    def _max_size(self, words: Words) -> None:
        self.max_bytes = words.take_int("ERR MAXSIZE must be a positive integer", least=1)

    def _block(self, words: Words) -> None:
        self.block_ms = words.take_int("ERR timeout is not an integer or out of range")
        if self.block_ms < 0:
            raise Failure("ERR timeout is negative")

    def _claim(self, words: Words) -> None:
        self._of_groups("CLAIM")
        self.claim_ms = as_int(words.take(), "ERR min-idle-time is not an integer or out of range")
        if self.claim_ms < 0:
            raise Failure("ERR min-idle-time must be a positive integer")

    def _group(self, words: Words) -> None:
        self._of_groups("GROUP")
        self.group, self.consumer = words.take(), words.take()

    def _noack(self, _: Words) -> None:
        self._of_groups("NOACK")
        self.noack = True

    def _streams(self, words: Words) -> None:
        rest = words.rest()
        if len(rest) % 2:
            name, what = ("xreadgroup", "an ID or '>'") if self.grouped else ("xread", "an ID, '+', or '$'")
            text = f"list of streams: for each stream key {what} must be specified."
            raise Failure(f"ERR Unbalanced '{name}' {text}")
        half = len(rest) // 2
        self.keys, self.ids = rest[:half], rest[half:]

    def _of_groups(self, option: str) -> None:
        if not self.grouped:
            raise Failure(f"ERR The {option} option is only supported by XREADGROUP. You called XREAD instead.")


# The words that each option needs behind it, and what takes them.
_OPTIONS: dict[bytes, tuple[int, Callable[[ReadOptions, Words], None]]] = {
    b"BLOCK": (1, ReadOptions._block),
    b"CLAIM": (1, ReadOptions._claim),
    b"COUNT": (1, ReadOptions._count),
    b"GROUP": (2, ReadOptions._group),
    b"MAXCOUNT": (1, ReadOptions._max_count),
    b"MAXSIZE": (1, ReadOptions._max_size),
    b"NOACK": (0, ReadOptions._noack),
    b"STREAMS": (1, ReadOptions._streams),
}


def parse_read(given: list[bytes], *, grouped: bool) -> ReadOptions:
    """The options among the words of a command.

    Raises:
        Failure: they are wrong, in Redis's words.
    """
    asked, words = ReadOptions(grouped), Words(given)
    while words:
        needed, take = _OPTIONS.get(words.option(), (len(given), ReadOptions._noack))
        if words.left <= needed:
            raise Failure(SYNTAX)
        words.take()
        take(asked, words)
    if not asked.keys:
        raise Failure(SYNTAX)
    if grouped and asked.group is None:
        raise Failure("ERR Missing GROUP option for XREADGROUP")
    if asked.max_count is not None and asked.count is not None and asked.max_count < asked.count:
        raise Failure("ERR MAXCOUNT must be greater than or equal to COUNT")
    return asked


def most_bytes(caller: Caller, count: int | None) -> int | None:
    """What a reply may have where so many entries are asked for; None is no limit.

    A few are not looked at: whoever names a count knows how large they are.
    """
    if caller.host is None or (count is not None and count <= FEW):
        return None
    return caller.host.reply_bytes() or None


def bounded(entries: Iterator[Entry], most: int) -> list[Entry]:
    """All of them, unless they are more than one reply may have: nothing is left out in silence.

    Raises:
        Failure: they are.
    """
    found: list[Entry] = []
    size = 0
    while some := list(islice(entries, _AT_ONCE)):
        found += some
        size += reply_bytes(some)
        refuse_beyond(size, most)
    return found


def reply_bytes(entries: list[Entry]) -> int:
    """What entries have in a reply: of small words that is many times what names and values have."""
    return len(encode([entries], resp3=False))


def refuse_beyond(size: int, most: int) -> None:
    """Refuses a reply of so many bytes, where it may have fewer.

    Raises:
        Failure: it may.
    """
    if size > most:
        raise Failure(
            f"ERR the reply would have more than {number_of(most, 'byte')} (client-output-buffer-limit): read less, by "
            "COUNT"
        )


def capped(caller: Caller, asked: ReadOptions) -> ReadOptions:
    """The options, with no greater MAXSIZE and MAXCOUNT than a reply has room for: who reads on gets the rest.

    What waits for a client counts as it is sent: one that reads would be closed for a reply that is larger, again and
    again, and what XREADGROUP has given out with NOACK would be lost.
    """
    most = most_bytes(caller, asked.count)
    if most is None:
        return asked
    entries, of_words = room(most)
    return replace(
        asked,
        count=None if asked.count is None else min(asked.count, entries),
        max_count=_least(asked.max_count, entries),
        max_bytes=_least(asked.max_bytes, of_words),
    )


def room(most: int) -> tuple[int, int]:
    """For how many entries a reply of so many bytes has room, and for how many bytes of their names and values."""
    return max(FEW, most // _ENTRY_BYTES), max(1, int(most * _OF_WORDS))


def _least(given: int | None, most: int) -> int:
    return most if given is None else min(given, most)


def in_runs(
    positions: Positions, asked: ReadOptions, read: Callable[[dict[bytes, EntryID | str], ReadOptions], Found]
) -> Found:
    """Reads the streams in order, within the caps over all of them. A key that is named twice is read twice.

    Raises:
        DiskstreamError: of the first that failed; unless a consumer was given something before, which would be lost.
    """
    found: Found = []
    at = 0
    while at < len(positions):
        run: dict[bytes, EntryID | str] = {}
        while at < len(positions) and positions[at][0] not in run:
            run[positions[at][0]] = positions[at][1]
            at += 1
        try:
            some = read(run, asked)
        except DiskstreamError:
            if not asked.grouped or not any(entries for _, entries in found):
                raise
            break  # the next call meets the error again
        found += some
        if at < len(positions):
            left = _left(asked, [entry for _, its in some for entry in its])
            if left is None:
                break
            asked = left
    return found


def _left(asked: ReadOptions, entries: list[Entry]) -> ReadOptions | None:
    """What may be read still once these were; None where that is nothing."""
    max_count = None if asked.max_count is None else asked.max_count - len(entries)
    max_bytes = None if asked.max_bytes is None else asked.max_bytes - sum(entry.size_bytes for entry in entries)
    if (max_count is not None and max_count <= 0) or (max_bytes is not None and max_bytes <= 0):
        return None
    count = asked.count if asked.count is None or max_count is None else min(asked.count, max_count)
    return replace(asked, count=count, max_count=max_count, max_bytes=max_bytes)


def as_reply(protocol: int, found: list[tuple[bytes, Reply]]) -> Reply:
    """Streams with what they gave: a map of RESP3, a list of pairs of RESP2."""
    return Map(found) if protocol > 2 else [list(each) for each in found]  # RESP3


def answer(
    caller: Caller,
    asked: ReadOptions,
    again: Callable[[], Reply | None],
    ripe_at: Callable[[], float | None] = lambda: None,
    *,
    first: Callable[[], Reply | None] | None = None,
    kin: Hashable = None,
    more: Callable[[], bool] = lambda: True,
    only: Callable[[Collection[bytes]], Reply | None] | None = None,
) -> Reply | Waiting:
    """Looks once, the `first` time otherwise where that is given; where there is nothing, waits if it may."""
    reply = (first or again)()
    if reply is not None:
        return reply
    if asked.block_ms is None or not caller.may_wait:
        return NIL_ARRAY
    until = time.monotonic() + asked.block_ms / 1000 if asked.block_ms else None
    keys = tuple(dict.fromkeys(asked.keys))
    return Waiting(caller.database, keys, until, again, ripe_at, kin=kin, of_group=asked.grouped, more=more, only=only)
