"""`diskstream cold`: what an operator says and sees."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from diskstream import cold_segments
from diskstream.cli import main
from tests.cold.world import ENTRIES, filled, opened, rows, spoilt, where

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a verb on a store with a stream of sealed segments."""
    with opened(tmp_path / "store") as store:
        filled(store)

    def run_verb(*words: str, code: int = 0, given: str | None = None) -> Result:
        environment = {"DISKSTREAM_DIR": str(tmp_path / "store")}
        result = CliRunner().invoke(main, list(words), input=given, env=environment)
        assert result.exit_code == code, result.output
        return result

    return run_verb


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_segments_go_are_listed_are_read_and_come_back(run: Run, folder_place: str, tmp_path: Path) -> None:
    plan = objects(run("cold", "move", "x", "--to", folder_place, "--older-than", "1h", "--dry-run", "--json"))
    assert plan[-1]["dry_run"] is True
    assert {line["where"] for line in objects(run("cold", "ls", "--json"))} == {"here"}
    moved = objects(run("cold", "move", "--to", folder_place, "--before", "100", "--json"))
    *segments, total = moved
    assert total["total"]["segments"] == len(segments) > 3
    assert total["total"]["size_bytes"] == sum(each["size_bytes"] for each in segments)
    listed = objects(run("cold", "ls", "x", "--json"))
    assert [line["number"] for line in listed if line["where"] == "cold"] == [each["number"] for each in segments]
    assert {line["where"] for line in objects(run("cold", "ls", "--at", folder_place, "--json"))} == {"cold"}
    assert "cold" in run("cold", "ls").stdout
    assert len(run("range", "x").stdout.splitlines()) == ENTRIES
    assert "not read:" in run("verify").stdout
    assert "not read:" not in run("verify", "--cold").stdout
    assert objects(run("info", "x", "--json"))[0]["cold_segments"] == len(segments)
    assert f"{len(segments)} segments" in run("cold", "fetch", "--until", "100").stdout
    assert {line["where"] for line in objects(run("cold", "ls", "--at", folder_place, "--json"))} == {"here"}
    text = run("cold", "move", "x", "--to", folder_place, "--keep-bytes", "0", "--rate", "100MB")
    assert "moved" in text.stdout
    assert "the newest sealed segment stays" in text.stderr
    with opened(tmp_path / "store") as store:
        assert len(rows(store.stream("x"))) == ENTRIES


def test_a_sweep_asks_and_takes_no_for_an_answer(run: Run, folder_place: str) -> None:
    run("cold", "move", "--to", folder_place, "--keep-entries", "50")
    run("cold", "fetch")
    place = ("--at", folder_place)
    assert "0 objects" in run("cold", "sweep", *place, "--older-than", "30d").stdout
    assert "would be removed" in run("cold", "sweep", *place, "--older-than", "0s", "--dry-run").stdout
    assert "nothing was done" in run("cold", "sweep", *place, "--older-than", "0s", given="n\n", code=1).stderr
    assert "--force" in run("cold", "sweep", *place, "--older-than", "0s", given="", code=1).stderr
    found = objects(run("cold", "sweep", *place, "--older-than", "0s", "--json", "--force"))[0]
    assert len(found["removed"]) > 3
    assert "0 objects" in run("cold", "sweep", *place, "--older-than", "0s").stdout


def test_a_sweep_names_what_it_leaves_for_later(run: Run, folder_place: str, tmp_path: Path) -> None:
    run("cold", "move", "--to", folder_place, "--older-than", "0s")
    run("cold", "fetch")
    words = ("cold", "sweep", "--at", folder_place, "--older-than", "0s", "--force")
    with opened(tmp_path / "store") as store, cold_segments.opened(store.stream("x")):
        swept = run(*words, "--json", code=1)
    assert "x: its objects were left alone: somebody else is moving segments of this stream" in swept.stderr
    assert objects(swept)[0]["skipped"] == ["x"]
    assert len(objects(run(*words, "--json"))[0]["removed"]) > 3


