"""A torn tail is cut and kept; rot is left as it is, and named."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import CorruptionError, EntryID
from diskstream.engine import recovery
from diskstream.engine.files import Files
from diskstream.engine.page import Page
from diskstream.options import Options
from tests.engine.children import child
from tests.engine.damage import frame_ends
from tests.engine.sample import SMALL, files_of, log_of, rows
from tests.engine.users import leave


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The log of a store whose only user was killed behind six entries, none of them known to be durable."""
    with child(leave, tmp_path / "s", 6) as user:
        assert user.hear() == "left"
    return tmp_path / "s" / "streams" / "x" / "00000001.log"


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """The log of a store that was closed behind six entries."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        for number in range(6):
            store.stream("x").add({"n": str(number)}, EntryID(number + 1, 0))
    return tmp_path / "s" / "streams" / "x" / "00000001.log"


def opened(log: Path) -> diskstream.Store:
    return diskstream.open(log.parents[2], **SMALL)


def numbers(store: diskstream.Store) -> list[int]:
    return [int(entry["n"]) for entry in store.stream("x").range()]


def change(log: Path, at: int, data: bytes) -> bytes:
    """Writes over a file. Returns what it holds now."""
    old = log.read_bytes()
    log.write_bytes(old[:at] + data + old[at + len(data) :])
    return log.read_bytes()


def half_a_frame(data: bytes, ends: list[int]) -> tuple[int, bytes]:
    """The last frame, of which the end was never written."""
    return (ends[-1] + ends[-2]) // 2 // 8 * 8, bytes(ends[-1] - (ends[-1] + ends[-2]) // 2 // 8 * 8)


def noise(data: bytes, ends: list[int]) -> tuple[int, bytes]:
    """Something else behind the last frame."""
    return ends[-1] + 40, b"\xa5" * 700


def flipped(data: bytes, ends: list[int]) -> tuple[int, bytes]:
    """A bit of the last frame."""
    return ends[-2] + 66, bytes([data[ends[-2] + 66] ^ 4])


@pytest.mark.parametrize("tear", [half_a_frame, noise, flipped])
def test_a_torn_tail_is_cut_kept_and_reported_and_the_stream_works_on(
    left: Path, tear: Callable[[bytes, list[int]], tuple[int, bytes]]
) -> None:
    sound = left.read_bytes()
    ends = frame_ends(sound)
    torn = change(left, *tear(sound, ends))
    whole = 6 if tear is noise else 5
    start = ends[-1] if tear is noise else ends[-2]
    with opened(left) as store:
        assert numbers(store) == list(range(whole))
        (report,) = store.recoveries
        (finding,) = report.findings
        assert (finding.kind, finding.path, finding.offset) == ("torn", left, start)
        (kept,) = (left.parent / "quarantine").iterdir()
        assert str(kept) in finding.action
        assert kept.read_bytes() == torn[start : start + finding.size_bytes]
        assert not any(torn[start + finding.size_bytes :]), "something was torn off and not kept"
        store.stream("x").add({"n": "100"})
        assert store.verify().ok
        assert numbers(store) == [*range(whole), 100]
    with opened(left) as store:
        assert numbers(store) == [*range(whole), 100]
        assert store.recoveries == []
    assert kept.read_bytes() == torn[start : start + finding.size_bytes], "nobody removes what was kept"


def test_a_reader_that_may_change_nothing_reports_a_torn_tail_and_leaves_it(left: Path) -> None:
    sound = left.read_bytes()
    change(left, *half_a_frame(sound, frame_ends(sound)))
    before = files_of(left.parents[2])
    with diskstream.open(left.parents[2], read_only=True) as store:
        assert numbers(store) == list(range(5))
        assert [finding.kind for report in store.recoveries for finding in report.findings] == ["torn"]
    assert files_of(left.parents[2]) == before


def test_a_frame_that_is_being_written_is_no_finding_of_a_reader(left: Path) -> None:
    """Beside a busy writer half of the openings reported a torn tail, and nobody could tell it from a real one."""

    def write(part: bytes) -> None:
        with left.open("r+b") as file:
            file.seek(frame_ends(left.read_bytes())[-1])
            file.write(part)

    with opened(left) as writer:
        assert numbers(writer) == list(range(6))
        write(b"\x11" * 100)
        with diskstream.open(left.parents[2], read_only=True) as reader:
            assert numbers(reader) == list(range(6))
            assert reader.recoveries == []
            write(bytes(100))
            writer.stream("x").add({"n": 6})
            assert numbers(reader) == list(range(7))
    write(b"\x11" * 100)  # now there is nobody who could be writing it
    with diskstream.open(left.parents[2], read_only=True) as reader:
        assert numbers(reader) == list(range(7))
        assert [finding.kind for report in reader.recoveries for finding in report.findings] == ["torn"]


def test_a_tail_torn_twice_is_kept_twice(left: Path) -> None:
    for _ in range(2):
        data = left.read_bytes()
        change(left, frame_ends(data)[-1], b"\x11" * 100)
        with opened(left) as store:
            assert numbers(store) == list(range(6))
    assert [kept.read_bytes() for kept in (left.parent / "quarantine").iterdir()] == [b"\x11" * 100] * 2


def test_every_entry_of_a_log_that_was_closed_is_known_to_be_durable(closed: Path) -> None:
    """Each frame of it, the last ones too: a flipped bit is rot, named by file and offset, and nothing is cut."""
    sound = closed.read_bytes()
    ends = frame_ends(sound)
    assert len(ends) >= 7
    for place in range(6):
        data = change(closed, ends[place] + 65, bytes([sound[ends[place] + 65] ^ 1]))
        with opened(closed) as store:
            found: list[int] = []
            with pytest.raises(CorruptionError) as caught:
                found.extend(int(entry["n"]) for entry in store.stream("x"))
            assert found == list(range(place))
            assert (caught.value.path, caught.value.offset) == (str(closed), ends[place])
            assert caught.value.expected
            assert caught.value.found
            for write in (
                lambda: store.stream("x").add({"n": "7"}),
                lambda: store.stream("x").trim(maxlen=1),
                lambda: store.stream("x").delete("1-0"),
                store.stream("x").seal,
            ):
                with pytest.raises(CorruptionError, match=re.escape(str(closed))):
                    write()
            (problem,) = store.verify().problems
            assert (problem.path, problem.offset) == (closed, ends[place])
            assert [finding.kind for report in store.recoveries for finding in report.findings] == ["rotten"]
        assert closed.read_bytes() == data, "rot was touched"
        assert not (closed.parent / "quarantine").exists()
        closed.write_bytes(sound)
    with opened(closed) as store:
        assert numbers(store) == list(range(6))


def test_what_is_before_the_rot_can_be_read_by_all_who_join(closed: Path) -> None:
    sound = closed.read_bytes()
    ends = frame_ends(sound)
    change(closed, ends[3] + 65, bytes([sound[ends[3] + 65] ^ 1]))
    with opened(closed) as first, opened(closed) as second:
        for store in (first, second):
            stream = store.stream("x")
            assert [entry["n"] for entry in stream.range("-", "3-0")] == [b"0", b"1", b"2"]
            found = stream.get("2-0")
            assert found is not None
            assert found["n"] == b"1"
            with pytest.raises(CorruptionError):
                list(stream.revrange())
            with pytest.raises(CorruptionError):
                stream.add({"n": "7"})


def test_a_torn_mark_costs_no_entry(closed: Path) -> None:
    """The mark behind the last entry is all that a bad byte there can take."""
    sound = closed.read_bytes()
    change(closed, len(sound.rstrip(b"\0")) - 1, b"\0")
    with opened(closed) as store:
        there = []
        try:
            there += numbers(store)
        except CorruptionError:
            there = [int(entry["n"]) for entry in store.stream("x").range("-", "6-0")]
        assert there == list(range(6))


def test_a_rolled_log_is_never_torn(tmp_path: Path) -> None:
    """A successor exists, so all of it was durable: what is bad in it is rot, and the rest of the stream goes on."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        for number in range(6):
            stream.add({"n": str(number)}, EntryID(number + 1, 0))
            if number == 3:
                log_of(store).roll()
        expected = rows(stream.range())
    rolled = tmp_path / "s" / "streams" / "x" / "00000001.log"
    data = rolled.read_bytes()
    change(rolled, frame_ends(data)[-2] + 66, b"\xff")
    damaged = rolled.read_bytes()
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        with pytest.raises(CorruptionError, match=re.escape(str(rolled))):
            list(stream.range())
        assert rows(stream.range("5-0")) == expected[4:]
        added = stream.add({"n": "6"})
        assert added is not None
        with pytest.raises(CorruptionError, match=re.escape(str(rolled))):
            stream.seal()
        assert rows(stream.range("5-0"))[:-1] == expected[4:]
        assert stream.get(added) is not None
        assert {problem.path for problem in store.verify().problems} == {rolled}
    assert rolled.read_bytes() == damaged


