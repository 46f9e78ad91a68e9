"""A repair of a stream of which segments are in object storage: what is there is not lost, and nobody is asked."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import Repair
from diskstream.cli import main
from diskstream.cold import adopt, move_out
from diskstream.engine.layouts import FRAME_HEADER, GROUPS, REPLACE
from tests.cold.world import ENTRIES, filled, opened, where
from tests.repair.test_cases import flip, frames

SNAPSHOT = 4096


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A stream `x` of 200 entries of which the older half is away."""
    with opened(tmp_path / "s") as made:
        stream = filled(made)
        assert len(move_out(stream, f"file://{tmp_path}/place", keep_entries=100).segments) > 3
    return tmp_path / "s"


def folder(store: Path) -> Path:
    return store / "streams" / "x"


def repaired(store: Path) -> Repair:
    (report,) = diskstream.repair(store)
    return report


def assert_all_is_there(store: Path) -> None:
    with opened(store, create=False) as again:
        assert [entry.id.ms for entry in again.stream("x").range()] == list(range(1, ENTRIES + 1))
        assert again.verify(cold=True).ok


def test_there_is_nothing_to_repair_while_all_is_well(store: Path) -> None:
    """A segment without a file was taken off the list, though a stub said where its bytes are."""
    for dry_run in (True, False):
        (report,) = diskstream.repair(store, dry_run=dry_run)
        assert (report.actions, report.losses, report.failed) == ([], [], "")
    assert_all_is_there(store)


def test_it_is_not_needed_that_the_storage_answers(store: Path, tmp_path: Path) -> None:
    (tmp_path / "place").rename(tmp_path / "elsewhere")
    flip(folder(store) / "00000012.seg", 200)
    report = repaired(store)
    assert {loss.path.name for loss in report.losses} == {"00000012.seg"}
    (tmp_path / "elsewhere").rename(tmp_path / "place")
    with opened(store, create=False) as again:
        assert "cold" in where(again.stream("x"))
        assert again.verify(cold=True).ok


def test_a_damaged_file_goes_where_its_stub_is_sound(store: Path, tmp_path: Path) -> None:
    """As a mover that was killed between its last two steps leaves them, and a bad block then."""
    path = folder(store) / "00000002.seg"
    (stored,) = (tmp_path / "place").rglob("00000002.*.seg")
    path.write_bytes(stored.read_bytes())
    flip(path, 100)
    report = repaired(store)
    assert report.losses == []
    assert [kept.name.startswith("00000002.seg") for kept in report.kept] == [True]
    assert_all_is_there(store)


@pytest.mark.parametrize("offset", [4, 20, 100])
def test_a_damaged_stub_is_left_for_cold_adopt(store: Path, tmp_path: Path, offset: int) -> None:
    flip(folder(store) / "00000002.cold", offset)
    for _ in range(2):
        report = repaired(store)
        assert report.losses == []
        assert "00000002.cold" in report.failed
        assert "cold adopt" in report.failed
    with opened(store, create=False) as again:
        assert len(again.stream("x")) == ENTRIES
        assert len(adopt(again.stream("x"), f"file://{tmp_path}/place").adopted) == 1
    assert_all_is_there(store)


def test_a_segment_that_may_be_away_stays_on_the_list_until_it_is_given_up(store: Path) -> None:
    """Its stub was lost: it was taken off the list, and a sweep of the storage removed the only bytes left."""
    (folder(store) / "00000002.cold").unlink()
    for dry_run in (True, False):
        (report,) = diskstream.repair(store, dry_run=dry_run)
        assert report.losses == []
        assert "00000002.cold: it is missing" in report.failed
        assert "cold adopt" in report.failed
    with opened(store, create=False) as again:
        assert "cold adopt" in again.verify().problems[0].meaning
        adopt(again.stream("x"), f"file://{store.parent}/place")
    assert_all_is_there(store)
    assert repaired(store).failed == ""


@pytest.mark.parametrize("lost", ["missing", "damaged"])
def test_where_its_object_is_gone_for_good_it_is_given_up(store: Path, lost: str) -> None:
    if lost == "missing":
        (folder(store) / "00000002.cold").unlink()
    else:
        flip(folder(store) / "00000002.cold", 30)
    done = CliRunner().invoke(main, ["repair", "--dir", str(store), "--force", "--give-up", "--json"])
    assert done.exit_code == 0, done.output
    (report,) = map(json.loads, done.stdout.splitlines())
    (loss,) = report["losses"]
    with opened(store, create=False) as again:
        assert len(again.stream("x")) == ENTRIES - loss["entries"]
        assert again.verify(cold=True).ok