def test_lost_stubs_are_adopted_and_what_stays_missing_is_a_finding(
    run: Run, folder_place: str, tmp_path: Path
) -> None:
    run("cold", "move", "--to", folder_place, "--older-than", "0s")
    (tmp_path / "store" / "streams" / "x" / "00000002.cold").unlink()
    assert "missing" in run("cold", "ls").stdout
    assert "1 segment would have a stub" in run("cold", "adopt", "--from", folder_place, "--dry-run").stdout
    assert "1 segment has a stub again, 0 missing" in run("cold", "adopt", "--from", folder_place).stdout
    (tmp_path / "store" / "streams" / "x" / "00000002.cold").unlink()
    (tmp_path / "place").rename(tmp_path / "lost")
    assert "there is no folder" in run("cold", "adopt", "x", "--from", folder_place, code=1).stderr
    for each in (tmp_path / "lost").iterdir():  # the folder of the store, begun anew
        (tmp_path / "place" / each.name).mkdir(parents=True)
    assert len(objects(run("cold", "adopt", "x", "--from", folder_place, "--json", code=1))[0]["missing"]) == 1


def test_what_is_wrong_is_said_with_a_way_out(run: Run, folder_place: str, tmp_path: Path) -> None:
    run("cold", "move", "--to", folder_place, code=2)
    run("cold", "move", "--older-than", "1d", code=2)
    run("cold", "move", "--to", folder_place, "--older-than", "soon", code=2)
    run("cold", "move", "--to", folder_place, "--keep-bytes", "much", code=2)
    run("cold", "sweep", "--at", folder_place, code=2)
    assert "diskstream ls" in run("cold", "move", "y", "--to", folder_place, "--older-than", "0s", code=1).stderr
    refused = run("cold", "move", "--to", "s3://key:secret@bucket/x", "--older-than", "0s", code=2)
    assert "secret@" not in refused.output
    assert "AWS_SECRET_ACCESS_KEY" in refused.stderr
    run("cold", "move", "--to", folder_place, "--older-than", "0s")
    for each in (tmp_path / "place").rglob("*.seg"):
        each.unlink()
    failed = run("range", "x", code=1)
    assert "not there any more" in failed.stderr
    assert "hint:" in failed.stderr
    assert "faults" in run("verify", "--cold", code=1).stdout


def test_what_an_adoption_does_not_find_is_told_beside_the_json_too(
    run: Run, folder_place: str, tmp_path: Path
) -> None:
    """It ended with status 1 and without a word, and nowhere was it said which entries are missing."""
    run("cold", "move", "--to", folder_place, "--older-than", "0s")
    victim = min((tmp_path / "place").rglob("*.seg"))
    victim.write_bytes(spoilt(victim.read_bytes()))
    min((tmp_path / "store" / "streams" / "x").glob("*.cold")).unlink()
    for words in ((), ("--json",)):
        told = run("cold", "adopt", "--from", folder_place, *words, code=1).stderr
        assert f"x: not taken: {victim.relative_to(tmp_path / 'place')}: " in told
        assert "x: 1 segment is missing still, with 12 entries of 1-0 to 12-0: diskstream cold ls lists them" in told


def test_a_damaged_object_is_told_with_what_lists_it_and_mends_it(run: Run, folder_place: str, tmp_path: Path) -> None:
    """It named a verb that finds no fault, and a repair that finds nothing to do."""
    run("cold", "move", "--to", folder_place, "--older-than", "0s")
    victim = min((tmp_path / "place").rglob("*.seg"))
    victim.write_bytes(spoilt(victim.read_bytes()))
    for words in (("range", "x"), ("cold", "fetch")):
        told = run(*words, code=1).stderr
        assert "; diskstream verify --cold lists all that is damaged" in told
        assert "hint: bring the object back as it was" in told
        assert "repair" not in told


def test_a_place_that_cannot_be_read_is_told_once_and_not_for_each_segment(
    run: Run, folder_place: str, tmp_path: Path
) -> None:
    """The same lines came for each of thousands of segments, and what was damaged beside them was not seen."""
    moved = json.loads(run("cold", "move", "--to", folder_place, "--before", "100", "--json").stdout.splitlines()[-1])
    segments, entries = moved["total"]["segments"], moved["total"]["entries"]
    (tmp_path / "place").rename(tmp_path / "away")
    told = run("verify", "--cold", code=1).stdout
    assert told.count("there is no folder") == 1
    assert f"{folder_place}: {segments:,} segments of 1 stream, {entries:,} entries, cannot be read" in told
    assert f"{segments:,} faults" in told
    (facts,) = objects(run("verify", "--cold", "--json", code=1))
    assert [each["place"] for each in facts["problems"]] == [folder_place] * segments
    (tmp_path / "away").rename(tmp_path / "place")
    lost = sorted((tmp_path / "place").rglob("*.seg"))[:2]
    for each in lost:
        each.unlink()
    told = run("verify", "--cold", code=1).stdout
    assert told.count("not there any more") == len(lost)  # that is the matter of each of them
    assert all(each.name in told for each in lost)


