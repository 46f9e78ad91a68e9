"""Pipelines of plain XADDs: one object, one frame, one flush, and the replies that single commands would have had."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream import ReadOnlyError, Store
from diskstream.commands.wire import AddRun, CommandRun, RequestParser, encode
from tests.engine.sample import SMALL
from tests.engine.stand_ins import Watched
from tests.streams.layers import frames

MIB = 1 << 20


def wire(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def xadd(*pairs: bytes, key: bytes = b"x", name: bytes = b"XADD") -> bytes:
    return wire(name, key, b"*", *pairs)


def parsed(data: bytes) -> list[AddRun | CommandRun | list[bytes]]:
    return [*RequestParser(runs=True).feed(data)]


def run_of(data: bytes) -> AddRun:
    [run] = parsed(data)
    assert isinstance(run, AddRun)
    return run


def shown(data: bytes) -> list[object]:
    """Lists as they are, runs as key and length."""
    return [(item.key, len(item)) if isinstance(item, AddRun) else item for item in parsed(data)]


# --- what becomes a run -----------------------------------------------------------------------------------------------


def test_plain_appends_to_one_key_are_one_run() -> None:
    run = run_of(xadd(b"a", b"1") + xadd(b"b", b"2", b"b", b"", name=b"xadd") + b"XAdd x * 'a' \"3\"\r\n")
    assert (run.key, len(run)) == (b"x", 3)
    words = [b"XADD", b"x", b"*"]
    assert run.commands() == [[*words, b"a", b"1"], [*words, b"b", b"2", b"b", b""], [*words, b"a", b"3"]]


def test_without_the_flag_there_are_none() -> None:
    assert RequestParser().feed(xadd(b"a", b"1")) == [[b"XADD", b"x", b"*", b"a", b"1"]]


def test_another_key_or_command_ends_a_run() -> None:
    one, other = xadd(b"a", b"1"), xadd(b"a", b"1", key=b"y")
    found = shown(one * 2 + other + wire(b"PING") + other + b"\r\n" + other + one)
    assert found == [(b"x", 2), (b"y", 1), [b"PING"], (b"y", 2), (b"x", 1)]


@pytest.mark.parametrize(
    "words",
    [
        [b"XADD", b"x", b"*"],
        [b"XADD", b"x", b"*", b"a"],
        [b"XADD", b"x", b"1-*", b"a", b"1"],
        [b"XADD", b"x", b"1-1", b"a", b"1"],
        [b"XADD", b"x", b"NOMKSTREAM", b"*", b"a", b"1"],
        [b"XADD", b"x", b"*", *[b"a", b"1"] * 65_537],
        [b"XADD", b"x", b"*", b"a", b"." * (32 * MIB)],
    ],
)
def test_what_can_fail_by_itself_is_in_no_run(words: list[bytes]) -> None:
    plain = xadd(b"a", b"1")
    assert shown(plain + wire(*words) + plain) == [(b"x", 1), words, (b"x", 1)]


def test_a_run_is_no_larger_than_a_frame(store: Store) -> None:
    runs = parsed(xadd(b"a", b"." * (20 * MIB)) * 5)
    assert [len(run) for run in runs] == [3, 2]
    for run in runs:
        assert isinstance(run, AddRun)
        store.stream("x").add_run(run)
    assert [entry.size_bytes for entry in store.stream("x")] == [20 * MIB + 1] * 5


def test_commands_before_an_error_are_a_run_too() -> None:
    parser = RequestParser(runs=True)
    found = parser.feed(xadd(b"a", b"1") * 3 + b"*x\r\n")
    assert [len(item) for item in found] == [3]
    assert parser.error is not None


# --- what becomes of a run --------------------------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=200)), min_size=1, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(PAIRS, min_size=1, max_size=20))
def test_entries_and_replies_are_those_of_single_commands(store: Store, rows: list[list[tuple[bytes, bytes]]]) -> None:
    run = run_of(b"".join(xadd(*(word for pair in row for word in pair)) for row in rows))
    stream = store.stream("x")
    before = len(stream)
    replies = stream.add_run(run)
    added = list(stream)[before:]
    assert [entry.pairs for entry in added] == rows
    assert replies == encode([entry.id for entry in added], resp3=False)
    assert [[b"XADD", b"x", b"*", *(word for pair in row for word in pair)] for row in rows] == run.commands()


def test_a_run_is_one_frame_and_one_flush(tmp_path: Path) -> None:
    flushes: list[Path] = []

    def step(kind: str, path: Path) -> None:
        if kind == "flush":
            flushes.append(path)

    options = {**SMALL, "fsync": "always", "segment_bytes": MIB}
    with diskstream.open(tmp_path / "s", **options, files=Watched(step)) as store:
        stream = store.stream("x")
        stream.add({"a": 0})
        before = frames(store)
        flushes.clear()
        stream.add_run(run_of(xadd(b"a", b"1") * 500))
        assert (len(stream), frames(store), len(flushes)) == (501, before + 1, 1)


def test_the_stream_is_made_where_there_is_none(store: Store) -> None:
    run = run_of(xadd(b"a", b"1") * 2)
    stream = store.stream("x")
    stream.add_run(run)
    store.delete("x")
    stream.add_run(run)
    assert [entry.fields for entry in stream] == [{b"a": b"1"}] * 2


def test_a_stream_that_moved_meanwhile_is_looked_up_again(tmp_path: Path) -> None:
    run = run_of(xadd(b"a", b"1"))
    with diskstream.open(tmp_path / "s") as ours, diskstream.open(tmp_path / "s") as theirs:
        ours.stream("x").add_run(run)
        theirs.rename("x", "y")
        ours.stream("x").add_run(run)
        assert [len(theirs.stream(name)) for name in ("x", "y")] == [1, 1]


def test_a_read_only_store_says_so(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").add({"a": 0})
    with diskstream.open(tmp_path / "s", read_only=True) as store, pytest.raises(ReadOnlyError):
        store.stream("x").add_run(run_of(xadd(b"a", b"1")))
