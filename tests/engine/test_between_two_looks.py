"""Between two looks at a log another thread may have rolled, sealed or compacted it: what is found is of one moment."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Stream, retaining
from diskstream.engine import positions, reader, seal, trimming, verify
from diskstream.engine.log import StreamLog
from diskstream.retention_rule import RetentionRule

BEGIN = EntryID(0, 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[diskstream.Store]:
    with diskstream.open(tmp_path / "s", fsync="os", segment_bytes=1 << 16, retention_interval_ms=3_600_000) as opened:
        yield opened


@pytest.fixture
def stream(store: diskstream.Store) -> Stream:
    """Entries 1-0 to 100-0 in the active segment."""
    made = store.stream("x")
    made.add_many([{"n": number} for number in range(100)], ids=[f"{number + 1}-0" for number in range(100)])
    return made


def in_three(store: diskstream.Store, value: str) -> Stream:
    """Entries 1-0 to 300-0 in three sealed segments."""
    made = store.stream("x")
    for part in range(3):
        ids = [f"{part * 100 + number + 1}-0" for number in range(100)]
        made.add_many([{"n": value} for _ in ids], ids=ids)
        made.seal()
    return made


@pytest.fixture
def sealed(store: diskstream.Store) -> Stream:
    """Three sealed segments, each of which is compacted by itself."""
    return in_three(store, "v" * 600)


class Meanwhile:
    """Something of which one attribute, when it is first asked for, has another thread's step come first."""

    def __init__(self, real: Any, name: str, step: Callable[[], object]) -> None:
        self._real, self._name, self._step, self._done = real, name, step, False

    def __getattr__(self, name: str) -> Any:
        if name == self._name and not self._done:
            self._done = True
            self._step()
        return getattr(self._real, name)


def counted(stream: Stream, look: Callable[[StreamLog], Any]) -> Any:
    """What is seen where the log rolls right before the entries of the active segment are asked for."""

    def on(log: StreamLog) -> Any:
        real: Any = log.native

        def roll() -> None:
            log.native = real
            log.roll()
            real.add({"n": "next"}, EntryID(1000, 0))

        log.native = Meanwhile(real, "visible_entries", roll)  # type: ignore[assignment]  # a stand-in
        try:
            return look(log)
        finally:
            log.native = real

    return stream._use(on, None)


def test_a_count_is_of_the_segment_that_was_asked_about(stream: Stream) -> None:
    assert counted(stream, lambda log: positions.count_from(log, BEGIN)) in (100, 101)


def test_a_count_from_the_middle_is_never_below_zero(stream: Stream) -> None:
    assert counted(stream, lambda log: positions.count_from(log, EntryID(51, 0))) in (50, 51)


def test_the_nth_entry_is_not_one_of_the_next_segment(stream: Stream) -> None:
    assert counted(stream, lambda log: positions.id_further(log, BEGIN, 10)) == EntryID(10, 0)


def before(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, step: Callable[..., object]) -> None:
    """Another thread's step right before a function is first called."""
    real, done = getattr(place, name), list[bool]()

    def stepping(*given: Any, **named: Any) -> Any:
        if not done:
            done.append(True)
            step(*given)
        return real(*given, **named)

    monkeypatch.setattr(place, name, stepping)


def grown_and_sealed(log: StreamLog, *_: object) -> None:
    log.native.add({"n": "late"}, EntryID(500, 0))
    log.roll()
    seal.seal_rolled(log)


def test_a_segment_that_grew_before_it_was_sealed_is_no_damage(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    before(monkeypatch, positions, "id_at", grown_and_sealed)
    assert stream.id_further("-", 10) == EntryID(10, 0)


def test_nor_is_it_where_a_trim_is_asked_for(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.trim(maxlen=50)
    before(monkeypatch, reader, "id_at", grown_and_sealed)
    assert stream.trimmed_to() == EntryID(50, 0)


def thinned(stream: Stream, numbers: range) -> None:
    for number in numbers:
        stream.delete(f"{number}-0")


def test_what_a_rule_would_remove_is_found_though_its_segment_is_compacted(
    sealed: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    thinned(sealed, range(202, 300, 2))
    before(monkeypatch, retaining, "_first_kept", lambda *_: sealed.compact())
    assert sealed.preview_retention(RetentionRule(max_entries=10)).removed == len(sealed) - 10


def test_a_rule_is_applied_though_its_segment_is_compacted(sealed: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    group = sealed.group("g", start="0")
    group.ack(*(each.id for each in group.consumer("c").read(count=1000)))
    thinned(sealed, range(202, 300, 2))
    before(monkeypatch, retaining, "_first_kept", lambda *_: sealed.compact())
    sealed.set_retention(max_entries=10, ref="ACKED")
    for _ in range(20):
        sealed.apply_retention()
    assert len(sealed) == 10


def test_verify_reads_what_is_rolled_while_it_reads(
    store: diskstream.Store, sealed: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed.add_many([{"n": number} for number in range(100)])

    def roll(_name: bytes, log: StreamLog, *_: object) -> None:
        log.roll()
        sealed.add({"n": "next"})

    before(monkeypatch, verify, "_verify_active", roll)
    report = store.verify()
    assert report.ok
    assert report.entries == 401


def test_verify_reads_what_is_compacted_while_it_reads(
    store: diskstream.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first segment was read by itself before all three became one, in which there is a fault."""
    small = in_three(store, "v")
    thinned(small, range(2, 300, 2))
    real, calls = verify._verify_segment, []

    def verifying(name: bytes, log: StreamLog, *given: Any, **named: Any) -> Any:
        yield from real(name, log, *given, **named)
        calls.append(name)
        if len(calls) == 1:
            small.compact()
            (made,) = log.directory.glob("*.g1.seg")
            content = bytearray(made.read_bytes())
            content[len(content) // 2] ^= 0x40
            made.write_bytes(content)

    monkeypatch.setattr(verify, "_verify_segment", verifying)
    assert not store.verify().ok


def test_an_older_list_that_another_thread_puts_back_is_not_the_one_that_is_given(sealed: Stream) -> None:
    """An entry was deleted by its position from before a compaction: it was another entry."""
    thinned(sealed, range(1, 51))

    def on(log: StreamLog) -> int:
        segments: Any = log.segments
        older = (log.native.version, log.native.segments())
        for view in older[1]:
            segments.get(view)
        seal.compact(log)

        class Kept(set):  # type: ignore[type-arg]  # only its length is asked for
            """Its length is asked for between the list's being put there and its being given."""

            def __len__(self) -> int:
                segments._views = older
                return super().__len__()

        segments._packed, segments._views = Kept(), (-1, [])
        with log.locked():
            log.prepare()
            return trimming.delete(log, [EntryID(60, 0)])

    assert sealed._use(on, 0) == 1
    assert sealed.get("60-0") is None
    assert len(sealed) == 249
