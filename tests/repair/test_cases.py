"""One kind of damage after another: what is lost, to the entry, and what is not."""

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError, NewerFormatError, Repair
from diskstream.engine import quarantine
from diskstream.engine.files import Files
from diskstream.engine.frames import Frame, encode, read_all, walk
from diskstream.engine.layouts import ENTRIES, FOOTER, FRAME_HEADER, GROUPS, LOG_HEADER
from diskstream.engine.salvage_nodes import index_rows

FRAMES, PER_FRAME = 12, 10
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a store with one stream `s` of IDs 1-0, 2-0, ...: `sealed` segments and an active log."""

    def build(sealed: int = 0, frames: int = FRAMES) -> Path:
        path = tmp_path / "store"
        number = 0
        with diskstream.open(path, seal="manual", node_max_entries=PER_FRAME, segment_bytes=1 << 20) as store:
            stream = store.stream("s")
            for segment in range(sealed + 1):
                for _ in range(frames):
                    ids = [f"{number + at + 1}-0" for at in range(PER_FRAME)]
                    stream.add_many([{"n": entry_id} for entry_id in ids], ids=ids)
                    number += PER_FRAME
                if segment < sealed:
                    store.seal("s")
        return path

    return build


def folder(path: Path) -> Path:
    return path / "streams" / "s"


def frames(log: Path) -> list[Frame]:
    data, _ = read_all(log)
    header = LOG_HEADER.sound(data)
    assert header is not None
    first = FRAME_HEADER.sound(data, 4096)
    assert first is not None
    start = 4096 + FRAME_HEADER.size + (first["length"] + 7) // 8 * 8
    return [piece for piece in walk(data, header["salt"], start, first["lsn"]) if isinstance(piece, Frame)]


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(bytes(data))


def repair(path: Path, **more: object) -> Repair:
    """The report on the one stream; that on the store itself must have nothing to say."""
    reports = list(diskstream.repair(path, **more))  # type: ignore[arg-type]  # one of its options, of its kind
    assert [report.stream for report in reports] == [b"s"]
    assert not reports[0].failed
    return reports[0]


def before(number: int) -> str:
    """The last ID before an entry: what is lost may have gone so far."""
    return f"{number - 1}-{2**64 - 1}"


def losses(report: Repair) -> list[tuple[str, str, int | None]]:
    return [(loss.first, loss.last, loss.entries) for loss in report.losses]


def numbers(path: Path) -> list[int]:
    """What can be read, of a store that must be sound now."""
    with diskstream.open(path, create=False) as store:
        assert store.verify().ok
        found = list(store.stream("s").range())
        assert all(entry["n"] == str(entry.id).encode() for entry in found)
        return [entry.id.ms for entry in found]


def without(first: int, last: int, until: int) -> list[int]:
    return [number for number in range(1, until + 1) if not first <= number <= last]


# --- the active log ---------------------------------------------------------------------------------------------------


def test_a_bad_payload_costs_the_entries_of_its_frame_and_no_others(make: Make) -> None:
    path = make()
    log = folder(path) / "00000001.log"
    bad = [frame for frame in frames(log) if frame.kind == ENTRIES][3]
    flip(log, bad.offset + FRAME_HEADER.size + 5)
    with diskstream.open(path, create=False) as store, pytest.raises(CorruptionError):
        store.stream("s").add({"n": "0"})
    assert losses(repair(path)) == [("31-0", before(41), 10)]
    assert numbers(path) == without(31, 40, 120)


def test_a_bad_header_costs_no_more_though_nobody_can_count_what_is_gone(make: Make) -> None:
    path = make()
    log = folder(path) / "00000001.log"
    flip(log, [frame for frame in frames(log) if frame.kind == ENTRIES][3].offset + 20)
    assert losses(repair(path)) == [("30-1", before(41), None)]
    assert numbers(path) == without(31, 40, 120)


def test_what_was_deleted_and_trimmed_behind_a_bad_frame_is_gone_all_the_same(make: Make) -> None:
    path = make()
    with diskstream.open(path) as store:
        store.stream("s").delete("5-0", "77-0")
        store.stream("s").trim(minid="3-0")
    log = folder(path) / "00000001.log"
    flip(log, [frame for frame in frames(log) if frame.kind == ENTRIES][3].offset + FRAME_HEADER.size)
    assert losses(repair(path)) == [("31-0", before(41), 10)]
    assert numbers(path) == [number for number in without(31, 40, 120) if number > 2 and number not in (5, 77)]


def test_a_position_that_nobody_can_tell_deletes_nothing(make: Make) -> None:
    path = make()
    with diskstream.open(path) as store:
        store.stream("s").delete("5-0", "77-0")
    log = folder(path) / "00000001.log"
    flip(log, [frame for frame in frames(log) if frame.kind == ENTRIES][3].offset)
    report = repair(path)
    assert any("deleted" in note for note in report.notes)
    assert numbers(path) == [number for number in without(31, 40, 120) if number != 5]


def test_a_lost_acknowledgement_leaves_its_entries_pending(make: Make) -> None:
    path = make()
    with diskstream.open(path) as store:
        group = store.stream("s").group("g", start="0")
        group.consumer("c").read(count=5)
        group.ack("2-0", "3-0")
        group.ack("4-0")
    log = folder(path) / "00000001.log"
    changes = [frame for frame in frames(log) if frame.kind == GROUPS]
    flip(log, changes[-2].offset + FRAME_HEADER.size + 1)
    assert losses(repair(path)) == [("", "", None)]
    with diskstream.open(path) as store:
        group = store.stream("s").group("g", create=False)
        assert [str(row.id) for row in group.pending_range(count=9)] == ["1-0", "2-0", "3-0", "5-0"]


def test_what_a_lost_frame_delivered_is_given_back_to_the_group(make: Make) -> None:
    path = make()
    with diskstream.open(path) as store:
        group = store.stream("s").group("g", start="0")
        consumer = group.consumer("c")
        for count in (2, 3, 2):
            consumer.read(count=count)
        group.ack("4-0", "6-0")
    log = folder(path) / "00000001.log"
    changes = [frame for frame in frames(log) if frame.kind == GROUPS]
    flip(log, changes[-3].offset + FRAME_HEADER.size + 1)  # delivered 3-0, 4-0, 5-0
    report = repair(path)
    assert any("pending again" in note for note in report.notes)
    with diskstream.open(path) as store:
        group = store.stream("s").group("g", create=False)
        assert [str(row.id) for row in group.pending_range(count=9)] == ["1-0", "2-0", "3-0", "5-0", "7-0"]
        assert [str(each.id) for each in group.consumer("d").autoclaim(0).entries] == [
            "1-0",
            "2-0",
            "3-0",
            "5-0",
            "7-0",
        ]


def test_a_group_made_in_the_lost_part_comes_back_under_another_name(make: Make) -> None:
    path = make()
    with diskstream.open(path) as store:
        store.stream("s").group("g", start="0").consumer("c").read(count=2)
    log = folder(path) / "00000001.log"
    flip(log, next(frame for frame in frames(log) if frame.kind == GROUPS).offset)
    repair(path)
    with diskstream.open(path) as store:
        assert [group.name for group in store.stream("s").groups()] == [b"lost-group-1"]
        pending = store.stream("s").group("lost-group-1", create=False).pending_range(count=9)
        assert [str(row.id) for row in pending] == ["1-0", "2-0"]


@pytest.mark.parametrize("offset", [0, 20, 4096, 4200], ids=["magic", "uuid", "snapshot header", "snapshot"])
def test_the_copy_in_the_sealed_segment_stands_in_for_header_and_snapshot(make: Make, offset: int) -> None:
    path = make(sealed=2)
    flip(folder(path) / "00000003.log", offset)
    report = repair(path)
    assert losses(report) == []
    assert report.notes
    assert numbers(path) == list(range(1, 361))


def test_without_an_active_log_the_stream_goes_on_behind_the_sealed_segments(make: Make) -> None:
    path = make(sealed=2)
    with diskstream.open(path) as store:
        automatic = store.stream("s").add_many([{"n": "x"}])[0]
    (folder(path) / "00000003.log").unlink()
    assert losses(repair(path)) == [("240-1", "", None)]
    assert numbers(path) == list(range(1, 241))
    with diskstream.open(path) as store:
        assert store.stream("s").add_many([{"n": "x"}])[0].ms > automatic.ms


def test_without_any_snapshot_the_files_say_what_there_is(make: Make) -> None:
    path = make(sealed=2)
    (folder(path) / "00000003.log").unlink()
    for name in ("00000001.seg", "00000002.seg"):
        data, _ = read_all(folder(path) / name)
        footer = FOOTER.sound(data, len(data) - FOOTER.size)
        assert footer is not None
        flip(folder(path) / name, footer["snapshot_offset"] + 10)
    report = repair(path)
    assert [loss for loss in losses(report) if loss[1]] == []
    assert numbers(path) == list(range(1, 241))


def test_a_log_of_a_later_version_is_left_alone(make: Make) -> None:
    path = make()
    log = folder(path) / "00000001.log"
    data = bytearray(log.read_bytes())
    last = frames(log)[-1]
    header = LOG_HEADER.sound(bytes(data))
    assert header is not None
    frame, _ = encode(
        Frame(0, 0, 99, 0, 0, 0, 0, 0, 1, (0, 0), 0, 0, whole=True), b"", header["salt"], last.lsn + 1, last.crc
    )
    data[last.end : last.end + len(frame)] = frame
    log.write_bytes(bytes(data))
    reports = list(diskstream.repair(path))
    assert "upgrade" in reports[0].failed
    assert log.read_bytes() == bytes(data)
    with pytest.raises(NewerFormatError), diskstream.open(path) as store:
        store.stream("s").add({"n": "x"})


# --- sealed segments --------------------------------------------------------------------------------------------------


def test_a_bad_node_costs_its_entries_and_no_others(make: Make) -> None:
    path = make(sealed=2)
    sealed = folder(path) / "00000002.seg"
    data, _ = read_all(sealed)
    rows = index_rows(data, FOOTER.sound(data, len(data) - FOOTER.size))
    flip(sealed, rows[4]["offset"] + 40)
    assert losses(repair(path)) == [("161-0", before(171), 10)]
    assert numbers(path) == without(161, 170, 360)
    assert (folder(path) / "00000002.g1.seg").exists()
    kept = next((folder(path) / "quarantine").glob("00000002.seg-*"))
    assert kept.read_bytes() != data


@pytest.mark.parametrize("place", ["header", "footer", "index", "copy"])
def test_all_but_the_nodes_of_a_sealed_segment_can_be_made_anew(make: Make, place: str) -> None:
    path = make(sealed=2)
    with diskstream.open(path) as store:
        store.stream("s").delete("150-0")
    sealed = folder(path) / "00000002.seg"
    size = sealed.stat().st_size
    data, _ = read_all(sealed)
    footer = FOOTER.sound(data, size - FOOTER.size)
    assert footer is not None
    offset = {"header": 20, "footer": size - 50, "index": footer["index_offset"] + 8, "copy": footer["snapshot_offset"]}
    flip(sealed, offset[place])
    assert losses(repair(path)) == []
    assert numbers(path) == without(150, 150, 360)


def test_of_a_segment_that_is_cut_off_the_first_nodes_are_kept(make: Make) -> None:
    path = make(sealed=2)
    sealed = folder(path) / "00000001.seg"
    data, _ = read_all(sealed)
    rows = index_rows(data, FOOTER.sound(data, len(data) - FOOTER.size))
    sealed.write_bytes(data[: rows[3]["offset"] + 7])
    assert losses(repair(path)) == [("30-1", "120-0", 90)]
    assert numbers(path) == without(31, 120, 360)


def test_a_missing_segment_leaves_the_list(make: Make) -> None:
    path = make(sealed=3)
    (folder(path) / "00000002.seg").unlink()
    report = repair(path)
    assert losses(report) == [("121-0", "240-0", 120)]
    assert [loss.path.name for loss in report.losses] == ["00000002.seg"]  # it was told as a log
    assert numbers(path) == without(121, 240, 480)


def test_a_file_in_the_wrong_place_is_put_where_it_belongs_or_aside(make: Make, tmp_path: Path) -> None:
    path = make(sealed=2)
    with diskstream.open(tmp_path / "other", seal="manual") as other:
        other.stream("t").add({"n": "x"})
        other.seal("t")
    shutil.copy(tmp_path / "other" / "streams" / "t" / "00000001.seg", folder(path) / "00000005.seg")
    (folder(path) / "00000002.seg").rename(folder(path) / "00000004.seg")
    report = repair(path)
    assert losses(report) == []
    assert any("another stream" in action for action in report.actions)
    assert list((folder(path) / "quarantine").glob("00000005.seg-*"))
    assert numbers(path) == list(range(1, 361))


def test_an_audit_that_cannot_be_read_is_put_aside(make: Make) -> None:
    path = make()
    with diskstream.open(path, seal="manual") as store:
        store.stream("s").group("g", start="0").consumer("c").read(count=3)
        store.seal("s")
    audit = folder(path) / "00000001.audit"
    flip(audit, 80)
    assert losses(repair(path)) == []
    assert not audit.exists()
    assert numbers(path) == list(range(1, 121))


def test_a_second_repair_finds_nothing_to_do(make: Make) -> None:
    path = make(sealed=2)
    flip(folder(path) / "00000001.seg", 200)
    (folder(path) / "00000003.log").unlink()
    assert repair(path).actions
    assert not repair(path).actions


# --- the store --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b'{"format_version": 1}'], ids=["missing", "empty", "cut", "part"]
)
def test_a_store_without_its_description_gets_one(make: Make, content: bytes | None) -> None:
    path = make()
    description = path / "store.json"
    if content is None:
        description.unlink()
    else:
        description.write_bytes(content)
    assert not diskstream.verify(path).ok
    given = "7d0a3b6e-5f3c-4f6e-9c55-0f4a4f0b7f52"
    assert any("store.json" in action for action in next(diskstream.repair(path, uuid=given)).actions)
    list(diskstream.repair(path, uuid=given))
    assert given in description.read_text(encoding="utf-8")
    assert numbers(path) == list(range(1, 121))


def test_a_lost_name_can_be_given_again_and_else_the_stream_gets_another(tmp_path: Path) -> None:
    long = "a long name " * 30
    with diskstream.open(tmp_path / "store") as store:
        store.stream(long).add({"a": "b"})
    place = next((tmp_path / "store" / "streams").glob("*~*"))
    (place / "name").write_text("junk")
    assert "name cannot be read" in diskstream.verify(tmp_path / "store").problems[0].what
    list(diskstream.repair(tmp_path / "store", known_names=["another", long]))
    with diskstream.open(tmp_path / "store") as store:
        assert store.streams() == [long.encode()]
    (place / "name").unlink()
    list(diskstream.repair(tmp_path / "store"))
    with diskstream.open(tmp_path / "store") as store:
        (name,) = store.streams()
        assert name.startswith(b"lost-name-")
        assert len(store.stream(name)) == 1


@pytest.mark.parametrize("spoilt", ["ORDER" * 14, "\u00e9" * 100, "%" * 200], ids=["capitals", "letters", "signs"])
def test_the_name_that_a_stream_gets_fits_into_that_of_a_directory(tmp_path: Path, spoilt: str) -> None:
    """Most of it has to be spelled in three characters a byte: it became a digest, and nobody wrote of which name."""
    with diskstream.open(tmp_path / "store") as store:
        for name in ("x", "y"):
            store.stream(name).add({"a": name})
    streams = tmp_path / "store" / "streams"
    for name in ("x", "y"):
        (streams / name).rename(streams / f"{spoilt}{name}")
    said = [action for each in diskstream.repair(tmp_path / "store") for action in each.actions]
    with diskstream.open(tmp_path / "store", create=False) as store:
        assert len(store.streams()) == 2
        for lost in store.streams():
            assert lost.startswith(b"lost-name-")
            assert any(action.endswith(f" as {lost.decode('utf-8', 'backslashreplace')} now") for action in said)
        assert {entry["a"] for each in store for entry in each.range()} == {b"x", b"y"}


def test_what_was_kept_in_quarantine_can_be_moved_there(tmp_path: Path) -> None:
    """A renaming of one of two names of a file to the other does nothing: the damaged file stayed where it was."""
    damaged, quarantined = tmp_path / "00000001.seg", tmp_path / "quarantine"
    damaged.write_bytes(b"damaged")
    kept = quarantine.keep(damaged, quarantined, Files())
    assert quarantine.move(damaged, quarantined, Files()) == kept
    assert not damaged.exists()
    assert kept.read_bytes() == b"damaged"


def test_a_damaged_view_is_thrown_away_and_nothing_with_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with diskstream.open(path, pending_rows=1) as store:
        stream = store.stream("s")
        stream.add_many([{"n": str(number)} for number in range(200)])
        group = stream.group("g", start="0")
        for _ in range(20):
            group.consumer("c").read(count=10)
        group.pending_range(count=5)
    view = path / "view" / "data.mdb"
    size = view.stat().st_size
    data = bytearray(view.read_bytes())
    for at in range(8192, size, 512):
        data[at : at + 8] = b"\xff" * 8
    view.write_bytes(bytes(data))
    problems = diskstream.verify(path).problems
    assert [problem.path for problem in problems] == [view]
    assert "nothing is lost" in problems[0].meaning
    assert any("view" in action for action in next(diskstream.repair(path)).actions)
    with diskstream.open(path) as store:
        assert store.stream("s").group("g", create=False).info().pending == 200
    assert diskstream.verify(path).ok


def test_the_stores_of_the_server_below_a_store_are_read_and_repaired(make: Make) -> None:
    path = make()
    with diskstream.open(path / "keys") as keys:
        keys.stream("keys").add_many(
            [{"put": str(number)} for number in range(50)], ids=[f"{n + 1}-0" for n in range(50)]
        )
    log = path / "keys" / "streams" / "keys" / "00000001.log"
    flip(log, next(frame for frame in frames(log) if frame.kind == ENTRIES).offset + 80)
    problem = diskstream.verify(path).problems[0]
    assert (problem.stream, problem.path) == (b"keys", log)
    reports = {report.stream: report for report in diskstream.repair(path)}
    assert losses(reports[b"keys"]) == [("1-0", "", 50)]
    assert diskstream.verify(path).ok


# --- the disk itself, and the page ----------------------------------------------------------------------------------


def test_blocks_that_the_disk_does_not_give_cost_no_more_than_their_frames(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(frames=200)
    log = folder(path) / "00000001.log"
    inode, bad = log.stat().st_ino, 3 * 4096
    real = os.pread

    def pread(fd: int, size: int, offset: int) -> bytes:
        if os.fstat(fd).st_ino == inode and offset < bad + 4096 and offset + size > bad:
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, size, offset)

    lost = [frame for frame in frames(log) if frame.end > bad and frame.offset < bad + 4096]
    monkeypatch.setattr(os, "pread", pread)
    report = repair(path)
    assert f"the disk does not give the block at offset {bad}" in " ".join(report.notes)
    (loss,) = report.losses
    assert lost[0].offset <= loss.offset <= bad
    assert loss.offset + loss.size_bytes == lost[-1].end
    assert numbers(path)[: lost[0].first[0] - 1] == list(range(1, lost[0].first[0]))


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "repair.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (output,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == output


def test_a_log_that_is_emptied_says_so(make: Make) -> None:
    """All that it held went without a word: an empty file was taken for one of which nothing is lost."""
    path = make(sealed=2)
    (folder(path) / "00000003.log").write_bytes(b"")
    assert losses(repair(path)) == [("240-1", "", None)]
    assert numbers(path) == list(range(1, 241))


def test_a_log_that_lost_its_snapshot_and_all_behind_it_says_so(make: Make) -> None:
    path = make(sealed=2)
    log = folder(path) / "00000003.log"
    data = log.read_bytes()
    log.write_bytes(data[:600] + bytes(len(data) - 600))
    assert losses(repair(path)) == [("240-1", "", None)]
    assert numbers(path) == list(range(1, 241))
