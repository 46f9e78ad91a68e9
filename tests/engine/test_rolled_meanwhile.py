"""Another thread of the process may follow a roll at any moment: whoever looks at segment after segment misses none."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import CorruptionError
from diskstream.engine import limits, positions, reader, splits
from diskstream.engine.log import StreamLog
from diskstream.engine.segment import SegmentGone

ENTRIES = 100


def rolled(stream: diskstream.Stream) -> None:
    stream._use(lambda log: log.roll(), None)
    stream.add({"n": "next"}, id="1000-0")


class Rolling:
    """Stands in for the segments of a log, or its native half: rolls it at the first call of one method."""

    def __init__(self, real: Any, method: str, roll: Callable[[], None], *, before: bool) -> None:
        self._real, self._method, self._roll, self._before = real, method, roll, before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name != self._method:
            return found
        self._method = ""

        def call() -> Any:
            if self._before:
                self._roll()
            answer = found()
            if not self._before:
                self._roll()
            return answer

        return call


@pytest.fixture
def stream(tmp_path: Path) -> Any:
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")
        stream.add_many([{"n": number} for number in range(ENTRIES)], ids=[f"{n + 1}-0" for n in range(ENTRIES)])
        yield stream


def looked(stream: diskstream.Stream, look: Callable[[StreamLog], Any]) -> Any:
    """What is seen where the log rolls right behind the list of segments."""

    def on(log: StreamLog) -> Any:
        real = log.segments
        log.segments = Rolling(real, "views", lambda: rolled(stream), before=False)  # type: ignore[assignment]  # a stand-in
        try:
            return look(log)
        finally:
            log.segments = real

    return stream._use(on, None)


END = diskstream.EntryID(ENTRIES, 0)
BEGIN = diskstream.EntryID(0, 0)


def test_a_range_gives_what_was_rolled_meanwhile(stream: diskstream.Stream) -> None:
    found = looked(stream, lambda log: sum(block.row_count for block in reader.blocks(log, BEGIN, END)))
    assert found == ENTRIES


def test_a_range_backwards_gives_it_too(stream: diskstream.Stream) -> None:
    found = looked(stream, lambda log: sum(b.row_count for b in reader.blocks(log, BEGIN, END, reverse=True)))
    assert found == ENTRIES


def test_a_range_backwards_looks_at_no_other_segment_s_deleted_entries(stream: diskstream.Stream) -> None:
    """It took the next segment's bits for those of its own: where all was deleted there, it gave nothing."""

    def roll() -> None:
        rolled(stream)
        ids = stream.add_many([{"n": "next"}] * ENTRIES)
        stream.delete("1000-0", *ids)

    def look(log: StreamLog) -> int:
        real = log.native
        log.native = Rolling(real, "active_view", roll, before=True)  # type: ignore[assignment]  # a stand-in
        try:
            return sum(block.row_count for block in reader.blocks(log, BEGIN, END, reverse=True))
        finally:
            log.native = real

    assert stream._use(look, 0) == ENTRIES


def test_pieces_for_readers_hold_it(stream: diskstream.Stream) -> None:
    def plan(log: StreamLog) -> int:
        return sum(
            piece.entries
            for piece in splits.pieces(log, BEGIN, END, max_entries=10, max_bytes=1 << 20, tail=True, damaged=False)
        )

    assert looked(stream, plan) == ENTRIES


def test_counting_on_counts_it(stream: diskstream.Stream) -> None:
    assert looked(stream, lambda log: positions.count_from(log, BEGIN)) in (ENTRIES, ENTRIES + 1)
    assert stream.id_further("-", 10) == diskstream.EntryID(10, 0)


def test_the_entry_that_is_the_nth_from_here_is_the_same(stream: diskstream.Stream) -> None:
    assert looked(stream, lambda log: positions.id_further(log, BEGIN, 10)) == diskstream.EntryID(10, 0)


def test_what_a_rule_would_remove_ends_where_it_should(stream: diskstream.Stream) -> None:
    def place(log: StreamLog) -> tuple[int, int]:
        number = log.native.tail[0]
        try:
            found = limits.place_of(log, diskstream.EntryID(31, 0))
        except SegmentGone:  # whoever asks looks again
            found = limits.place_of(log, diskstream.EntryID(31, 0))
        return found[0] - number, found[1]

    assert looked(stream, place) == (0, 30)


def test_what_segments_hold_is_counted_once(stream: diskstream.Stream) -> None:
    found = looked(stream, lambda log: sum(view.entries for view in positions.all_listed(log)))
    assert found in (ENTRIES, ENTRIES + 1)


def test_damage_before_the_roll_is_told_of_the_segment_it_is_in(tmp_path: Path) -> None:
    """The next segment was named, which is sound: who brings back a file from a backup took the wrong one."""
    with contextlib.ExitStack() as kept:
        stream = kept.enter_context(diskstream.open(tmp_path, seal="manual")).stream("x")
        stream.add({"n": 0}, "1-0")
        other = kept.enter_context(diskstream.open(tmp_path, seal="manual"))
        assert len(other.stream("x")) == 1
        stream.add({"n": "to be damaged"}, "2-0")
        (active,) = (tmp_path / "streams" / "x").glob("*.log")
        with active.open("r+b") as file:
            file.seek(active.read_bytes().index(b"to be damaged"))
            file.write(b"TO BE")
        rolled(stream)
        with pytest.raises(CorruptionError, match=r"00000001\.log: frame payload"):
            len(other.stream("x"))
        with pytest.raises(CorruptionError, match=r"00000001\.log: frame payload"):
            other.close()