class Appended:
    """A native log to which another process appends between a scan's look at a place and its look behind it."""

    def __init__(self, native: Any, log: Path, sound: bytes) -> None:
        self._native, self._log, self._sound = native, log, sound

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def scan(self) -> Any:
        found = self._native.scan()
        with self._log.open("r+b") as file:
            file.write(self._sound)
        return found


@pytest.mark.parametrize("place", range(5))
def test_frames_that_come_during_a_scan_are_no_rot(closed: Path, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Though the scan found an empty place with durable frames behind it."""
    sound = closed.read_bytes()
    ends = frame_ends(sound)
    change(closed, ends[place], bytes(ends[place + 1] - ends[place]))
    real = recovery.native_log
    logs: list[Appended] = []

    def beside_a_writer(*args: Any, **options: Any) -> Any:
        logs.append(Appended(real(*args, **options), closed, sound))
        return logs[-1]

    with diskstream.open(closed.parents[2], **SMALL, read_only=True) as store:
        assert len(list(store.stream("x").range("-", f"{place}-0"))) == place, "an opening as it is without the writer"
        (problem,) = store.verify().problems
        assert problem.offset == ends[place]
    monkeypatch.setattr(recovery, "native_log", beside_a_writer)
    page = Page.private()
    try:
        file, native, _, fault = recovery.look(closed.parent, Files(), page, Options())
        file.close()
        assert (fault, native.active_entries) == (None, 6)
        assert len(logs) == 1
    finally:
        page.close()
