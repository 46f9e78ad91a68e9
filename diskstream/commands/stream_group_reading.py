"""XREADGROUP: reading as a consumer of a group."""

import math
import time
from collections.abc import Collection
from functools import partial

from diskstream._native import Delivery, Entry, EntryID
from diskstream.commands.caller import Caller
from diskstream.commands.failures import c_text, no_group
from diskstream.commands.id_words import as_id
from diskstream.commands.replies import Failure, Reply
from diskstream.commands.stream_read_options import Found, ReadOptions, answer, as_reply, capped, in_runs, parse_read
from diskstream.commands.stream_reading import read_keys
from diskstream.commands.table import Command
from diskstream.commands.waiting import Waiting
from diskstream.consumer import Consumer
from diskstream.errors import DiskstreamError, NoGroupError
from diskstream.group import Group
from diskstream.group_calls import GroupCall
from diskstream.ids import MAX_ID
from diskstream.membership import as_member_name
from diskstream.standing import Standing
from diskstream.stream import Stream
from diskstream.wanted import Wanted

__all__ = ["COMMANDS", "GroupRead"]

_MEANINGLESS = (
    "ERR The %s ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
    "specifying a proper ID, or use the > ID to get new messages. The %s ID would just return an empty result set."
)
_GONE_AGAIN_S = 0.1  # how often a wait looks again at what may be claimed and is not to be had
_PROMISED_AGAIN_S = 0.1  # for so long an entry is kept for who was woken for it: see native/sys/src/queue.rs
_WHERE = b" in XREADGROUP with GROUP option"


def _after(word: bytes) -> str | EntryID:
    text = c_text(word)
    if text == b">":
        return ">"
    if text in (b"$", b"+"):
        shown = text.decode()
        raise Failure(_MEANINGLESS % (shown, shown))
    found = as_id(word)
    return ">" if found == MAX_ID else found


class GroupRead:
    """One call of XREADGROUP, which may look several times; or one after the other in the same words.

    Args:
        caller: who calls.
        words: the command.
        asked: its options.

    Attributes:
        words: the command.
        parsed: its options, as they stand there.
        database: of its keys.
    """

    def __init__(self, caller: Caller, words: list[bytes], asked: ReadOptions) -> None:
        self.words, self.parsed, self.database = words, asked, caller.database
        self.asked = asked = capped(caller, asked)
        self._keyspace, self._protocol = caller.keyspace, caller.protocol
        self.group = asked.group or b""
        self.positions: list[tuple[bytes, EntryID | str]] = []
        simple = asked.ids == [b">"]
        for key, word in zip(asked.keys, asked.ids, strict=True):
            if not simple:
                stream = caller.keyspace.stream(self.database, key)
                if not stream.exists() or not stream.group(self.group, create=False).exists():
                    raise no_group(key, self.group, where=_WHERE)
            self.positions.append((key, _after(word)))
        # An ID of the history switches CLAIM off for the streams behind it, in Redis and here.
        places = (place for place, (_, after) in enumerate(self.positions) if after != ">")
        claiming = self.positions[: next(places, len(self.positions))] if asked.claim_ms is not None else []
        self.claiming = {key for key, _ in claiming}
        # Then the first look finds all that is to be found, and what it leaves is left to others.
        self._may_stand = simple and asked.claim_ms is None
        # As workers do. No limit but COUNT matters then: one entry is given, however large.
        self._takes_one = self._may_stand and asked.count == 1 and not asked.noack
        self._stream: Stream | None = None
        self._consumer: Consumer
        # The first look alone is an attempt of the consumer's. That is noted in the log: under `always`, where more
        # streams are waited for than may be open, each look would ring for the next.
        self._has_looked = False
        self._looked_at: Collection[bytes] = asked.keys  # by the last look
        self._left: set[bytes] = set()  # where, of several streams, the last look at them left something to others

    def begins_again(self, caller: Caller) -> bool:
        """Begins the next call in the same words; False where it must be made anew."""
        if not self._takes_one or self.database != caller.database:
            return False
        self._protocol = caller.protocol
        return True

    def _reader(self) -> Consumer:
        """The consumer where one entry of one stream is taken. As long as the key stands for the same it is kept.

        Raises:
            Failure: the key is of another type.
        """
        stream = self._keyspace.stream(self.database, self.asked.keys[0])
        if stream is not self._stream:
            self._consumer = stream.group(self.group, create=False).consumer(self.asked.consumer)
            self._stream = stream
        return self._consumer

    def _group_of(self, key: bytes) -> Group:
        if self._takes_one:
            return self._reader().group
        return self._keyspace.stream(self.database, key).group(self.group, create=False)

    def look(self, changed: Collection[bytes] | None = None) -> Reply | None:
        """What there is now, at what has `changed` alone where that is known; None where there is nothing.

        Raises:
            Failure: a key is of another type, or the group is gone.
        """
        try:
            if self._takes_one:
                return self.shown(self._reader().read(count=1))
            those = self.positions if changed is None else [each for each in self.positions if each[0] in changed]
            self._looked_at = [key for key, _ in those]
            for key in self._looked_at:
                self._keyspace.stream(self.database, key)
            found = in_runs(those, self.asked, self._read)
            self._has_looked = True
        except NoGroupError as error:
            raise no_group(error.stream, error.group, where=_WHERE) from None
        if not found:
            return None
        shown = ((key, _with_counts(entries) if key in self.claiming else entries) for key, entries in found)
        return as_reply(self._protocol, list(shown))

    def shown(self, entries: list[Delivery]) -> Reply | None:
        """The reply of a call for one stream; None where there is nothing."""
        return as_reply(self._protocol, [(self.asked.keys[0], [*entries])]) if entries else None

    def standing(self) -> Standing | None:
        """A place in the queue of the group, where something is left to others.

        Raises:
            Failure: the key is of another type.
        """
        if not self._may_stand:
            return None
        group = self._group_of(self.asked.keys[0])
        if not group.has_undelivered():
            return None
        asked = self.asked
        wanted = Wanted(asked.count, 0, asked.noack, None, asked.max_count, asked.max_bytes)
        return Standing(group, asked.consumer, wanted)

    def is_left(self, standing: Standing) -> bool:
        """Whether a place is in a store that SWAPDB has put elsewhere, or that was closed.

        Raises:
            Failure: the key is of another type by now.
        """
        return standing.store is not self._group_of(self.asked.keys[0]).stream._store

    def _read(self, run: dict[bytes, EntryID | str], asked: ReadOptions) -> Found:
        store = self._keyspace.store(self.database)  # another one, perhaps, than when the wait began
        owners = {key: (store.stream(key).group(self.group, create=False), after) for key, after in run.items()}
        wanted = Wanted(asked.count, None, asked.noack, asked.claim_ms, asked.max_count, asked.max_bytes)
        consumer = as_member_name("consumer", asked.consumer)
        looked = self._has_looked
        # Before the first look `__init__` has seen that each has the group. More may be read than may be open.
        with GroupCall(store, owners, consumer, wanted, looked=looked, checked=not looked) as call:
            found = call.run()
            self._left = self._left.difference(run) | call.left
        return [(key, [*entries]) for key, entries in found.items()]

    def more(self) -> bool:
        """Whether a look at the same may find something, as of the last one: an entry, or that a group is gone."""
        if self.claiming:
            return True  # the last one took what was ripe first, and stopped where it had enough
        try:
            for key in self._looked_at:
                if not self._group_of(key).is_read_out():
                    return True
        except (DiskstreamError, Failure, OSError):
            return True  # the next look tells
        return False

    def ripe_at(self) -> float | None:
        """When the next pending entry of a stream may be claimed by age, or what is kept for others be free again."""
        times = []
        for key in self.asked.keys:
            try:
                left = self._ripens_in_s(self._group_of(key)) if key in self.claiming else math.inf
                if self._leaves(key):  # the look before this wait left it to who waits in another process
                    left = min(left, _PROMISED_AGAIN_S)
            except (DiskstreamError, Failure, OSError):
                left = 0.0  # the next look tells
            if left < math.inf:
                times.append(time.monotonic() + left)
        return min(times, default=None)

    def _leaves(self, key: bytes) -> bool:
        """Whether the last look left entries. Of several streams none is opened to be asked: all may be too many."""
        if len(self.asked.keys) == 1 or key in self.claiming:
            return self._group_of(key).has_undelivered()
        return key in self._left

    def _ripens_in_s(self, group: Group) -> float:
        claim_ms = self.asked.claim_ms or 0
        left = group.ripens_in_s(claim_ms)
        if left is None:  # what another process is given from now on rings no bell
            left = max(claim_ms / 1000, _GONE_AGAIN_S)
        # Ripe, and the look before this wait did not take it: its entry is gone.
        return left or _GONE_AGAIN_S