def test_stubs_outlive_a_log_that_lost_its_beginning(store: Path) -> None:
    (log,) = folder(store).glob("*.log")
    flip(log, SNAPSHOT + 70)
    assert repaired(store).losses == []
    assert_all_is_there(store)


def test_stubs_outlive_a_log_that_lost_its_beginning_with_all_copies_of_it(store: Path) -> None:
    """Then the list of segments is made of the files, and stubs are such files."""
    (log,) = folder(store).glob("*.log")
    for path in folder(store).glob("*.seg"):
        flip(path, path.stat().st_size - 200)  # the copy, or the index: before the footer
    flip(log, SNAPSHOT + 70)
    flip(log, 20)
    report = repaired(store)
    assert not report.failed
    assert not [loss for loss in report.losses if loss.entries]
    assert_all_is_there(store)


def test_a_lost_log_behind_stubs_alone_is_made_with_the_number_that_it_had(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as made:
        stream = filled(made)
        move_out(stream, f"file://{tmp_path}/place", keep_entries=40)
        stays = [entry.id for entry in stream.range(101, "+")]
        stream.delete(*stays)
        stream.add({"n": "1"}, f"{ENTRIES + 1}-0")
        stream.seal()
        stream.delete(f"{ENTRIES + 1}-0")
        last = max(int(path.stem) for path in folder(tmp_path / "s").glob("*.log"))
        stream.compact()
    for path in [*folder(tmp_path / "s").glob("*.log"), *folder(tmp_path / "s").glob("*.seg")]:
        path.unlink()
    reports = list(diskstream.repair(tmp_path / "s", give_up=True))
    assert not reports[0].failed
    assert sorted(int(path.stem) for path in folder(tmp_path / "s").glob("*.log")) == [last]
    with opened(tmp_path / "s", create=False) as again:
        assert {entry.id.ms for entry in again.stream("x").range()} >= set(range(1, 101))


@pytest.mark.parametrize("neighbour", [True, False])
def test_a_stream_that_lost_all_its_stubs_has_not_lost_what_they_stood_for(tmp_path: Path, neighbour: bool) -> None:
    """Where no stub of the stream was left its segments were taken off the list, for good."""
    place = f"file://{tmp_path}/place"
    with opened(tmp_path / "s") as made:
        move_out(filled(made), place, keep_entries=100)
        if neighbour:
            move_out(filled(made, "y"), place, keep_entries=100)
        else:  # what was read once left the cache behind
            assert next(iter(made.stream("x"))).id.ms == 1
    for stub in folder(tmp_path / "s").glob("*.cold"):
        stub.unlink()
    assert all("diskstream cold adopt" in fault.meaning for fault in diskstream.verify(tmp_path / "s").problems)
    (report,) = [each for each in diskstream.repair(tmp_path / "s") if each.stream == b"x"]
    assert report.losses == []
    assert "diskstream cold adopt" in report.failed
    with opened(tmp_path / "s", create=False) as again:
        adopt(again.stream("x"), place)
    assert_all_is_there(tmp_path / "s")


@pytest.mark.parametrize("told_by", ["rule", "lease"])
def test_the_rule_that_moves_and_leases_say_that_more_may_be_away(tmp_path: Path, told_by: str) -> None:
    """Without the cache, that anybody may remove, such segments were taken off the list, and their entries lost."""
    place = f"file://{tmp_path}/place"
    with opened(tmp_path / "s", retention_interval_ms=0) as made:
        stream = filled(made)
        if told_by == "rule":
            stream.set_retention(max_entries=100, to=place)
            assert stream.apply_retention().moved
        else:
            move_out(stream, place, keep_entries=100)
            made.lease(["x"])
    shutil.rmtree(tmp_path / "s" / "cold-cache")
    for stub in folder(tmp_path / "s").glob("*.cold"):
        stub.unlink()
    assert all("diskstream cold adopt" in fault.meaning for fault in diskstream.verify(tmp_path / "s").problems)
    for dry_run in (True, False):
        (report,) = diskstream.repair(tmp_path / "s", dry_run=dry_run)
        assert report.losses == []
        assert "diskstream cold adopt" in report.failed
    with opened(tmp_path / "s", create=False) as again:
        adopt(again.stream("x"), place)
    assert_all_is_there(tmp_path / "s")


def inspected(*words: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["inspect", "--json", *words])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_inspect_shows_where_a_cold_segment_is_and_does_not_call_it_missing(store: Path, tmp_path: Path) -> None:
    rows = [row for row in inspected("--dir", str(store), "x") if row["is"] == "segment"]
    cold = [row for row in rows if row["file"].endswith(".cold")]
    assert cold == rows[: len(cold)]
    assert all((tmp_path / "place" / row["object"]).stat().st_size == row["stored_bytes"] for row in cold)
    assert not [row for row in rows if row.get("sound") is False]
    (stream,) = [row for row in inspected("--dir", str(store)) if row["is"] == "stream"]
    assert (stream["cold"], stream["sealed"]) == (len(cold), len(rows) - len(cold))


def test_inspect_of_a_stub_shows_what_it_says(store: Path) -> None:
    """It was shown as a sealed segment of which nothing is right."""
    path = folder(store) / "00000002.cold"
    kind, stub = inspected(str(path))
    assert kind["kind"] == "stub"
    assert (stub["is"], stub["number"], stub["first"], stub["sound"]) == ("stub", 2, "13-0", True)
    assert {row["of"] for row in inspected(str(path), "--bytes", "0:400")} == {"stub"}
    flip(path, 60)
    assert [row["is"] for row in inspected(str(path))] == ["file", "damaged"]
    rows = inspected("--dir", str(store), "x")
    assert [row["file"] for row in rows if row["is"] == "segment" and row.get("sound") is False] == [path.name]


def test_verify_sends_nobody_to_a_repair_for_an_object_that_is_gone(store: Path, tmp_path: Path) -> None:
    (tmp_path / "place").rename(tmp_path / "elsewhere")
    with opened(store) as again:
        problems = again.verify(cold=True).problems
    assert problems
    assert all("object storage" in problem.meaning for problem in problems)


def test_a_compacted_segment_that_is_away_is_found_where_the_frame_that_lists_it_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as made:
        stream = filled(made)
        stream.delete(*(f"{number}-0" for number in range(1, 100, 2)))
        stream.compact()
        left = [entry.id for entry in stream.range()]
        move_out(stream, f"file://{tmp_path}/place", keep_entries=60)
    assert list(folder(tmp_path / "s").glob("*.g1.cold"))
    (log,) = folder(tmp_path / "s").glob("*.log")
    flip(log, next(frame for frame in frames(log) if frame.kind == REPLACE).offset + FRAME_HEADER.size + 1)
    report = repaired(tmp_path / "s")
    assert not report.failed
    assert not [loss for loss in report.losses if loss.entries]
    with opened(tmp_path / "s", create=False) as again:
        assert {entry.id for entry in again.stream("x").range()} >= set(left)
        assert again.verify(cold=True).ok


def test_what_a_group_may_have_been_given_of_what_is_away_it_is_given_again(store: Path) -> None:
    """The repair ended with an AssertionError, always: no log was made anew that way."""
    with opened(store) as made:
        stream = made.stream("x")
        group = stream.group("g", start="0")
        group.ack(*[entry.id for entry in group.consumer("a").read(count=5)])
        group.consumer("a").read(count=20)  # the frame of this one is damaged
        group.ack(*[entry.id for entry in group.consumer("a").read(count=5)])
    log = max(folder(store).glob("*.log"))
    bad = [frame for frame in frames(log) if frame.kind == GROUPS][-3]
    flip(log, bad.offset + FRAME_HEADER.size + 3)
    (planned,) = diskstream.repair(store, dry_run=True)
    report = repaired(store)
    assert (planned.actions, planned.notes) == (report.actions, report.notes)
    assert any("group g is given what follows 5-0 once more" in note for note in report.notes)
    with opened(store, create=False) as again:
        stream = again.stream("x")
        assert again.verify(cold=True).ok
        group = stream.group("g", create=False)
        pending = {row.id.ms for row in group.pending_range(count=1000)}
        given = {entry.id.ms for entry in group.consumer("b").read(count=1000)}
        assert given | pending >= set(range(6, ENTRIES + 1))
        assert {row.id.ms for row in group.pending_range(count=1000)} == given