def test_a_rule_that_moves_is_told_by_a_fetch_and_works_beside_no_verb(run: Run, folder_place: str) -> None:
    """What came back went again with the next process that opened the store, and nobody had said so."""
    run("retention", "set", "x", "--max-entries", "100", "--to", folder_place)
    said = run("retention", "apply", "x").stdout
    assert said.startswith("x: gone: ")
    assert said.endswith(" segments to cold storage\n")
    fetched = run("cold", "fetch", "x")
    assert "came back" in fetched.stdout
    assert "diskstream retention clear x" in fetched.stderr
    run("retention", "clear", "x")
    assert run("cold", "fetch", "x").stderr == ""


def test_what_a_rule_would_move_is_said_without_moving(run: Run, folder_place: str, tmp_path: Path) -> None:
    """A dry run was refused, since the store is open for reading only then."""
    said = run("retention", "set", "x", "--max-entries", "100", "--to", folder_place, "--dry-run").stdout
    assert "segments to cold storage; nothing was set" in said
    assert (
        "segments to cold storage" in run("retention", "set", "x", "--max-entries", "100", "--to", folder_place).stdout
    )
    assert "would go: " in run("retention", "apply", "--dry-run").stdout
    assert not list(tmp_path.rglob("*.cold"))


@pytest.mark.parametrize(
    ("place", "said", "code"),
    [("file://{store}/cold", "inside the store", 1), ("s3://bucket/p?colour=red", "settings of s3://", 2)],
)
def test_a_rule_with_a_place_that_cannot_be_is_not_set(
    run: Run, tmp_path: Path, place: str, said: str, code: int
) -> None:
    """It was set, and failed in the background for ever after."""
    where = place.format(store=tmp_path / "store")
    for words in ((), ("--dry-run",)):
        assert said in run("retention", "set", "x", "--max-entries", "100", "--to", where, *words, code=code).stderr
    with opened(tmp_path / "store") as store:
        assert store.stream("x").retention is None


def test_a_dry_run_changes_nothing_and_works_where_nothing_may_be_written(
    run: Run, folder_place: str, tmp_path: Path
) -> None:
    """It opened the store for writing: logs were recovered, and rules of retention applied."""
    run("cold", "move", "--to", folder_place, "--keep-entries", "50")
    run("retention", "set", "x", "--max-entries", "10", "--force")
    store, place = tmp_path / "store", tmp_path / "place"

    def state() -> dict[Path, tuple[int, bytes]]:
        files = [path for folder in (store, place) for path in folder.rglob("*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = state()
    assert "would be moved" in run("cold", "move", "--to", folder_place, "--keep-entries", "5", "--dry-run").stdout
    assert "would come back" in run("cold", "fetch", "--dry-run").stdout
    assert "would have a stub" in run("cold", "adopt", "--from", folder_place, "--dry-run").stdout
    assert "would be removed" in run("cold", "sweep", "--at", folder_place, "--older-than", "0s", "--dry-run").stdout
    assert state() == before


@pytest.mark.parametrize("how", ["gone", "cut", "other bytes"])
def test_what_is_lost_there_keeps_nothing_else_from_coming_back(run: Run, tmp_path: Path, how: str) -> None:
    """Nothing came of what is behind it, neither in its stream nor in those that follow."""
    place = tmp_path / "place"
    with opened(tmp_path / "store") as store:
        filled(store, "y")
    moved = len(objects(run("cold", "move", "--to", f"file://{place}", "--before", "100", "--json"))) - 2
    for lost in place.rglob("0000000[13].*.seg"):
        if how == "gone":
            lost.unlink()
        else:
            data = lost.read_bytes()
            lost.write_bytes(data[:-1] if how == "cut" else spoilt(data))
    result = run("cold", "fetch", code=1)
    assert result.stderr.count("error: ") == 4
    assert [line.split(",")[0] for line in result.stdout.splitlines()] == [
        f"{name}: {moved // 2 - 2} segments" for name in "xy"
    ]
    with opened(tmp_path / "store") as store:
        assert [where(store.stream(name)).count("cold") for name in "xy"] == [2, 2]
