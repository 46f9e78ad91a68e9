"""The same commands, in any order, to a store and to a Redis server: every reply and all that is held must agree."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from diskstream import EntryID, Store
from tests.conftest import RedisServer
from tests.streams.commands import Embedded, Refused, Server, agree, info_of
from tests.streams.layers import MAX, small_store

KEYS = ["a", "b", "c"]
FUTURE = 2**63

keys = st.sampled_from(KEYS)
policies = st.sampled_from(["os", "always", "everysec", "interval=5"])
fields = st.lists(
    st.tuples(st.sampled_from([b"f", b"g", b"", b"h\xff"]), st.sampled_from([b"", b"1", b"\x00\r\n", b"." * 700])),
    min_size=1,
    max_size=3,
)
counts = st.none() | st.integers(0, 30)
seqs = st.sampled_from([0, 1, 2, 3, MAX - 1, MAX])
# An ID is chosen by where it lies from the last one of its stream, so that most of them are near what there is.
steps = st.integers(-12, 3)
bounds = st.one_of(
    st.sampled_from(["-", "+", "0", "0-0", "0-1", "(0-1", f"({MAX}-{MAX}", "(0-0", f"{MAX}-{MAX}", "x", "5-", "("]),
    st.tuples(st.booleans(), steps, st.none() | seqs),
)


class BothSides(RuleBasedStateMachine):
    """Runs each command on both sides, and looks at everything that the command may have changed."""

    server: RedisServer

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.ours = Embedded(self.opened("os"))
        self.theirs = Server(self.server.host, self.server.port)

    def teardown(self) -> None:
        for key in KEYS:
            self.check(key)
        self.theirs.close()
        self.ours.store.close()
        shutil.rmtree(self.directory)

    # --- what all rules use -------------------------------------------------------------------------------------------

    def opened(self, fsync: str) -> Store:
        return small_store(self.directory / "store", fsync=fsync)

    def both(self, *words: Any) -> Any:
        theirs = self.theirs.run(*words)
        if words[0] == "XINFO":
            theirs = info_of(theirs)
        ours = self.ours.run(*words)
        assert agree(ours, theirs), f"{words}\nours:   {ours!r}\ntheirs: {theirs!r}"
        return theirs

    def check(self, key: str) -> None:
        for words in (("XINFO", "STREAM", key), ("XLEN", key), ("EXISTS", key)):
            self.both(*words)
        everything = self.both("XRANGE", key, "-", "+")
        assert self.both("XREVRANGE", key, "+", "-") == everything[::-1]

    def last(self, key: str) -> EntryID:
        info = self.both("XINFO", "STREAM", key)
        return EntryID(0, 0) if isinstance(info, Refused) else EntryID(info[b"last-generated-id"])

    def near(self, key: str, step: int) -> int:
        """Milliseconds `step` from the last ones, or from the middle where there are many entries."""
        return min(max(0, self.last(key).ms + step), MAX)

    def bound(self, key: str, chosen: Any) -> str:
        if isinstance(chosen, str):
            return chosen
        exclusive, step, seq = chosen
        return f"{'(' if exclusive else ''}{self.near(key, step)}{'' if seq is None else f'-{seq}'}"

    def live(self, key: str) -> list[bytes]:
        return [entry[0] for entry in self.theirs.run("XRANGE", key, "-", "+")]

    # --- adding -------------------------------------------------------------------------------------------------------

    @initialize(fsync=policies)
    def begin(self, fsync: str) -> None:
        self.reopen(fsync)

    @rule(
        key=keys,
        given=st.tuples(st.integers(-1, 3), st.sampled_from(["", "-*", "-0", "-1", "-2", "-7", f"-{MAX}"])),
        fields=fields,
        nomkstream=st.booleans(),
        trim=st.none()
        | st.tuples(st.sampled_from(["MAXLEN", "MINID"]), st.sampled_from(["", "="]), st.integers(0, 25)),
    )
    def add(self, key: str, given: tuple[int, str], fields: Any, nomkstream: bool, trim: Any) -> None:
        words: list[Any] = ["XADD", key]
        if nomkstream:
            words.append("NOMKSTREAM")
        if trim is not None:
            strategy, sign, threshold = trim
            least = threshold if strategy == "MAXLEN" else max(0, self.near(key, threshold - 25))
            words += [word for word in (strategy, sign, least) if word != ""]
        words.append(f"{self.near(key, given[0])}{given[1]}")
        self.both(*words, *(word for pair in fields for word in pair))
        self.check(key)

    @rule(key=keys, count=st.integers(1, 40), size=st.sampled_from([1, 300]), gap=st.integers(1, 2))
    def add_many(self, key: str, count: int, size: int, gap: int) -> None:
        """A frame of ours, as many commands of theirs."""
        start = self.last(key)
        if start.ms > MAX - 100:
            return
        wanted = [f"{start.ms + 1 + number // 5}-{number % 5 * gap}" for number in range(count)]
        rows = [[(b"n", b"%d" % number), (b"pad", b"." * size)] for number in range(count)]
        ours = self.ours.store.stream(key).add_many(rows, ids=wanted)
        theirs = self.theirs.run_all(
            ("XADD", key, given, *(word for pair in row for word in pair))
            for given, row in zip(wanted, rows, strict=True)
        )
        assert [bytes(entry_id) for entry_id in ours] == theirs
        self.check(key)

    @rule(
        key=keys,
        given=st.sampled_from([f"{FUTURE}-*", f"{FUTURE}-{MAX}", f"{MAX}-{MAX - 1}", f"{MAX}-{MAX}", f"{MAX}"]),
    )
    def add_in_the_future(self, key: str, given: str) -> None:
        self.both("XADD", key, given, "f", "1")
        self.check(key)

    @rule()
    def add_automatically(self) -> None:
        """Behind an ID far in the future, the next one depends on no clock."""
        for key in KEYS:
            if self.last(key).ms >= FUTURE:
                self.both("XADD", key, "*", "f", "1")
                self.check(key)

    @rule(
        key=keys, given=st.sampled_from(["", "x", "0-0", "0", "5-", "-5", "5-1-1", "5-x", "**", "-*", "-", "+", "(5-1"])
    )
    def add_under_no_id(self, key: str, given: str) -> None:
        assert isinstance(self.both("XADD", key, given, "f", "1"), Refused)
        self.check(key)

    # --- removing -----------------------------------------------------------------------------------------------------

    @rule(key=keys, chosen=st.lists(st.tuples(steps, seqs), min_size=1, max_size=4))
    def delete_ids(self, key: str, chosen: Any) -> None:
        self.both("XDEL", key, *(f"{self.near(key, step)}-{seq}" for step, seq in chosen))
        self.check(key)

    @rule(key=keys, chosen=st.lists(st.integers(0, 10_000), min_size=1, max_size=30), newest=st.integers(0, 3))
    def delete_entries(self, key: str, chosen: list[int], newest: int) -> None:
        """Some from anywhere, and some of the newest."""
        live = self.live(key)
        if live:
            picked = [live[number % len(live)] for number in chosen] + live[len(live) - newest :]
            self.both("XDEL", key, *picked, picked[0])
            self.check(key)

    @rule(key=keys, first=st.integers(0, 10_000), count=st.integers(1, 60))
    def delete_a_run(self, key: str, first: int, count: int) -> None:
        live = self.live(key)
        if live:
            start = first % len(live)
            assert self.both("XDEL", key, *live[start : start + count]) == len(live[start : start + count])
            self.check(key)

    @rule(key=keys, sign=st.sampled_from([(), ("=",)]), length=st.integers(0, 120))
    def trim_to_a_length(self, key: str, sign: tuple[str, ...], length: int) -> None:
        self.both("XTRIM", key, "MAXLEN", *sign, length)
        self.check(key)

    @rule(key=keys, sign=st.sampled_from([(), ("=",)]), step=st.integers(-40, 2), seq=st.none() | seqs)
    def trim_by_id(self, key: str, sign: tuple[str, ...], step: int, seq: int | None) -> None:
        self.both("XTRIM", key, "MINID", *sign, self.bound(key, (False, step, seq)))
        self.check(key)

    @rule(key=keys, length=st.integers(0, 120), limit=st.none() | st.sampled_from([0, 1, 50, 99, 100, 150]))
    def trim_approximately(self, key: str, length: int, limit: int | None) -> None:
        """Where ours ends is not where theirs does: the promise is checked, then they are made to follow."""
        before = self.live(key)
        exact = max(0, len(before) - length)
        allowed = min(exact, limit) if limit else exact
        gone = self.ours.store.stream(key).trim(maxlen=length, approximate=True, limit=limit)
        assert allowed - 100 < gone <= allowed
        assert self.theirs.run("XTRIM", key, "MAXLEN", len(before) - gone) == gone
        self.check(key)

    @rule(key=keys)
    def delete_the_stream(self, key: str) -> None:
        self.both("DEL", key)
        self.check(key)

    @rule(old=keys, new=keys)
    def rename_a_stream(self, old: str, new: str) -> None:
        self.both("RENAME", old, new)
        self.check(old)
        self.check(new)

    # --- reading ------------------------------------------------------------------------------------------------------

    @rule(key=keys, start=bounds, end=bounds, count=counts)
    def read_a_range(self, key: str, start: Any, end: Any, count: int | None) -> None:
        options = () if count is None else ("COUNT", count)
        low, high = self.bound(key, start), self.bound(key, end)
        for words in (("XRANGE", key, low, high), ("XREVRANGE", key, high, low)):
            if count == 0 and not isinstance(self.theirs.run(*words), Refused):
                assert self.ours.run(*words, *options) == []  # theirs is a null array: the one thing that Python lacks
            elif count != 0:
                self.both(*words, *options)

    @rule(
        chosen=st.dictionaries(
            keys, st.sampled_from(["$", "0", "0-0", "x", "-"]) | st.tuples(st.just(False), steps, seqs), min_size=1
        ),
        count=counts,
    )
    def read_behind(self, chosen: dict[str, Any], count: int | None) -> None:
        options = () if count is None else ("COUNT", count)
        positions = [self.bound(key, position) for key, position in chosen.items()]
        self.both("XREAD", *options, "STREAMS", *[key.encode() for key in chosen], *positions)

    # --- setting ------------------------------------------------------------------------------------------------------

    @rule(
        key=keys,
        step=st.integers(-8, 5),
        seq=seqs,
        added=st.none() | st.integers(-1, 300),
        deleted=st.none() | st.just("0-0") | st.tuples(st.just(False), st.integers(-30, 6), seqs),
    )
    def set_the_id(self, key: str, step: int, seq: int, added: int | None, deleted: Any) -> None:
        given = EntryID(self.near(key, step), seq)
        words: list[Any] = ["XSETID", key, str(given)]
        if added is not None:
            words += ["ENTRIESADDED", added]
        if deleted is not None:
            words += ["MAXDELETEDID", self.bound(key, deleted)]
        if self.is_below_deleted(key, given):
            assert isinstance(self.ours.run(*words), Refused)  # servers before 7.2 do not look at that
        else:
            self.both(*words)
        self.check(key)

    def is_below_deleted(self, key: str, given: EntryID) -> bool:
        info = self.both("XINFO", "STREAM", key)
        return not isinstance(info, Refused) and given < EntryID(info[b"max-deleted-entry-id"])

    @rule(key=keys, low=st.sampled_from(["0-1", "1-0", "4-0"]))
    def set_the_id_back(self, key: str, low: str) -> None:
        """As far back as it goes: lowers the greatest deleted ID, then the last one to the newest live entry."""
        self.both("XSETID", key, str(self.last(key)), "MAXDELETEDID", low)
        live = self.live(key)
        given = EntryID(live[-1] if live else low)
        if not self.is_below_deleted(key, given):
            self.both("XSETID", key, str(given))
        self.check(key)

    # --- ours alone ---------------------------------------------------------------------------------------------------

    @rule(key=keys)
    def seal(self, key: str) -> None:
        self.ours.store.stream(key).seal()
        self.check(key)

    @rule(key=keys)
    def compact(self, key: str) -> None:
        self.ours.store.stream(key).compact()
        self.check(key)

    @rule(fsync=policies)
    def reopen(self, fsync: str) -> None:
        self.ours.store.close()
        self.ours = Embedded(self.opened(fsync))
        assert self.ours.store.streams() == sorted(key.encode() for key in KEYS if self.theirs.run("EXISTS", key))
        for key in KEYS:
            self.check(key)
        found = [finding for report in self.ours.store.recoveries for finding in report.findings]
        assert {finding.kind for finding in found} <= {"dropped"}

    @rule()
    def verify(self) -> None:
        report = self.ours.store.verify()
        assert report.ok, report


@pytest.mark.timeout(600)  # where it fails, the shortest sequence that does is looked for
def test_any_sequence_of_commands_has_the_same_effect_on_both_sides(redis_server: RedisServer) -> None:
    machine = type("BothSidesOfThisServer", (BothSides,), {"server": redis_server})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=50,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