class _Wait:
    """One call that waits. Its place in a queue goes with it: who is behind it is woken then."""

    def __init__(self, reading: GroupRead) -> None:
        self._reading = reading
        self._standing: Standing | None = None

    def look(self) -> Reply | None:
        """What there is by now. Where that is left to others, it stands behind them from then on.

        Who waits embedded would otherwise be before it each time: see native/sys/src/queue.rs.

        Raises:
            Failure: as `GroupRead.look`.
        """
        reading = self._reading
        if self._standing is not None and reading.is_left(self._standing):
            self._standing = None
        if self._standing is None:
            reply = reading.look()
            if reply is not None:
                return reply
            self._standing = reading.standing()
            if self._standing is None:
                return None
        try:
            reply = reading.shown(self._standing.look())
        except NoGroupError as error:
            raise no_group(error.stream, error.group, where=_WHERE) from None
        if reply is not None:
            self._standing = None
        return reply


def _with_counts(entries: list[Entry]) -> Reply:
    """With CLAIM each entry has its idle time and its deliveries before."""
    shown: list[Reply] = []
    for entry in entries:
        assert isinstance(entry, Delivery)
        pairs = [word for pair in entry.pairs for word in pair]
        shown.append([entry.id, pairs, entry.idle_ms, entry.deliveries])
    return shown


def _xreadgroup(caller: Caller, given: list[bytes]) -> Reply | Waiting:
    # Workers say the same again and again.
    reading, last = caller.last_read, caller.last_read
    if last is None or given != last.words:
        reading = GroupRead(caller, given, parse_read(given, grouped=True))
    elif not last.begins_again(caller):
        reading = GroupRead(caller, given, last.parsed)
    assert reading is not None
    caller.last_read, asked = reading, reading.asked
    # What is ripe is so for each consumer that claims by the same age, whose ever it was.
    only_new = all(after == ">" for _, after in reading.positions)
    kin = (caller.database, asked.group, tuple(asked.keys), asked.claim_ms) if only_new else None
    look = _Wait(reading).look
    only = reading.look if len(asked.keys) > 1 else None  # of one key the look is at its place in the queue, too
    return answer(caller, asked, look, reading.ripe_at, first=reading.look, kin=kin, more=reading.more, only=only)


COMMANDS = (
    Command(
        "xreadgroup",
        -7,
        _xreadgroup,
        frozenset({"write", "blocking"}),
        find_keys=partial(read_keys, least=4),  # a group and a consumer may have the name of the keyword
        summary="Entries for a consumer of a group; may wait for some.",
    ),
)
