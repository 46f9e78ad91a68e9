"""A rule that moves on trim: what trims would have taken goes to cold storage whole, and stays readable."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, Stream
from diskstream.cold_segments import segments_of
from diskstream.errors import ArgumentError, ArgumentTypeError, NewerFormatError
from diskstream.retention_rule import MARK, RULE
from tests.cold.world import ENTRIES, filled, opened, rows, where
from tests.engine.children import until
from tests.engine.sample import log_of


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    """Its rule is applied by who says so, and by nobody else."""
    with opened(tmp_path / "store", retention_interval_ms=0) as store:
        yield filled(store)


def mark(stream: Stream) -> bytes | None:
    log = log_of(stream._store, stream.name)
    log.refresh()
    return log.native.setting(MARK)


def lasts(stream: Stream) -> list[int]:
    return [each.last.ms for each in segments_of(stream)]


TRIMS: list[dict[str, Any]] = [
    {"maxlen": 90},
    {"maxlen": 90, "approximate": True},
    {"minid": "111"},
    {"minid": "111-0", "approximate": True, "limit": 1},
    {"maxlen": 90, "ref": "DELREF"},
    {"maxlen": 90, "ref": "ACKED"},
]


@pytest.mark.parametrize("trim", TRIMS, ids=str)
@pytest.mark.parametrize("with_an_add", [False, True])
def test_whole_segments_that_a_trim_passes_move_and_nothing_is_removed(
    stream: Stream, folder_place: str, trim: dict[str, Any], *, with_an_add: bool
) -> None:
    stream.group("g", start="0").consumer("c").read(count=5)
    stream.set_retention(to=folder_place, on_trim=True)
    if with_an_add:
        stream.add({"n": "new"}, "1000-0", **trim)
    else:
        assert stream.trim(**trim) == 0
    before = rows(stream)
    passed = [last for last in lasts(stream) if last <= ENTRIES - 90 + with_an_add]
    assert len(passed) > 3
    (moved,) = stream.apply_retention().moved
    assert [segment.last.ms for segment in moved.segments] == passed
    assert where(stream) == ["cold"] * len(passed) + ["here"] * (len(lasts(stream)) - len(passed))
    assert rows(stream) == before
    assert len(stream) == ENTRIES + with_an_add
    assert len(stream.group("g").pending_range(count=10)) == 5
    assert stream.apply_retention() == diskstream.RetentionReport()


def test_a_trim_within_a_segment_moves_nothing_and_writes_nothing(stream: Stream, folder_place: str) -> None:
    stream.set_retention(to=folder_place, on_trim=True)
    first, second = lasts(stream)[:2]
    assert stream.trim(minid=f"{first}-0") == 0
    assert mark(stream) is None
    assert stream.apply_retention() == diskstream.RetentionReport()
    lsn = log_of(stream._store, stream.name).native.tail[2]
    for least in range(first + 1, second + 1):
        assert stream.trim(minid=f"{least}-0") == 0
    assert mark(stream) == str(EntryID(first, 1)).encode()
    assert log_of(stream._store, stream.name).native.tail[2] == lsn + 1
    assert stream.trim(maxlen=ENTRIES) == stream.trim(minid="1-0") == 0
    assert mark(stream) == str(EntryID(first, 1)).encode(), "it only rises"


def test_what_a_trim_asked_for_is_known_after_reopening_and_to_other_openings(
    stream: Stream, folder_place: str, tmp_path: Path
) -> None:
    with opened(tmp_path / "store", retention_interval_ms=0) as other:
        stream.set_retention(to=folder_place, on_trim=True)
        other.stream("x").trim(maxlen=0)
        other.stream("x").seal()
        assert mark(stream) == mark(other.stream("x")) is not None
    stream._store.close()
    with opened(tmp_path / "store", retention_interval_ms=2) as store:
        again = store.stream("x")
        until(lambda: again.info().cold_segments > 3)
        assert len(again) == ENTRIES


def test_a_limit_goes_beside_it(stream: Stream, folder_place: str) -> None:
    stream.set_retention(max_entries=150, to=folder_place, on_trim=True)
    stream.trim(maxlen=100)
    by_limit, by_trim = stream.apply_retention().moved
    assert by_limit.segments[-1].last.ms <= 50 < by_trim.segments[-1].last.ms <= 100
    assert by_trim.already == len(by_limit.segments)
    assert len(stream) == ENTRIES


def test_another_rule_forgets_what_trims_asked_for_and_trims_remove_again(stream: Stream, folder_place: str) -> None:
    stream.set_retention(to=folder_place, on_trim=True)
    stream.trim(maxlen=10)
    assert mark(stream) is not None
    stream.clear_retention()
    assert mark(stream) is None
    assert stream.trim(maxlen=150) == 50
    stream.set_retention(to=folder_place, on_trim=True)
    assert stream.apply_retention() == diskstream.RetentionReport()
    assert len(stream) == 150


def test_deletes_and_a_trim_of_everything_by_name_still_remove(stream: Stream, folder_place: str) -> None:
    stream.set_retention(to=folder_place, on_trim=True)
    stream.trim(maxlen=0)
    assert stream.delete("5-0", "6-0") == 2
    assert len(stream) == ENTRIES - 2
    assert stream._store.delete("x")


def test_it_is_for_rules_that_move(stream: Stream, folder_place: str) -> None:
    with pytest.raises(ArgumentError, match="say where to"):
        stream.set_retention(max_entries=5, on_trim=True)
    with pytest.raises(ArgumentTypeError, match="on_trim is a bool"):
        stream.set_retention(to=folder_place, on_trim=1)  # type: ignore[arg-type]  # refused: of a wrong kind
    with pytest.raises(ArgumentError, match="give one of"):
        stream.set_retention(to=folder_place)
    assert stream.set_retention(to=folder_place, on_trim=True) == stream.retention
    assert str(stream.retention).endswith("on_trim=True")


def test_a_trim_removes_nothing_where_the_rule_is_of_a_later_version(stream: Stream) -> None:
    log = log_of(stream._store, stream.name)
    later = b'{"on_trim":true,"on_trim_if":"tuesday","ref":"KEEPREF","to":"s3://bucket"}'
    with log.locked():
        log.prepare()
        log.native.change([("setting", RULE, later)], 1)
    with pytest.raises(NewerFormatError):
        stream.trim(maxlen=1)
    assert len(stream) == ENTRIES


def test_a_stream_that_takes_entries_and_trims_keeps_a_bounded_part_here(
    tmp_path: Path, folder_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diskstream.retainer._BETWEEN_MOVES_S", 0.01)
    with opened(tmp_path / "busy", seal="background", retention_interval_ms=2) as store:
        busy = filled(store, count=20)
        busy.set_retention(to=folder_place, on_trim=True)
        for number in range(21, 201):
            busy.add({"n": str(number), "pad": f"{number:03d}" * 80}, f"{number}-0", maxlen=30, approximate=True)
        busy.seal()
        passed = sum(last <= 170 for last in lasts(busy))
        assert passed > 5
        until(lambda: where(busy).count("cold") >= passed)
        assert where(busy)[passed:] == ["here"] * (len(lasts(busy)) - passed)
        assert [row[0].ms for row in rows(busy)] == list(range(1, 201))
