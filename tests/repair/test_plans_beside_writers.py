"""A dry run of a repair while others write to the store, as whoever is on call begins: a sound stream is sound."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import Repair
from diskstream.cli import main
from diskstream.engine.frames import read_all, walk
from diskstream.engine.layouts import LOG_HEADER
from diskstream.engine.repair_plan import plan_each
from tests.cold.world import filled, opened

LOG_HEADER_BYTES = 4096


def read_as(monkeypatch: pytest.MonkeyPatch, path: Path, change: Callable[[bytes], bytes], *, times: int = 1) -> None:
    """Has a file read as `change` gives it, so many times."""
    real, wanted, left = os.pread, path.stat().st_ino, times

    def pread(fd: int, size: int, offset: int) -> bytes:
        nonlocal left
        data = real(fd, size, offset)
        if left and os.fstat(fd).st_ino == wanted:
            left -= 1
            return change(data)
        return data

    monkeypatch.setattr(os, "pread", pread)


def planned(store: Path, progress: Callable[[int, int], None] | None = None) -> Repair:
    (report,) = diskstream.repair(store, dry_run=True, progress=progress)
    return report


def says_nothing(report: Repair) -> bool:
    return not (report.actions or report.losses or report.notes or report.failed)


@pytest.mark.parametrize("how", ["trim", "compact"])
def test_segments_that_go_meanwhile_are_not_missing(tmp_path: Path, how: str) -> None:
    """They were said to be lost, or that the stream cannot be repaired."""
    with opened(tmp_path / "s") as store:
        stream = filled(store)
        stream.delete(*(f"{number}-0" for number in range(1, 100, 2)))

        def change(entries: int, size_bytes: int) -> None:
            if how == "trim":
                stream.trim(maxlen=20)
            stream.compact()  # which also removes the files of what was trimmed, once that is durable

        assert says_nothing(planned(tmp_path / "s", change))


def test_a_frame_that_is_written_while_the_log_is_read_is_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that came behind the place that was read, and the next one before it: the first was said to be lost."""
    with opened(tmp_path / "s") as store:
        for number in range(1, 6):
            store.stream("x").add({"n": str(number)}, f"{number}-0")
        store.sync()
        (log,) = (tmp_path / "s" / "streams" / "x").glob("*.log")
        data, _ = read_all(log)
        header = LOG_HEADER.sound(data)
        assert header is not None
        frames = list(walk(data, header["salt"], LOG_HEADER_BYTES, 0))
        written = frames[-2]

        def change(data: bytes) -> bytes:
            return data[: written.offset] + bytes(written.end - written.offset) + data[written.end :]

        read_as(monkeypatch, log, change)
        assert says_nothing(planned(tmp_path / "s"))


def test_what_others_have_not_finished_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a frame was to be cut, and a file that was just being written to be removed."""
    with opened(tmp_path / "s") as store:
        store.stream("x").add({"n": "1"}, "1-0")
        (log,) = (tmp_path / "s" / "streams" / "x").glob("*.log")
        log.with_name("00000001.seg.tmp").write_bytes(b"half")

        def change(data: bytes) -> bytes:
            end = len(data.rstrip(b"\0")) // 8 * 8 + 8
            return data[:end] + b"half of a frame".ljust(24) + data[end + 24 :]

        read_as(monkeypatch, log, change, times=2)
        assert says_nothing(planned(tmp_path / "s"))


def test_what_a_killed_sealer_left_is_nothing_to_repair(tmp_path: Path) -> None:
    """Any opening removes it, and `verify` has it for no fault: a dry run ended with status 1 for it."""
    with opened(tmp_path / "s") as store:
        store.stream("x").add({"n": "1"}, "1-0")
        left = next((tmp_path / "s" / "streams" / "x").glob("*.log")).with_name("00000001.seg.tmp")
    left.write_bytes(b"half")
    done = CliRunner().invoke(main, ["repair", "--dry-run", "--dir", str(tmp_path / "s")])
    assert (done.exit_code, left.exists()) == (0, True)
    assert "note: the unfinished 00000001.seg.tmp is removed" in done.stdout
    (report,) = diskstream.repair(tmp_path / "s")
    assert (report.actions, len(report.notes), left.exists()) == ([], 1, False)


def test_where_files_never_stop_to_come_and_go_nothing_is_said_to_be_lost(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        stream = filled(store)

        def change(entries: int, size_bytes: int) -> None:
            if entries == 0:  # of the active log, which is looked at first
                stream.trim(maxlen=len(stream) - 25)
                stream.compact()

        report = planned(tmp_path / "s", change)
        assert report.losses == []
        assert "run this again" in report.failed


def test_a_stream_that_is_renamed_is_followed_and_one_that_is_removed_is_left_out(tmp_path: Path) -> None:
    """They were said to be beyond repair, since there was no such directory."""
    with opened(tmp_path / "s") as store:
        for name in "abc":
            store.stream(name).add({"who": name})

        def change(entries: int, size_bytes: int) -> None:
            if store.exists("b"):
                store.rename("b", "d")
                store.delete("c")

        reports = list(diskstream.repair(tmp_path / "s", dry_run=True, progress=change))
        assert [report.stream for report in reports] == [b"a", b"d"]
        assert all(map(says_nothing, reports))


def test_so_is_one_that_is_removed_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "s") as store:
        for name in "ab":
            store.stream(name).add({"who": name})

        def planned_each(*arguments: Any, **options: Any) -> Iterator[Repair]:
            store.delete("a")
            return plan_each(*arguments, **options)

        monkeypatch.setattr("diskstream.engine.repair_store.plan_each", planned_each)
        assert says_nothing(planned(tmp_path / "s"))


def test_damage_is_found_as_ever(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        filled(store)
        path = tmp_path / "s" / "streams" / "x" / "00000002.seg"
        path.write_bytes(path.read_bytes()[:-1])
        assert planned(tmp_path / "s").actions
